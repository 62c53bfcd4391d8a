package kit

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/pawlsync/pawl/internal/client"
)

// Daemon is one daemon in a folder of its own, at an address that it keeps over its
// processes.
type Daemon struct {
	*client.Client
	Dir     string // with pawl.yaml, the store and the log
	Address string // HOST:PORT of the API
	Config  string // what the file says besides where things are; may change between starts
	Server  string // more of the key server, as ", key: value"
	Program string // the file that runs; Pawl's at first

	t       testing.TB
	caller  Caller
	process *process
}

// process is one run of a daemon.
type process struct {
	cmd   *exec.Cmd
	ended chan struct{}
	err   error // to be read after ended
}

// New makes a daemon that does not run yet. config has its upstreams, sinks and sources.
// Its folder is kept where the test fails.
func New(t testing.TB, config string) *Daemon {
	t.Helper()
	dir, err := os.MkdirTemp("", "pawl-ops-")
	Must(t, err)
	d := &Daemon{Dir: dir, Address: FreeAddress(t), Config: config, Program: Pawl(t), t: t}
	d.Become(Caller{})
	t.Cleanup(func() {
		d.Kill()
		if t.Failed() {
			log := d.Log()
			t.Logf("store and log are kept in %s; the log ends with:\n%s", dir, log[max(0, len(log)-3000):])
			return
		}
		_ = os.RemoveAll(dir)
	})
	return d
}

// FreeAddress returns an address of this machine at which nobody listens.
func FreeAddress(t testing.TB) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	Must(t, err)
	defer l.Close()
	return l.Addr().String()
}

// Store is the store's folder.
func (d *Daemon) Store() string { return filepath.Join(d.Dir, "store") }

// File is the configuration's.
func (d *Daemon) File() string { return filepath.Join(d.Dir, "pawl.yaml") }

// WriteConfig writes the configuration, as Start does.
func (d *Daemon) WriteConfig() {
	d.t.Helper()
	text := fmt.Sprintf("server: {listen: %q%s}\nstore: {path: %q, reserve_bytes: 64MiB}\nwasm: {cache_dir: %q}\nlog: {format: json}\n%s",
		d.Address, d.Server, d.Store(), compiled(d.t), d.Config)
	Must(d.t, os.WriteFile(d.File(), []byte(text), 0o600))
}

// compiled is a cache of compiled plugins that outlives the tests.
func compiled(t testing.TB) string {
	t.Helper()
	base, err := os.UserCacheDir()
	Must(t, err)
	return filepath.Join(base, "pawl-test-wasm")
}

// Start starts a process, and returns when it takes Puts.
func (d *Daemon) Start(args ...string) {
	d.t.Helper()
	d.Launch(args...)
	Eventually(d.t, "start of a daemon", func(ctx context.Context) error {
		if err := d.Alive(); err != nil {
			d.t.Fatalf("%v\n%s", err, d.Log())
		}
		return d.Ready(ctx)
	})
}

// Launch starts a process and does not wait for it.
func (d *Daemon) Launch(args ...string) {
	d.t.Helper()
	d.WriteConfig()
	log, err := os.OpenFile(d.logFile(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	Must(d.t, err)
	defer log.Close()
	cmd := exec.Command(d.Program, append([]string{"run", "--config", d.File()}, args...)...)
	cmd.Env, cmd.Stdout, cmd.Stderr = Environment(), log, log
	Must(d.t, cmd.Start())
	p := &process{cmd: cmd, ended: make(chan struct{})}
	go func() {
		p.err = cmd.Wait()
		close(p.ended)
	}()
	d.process = p
}

// Alive returns an error once the process has ended.
func (d *Daemon) Alive() error {
	select {
	case <-d.process.ended:
		return fmt.Errorf("the daemon ended: %w", errors.Join(d.process.err, errors.New("see its log")))
	default:
		return nil
	}
}

// PID is the process's.
func (d *Daemon) PID() int { return d.process.cmd.Process.Pid }

// Signal sends a signal to the process.
func (d *Daemon) Signal(s syscall.Signal) {
	d.t.Helper()
	Must(d.t, d.process.cmd.Process.Signal(s))
}

// Kill ends the process with SIGKILL, if there is one, and returns when it is gone.
func (d *Daemon) Kill() {
	if d.process != nil {
		_ = d.process.cmd.Process.Kill()
		<-d.process.ended
		d.process = nil
	}
}

// Stop ends the process with SIGTERM and returns how long that took. Any exit status
// but 0 fails the test.
func (d *Daemon) Stop() time.Duration {
	d.t.Helper()
	began := time.Now()
	d.Signal(syscall.SIGTERM)
	if err := d.End(); err != nil {
		d.t.Errorf("the daemon ended with %v\n%s", err, d.Log())
	}
	return time.Since(began)
}

// End waits until the process has ended by itself, and returns how; nil: with exit
// status 0.
func (d *Daemon) End() error {
	d.t.Helper()
	select {
	case <-d.process.ended:
	case <-time.After(Patience):
		d.t.Fatalf("the daemon does not end:\n%s", d.Log())
	}
	err := d.process.err
	d.process = nil
	return err
}

func (d *Daemon) logFile() string { return filepath.Join(d.Dir, "log") }

// Log is what all processes have written so far.
func (d *Daemon) Log() string {
	log, err := os.ReadFile(d.logFile())
	if err != nil {
		return ""
	}
	return string(log)
}

// Logged returns the newest line of the log that holds all parts, and shows it. There
// being none fails the test.
func (d *Daemon) Logged(parts ...string) string {
	d.t.Helper()
	line, ok := d.line(parts)
	if !ok {
		d.t.Errorf("no line of the log holds %q", parts)
		return ""
	}
	d.t.Logf("the log says:\n%s", line)
	return line
}

// Logs waits for a line of the log that holds all parts, and shows it.
func (d *Daemon) Logs(parts ...string) {
	d.t.Helper()
	Eventually(d.t, "the log", func(context.Context) error {
		if _, ok := d.line(parts); !ok {
			return fmt.Errorf("no line holds %q", parts)
		}
		return nil
	})
	d.Logged(parts...)
}

// line is the newest of the log that holds all parts.
func (d *Daemon) line(parts []string) (line string, ok bool) {
	lines := strings.Split(d.Log(), "\n")
next:
	for i := len(lines) - 1; i >= 0; i-- {
		for _, part := range parts {
			if !strings.Contains(lines[i], part) {
				continue next
			}
		}
		return lines[i], true
	}
	return "", false
}
