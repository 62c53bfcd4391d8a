package crash

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/pawlsync/pawl/internal/client"
)

// patience is how long anything may take that has no reason to take long. It is
// no claim, but the end of a test that hangs.
const patience = 90 * time.Second

// callTimeout is the sink's: no request may land at the target later than that
// after its call began.
const callTimeout = 3 * time.Second

// site is a folder with configuration and store, where one daemon after the
// other runs.
type site struct {
	t      *testing.T
	dir    string
	store  string
	target *target
	runs   int // daemons started so far; each tells the target its number
}

func newSite(t *testing.T, dir string, target *target) *site {
	return &site{t: t, dir: dir, store: filepath.Join(dir, "store"), target: target}
}

// configuration has no drift checks, so that nothing is mended by chance.
const configuration = `server: {listen: "127.0.0.1:0", shutdown_grace: 20s}
store: {path: %q, reserve_bytes: 64MiB}
wasm: {cache_dir: %q}
log: {level: info, format: json}
upstreams:
  target: {base_url: %q, allowed_headers: [X-Run, X-Generation]}
sinks:
  web:
    plugin: http
    upstreams: [target]
    timeout: %s
    drift_interval: 0s
    startup_rate: 5000
    retry: {base: 50ms, max: 500ms, max_attempts: 1000}
    breaker: {probe_base: 50ms, probe_max: 500ms}
    config:
      path: /o/{key}
      headers: {X-Run: "%d", X-Generation: "{generation}"}
`

// daemon is a child process.
type daemon struct {
	*client.Client // usable once it is ready
	t              *testing.T
	run            int
	address        string // of the API, once it is ready
	cmd            *exec.Cmd
	log            *daemonLog
	ended          chan struct{}
	err            error // how it ended; to be read after ended
}

// start starts a daemon and does not wait for it.
func (s *site) start(args ...string) *daemon {
	s.t.Helper()
	pawl, cache := program(s.t)
	s.runs++
	file := filepath.Join(s.dir, "pawl.yaml")
	text := fmt.Sprintf(configuration, s.store, cache, s.target.url(), callTimeout, s.runs)
	must(s.t, os.WriteFile(file, []byte(text), 0o600))
	out, err := os.OpenFile(filepath.Join(s.dir, "daemon.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	must(s.t, err)
	d := &daemon{t: s.t, run: s.runs, log: &daemonLog{file: out, ready: make(chan string, 1)}, ended: make(chan struct{})}
	d.cmd = exec.Command(pawl, append([]string{"run", "--config", file}, args...)...)
	d.cmd.Env = environment()
	d.cmd.Stdout, d.cmd.Stderr = d.log, d.log
	s.target.alive(d.run)
	must(s.t, d.cmd.Start())
	go func() {
		d.err = errors.Join(d.cmd.Wait(), out.Close())
		close(d.ended)
	}()
	s.t.Cleanup(d.kill)
	return d
}

// environment is ours without what would configure pawl otherwise.
func environment() []string {
	var out []string
	for _, kv := range os.Environ() {
		if !strings.HasPrefix(kv, "PAWL_") {
			out = append(out, kv)
		}
	}
	return out
}

// daemonLog keeps what a daemon writes and finds the line that says that it is
// ready.
type daemonLog struct {
	mu    sync.Mutex
	file  *os.File
	all   bytes.Buffer
	seen  int // bytes of all that were searched
	ready chan string
}

func (l *daemonLog) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all.Write(p)
	for {
		line, _, whole := bytes.Cut(l.all.Bytes()[l.seen:], []byte("\n"))
		if !whole {
			return l.file.Write(p)
		}
		l.seen += len(line) + 1
		var entry struct{ Msg, Address string }
		if json.Unmarshal(line, &entry) == nil && entry.Msg == "ready" {
			l.ready <- entry.Address
		}
	}
}

func (l *daemonLog) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.all.String()
}

// open starts a daemon and waits until it takes Puts.
func (s *site) open(args ...string) *daemon {
	s.t.Helper()
	d := s.start(args...)
	if err := d.wait(); err != nil {
		s.t.Fatalf("the daemon did not start: %v\n%s", err, d.log)
	}
	return d
}

// wait returns when the daemon takes Puts, or why it never will.
func (d *daemon) wait() error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	select {
	case d.address = <-d.log.ready:
		var err error
		if d.Client, err = client.New(client.Options{Address: d.address}); err != nil {
			return err
		}
		return d.Ready(ctx)
	case <-d.ended:
		return fmt.Errorf("it ended: %w", d.err)
	case <-ctx.Done():
		return errors.New("it is not ready yet")
	}
}

// kill ends the daemon with SIGKILL and returns when it is gone.
func (d *daemon) kill() {
	_ = d.cmd.Process.Kill()
	<-d.ended
	if d.Client != nil {
		d.Close()
	}
}

// alive returns an error once the daemon has ended.
func (d *daemon) alive() error {
	select {
	case <-d.ended:
		return fmt.Errorf("the daemon ended: %w", d.err)
	default:
		return nil
	}
}

// terminate ends the daemon with SIGTERM and returns how it ended; nil: with
// exit status 0.
func (d *daemon) terminate() error {
	d.t.Helper()
	must(d.t, d.cmd.Process.Signal(syscall.SIGTERM))
	return d.end()
}

// end waits for the daemon's end.
func (d *daemon) end() error {
	d.t.Helper()
	select {
	case <-d.ended:
	case <-time.After(patience):
		d.t.Fatalf("the daemon does not end:\n%s", d.log)
	}
	return d.err
}

// eventually polls until fn returns nil, for as long as there is patience.
func eventually(t *testing.T, what string, fn func(context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		err := fn(ctx)
		if err == nil {
			return
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("%s: gave up: %v", what, err)
		}
	}
}

// command runs another pawl command and returns what it printed.
func (s *site) command(args ...string) (string, error) {
	s.t.Helper()
	pawl, _ := program(s.t)
	cmd := exec.Command(pawl, args...)
	cmd.Env = environment()
	out, err := cmd.CombinedOutput()
	return string(out), err
}
