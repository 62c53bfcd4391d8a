package badger

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/dgraph-io/badger/v4"
	"golang.org/x/sys/unix"

	"github.com/pawlsync/pawl/engine/outbox"
)

func mustOpen(t testing.TB, opts Options) *Store {
	t.Helper()
	s, err := Open(opts)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func mustClose(t testing.TB, s *Store) {
	t.Helper()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

// filled makes a closed store with a few resources in it.
func filled(t testing.TB) Options {
	t.Helper()
	opts := testOptions(t, t.TempDir())
	s := mustOpen(t, opts)
	for i := range 20 {
		if err := putNumber(s, keyOf(i), uint64(i+1)).Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	mustClose(t, s)
	return opts
}

func TestTheHolderOfALockIsNamed(t *testing.T) {
	opts := testOptions(t, t.TempDir())
	s := mustOpen(t, opts)
	defer s.Close()
	_, err := Open(opts)
	if !errors.Is(err, outbox.ErrLocked) {
		t.Fatalf("open = %v, want ErrLocked", err)
	}
	host, _ := os.Hostname()
	for _, want := range []string{fmt.Sprint("process ", os.Getpid()), host, "since 20", opts.Dir} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q does not say %q", err, want)
		}
	}
	if _, err := Check(t.Context(), opts.Dir, nil, nil); !errors.Is(err, outbox.ErrLocked) {
		t.Errorf("check = %v, want ErrLocked", err)
	}
}

// Directories that are made can be found after a power cut; those above them are
// not so much as read.
func TestDirectoriesAreMadeDurably(t *testing.T) {
	root := t.TempDir()
	var synced []string
	record := func(dir string) error { synced = append(synced, dir); return nil }
	dir := filepath.Join(root, "a", "b", "c")
	for range 2 { // there is nothing to do the second time
		if err := makeDir(dir, record); err != nil {
			t.Fatal(err)
		}
	}
	want := []string{root, filepath.Join(root, "a"), filepath.Join(root, "a", "b")}
	if !slices.Equal(synced, want) {
		t.Errorf("synced %q, want %q", synced, want)
	}
}

// A service's user often can't list the directory that its own stands in.
func TestTheDirectoryAboveNeedNotBeReadable(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root can become somebody else")
	}
	const nobody = 65534
	parent := t.TempDir()
	dir := filepath.Join(parent, "store")
	if err := errors.Join(os.Mkdir(dir, 0o700), os.Chown(dir, nobody, nobody), os.Chmod(parent, 0o711)); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(filepath.Dir(parent), 0o711); err != nil {
		t.Fatal(err)
	}
	result := make(chan error)
	go func() {
		runtime.LockOSThread() // for ever: the thread ends with this goroutine
		if err := unix.Setfsuid(nobody); err != nil {
			result <- err
			return
		}
		if _, err := os.ReadDir(parent); !errors.Is(err, fs.ErrPermission) {
			result <- fmt.Errorf("%s can be read: %v", parent, err)
			return
		}
		s, err := Open(testOptions(t, dir))
		if err == nil {
			err = s.Close()
		}
		result <- err
	}()
	if err := <-result; err != nil {
		t.Error(err)
	}
}

func TestFilesWithoutAByteAreNoObstacle(t *testing.T) {
	opts := filled(t)
	for _, name := range []string{"00077.mem", "000077.vlog"} {
		if err := os.WriteFile(filepath.Join(opts.Dir, dataName, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	mustClose(t, mustOpen(t, opts))
}

func TestFormats(t *testing.T) {
	ran := ""
	migrate := func(*badger.DB) error { ran += "migrated "; return nil }
	const n = formatNumber
	more := []migration{{from: n, what: "a test", run: migrate}}
	for _, test := range []struct {
		name       string
		format     int
		migrations []migration
		want       error
		ran        string
	}{
		{"the same", n, nil, nil, ""},
		{"a newer one", n + 1, nil, outbox.ErrFormat, ""},
		{"an older one, with a migration", n, more, nil, "migrated "},
		{"an older one, without", n, []migration{{from: n + 1}}, outbox.ErrFormat, ""},
		{"none that ever was", -1, nil, outbox.ErrFormat, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			ran = ""
			opts := filled(t)
			s := mustOpen(t, opts)
			if err := writeFormat(s.db, formatDoc{Format: test.format, Epoch: "e"}); err != nil {
				t.Fatal(err)
			}
			mustClose(t, s)
			opts.hooks.migrations = test.migrations
			s, err := Open(opts)
			if !errors.Is(err, test.want) || ran != test.ran {
				t.Fatalf("open = %v, ran %q; want %v, %q", err, ran, test.want, test.ran)
			}
			if err != nil {
				return
			}
			if got := s.Info().FormatFrom; got != test.format {
				t.Errorf("format from %d, want %d", got, test.format)
			}
			mustClose(t, s)
			ran = ""
			mustClose(t, mustOpen(t, opts))
			if ran != "" {
				t.Error("the migration ran again")
			}
		})
	}
}

// A migration finds in Badger what a kill had left in the journal alone.
func TestAMigrationSeesWhatTheJournalHeld(t *testing.T) {
	s := mustOpen(t, testOptions(t, t.TempDir()))
	s.applyMu.Lock()
	if err := putNumber(s, keyOf(1), 7).Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	dir := copyDir(t, s.opts.Dir)
	s.applyMu.Unlock()
	mustClose(t, s)
	opts, ran := testOptions(t, dir), false
	opts.hooks.migrations = []migration{{from: formatNumber, what: "a test", run: func(db *badger.DB) error {
		ran = true
		if left, err := segmentPaths(filepath.Join(dir, journalName)); err != nil || len(left) > 0 {
			t.Errorf("the journal holds %v, %v", left, err)
		}
		return db.View(func(txn *badger.Txn) error {
			rec, err := readRecord(txn, keyOf(1), true)
			if number(rec.Desired.Payload) != 7 {
				t.Errorf("key 1 is at %d, %v; want 7", number(rec.Desired.Payload), err)
			}
			return err
		})
	}}}
	mustClose(t, mustOpen(t, opts))
	if !ran {
		t.Error("nothing was migrated")
	}
}

// A mark of a newer program is no lost one: it is left as it is.
func TestAMarkOfANewerFormatIsNoLoss(t *testing.T) {
	opts := filled(t)
	path := filepath.Join(opts.Dir, markName)
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for slot := range 4 {
		b[slot*slotBytes+len(markMagic)] = formatNumber + 1
		b[slot*slotBytes+25] ^= 1 // nor is its checksum known
	}
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, opts.AcceptLoss = range []bool{false, true} {
		if _, err := Open(opts); !errors.Is(err, outbox.ErrFormat) || errors.Is(err, outbox.ErrLost) {
			t.Errorf("open = %v, want ErrFormat", err)
		}
	}
	if r, err := Check(t.Context(), opts.Dir, nil, nil); err != nil || len(r.Problems) != 1 || !strings.Contains(r.Problems[0], fmt.Sprint("format ", formatNumber+1)) {
		t.Errorf("check: %q, %v; want the format named", r.Problems, err)
	}
	if after, err := os.ReadFile(path); err != nil || !bytes.Equal(after, b) {
		t.Errorf("the mark was changed: %v", err)
	}
}

// R68: a loss that was accepted is known, also to a start after one that died
// on the way.
func TestAnAcceptedLossIsNeverForgotten(t *testing.T) {
	s := mustOpen(t, testOptions(t, t.TempDir()))
	s.applyMu.Lock()
	for n := range 9 {
		if err := putNumber(s, keyOf(n), uint64(n+1)).Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	dir, epoch := copyDir(t, s.opts.Dir), s.Info().Epoch
	s.applyMu.Unlock()
	mustClose(t, s)
	path := newest(t, dir, "journal/*.log")
	flip(t, path, int64(dataEnd(t, path)/2)) // ones in the middle, with others behind
	opts := testOptions(t, dir)
	if _, err := Open(opts); !errors.Is(err, outbox.ErrLost) {
		t.Fatalf("open = %v, want ErrLost", err)
	}
	opts.AcceptLoss = true
	killed := errors.New("killed")
	opts.hooks.replayed = func() error { return killed }
	if _, err := Open(opts); !errors.Is(err, killed) {
		t.Fatalf("open = %v", err)
	}
	s, err := Open(testOptions(t, dir))
	if errors.Is(err, outbox.ErrLost) {
		return // asked again
	}
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if info := s.Info(); !info.Lossy || info.Epoch == epoch {
		t.Errorf("%+v: the loss is forgotten", info)
	}
}

// What was acknowledged and is gone is said at Open, and accepted only on
// demand, whatever it was that got lost.
func TestLossIsSaid(t *testing.T) {
	for name, lose := range map[string]func(dir string) error{
		"the mark":      func(dir string) error { return os.Remove(filepath.Join(dir, markName)) },
		"Badger's part": func(dir string) error { return os.RemoveAll(filepath.Join(dir, dataName)) },
		"both parts": func(dir string) error {
			return errors.Join(os.RemoveAll(filepath.Join(dir, dataName)), os.RemoveAll(filepath.Join(dir, journalName)))
		},
	} {
		t.Run(name, func(t *testing.T) {
			opts := filled(t)
			s := mustOpen(t, opts)
			before, epoch := putNumber(s, keyOf(1), 99), s.Info().Epoch
			mustClose(t, s)
			if err := lose(opts.Dir); err != nil {
				t.Fatal(err)
			}
			for range 2 { // refusing does not make it forget
				_, err := Open(opts)
				if !errors.Is(err, outbox.ErrLost) || !strings.Contains(err.Error(), "--accept-loss") {
					t.Fatalf("open = %v, want ErrLost and what to do", err)
				}
			}
			opts.AcceptLoss = true
			s = mustOpen(t, opts)
			if info := s.Info(); !info.Lossy || info.Epoch == epoch {
				t.Errorf("%+v, want lossy and a new epoch", info)
			}
			if after := putNumber(s, keyOf(1), 100); after.Revision <= before.Revision {
				t.Errorf("revision %d came after %d", after.Revision, before.Revision)
			}
			mustClose(t, s)
			opts.AcceptLoss = false
			mustClose(t, mustOpen(t, opts))
		})
	}
}

// A log that lost a batch, while a later log is whole, has a hole in the ring.
func TestTheRingFindsHoles(t *testing.T) {
	full := func(from, to uint64) (slots [ringLength]ring) {
		for n := from; n <= to; n++ {
			slots[n%ringLength] = ring{number: n, last: n * 10, first: 1}
		}
		return slots
	}
	for _, test := range []struct {
		name  string
		to    uint64
		first uint64
		hole  uint64 // 0: none
		want  uint64
	}{
		{"a young store", 5, 0, 0, 50},
		{"an old store", 1000, 0, 0, 10000},
		{"a hole", 1000, 0, 900, 8990},
		{"the oldest slot is missing", 1000, 0, 745, 0},
		{"a hole in a young store", 5, 0, 3, 20},
		{"a hole that was accepted", 1000, 901, 900, 10000},
		{"an empty store", 0, 0, 0, 0},
	} {
		slots := full(1, test.to)
		if test.hole > 0 {
			slots[test.hole%ringLength] = ring{}
		}
		r := ring{number: test.to, last: test.to * 10, first: test.first}
		if got := r.whole(&slots); got != test.want {
			t.Errorf("%s: whole up to %d, want %d", test.name, got, test.want)
		}
	}
}

func TestDiscardRemovesADamagedRecord(t *testing.T) {
	opts := filled(t)
	d := &disk{t: t, dir: opts.Dir}
	s := mustOpen(t, opts)
	if err := putMarker(s, 7).Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	mustClose(t, s)
	d.Damage(t, keyOf(7))
	s = mustOpen(t, opts)
	defer s.Close()
	if _, err := s.Get(keyOf(7)); !errors.Is(err, outbox.ErrDamaged) {
		t.Fatalf("get = %v, want ErrDamaged", err)
	}
	if err := s.Discard(keyOf(7)).Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	if rec, err := s.Get(keyOf(7)); err != nil || rec.Desired.Generation != 0 {
		t.Errorf("get = %+v, %v after discarding", rec, err)
	}
}

// putMarker puts a payload that disk.Damage finds.
func putMarker(s *Store, i int) outbox.Ticket {
	return s.Update(keyOf(i), func(cur outbox.Record) (outbox.Change, error) {
		d := cur.Desired
		d.Payload = []byte(strings.Repeat("marker ", 500))
		return outbox.Change{Desired: &d, NewGeneration: true}, nil
	})
}

func TestCheck(t *testing.T) {
	t.Run("a whole store has no problem", func(t *testing.T) {
		opts := filled(t)
		last := 0
		r, err := Check(t.Context(), opts.Dir, nil, func(done, total int) { last = total - done })
		if err != nil || len(r.Problems) > 0 || r.Resources != 20 || r.Statuses != 20 || last != 0 {
			t.Errorf("report %+v, %v, %d left", r, err, last)
		}
	})
	t.Run("it changes nothing", func(t *testing.T) {
		s := mustOpen(t, testOptions(t, t.TempDir()))
		for i := range 50 {
			putNumber(s, keyOf(i), uint64(i+1)).Wait(t.Context())
		}
		dir := powerCut(t, s)
		mustClose(t, s)
		mustCheck(t, dir) // makes the lock
		before := sums(t, dir)
		mustCheck(t, dir)
		if after := sums(t, dir); after != before {
			t.Errorf("before:\n%s\nafter:\n%s", before, after)
		}
	})
	t.Run("it names a damaged resource", func(t *testing.T) {
		opts := filled(t)
		s := mustOpen(t, opts)
		if err := putMarker(s, 7).Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
		mustClose(t, s)
		(&disk{t: t, dir: opts.Dir}).Damage(t, keyOf(7))
		r, err := Check(t.Context(), opts.Dir, nil, nil)
		if err != nil || len(r.Problems) != 1 || !strings.Contains(r.Problems[0], "key 7") {
			t.Errorf("%q, %v; want key 7 named", r.Problems, err)
		}
	})
	t.Run("it tells a loss", func(t *testing.T) {
		opts := filled(t)
		(&disk{t: t, dir: opts.Dir}).LoseTail(t)
		r, err := Check(t.Context(), opts.Dir, nil, nil)
		if err != nil || len(r.Problems) != 1 || !strings.Contains(r.Problems[0], outbox.ErrLost.Error()) {
			t.Errorf("%q, %v; want the loss", r.Problems, err)
		}
	})
	t.Run("a directory without a store is an error", func(t *testing.T) {
		if _, err := Check(t.Context(), t.TempDir(), nil, nil); err == nil {
			t.Error("nothing was checked, and that without an error")
		}
	})
	t.Run("it ends with its context", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := Check(ctx, filled(t).Dir, nil, nil); !errors.Is(err, context.Canceled) {
			t.Errorf("check = %v, want canceled", err)
		}
	})
}

func mustCheck(t testing.TB, dir string) {
	t.Helper()
	if r, err := Check(t.Context(), dir, nil, nil); err != nil || len(r.Problems) > 0 {
		t.Fatalf("check: %q, %v", r.Problems, err)
	}
}

// sums lists all files with their sizes, times and contents.
func sums(t testing.TB, dir string) string {
	t.Helper()
	var list bytes.Buffer
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || d.Name() == lockName {
			return err
		}
		b, err := os.ReadFile(path)
		fmt.Fprintf(&list, "%s %d %x\n", path, len(b), sha256.Sum256(b))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return list.String()
}
