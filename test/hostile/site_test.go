package hostile

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/pawlsync/pawl/internal/client"
)

// program builds the daemon, without the race detector, as people run it.
func program(t *testing.T) string {
	t.Helper()
	built.once.Do(func() {
		if built.dir, built.err = os.MkdirTemp("", "pawl-hostile-"); built.err != nil {
			return
		}
		build := exec.Command("go", "build", "-o", filepath.Join(built.dir, "pawl"), "./cmd/pawl")
		build.Dir = filepath.Join("..", "..")
		build.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := build.CombinedOutput(); err != nil {
			built.err = errors.Join(err, errors.New(string(out)))
		}
	})
	if built.err != nil {
		t.Fatalf("the daemon can't be built: %v", built.err)
	}
	return filepath.Join(built.dir, "pawl")
}

var built struct {
	once sync.Once
	dir  string
	err  error
}

// daemon is a running pawl.
type daemon struct {
	*client.Client
	t       *testing.T
	dir     string
	address string
	cmd     *exec.Cmd
	log     *journal
	ended   chan struct{}
	err     error // how it ended; to be read after ended
}

// startDaemon runs the configuration in dir until the test ends; it must then end
// in peace.
func startDaemon(t *testing.T, dir, configuration string) *daemon {
	t.Helper()
	file := filepath.Join(dir, "pawl.yaml")
	if err := os.WriteFile(file, []byte(configuration), 0o600); err != nil {
		t.Fatal(err)
	}
	d := &daemon{t: t, dir: dir, cmd: exec.Command(program(t), "run", "--config", file), log: &journal{}, ended: make(chan struct{})}
	out, in := io.Pipe()
	d.cmd.Stdout, d.cmd.Stderr = in, in
	ready := make(chan string, 1)
	go d.read(out, ready)
	if err := d.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		d.err = d.cmd.Wait()
		in.Close()
		close(d.ended)
	}()
	t.Cleanup(d.stop)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	select {
	case d.address = <-ready:
	case <-d.ended:
		t.Fatalf("the daemon ended: %v\n%s", d.err, d.log)
	case <-ctx.Done():
		t.Fatalf("the daemon is not ready\n%s", d.log)
	}
	var err error
	if d.Client, err = client.New(client.Options{Address: d.address}); err != nil {
		t.Fatal(err)
	}
	if err := d.Ready(ctx); err != nil {
		t.Fatal(err)
	}
	return d
}

// read keeps the daemon's log and finds the line that says that it is ready.
func (d *daemon) read(out io.Reader, ready chan<- string) {
	lines := bufio.NewReader(out)
	for {
		line, err := lines.ReadBytes('\n')
		_, _ = d.log.Write(line)
		var entry struct{ Msg, Address string }
		if json.Unmarshal(line, &entry) == nil && entry.Msg == "ready" {
			ready <- entry.Address
		}
		if err != nil {
			return
		}
	}
}

// alive fails the test once the daemon has ended.
func (d *daemon) alive() {
	d.t.Helper()
	select {
	case <-d.ended:
		d.t.Fatalf("the daemon ended: %v\n%.20000s", d.err, d.log)
	default:
	}
}

func (d *daemon) stop() {
	_ = d.cmd.Process.Signal(os.Interrupt)
	<-d.ended
	if d.err != nil {
		d.t.Errorf("the daemon did not end in peace: %v", d.err)
	}
	if d.Client != nil {
		d.Close()
	}
}

// get returns what the daemon serves at path.
func (d *daemon) get(path string) string {
	d.t.Helper()
	res, err := http.Get(d.address + path)
	if err != nil {
		d.t.Fatal(err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode != http.StatusOK {
		d.t.Fatalf("%s: %d %v", path, res.StatusCode, err)
	}
	return string(b)
}

// metric returns the value of one series, 0 where there is none.
func (d *daemon) metric(series string) float64 {
	d.t.Helper()
	for line := range strings.Lines(d.get("/metrics")) {
		if rest, ok := strings.CutPrefix(line, series+" "); ok {
			v, err := strconv.ParseFloat(strings.TrimSpace(rest), 64)
			if err != nil {
				d.t.Fatal(err)
			}
			return v
		}
	}
	return 0
}

// peakBytes is the most memory that the daemon ever had resident; 0 where the
// system does not tell.
func (d *daemon) peakBytes() int64 {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", d.cmd.Process.Pid))
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(status)) {
		if rest, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			kib, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 10, 64)
			if err == nil {
				return kib << 10
			}
		}
	}
	return 0
}
