package hostile

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"testing"
	"time"

	"github.com/pawlsync/pawl/engine/wasmhost"
)

// The twin is the same neighbour in the same engine, in a process of its own
// where there is no hostile sink: it shows what the machine does to a process at
// any moment.

// What this program is, when it is started with that argument, other than tests.
const (
	twinArg    = "be-the-twin"
	compileArg = "compile-apart"
)

func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		var err error
		switch os.Args[1] {
		case twinArg:
			err = beTwin(os.Stdin, os.Stdout)
		case compileArg:
			err = wasmhost.CompileApart(context.Background(), os.Args[2:], os.Stdin, os.Stdout)
		default:
			os.Exit(test(m))
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(test(m))
}

func test(m *testing.M) int {
	code := m.Run()
	if sibling.stop != nil {
		sibling.stop()
	}
	if built.dir != "" {
		_ = os.RemoveAll(built.dir)
	}
	return code
}

// beTwin works until in ends, and writes a line for each resource when it was
// served: when it was due, in nanoseconds since 1970, and how long it took.
func beTwin(in io.Reader, out io.Writer) error {
	dir, err := os.MkdirTemp("", "pawl-twin-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	a, err := newArena(context.Background(), dir, wasmhost.Compiler{})
	if err != nil {
		return err
	}
	if err := a.open(nil); err != nil {
		return err
	}
	over := make(chan struct{})
	go func() {
		defer close(over)
		_, _ = io.Copy(io.Discard, in)
	}()
	go func() {
		lines := bufio.NewWriter(out)
		for range a.neighbour.done {
			a.neighbour.mu.Lock()
			took := a.neighbour.took
			a.neighbour.took = nil
			a.neighbour.mu.Unlock()
			for _, s := range took {
				fmt.Fprintln(lines, s.due.UnixNano(), int64(s.took))
			}
			if lines.Flush() != nil {
				return
			}
		}
	}()
	if err := a.neighbour.work(over); err != nil {
		return err
	}
	return a.close()
}

// twin is the twin's process.
type twin struct {
	mu      sync.Mutex
	samples []sample
	last    time.Time     // due of the newest one
	news    chan struct{} // signalled at every sample
	ended   chan struct{}
}

// sibling is the one twin of all tests.
var sibling struct {
	once sync.Once
	twin *twin
	stop func()
	err  error
}

func theTwin(t *testing.T) *twin {
	t.Helper()
	sibling.once.Do(func() { sibling.twin, sibling.stop, sibling.err = startTwin() })
	if sibling.err != nil {
		t.Fatal(sibling.err)
	}
	return sibling.twin
}

func startTwin() (*twin, func(), error) {
	self, err := os.Executable()
	if err != nil {
		return nil, nil, err
	}
	cmd := exec.Command(self, twinArg)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, nil, err
	}
	w := &twin{news: make(chan struct{}, 1), ended: make(chan struct{})}
	go w.read(out)
	return w, func() {
		_ = in.Close()
		<-w.ended
		_ = cmd.Wait()
	}, nil
}

func (w *twin) read(out io.Reader) {
	defer close(w.ended)
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		var due, took int64
		if _, err := fmt.Sscan(lines.Text(), &due, &took); err != nil {
			continue
		}
		w.mu.Lock()
		s := sample{time.Unix(0, due), time.Duration(took)}
		w.samples = append(w.samples, s)
		if s.due.After(w.last) {
			w.last = s.due
		}
		w.mu.Unlock()
		select {
		case w.news <- struct{}{}:
		default:
		}
	}
}

// between returns how the twin fared, and forgets what was before.
func (w *twin) between(t *testing.T, from, to time.Time) phase {
	t.Helper()
	end := time.NewTimer(patience)
	defer end.Stop()
	for {
		w.mu.Lock()
		if w.last.After(to) {
			defer w.mu.Unlock()
			var took []sample
			for _, s := range w.samples {
				if !s.due.Before(from) && !s.due.After(to) {
					took = append(took, s)
				}
			}
			w.samples = nil
			return summary(took, from, to)
		}
		w.mu.Unlock()
		select {
		case <-w.news:
		case <-w.ended:
			t.Fatal("the twin ended")
		case <-end.C:
			t.Fatal("the twin does nothing")
		}
	}
}
