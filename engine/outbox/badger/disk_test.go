package badger

import (
	"bytes"
	"errors"
	"flag"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pawlsync/pawl/engine/outbox"
	"github.com/pawlsync/pawl/engine/outbox/storetest"
	"github.com/pawlsync/pawl/engine/record"
)

var seed = flag.Uint64("seed", uint64(time.Now().UnixNano()), "seed of random tests")

func TestBadgerIsAStore(t *testing.T) {
	storetest.Run(t, func(t testing.TB) storetest.Disk { return newDisk(t) })
}

var errCrashed = errors.New("the power was cut")

// disk is a directory with faults. A crash is a copy of the directory, made
// while the store is open.
type disk struct {
	t        testing.TB
	dir      string
	mu       sync.Mutex
	failures int
	failWith error
	held     chan struct{}
	reached  chan struct{}
	full     bool
	crashed  map[outbox.Store]*bool
}

func newDisk(t testing.TB) *disk {
	return &disk{t: t, dir: t.TempDir(), crashed: map[outbox.Store]*bool{}}
}

func (d *disk) Open(observer outbox.Observer, acceptLoss bool) (outbox.Store, error) {
	opts := testOptions(d.t, d.dir)
	opts.Observer, opts.AcceptLoss = observer, acceptLoss
	crashed := new(bool)
	opts.hooks.commit = func() error { return d.beforeCommit(crashed) }
	opts.hooks.free = func(string) (int64, error) {
		d.mu.Lock()
		defer d.mu.Unlock()
		if d.full {
			return opts.ReserveBytes - 1, nil
		}
		return 1 << 40, nil
	}
	s, err := Open(opts)
	if err != nil {
		return nil, err
	}
	d.crashed[s] = crashed
	return s, nil
}

func testOptions(t testing.TB, dir string) Options {
	log := slog.New(slog.NewTextHandler(testWriter{t}, &slog.HandlerOptions{Level: slog.LevelWarn}))
	if !testing.Verbose() {
		log = slog.New(slog.DiscardHandler)
	}
	return Options{Dir: dir, ReserveBytes: 1 << 20, Logger: log}
}

// testWriter is a log that outlives nothing: lines after the test's end, from
// Badger's goroutines, would panic in t.Log.
type testWriter struct{ t testing.TB }

func (w testWriter) Write(b []byte) (int, error) {
	if w.t.Context().Err() == nil {
		w.t.Logf("%s", bytes.TrimSpace(b))
	}
	return len(b), nil
}

func (d *disk) beforeCommit(crashed *bool) error {
	d.mu.Lock()
	held := d.held
	if held != nil {
		select {
		case <-d.reached:
		default:
			close(d.reached)
		}
	}
	d.mu.Unlock()
	if held != nil {
		<-held
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case *crashed:
		return errCrashed
	case d.failures != 0:
		d.failures--
		return d.failWith
	}
	return nil
}

func (d *disk) Crash(t testing.TB, s outbox.Store) {
	t.Helper()
	d.dir = powerCut(t, s.(*Store))
	d.mu.Lock()
	*d.crashed[s] = true
	held := d.held
	d.held = nil
	d.mu.Unlock()
	s.(*Store).queue.Abort(errCrashed)
	if held != nil {
		close(held)
	}
	if err := s.Close(); err != nil {
		t.Errorf("close: %v", err)
	}
}

// powerCut copies the directory of an open store.
func powerCut(t testing.TB, s *Store) string {
	t.Helper()
	s.applyMu.Lock() // a copy takes time, in which Badger had better stand still
	defer s.applyMu.Unlock()
	return copyDir(t, s.opts.Dir)
}

// copyDir copies what a power cut would leave, holes as holes. Files that
// vanish meanwhile are left out, as is the lock.
func copyDir(t testing.TB, from string) string {
	t.Helper()
	to := t.TempDir()
	// Twice over would be no moment in time: the order matters. Badger removes a
	// log once its table is whole, so logs first; it writes the value log before
	// the write-ahead log, so that one last. Our journal is cut last of all.
	for _, part := range []string{"mark", "journal/*", "data/*.mem", "data/MANIFEST", "data/*"} {
		paths, err := filepath.Glob(filepath.Join(from, part))
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range paths {
			rel, _ := filepath.Rel(from, path)
			copyOne(t, path, filepath.Join(to, rel))
		}
	}
	return to
}

func copyOne(t testing.TB, from, to string) {
	t.Helper()
	if _, err := os.Lstat(to); err == nil {
		return
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := copyFile(from, to); err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
}

func (d *disk) FailCommits(n int, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.failures, d.failWith = n, err
}

func (d *disk) HoldCommits() (release func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	held := make(chan struct{})
	d.held, d.reached = held, make(chan struct{})
	return func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		if d.held == held {
			d.held = nil
			close(held)
		}
	}
}

func (d *disk) CommitHeld() <-chan struct{} {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.reached
}

func (d *disk) SetFull(full bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.full = full
}

// Damage flips a bit in the value that storetest made for it. The store is
// opened before, so that the value is not in the newest log: that one Badger
// reads as it opens it, and cuts off at the damage.
func (d *disk) Damage(t testing.TB, _ record.Key) {
	t.Helper()
	mustClose(t, mustOpen(t, testOptions(t, d.dir)))
	marker := []byte(strings.Repeat("marker ", 20))
	paths, _ := filepath.Glob(filepath.Join(d.dir, dataName, "*.vlog"))
	for _, path := range paths {
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if i := bytes.Index(b, marker); i >= 0 {
			flip(t, path, int64(i))
			return
		}
	}
	t.Fatal("the value is not in the value log")
}

func flip(t testing.TB, path string, offset int64) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var b [1]byte
	if _, err := f.ReadAt(b[:], offset); err != nil {
		t.Fatal(err)
	}
	b[0] ^= 0x10
	if _, err := f.WriteAt(b[:], offset); err != nil {
		t.Fatal(err)
	}
}

// LoseTail moves the mark ahead of what is there, which comes to the same.
func (d *disk) LoseTail(t testing.TB) {
	t.Helper()
	m, err := openMark(d.dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(m.commit(m.committed.revision+3), m.claim(m.claimed.revision+3), m.file.Close()); err != nil {
		t.Fatal(err)
	}
}
