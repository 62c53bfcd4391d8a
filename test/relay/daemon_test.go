package relay

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pawlsync/pawl/engine/record"
	"github.com/pawlsync/pawl/internal/api"
	"github.com/pawlsync/pawl/internal/client"
)

// pawl is one daemon, at an address that it keeps over its processes.
type pawl struct {
	*client.Client
	t       *testing.T
	dir     string
	address string // HOST:PORT
	config  string // what its file says besides where things are
	process *process
}

type process struct {
	cmd  *exec.Cmd
	died chan struct{}
}

// newPawl makes a daemon that does not run yet. config has its upstreams, sinks and
// sources.
func newPawl(t *testing.T, config string) *pawl {
	t.Helper()
	dir, err := os.MkdirTemp("", "pawl-relay-")
	must(t, err)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	p := &pawl{t: t, dir: dir, address: l.Addr().String(), config: config}
	must(t, l.Close())
	p.Client, err = client.New(client.Options{Address: "http://" + p.address})
	must(t, err)
	t.Cleanup(func() {
		p.kill()
		p.Close()
		if t.Failed() {
			log, _ := os.ReadFile(filepath.Join(dir, "log"))
			t.Logf("store and log are kept in %s; the log ends with:\n%s", dir, log[max(0, len(log)-3000):])
			return
		}
		_ = os.RemoveAll(dir)
	})
	return p
}

func (p *pawl) url() string   { return "http://" + p.address }
func (p *pawl) store() string { return filepath.Join(p.dir, "store") }

// start starts a process, and returns when it answers.
func (p *pawl) start(args ...string) {
	p.t.Helper()
	program, cache := program(p.t)
	file := filepath.Join(p.dir, "pawl.yaml")
	must(p.t, os.WriteFile(file, fmt.Appendf(nil, "server: {listen: %q}\nstore: {path: %q, reserve_bytes: 64MiB}\nwasm: {cache_dir: %q}\n%s",
		p.address, p.store(), cache, p.config), 0o600))
	log, err := os.OpenFile(filepath.Join(p.dir, "log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	must(p.t, err)
	defer log.Close()
	cmd := exec.Command(program, append([]string{"run", "--config", file}, args...)...)
	for _, kv := range os.Environ() {
		if !strings.HasPrefix(kv, "PAWL_") {
			cmd.Env = append(cmd.Env, kv)
		}
	}
	cmd.Stdout, cmd.Stderr = log, log
	must(p.t, cmd.Start())
	p.process = &process{cmd, make(chan struct{})}
	go func(running *process) {
		_ = running.cmd.Wait()
		close(running.died)
	}(p.process)
	eventually(p.t, "start of a daemon", func(ctx context.Context) error {
		select {
		case <-p.process.died:
			p.t.Fatal("the daemon ended while it started")
		default:
		}
		return p.Ready(ctx)
	})
}

// kill ends the process as a power failure would.
func (p *pawl) kill() {
	if p.process != nil {
		_ = p.process.cmd.Process.Kill()
		<-p.process.died
		p.process = nil
	}
}

// stop ends the process in good order.
func (p *pawl) stop() {
	p.t.Helper()
	must(p.t, p.process.cmd.Process.Signal(os.Interrupt))
	select {
	case <-p.process.died:
	case <-time.After(patience):
		p.t.Fatal("the daemon does not end")
	}
	p.process = nil
}

// put puts a payload.
func (p *pawl) put(ctx context.Context, sink, key, payload string) error {
	_, err := p.Put(ctx, record.Key{Sink: sink, Name: key}, api.PutRequest{Payload: json.RawMessage(payload)})
	return err
}

// putAll puts many, and waits until they are durable.
func (p *pawl) putAll(ctx context.Context, sink string, payloads map[string]string) error {
	var lines []api.BatchLine
	for key, payload := range payloads {
		lines = append(lines, api.BatchLine{Sink: sink, Key: key, PutRequest: api.PutRequest{Payload: json.RawMessage(payload)}})
	}
	return p.batch(ctx, lines)
}

// phases counts a sink's resources.
func (p *pawl) phases(ctx context.Context, sink string) (map[record.Phase]int, error) {
	st, err := p.Status(ctx)
	if err != nil {
		return nil, err
	}
	for _, s := range st.Sinks {
		if s.Name == sink {
			return s.Counts, nil
		}
	}
	return nil, fmt.Errorf("there is no sink %s", sink)
}

// quiet returns nil once all of a sink's resources are acknowledged: n of them.
func (p *pawl) quiet(sink string, n int) func(context.Context) error {
	return func(ctx context.Context) error {
		counts, err := p.phases(ctx, sink)
		if err != nil {
			return err
		}
		total := 0
		for _, c := range counts {
			total += c
		}
		if counts[record.AckedPhase] != n || total != n {
			return fmt.Errorf("%d are to be acknowledged at %s, and nothing else is to be there: %v", n, sink, counts)
		}
		return nil
	}
}
