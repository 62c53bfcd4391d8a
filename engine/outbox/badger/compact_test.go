package badger

import (
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pawlsync/pawl/engine/outbox"
)

// After overwrites, removals and Compact the disk holds about what is alive,
// and all of that is there.
func TestCompactFreesTheDisk(t *testing.T) {
	opts := testOptions(t, t.TempDir())
	s := mustOpen(t, opts)
	const keys, rounds = 300, 30
	var live int64
	for round := range uint64(rounds) {
		var last outbox.Ticket
		for i := range keys {
			last = putNumber(s, keyOf(i), round*keys+uint64(i)+1)
		}
		if err := last.Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := s.apply(); err != nil {
			t.Fatal(err)
		}
	}
	before := s.Stats().DiskBytes
	if err := s.Compact(t.Context()); err != nil {
		t.Fatal(err)
	}
	check := func(when string) {
		t.Helper()
		live = 0
		for i := range keys {
			rec, err := s.Get(keyOf(i))
			if got, want := number(rec.Desired.Payload), uint64((rounds-1)*keys+i+1); err != nil || got != want {
				t.Errorf("%s: key %d is at %d, %v; want %d", when, i, got, err, want)
			}
			live += int64(len(rec.Desired.Payload)) + 300
		}
	}
	check("compacted")
	st := s.Stats()
	if st.DiskBytes > 4*live || st.CompactionRuns == 0 || st.GarbageBytes < 0 || st.GarbageBytes > live {
		t.Errorf("%d bytes on disk after compaction (%d before), %d are alive; garbage %d, runs %d",
			st.DiskBytes, before, live, st.GarbageBytes, st.CompactionRuns)
	}
	mustClose(t, s)
	mustCheck(t, opts.Dir)
	s = mustOpen(t, opts)
	defer s.Close()
	check("reopened")
}

// What is committed while Badger takes over what came before stays in the
// journal, however much of that is cut.
func TestTheJournalKeepsWhatBadgerHasNot(t *testing.T) {
	opts := testOptions(t, t.TempDir())
	var s *Store
	var armed atomic.Bool
	opts.hooks.free = func(string) (int64, error) { // asked before Badger is written to
		if armed.CompareAndSwap(true, false) {
			if err := putNumber(s, keyOf(2), 2).Wait(t.Context()); err != nil {
				t.Error(err)
			}
		}
		return 1 << 40, nil
	}
	s = mustOpen(t, opts)
	defer s.Close()
	if err := putNumber(s, keyOf(1), 1).Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	armed.Store(true)
	if err := s.handOver(); err != nil {
		t.Fatal(err)
	}
	checkLedger(t, powerCut(t, s), map[int]uint64{1: 1, 2: 2})
}

// Reads, writes and scans go on while Badger is collected and reopened.
func TestCompactDisturbsNobody(t *testing.T) {
	s := mustOpen(t, testOptions(t, t.TempDir()))
	var stop atomic.Bool
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for n := uint64(1); !stop.Load(); n++ {
				if err := putNumber(s, keyOf(i), n).Wait(t.Context()); err != nil {
					t.Errorf("put: %v", err)
					return
				}
				rec, err := s.Get(keyOf(i))
				if got := number(rec.Desired.Payload); err != nil || got != n {
					t.Errorf("key %d is at %d, %v; want %d", i, got, err, n)
					return
				}
				if n%16 == 0 {
					if err := s.Heads(t.Context(), outbox.Span{}, func(outbox.Head) bool { return true }); err != nil {
						t.Errorf("heads: %v", err)
						return
					}
				}
			}
		})
	}
	for range 3 {
		if err := s.Compact(t.Context()); err != nil {
			t.Errorf("compact: %v", err)
		}
	}
	stop.Store(true)
	wg.Wait()
	mustClose(t, s)
}

// The collector keeps the value log within twice of what is alive and its
// slack; here it is told that it may have none.
func TestTheCollectorBoundsTheValueLog(t *testing.T) {
	s := mustOpen(t, testOptions(t, t.TempDir()))
	defer s.Close()
	for round := range uint64(20) {
		for i := range 100 {
			putNumber(s, keyOf(i), round*100+uint64(i)+1)
		}
		if err := s.apply(); err != nil {
			t.Fatal(err)
		}
	}
	before := s.valueLogBytes()
	if limit, err := s.collect(t.Context(), before); err != nil || limit != before {
		t.Fatalf("collect = %d, %v where nothing was to be done", limit, err)
	}
	limit, err := s.collect(t.Context(), 0)
	if err != nil || limit < collectSlack {
		t.Fatalf("collect = %d, %v", limit, err)
	}
}

// Close waits for no more of a compaction than the step that is under way.
func TestCloseEndsACompaction(t *testing.T) {
	for _, test := range []struct {
		when string
		want int // times that Badger is opened again
	}{
		{"before Badger is reopened", 0},
		{"while Badger is reopened", 1},
	} {
		t.Run(test.when, func(t *testing.T) {
			opts := filled(t)
			var s *Store
			armed, opened, closed := false, 0, make(chan error, 1)
			closeNow := func() {
				armed = false
				go func() { closed <- s.Close() }()
				<-s.life.Done()
			}
			opts.hooks.free = func(string) (int64, error) {
				if armed && test.want == 0 {
					closeNow()
				}
				return 1 << 40, nil
			}
			opts.hooks.open = func() error {
				opened++
				if armed {
					closeNow()
				}
				return nil
			}
			s = mustOpen(t, opts)
			armed, opened = true, 0
			if err := s.Compact(t.Context()); !errors.Is(err, outbox.ErrClosed) || opened != test.want {
				t.Errorf("compact = %v, Badger was opened %d times; want ErrClosed and %d", err, opened, test.want)
			}
			if err := <-closed; err != nil {
				t.Error(err)
			}
			if runs := s.Stats().CompactionRuns; runs != 0 {
				t.Errorf("%d compactions are counted, and none was done", runs)
			}
		})
	}
}

// A reopen that failed is tried again by itself, also where nothing waits for
// Badger. Meanwhile the store says that it can't be read, not that it is closed.
func TestAFailedReopenIsTriedAgain(t *testing.T) {
	opts := filled(t)
	fault := errors.New("too many open files")
	var broken atomic.Bool
	opened := make(chan bool, 1)
	opts.hooks.open = func() error {
		if broken.Load() {
			return fault
		}
		select {
		case opened <- true:
		default:
		}
		return nil
	}
	s := mustOpen(t, opts)
	defer s.Close()
	<-opened
	broken.Store(true)
	if err := s.Compact(t.Context()); !errors.Is(err, fault) {
		t.Fatalf("compact = %v, want its cause", err)
	}
	_, getErr := s.Get(keyOf(1))
	for what, err := range map[string]error{"get": getErr, "put": putNumber(s, keyOf(2), 7).Wait(t.Context())} {
		if !errors.Is(err, outbox.ErrUnavailable) || errors.Is(err, outbox.ErrClosed) || !strings.Contains(err.Error(), fault.Error()) {
			t.Errorf("%s = %v, want ErrUnavailable and its cause", what, err)
		}
	}
	broken.Store(false)
	select {
	case <-opened: // after a second or so; readers wait until it is done
	case <-time.After(time.Minute):
		t.Fatal("it is not tried again")
	}
	if rec, err := s.Get(keyOf(1)); err != nil || number(rec.Desired.Payload) != 2 {
		t.Errorf("key 1 is at %d, %v; want 2", number(rec.Desired.Payload), err)
	}
	if err := putNumber(s, keyOf(2), 7).Wait(t.Context()); err != nil {
		t.Errorf("put: %v", err)
	}
}
