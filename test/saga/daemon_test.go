package saga

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/pawlsync/pawl/internal/api"
	"github.com/pawlsync/pawl/internal/client"
	"github.com/pawlsync/pawl/internal/failpoint"
)

// daemon is pawl run with a store of its own, which outlives its process.
type daemon struct {
	*client.Client
	w           *world
	dir, socket string
	config      string

	running atomic.Pointer[process] // the newest; nil before the first
}

type process struct {
	cmd  *exec.Cmd
	died chan struct{} // closed when it has ended
}

// callTimeout is the sinks': how long a request may be on its way.
const callTimeout = 2 * time.Second

// newDaemon makes the folder of a daemon that does not run yet.
func (w *world) newDaemon(t *testing.T) *daemon {
	t.Helper()
	dir, err := os.MkdirTemp(w.dir, "d") // short: it holds a socket
	must(t, err)
	d := &daemon{w: w, dir: dir, socket: filepath.Join(dir, "s"), config: filepath.Join(dir, "pawl.yaml")}
	must(t, os.WriteFile(d.config, fmt.Appendf(nil, `
store: {path: %q, reserve_bytes: 64MiB}
server: {listen: "127.0.0.1:0", socket: %q}
wasm: {cache_dir: %q}
upstreams:
  spicedb: {base_url: %q, protocol: h2c, credentials: {bearer: {value: %q}}}
  cluster: {kind: kubernetes, kubernetes: {kubeconfig: %q}}
sinks:
  grants: {plugin: spicedb, upstreams: [spicedb], timeout: %v, config: {sagas: true}}
  objects: {plugin: kube, upstreams: [cluster], timeout: %v}
`, filepath.Join(dir, "store"), d.socket, filepath.Join(w.dir, "wasm"), w.grants.URL, w.spicedb.Key, w.kubeconfig, callTimeout, callTimeout), 0o600))
	d.Client, err = client.New(client.Options{Address: "unix://" + d.socket})
	must(t, err)
	t.Cleanup(func() {
		d.kill()
		d.Close()
		if !t.Failed() {
			_ = os.RemoveAll(dir)
		} else if log, err := os.ReadFile(filepath.Join(dir, "log")); err == nil {
			t.Logf("the daemon's log:\n%s", log[max(0, len(log)-6000):])
		}
	})
	return d
}

var errStart = errors.New("the daemon ended while it started")

// start runs the daemon, and waits until both sinks are ready. points is as
// failpoint.Parse takes it.
func (d *daemon) start(ctx context.Context, points string) error {
	_ = os.Remove(d.socket)
	log, err := os.OpenFile(filepath.Join(d.dir, "log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	p := &process{exec.Command(d.w.pawl, "run", "--config", d.config), make(chan struct{})}
	p.cmd.Env = append(os.Environ(), failpoint.Env+"="+points)
	p.cmd.Stdout, p.cmd.Stderr = log, log
	if err := p.cmd.Start(); err != nil {
		return err
	}
	d.running.Store(p)
	go func() {
		_ = p.cmd.Wait()
		close(p.died)
	}()
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	return poll(ctx, func() (bool, error) {
		if d.isDead() {
			return false, errStart
		}
		st, err := d.Status(ctx)
		if err != nil {
			return false, nil // it does not listen yet
		}
		for _, s := range st.Sinks {
			if s.NotReady != "" {
				return false, nil
			}
		}
		return len(st.Sinks) == 2, nil
	})
}

func (d *daemon) isDead() bool {
	select {
	case <-d.running.Load().died:
		return true
	default:
		return false
	}
}

// kill ends the process as a power failure would, and returns when it has ended.
func (d *daemon) kill() {
	if p := d.running.Load(); p != nil {
		_ = p.cmd.Process.Signal(syscall.SIGKILL)
		<-p.died
	}
}

// poll asks until done, an error, or the end of ctx.
func poll(ctx context.Context, done func() (bool, error)) error {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		if ok, err := done(); ok || err != nil {
			return err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// told is what callers were told of one saga's outcome, by every answer.
type told struct{ outcome atomic.Pointer[string] }

// hear takes an answer; it is an error that another one was given before.
func (c *told) hear(s api.Saga) error {
	if s.Outcome == "" {
		return nil
	}
	if before := c.outcome.Swap(&s.Outcome); before != nil && *before != s.Outcome {
		return fmt.Errorf("saga %s: a caller was told %s, and later another one %s", s.ID, *before, s.Outcome)
	}
	return nil
}
