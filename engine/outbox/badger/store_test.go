package badger

import (
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
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
