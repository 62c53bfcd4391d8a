// Package storetest is what every outbox.Store must pass. A store's tests call
// Run with a constructor of empty disks; a disk can be opened again and again,
// so that what survives Close and a crash is tested too.
package storetest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/pawlsync/pawl/engine/outbox"
	"github.com/pawlsync/pawl/engine/record"
)

// Disk is what a store keeps its data on, with the faults that it may have.
type Disk interface {
	// Open opens the disk.
	Open(observer outbox.Observer, acceptLoss bool) (outbox.Store, error)
	// Crash ends s as a power cut does: what is not committed is gone.
	Crash(t testing.TB, s outbox.Store)
	// FailCommits makes the next n commits fail with an error that wraps err.
	FailCommits(n int, err error)
	// HoldCommits keeps every commit waiting until release is called.
	HoldCommits() (release func())
	// CommitHeld returns a channel that is closed once a commit is held.
	CommitHeld() <-chan struct{}
	// SetFull fills the disk, or frees it.
	SetFull(full bool)
	// Damage makes the desired state of key unreadable. The disk is closed.
	Damage(t testing.TB, key record.Key)
	// LoseTail drops some of the newest acknowledged changes. The disk is closed.
	LoseTail(t testing.TB)
}

// Run runs the suite.
func Run(t *testing.T, newDisk func(testing.TB) Disk) {
	for _, test := range []struct {
		name string
		run  func(*testing.T, *fixture)
	}{
		{"an unknown key reads as the zero record", unknownKey},
		{"both halves come back after reopening", roundTrip},
		{"halves are written apart", halves},
		{"remove drops both halves", remove},
		{"remove drops what was just written", removeFresh},
		{"remove, then a new desired state in another group keeps no old status", removeThenPutLater},
		{"remove, then a new desired state in one group keeps no old status", removeThenPut},
		{"a new generation is the revision of its change", newGeneration},
		{"decide sees what waits", decideSeesWaiting},
		{"many changes of one key are written once", coalesces},
		{"get leaves out what waits", getLeavesOutWaiting},
		{"a no-op waits for what it saw", noOpWaits},
		{"decide's error comes after the commit of what it saw", decideError},
		{"wait ends with its context", waitContext},
		{"a failed commit fails those who relied on it", failedCommit},
		{"after a failed commit the committed state counts", afterFailedCommit},
		{"revisions grow and are never used twice", revisionsGrow},
		{"a crash loses what was not committed and nothing else", crash},
		{"the observer hears of commits in order, before those who wait", observer},
		{"heads come in key order within their span", heads},
		{"heads tell tombstones, gone and status", headFlags},
		{"heads stop when told", headsStop},
		{"documents are kept, replaced and removed", meta},
		{"a full disk refuses puts alone, and recovers", full},
		{"a damaged record is an error, never empty", damaged},
		{"a lost tail is refused, then accepted with a new epoch", lostTail},
		{"an open disk is not opened twice", locked},
		{"a closed store says so", closed},
		{"updates of many goroutines all count", hammer},
	} {
		t.Run(test.name, func(t *testing.T) {
			f := &fixture{t: t, disk: newDisk(t)}
			defer f.close()
			test.run(t, f)
		})
	}
}

// fixture is a disk and the store that is open on it.
type fixture struct {
	t        *testing.T
	disk     Disk
	store    outbox.Store
	observer outbox.Observer
}

func (f *fixture) open() outbox.Store {
	f.t.Helper()
	s, err := f.disk.Open(f.observer, false)
	if err != nil {
		f.t.Fatalf("open: %v", err)
	}
	f.store = s
	return s
}

func (f *fixture) close() {
	if f.store == nil {
		return
	}
	if err := f.store.Close(); err != nil {
		f.t.Errorf("close: %v", err)
	}
	f.store = nil
}

func (f *fixture) reopen() outbox.Store {
	f.t.Helper()
	f.close()
	return f.open()
}

func (f *fixture) crash() outbox.Store {
	f.t.Helper()
	f.disk.Crash(f.t, f.store)
	f.store = nil
	return f.open()
}

func key(name string) record.Key { return record.Key{Sink: "demo", Name: name} }

// wait waits for a ticket, but not for ever.
func wait(t testing.TB, ticket outbox.Ticket) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	err := ticket.Wait(ctx)
	if errors.Is(err, context.DeadlineExceeded) {
		t.Fatal("the commit never came")
	}
	return err
}

func mustWait(t testing.TB, ticket outbox.Ticket) uint64 {
	t.Helper()
	if err := wait(t, ticket); err != nil {
		t.Fatalf("wait: %v", err)
	}
	return ticket.Revision
}

func desired(payload string) *record.Desired {
	return &record.Desired{
		Payload: []byte(payload),
		Hash:    record.HashOf([]byte(payload)),
		Owner:   "test",
		PutAt:   time.Unix(1_700_000_000, 123).UTC(),
	}
}

func put(s outbox.Store, k record.Key, payload string) outbox.Ticket {
	return s.Update(k, func(outbox.Record) (outbox.Change, error) {
		return outbox.Change{Desired: desired(payload), NewGeneration: true}, nil
	})
}

func setStatus(s outbox.Store, k record.Key, status record.Status) outbox.Ticket {
	return s.Update(k, func(outbox.Record) (outbox.Change, error) {
		return outbox.Change{Status: &status}, nil
	})
}

func removeKey(s outbox.Store, k record.Key) outbox.Ticket {
	return s.Update(k, func(outbox.Record) (outbox.Change, error) { return outbox.Change{Remove: true}, nil })
}

func look(s outbox.Store, k record.Key, seen *outbox.Record) outbox.Ticket {
	return s.Update(k, func(cur outbox.Record) (outbox.Change, error) {
		*seen = cur
		return outbox.Change{}, nil
	})
}

func get(t testing.TB, s outbox.Store, k record.Key) outbox.Record {
	t.Helper()
	rec, err := s.Get(k)
	if err != nil {
		t.Fatalf("get %s: %v", k, err)
	}
	return rec
}

func wantPayload(t testing.TB, s outbox.Store, k record.Key, want string) {
	t.Helper()
	if got := string(get(t, s, k).Desired.Payload); got != want {
		t.Errorf("%s holds %q, want %q", k, abbreviate(got), abbreviate(want))
	}
}

func abbreviate(s string) string {
	if len(s) > 40 {
		return fmt.Sprintf("%s… (%d bytes)", s[:40], len(s))
	}
	return s
}

// recorder is an observer that remembers.
type recorder struct {
	mu     sync.Mutex
	groups [][]outbox.Committed
	errs   []error
	during func() // called within Committed
}

func (r *recorder) Committed(changes []outbox.Committed) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.groups = append(r.groups, changes)
	if r.during != nil {
		r.during()
	}
}

func (r *recorder) CommitDone(_, _ int, _ time.Duration, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.errs = append(r.errs, err)
}
