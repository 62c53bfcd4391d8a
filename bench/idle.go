package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/pawlsync/pawl/engine/record"
	"github.com/pawlsync/pawl/internal/api"
	"github.com/pawlsync/pawl/internal/client"
)

// benchIdle asks what a daemon costs that has nothing to do: the program itself, over
// HTTP, with resources of 1 KiB of which its target has acknowledged all, and no looks
// at the target, neither for drift nor after a start. First the process that delivered
// them, then one that was started on the store that it left.
func benchIdle(r *report) error {
	n := 1_000_000
	if r.short {
		n = 100_000
	}
	t, err := serveTarget(0)
	if err != nil {
		return err
	}
	defer t.Close()
	d, err := newIdleDaemon(r, t)
	if err != nil {
		return err
	}
	defer d.kill()
	if err := d.start(); err != nil {
		return err
	}
	began := time.Now()
	if err := d.load(n); err != nil {
		return err
	}
	if err := d.untilAcked(n); err != nil {
		return err
	}
	r.line("%d resources of 1 KiB put and acked after %s", n, time.Since(began).Round(time.Second))
	if err := d.idle("after it delivered all", n); err != nil {
		return err
	}
	if err := d.stop(); err != nil {
		return err
	}
	if err := d.start(); err != nil {
		return err
	}
	if err := d.untilAcked(n); err != nil {
		return err
	}
	if err := d.idle("started again", n); err != nil {
		return err
	}
	return d.stop()
}

// idleChildEnv makes a process of this program one that only has the timers that Badger
// has: two that fire each 50 ms, those of its compactors. It can't have fewer, so that the
// daemon can't use less than this.
const idleChildEnv = "PAWL_BENCH_IDLE"

func idleChild() {
	for range 2 {
		go func() {
			for range time.Tick(50 * time.Millisecond) {
			}
		}()
	}
	select {}
}

// idleDaemon is the built program in a folder of its own.
type idleDaemon struct {
	r       *report
	dir     string
	client  *client.Client
	process *exec.Cmd // nil: none runs
}

// newIdleDaemon builds the program and writes its configuration.
func newIdleDaemon(r *report, t *target) (*idleDaemon, error) {
	d := &idleDaemon{r: r, dir: r.dir}
	build := exec.CommandContext(r.ctx, "go", "build", "-o", d.file("pawl"), "./cmd/pawl")
	build.Dir, build.Env = "..", append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("build the daemon: %w\n%s", err, out)
	}
	address, err := freeAddress()
	if err != nil {
		return nil, err
	}
	config := fmt.Sprintf(`server: {listen: %q}
store: {path: store, reserve_bytes: 64MiB}
wasm: {cache_dir: cache}
defaults: {drift_interval: 0s, startup_check: false}
upstreams:
  target: {base_url: %q}
sinks:
  %s:
    plugin: http
    upstreams: [target]
    max_in_flight: 64
    config: {path: "/objects/{key}"}
`, address, t.url, sinkName)
	if err := os.WriteFile(d.file("pawl.yaml"), []byte(config), 0o600); err != nil {
		return nil, err
	}
	d.client, err = client.New(client.Options{Address: "http://" + address})
	return d, err
}

func freeAddress() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return l.Addr().String(), l.Close()
}

func (d *idleDaemon) file(name string) string { return filepath.Join(d.dir, name) }

// start starts a process and returns when it takes Puts.
func (d *idleDaemon) start() error {
	log, err := os.OpenFile(d.file("log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	d.process = exec.Command(d.file("pawl"), "run", "--config", d.file("pawl.yaml"))
	d.process.Stdout, d.process.Stderr = log, log
	if err := d.process.Start(); err != nil {
		d.process = nil
		return err
	}
	return d.until("takes Puts", func(ctx context.Context) (bool, error) { return d.client.Ready(ctx) == nil, nil })
}

// stop ends the process with SIGTERM.
func (d *idleDaemon) stop() error {
	if err := d.process.Process.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	err := d.process.Wait()
	d.process = nil
	return err
}

func (d *idleDaemon) kill() {
	if d.process != nil {
		d.process.Process.Kill()
		d.process.Wait()
	}
	d.client.Close()
}

// until polls; a daemon that has ended meanwhile is an error.
func (d *idleDaemon) until(what string, done func(context.Context) (bool, error)) error {
	for {
		if ok, err := done(d.r.ctx); ok || err != nil {
			return err
		}
		if _, err := d.figures(); err != nil {
			log, _ := os.ReadFile(d.file("log"))
			return fmt.Errorf("the daemon ended before it %s: %w\n%s", what, err, log)
		}
		time.Sleep(100 * time.Millisecond)
	}
}

// load puts n resources, as many in a request as the daemon's limit of its bytes leaves
// room for.
func (d *idleDaemon) load(n int) error {
	const request = 20_000
	for from := 0; from < n; from += request {
		lines := func(yield func(api.BatchLine) bool) {
			for i := from; i < min(from+request, n); i++ {
				if !yield(api.BatchLine{Sink: sinkName, Key: key(i).Name, PutRequest: api.PutRequest{Payload: payload(i)}}) {
					return
				}
			}
		}
		for answer, err := range d.client.Batch(d.r.ctx, lines) {
			if err == nil && answer.Error != nil {
				err = answer.Error
			}
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// untilAcked waits until n resources are acknowledged.
func (d *idleDaemon) untilAcked(n int) error {
	return d.until("acked all", func(ctx context.Context) (bool, error) {
		sinks, err := d.client.Sinks(ctx)
		if err != nil {
			return false, err
		}
		return len(sinks) == 1 && sinks[0].Counts[record.AckedPhase] == n, nil
	})
}

// idle leaves the daemon alone for a while, and says what it used meanwhile and holds
// then.
func (d *idleDaemon) idle(when string, n int) error {
	d.client.Close() // no connection is left open, nothing asks
	peer := exec.Command(os.Args[0])
	peer.Env = append(os.Environ(), idleChildEnv+"=1")
	if err := peer.Start(); err != nil {
		return err
	}
	defer func() {
		peer.Process.Kill()
		peer.Wait()
	}()
	before, err := d.figures()
	if err != nil {
		return err
	}
	began := time.Now()
	time.Sleep(d.r.idle)
	took := time.Since(began).Seconds()
	after, err := d.figures()
	if err != nil {
		return err
	}
	timers, err := processOf(peer.Process.Pid)
	if err != nil {
		return err
	}
	share := (after.used - before.used).Seconds() / took
	d.r.line("%s: at the start %s; at the end %s", when, before, after)
	d.r.line("beside it a program with nothing but the timers of Badger's two compactors: %.2f %% of a core", 100*timers.used.Seconds()/took)
	d.r.under(fmt.Sprintf("%s, %d resources: of a core", when, n), 100*share, 0.5, " %")
	d.r.under("    memory, resident", after.mib("VmRSS"), 600, " MiB")
	return nil
}

// processFigures are what the system knows of a process.
type processFigures struct {
	used   time.Duration // processor time since its start
	status map[string]int64
}

func (f processFigures) mib(name string) float64 { return float64(f.status[name]) / 1024 }

func (f processFigures) String() string {
	return fmt.Sprintf("resident %.0f MiB (anonymous %.0f, of files %.0f; at most so far %.0f), processor time so far %.1f s",
		f.mib("VmRSS"), f.mib("RssAnon"), f.mib("RssFile"), f.mib("VmHWM"), f.used.Seconds())
}

func (d *idleDaemon) figures() (processFigures, error) { return processOf(d.process.Process.Pid) }

// processOf reads /proc; there being nothing of a process that has ended is an error.
func processOf(pid int) (processFigures, error) {
	proc := fmt.Sprintf("/proc/%d/", pid)
	f := processFigures{status: map[string]int64{}}
	status, err := os.ReadFile(proc + "status")
	stat, err2 := os.ReadFile(proc + "stat")
	if err := errors.Join(err, err2); err != nil {
		return f, err
	}
	for line := range strings.Lines(string(status)) {
		if name, value, _ := strings.Cut(line, ":"); strings.HasSuffix(value, " kB\n") {
			f.status[name], _ = strconv.ParseInt(strings.Fields(value)[0], 10, 64)
		}
	}
	if len(f.status) == 0 {
		return f, errors.New("it has no memory any more")
	}
	// After the name in parentheses comes the third field; the 14th and 15th are the
	// time in user and in system mode, in ticks of a hundredth of a second.
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	for _, field := range fields[11:13] {
		ticks, err := strconv.ParseInt(field, 10, 64)
		if err != nil {
			return f, err
		}
		f.used += time.Duration(ticks) * 10 * time.Millisecond
	}
	return f, nil
}
