package badger

import (
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/pawlsync/pawl/engine/outbox"
	"github.com/pawlsync/pawl/engine/record"
)

// R64: who asks for the revision, lists, and watches from that revision on,
// misses nothing: all up to it can be read by then.
func TestARevisionIsToldOnceItCanBeRead(t *testing.T) {
	s := mustOpen(t, testOptions(t, t.TempDir()))
	defer s.Close()
	s.journal.sync = func(f *os.File) error {
		s.overlay.mu.Lock() // holds the commit before it can be read
		return fdatasync(f)
	}
	ticket := putNumber(s, keyOf(1), 1)
	for marked := uint64(0); marked < ticket.Revision; runtime.Gosched() {
		s.mark.mu.Lock()
		marked = s.mark.committed.revision
		s.mark.mu.Unlock()
	}
	if r := s.Info().Revision; r >= ticket.Revision {
		t.Errorf("revision %d is told, and %d can't be read yet", r, ticket.Revision)
	}
	s.overlay.mu.Unlock()
	if err := ticket.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	if r := s.Info().Revision; r != ticket.Revision {
		t.Errorf("revision %d is told after %d was confirmed", r, ticket.Revision)
	}
}

// The two halves of a record are read as of one moment, though Badger may get a
// newer state of them between the two reads.
func TestBothHalvesAreReadAtOnce(t *testing.T) {
	s := mustOpen(t, testOptions(t, t.TempDir()))
	defer s.Close()
	var stop atomic.Bool
	var wg sync.WaitGroup
	defer wg.Wait()
	defer stop.Store(true)
	for range 2 {
		wg.Go(func() {
			for !stop.Load() {
				rec, err := s.Get(keyOf(1))
				if n := number(rec.Desired.Payload); err != nil || rec.Status.Attempts != int(n) {
					t.Errorf("desired %d with status %d, %v", n, rec.Status.Attempts, err)
					return
				}
			}
		})
	}
	for n := uint64(1); n < 60; n++ {
		if err := putNumber(s, keyOf(1), n).Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := s.apply(); err != nil {
			t.Fatal(err)
		}
	}
}

// Changes of one half that come to Badger together keep the other half's, from
// the overlay and from the journal alike.
func TestHalvesThatChangeApartComeTogether(t *testing.T) {
	desired := outbox.Change{Desired: &record.Desired{Payload: content(7)}, NewGeneration: true}
	status := outbox.Change{Status: &record.Status{Attempts: 7}}
	for name, changes := range map[string][]outbox.Change{
		"desired, then status":         {desired, status},
		"status, then desired":         {status, desired},
		"removed, then both, by turns": {desired, {Remove: true}, status, desired},
	} {
		t.Run(name, func(t *testing.T) {
			s := mustOpen(t, testOptions(t, t.TempDir()))
			defer s.Close()
			s.applyMu.Lock()
			for _, c := range changes {
				err := s.Update(keyOf(1), func(outbox.Record) (outbox.Change, error) { return c, nil }).Wait(t.Context())
				if err != nil {
					t.Fatal(err)
				}
			}
			replayed := copyDir(t, s.opts.Dir)
			s.applyMu.Unlock()
			if err := s.apply(); err != nil {
				t.Fatal(err)
			}
			for _, dir := range []string{powerCut(t, s), replayed} {
				again := mustOpen(t, testOptions(t, dir))
				rec, err := again.Get(keyOf(1))
				if n := number(rec.Desired.Payload); err != nil || n != 7 || rec.Status.Attempts != 7 {
					t.Errorf("desired %d with status %d, %v; want 7", n, rec.Status.Attempts, err)
				}
				mustClose(t, again)
			}
		})
	}
}
