package storetest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/pawlsync/pawl/engine/outbox"
	"github.com/pawlsync/pawl/engine/record"
)

var errDecide = errors.New("decided against it")

var errFault = errors.New("injected fault")

func newGeneration(t *testing.T, f *fixture) {
	s := f.open()
	first := mustWait(t, put(s, key("a"), "1"))
	second := mustWait(t, put(s, key("a"), "2"))
	if got := get(t, s, key("a")).Desired.Generation; got != second || second <= first {
		t.Errorf("generation %d after revisions %d and %d", got, first, second)
	}
	kept := &record.Desired{Generation: second, Payload: []byte("3")}
	mustWait(t, s.Update(key("a"), func(outbox.Record) (outbox.Change, error) {
		return outbox.Change{Desired: kept}, nil
	}))
	if got := get(t, s, key("a")).Desired.Generation; got != second {
		t.Errorf("generation %d, want %d: none was asked for", got, second)
	}
}

func decideSeesWaiting(t *testing.T, f *fixture) {
	s := f.open()
	release := f.disk.HoldCommits()
	defer release()
	for i := range 5 {
		want := strings.Repeat("x", i)
		ticket := s.Update(key("a"), func(cur outbox.Record) (outbox.Change, error) {
			if got := string(cur.Desired.Payload); got != want {
				t.Errorf("update %d sees %q, want %q", i, got, want)
			}
			return outbox.Change{Desired: desired(want + "x"), NewGeneration: true}, nil
		})
		var seen outbox.Record
		look(s, key("a"), &seen)
		if seen.Desired.Generation != ticket.Revision {
			t.Errorf("update %d: decide sees generation %d, want %d", i, seen.Desired.Generation, ticket.Revision)
		}
	}
}

// gather fills one group: it holds the disk, occupies the writer with another
// key, runs fill, and lets go.
func gather(t *testing.T, f *fixture, fill func()) {
	t.Helper()
	release := f.disk.HoldCommits()
	first := put(f.store, key("occupies the writer"), "x")
	<-f.disk.CommitHeld()
	fill()
	release()
	mustWait(t, first)
}

func coalesces(t *testing.T, f *fixture) {
	s := f.open()
	const updates = 1000
	var last outbox.Ticket
	before := s.Stats()
	gather(t, f, func() {
		for i := range updates {
			last = put(s, key("hot"), fmt.Sprint(i))
		}
	})
	mustWait(t, last)
	wantPayload(t, s, key("hot"), fmt.Sprint(updates-1))
	after := s.Stats()
	if n := after.Records - before.Records; n > 4 {
		t.Errorf("%d halves of records were written for %d updates of one key", n, updates)
	}
	if n := after.Changes - before.Changes; n != updates+1 {
		t.Errorf("%d changes counted, want %d", n, updates+1)
	}
	if got := get(t, s, key("hot")).Desired.Generation; got != last.Revision {
		t.Errorf("generation %d, want that of the last update, %d", got, last.Revision)
	}
}

func getLeavesOutWaiting(t *testing.T, f *fixture) {
	s := f.open()
	mustWait(t, put(s, key("a"), "old"))
	release := f.disk.HoldCommits()
	ticket := put(s, key("a"), "new")
	wantPayload(t, s, key("a"), "old")
	release()
	mustWait(t, ticket)
	wantPayload(t, s, key("a"), "new")
}

func noOpWaits(t *testing.T, f *fixture) {
	s := f.open()
	release := f.disk.HoldCommits()
	put(s, key("a"), "x")
	var seen outbox.Record
	ticket := look(s, key("a"), &seen)
	if ticket.Revision != 0 {
		t.Errorf("a look took revision %d", ticket.Revision)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := ticket.Wait(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("wait = %v before the commit, want canceled", err)
	}
	release()
	mustWait(t, ticket)
	wantPayload(t, s, key("a"), "x")
}

func decideError(t *testing.T, f *fixture) {
	s := f.open()
	refuse := func(outbox.Record) (outbox.Change, error) { return outbox.Change{}, errDecide }
	if err := wait(t, s.Update(key("a"), refuse)); !errors.Is(err, errDecide) {
		t.Errorf("wait = %v, want decide's error", err)
	}
	f.disk.FailCommits(1, errFault)
	release := f.disk.HoldCommits()
	put(s, key("a"), "x")
	ticket := s.Update(key("a"), refuse)
	if !errors.Is(ticket.Err, errDecide) {
		t.Errorf("ticket.Err = %v, want decide's error", ticket.Err)
	}
	release()
	if err := wait(t, ticket); !errors.Is(err, errFault) {
		t.Errorf("wait = %v, want the failed commit of what decide saw", err)
	}
}

func waitContext(t *testing.T, f *fixture) {
	s := f.open()
	release := f.disk.HoldCommits()
	defer release()
	ticket := put(s, key("a"), "x")
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := ticket.Wait(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("wait = %v, want canceled", err)
	}
}

func failedCommit(t *testing.T, f *fixture) {
	s := f.open()
	mustWait(t, put(s, key("a"), "old"))
	f.disk.FailCommits(1, errFault)
	release := f.disk.HoldCommits()
	tickets := map[string]outbox.Ticket{"the change itself": put(s, key("a"), "new")}
	<-f.disk.CommitHeld() // what comes now waits in the next group
	var seen outbox.Record
	tickets["a look at it"] = look(s, key("a"), &seen)
	tickets["a change on top of it"] = setStatus(s, key("a"), record.Status{Phase: record.Pending})
	tickets["another on top of that"] = put(s, key("a"), "newer")
	release()
	for name, ticket := range tickets {
		if err := wait(t, ticket); !errors.Is(err, errFault) {
			t.Errorf("%s: wait = %v, want the failed commit", name, err)
		}
	}
	wantPayload(t, s, key("a"), "old")
}

func afterFailedCommit(t *testing.T, f *fixture) {
	s := f.open()
	mustWait(t, put(s, key("a"), "old"))
	f.disk.FailCommits(1, errFault)
	failed := put(s, key("a"), "new")
	if err := wait(t, failed); !errors.Is(err, errFault) {
		t.Fatalf("wait = %v, want the failed commit", err)
	}
	var seen outbox.Record
	mustWait(t, look(s, key("a"), &seen))
	if string(seen.Desired.Payload) != "old" {
		t.Errorf("decide sees %q, want what is committed", seen.Desired.Payload)
	}
	if later := mustWait(t, put(s, key("a"), "newer")); later <= failed.Revision {
		t.Errorf("revision %d came after %d", later, failed.Revision)
	}
	s = f.reopen()
	wantPayload(t, s, key("a"), "newer")
}

func observer(t *testing.T, f *fixture) {
	r := &recorder{}
	f.observer = r
	s := f.open()
	release := f.disk.HoldCommits()
	first := put(s, key("a"), "1")
	r.during = func() {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		if err := first.Wait(ctx); len(r.groups) == 1 && !errors.Is(err, context.Canceled) {
			t.Error("those who wait were woken before the observer was told")
		}
	}
	var last []outbox.Ticket
	for i := range 10 {
		last = append(last, put(s, key("a"), fmt.Sprint(i)), setStatus(s, key("b"), record.Status{Attempts: i + 1}))
	}
	last = append(last, removeKey(s, key("c")))
	release()
	for _, ticket := range last {
		mustWait(t, ticket)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	checkGroups(t, r.groups)
}

func checkGroups(t *testing.T, groups [][]outbox.Committed) {
	t.Helper()
	var revision uint64
	final := map[record.Key]outbox.Committed{}
	for _, group := range groups {
		keys := map[record.Key]bool{}
		for _, c := range group {
			if keys[c.Key] {
				t.Errorf("%s comes twice in one group", c.Key)
			}
			if c.Revision <= revision {
				t.Errorf("revision %d came after %d", c.Revision, revision)
			}
			keys[c.Key], revision, final[c.Key] = true, c.Revision, c
		}
	}
	a, b, c := final[key("a")], final[key("b")], final[key("c")]
	if !a.DesiredChanged || a.Removed || string(a.Record.Desired.Payload) != "9" {
		t.Errorf("a ends as %+v", a)
	}
	if b.DesiredChanged || b.Removed || b.Record.Status.Attempts != 10 {
		t.Errorf("b ends as %+v", b)
	}
	if !c.Removed || !c.DesiredChanged || c.Record.Desired.Generation != 0 {
		t.Errorf("c ends as %+v", c)
	}
}

func hammer(t *testing.T, f *fixture) {
	r := &recorder{}
	f.observer = r
	s := f.open()
	const goroutines, rounds, keys = 16, 50, 7
	var wg sync.WaitGroup
	for g := range goroutines {
		wg.Go(func() {
			for i := range rounds {
				k := key(fmt.Sprint("counter ", (g+i)%keys))
				ticket := s.Update(k, func(cur outbox.Record) (outbox.Change, error) {
					n := cur.Status.Attempts + 1
					return outbox.Change{Status: &record.Status{Attempts: n}}, nil
				})
				if i%5 == 0 {
					mustHold(t, s, k, ticket)
				}
			}
		})
	}
	wg.Wait()
	s = f.reopen()
	total := 0
	for i := range keys {
		total += get(t, s, key(fmt.Sprint("counter ", i))).Status.Attempts
	}
	if total != goroutines*rounds {
		t.Errorf("%d updates counted, want %d", total, goroutines*rounds)
	}
}

// mustHold waits and checks that what was committed can be read.
func mustHold(t *testing.T, s outbox.Store, k record.Key, ticket outbox.Ticket) {
	if err := ticket.Wait(context.Background()); err != nil {
		t.Errorf("wait: %v", err)
		return
	}
	rec, err := s.Get(k)
	if err != nil || rec.Status.Attempts == 0 {
		t.Errorf("get %s = %d attempts, %v, after a commit", k, rec.Status.Attempts, err)
	}
}
