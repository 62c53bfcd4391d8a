package engine_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pawlsync/pawl/engine"
	"github.com/pawlsync/pawl/engine/outbox"
	"github.com/pawlsync/pawl/engine/record"
	"github.com/pawlsync/pawl/engine/sink"
)

// lateStore answers some updates a second after they are durable (or were found
// to change nothing), as a busy machine may: what was committed shows before its
// author goes on.
type lateStore struct {
	outbox.Store
	late func(outbox.Change) bool
	// early, where set, is asked before each update; true: it waits a second first.
	early func() bool
}

func (s *lateStore) Update(key record.Key, decide outbox.Decide) outbox.Ticket {
	if s.early != nil && s.early() {
		time.Sleep(time.Second)
	}
	var made outbox.Change
	ticket := s.Store.Update(key, func(cur outbox.Record) (outbox.Change, error) {
		change, err := decide(cur)
		made = change
		return change, err
	})
	if s.late != nil && s.late(made) {
		_ = ticket.Wait(context.Background())
		time.Sleep(time.Second)
	}
	return ticket
}

// answersLate makes the store of o answer late; late is called with what each
// update changed.
func answersLate(o *engine.Options, late func(outbox.Change) bool) {
	inner := o.Store
	o.Store = func(obs outbox.Observer) (outbox.Store, error) {
		s, err := inner(obs)
		return &lateStore{Store: s, late: late}, err
	}
}

func TestP3_APutRightAfterTheRecordWentStartsALifeOfItsOwn(t *testing.T) {
	inBubble(t, func(o *engine.Options) {
		answersLate(o, func(c outbox.Change) bool { return c.Remove })
	}, func(b *bench) {
		b.put("a", `1`)
		b.settle()
		b.delete("a")
		b.settle()
		b.target.slow(3 * time.Second)
		b.put("a", `2`) // its delivery begins before the old life's has ended
		b.after(2 * time.Second)
		b.want("a", "Delivering") // the old life's end is not its own
		b.after(10 * time.Second)
		b.want("a", "Acked")
		b.wantOps("a", "apply", "delete", "apply")
		if s := b.Sinks()[0]; s.InFlight != 0 {
			t.Errorf("%d in flight for ever", s.InFlight)
		}
	})
}

// idle is an update that changes nothing: loading a record, or the outcome of a
// look that brought no news.
func idle(c outbox.Change) bool { return c.Empty() }

// untilIdleLook waits for the second look at what was just put, the first that brings no
// news; it goes on for a second.
func (b *bench) untilIdleLook(name string) {
	b.after(15 * time.Minute)
	b.wantOps(name, "apply", "observe")
	b.target.slow(time.Second)
	for len(b.target.ops(name)) == 2 {
		b.after(100 * time.Millisecond)
	}
}

func TestR30_SuspendingDuringALookThatBringsNoNewsHolds(t *testing.T) {
	inBubble(t, func(o *engine.Options) { answersLate(o, idle) }, func(b *bench) {
		b.put("a", `1`)
		b.untilIdleLook("a")
		b.after(1500 * time.Millisecond) // the look has been decided on, and has not ended
		if err := b.Suspend(b.t.Context(), web("a")); err != nil {
			t.Fatal(err)
		}
		b.after(time.Hour)
		b.wantOps("a", "apply", "observe", "observe")
	})
}

func TestR66_AnOrderGivenDuringALookThatBringsNoNewsIsCarriedOut(t *testing.T) {
	inBubble(t, func(o *engine.Options) { answersLate(o, idle) }, func(b *bench) {
		b.put("a", `1`)
		b.untilIdleLook("a")
		b.after(1500 * time.Millisecond)
		b.target.set("a", `9`)
		if err := b.ApplyForce(b.t.Context(), web("a")); err != nil {
			t.Fatal(err)
		}
		b.after(10 * time.Second)
		b.wantOps("a", "apply", "observe", "observe", "observe", "apply")
	})
}

func TestR30_SuspendingBetweenDispatchAndLoadMakesNoCall(t *testing.T) {
	var armed atomic.Bool
	inBubble(t, func(o *engine.Options) {
		inner := o.Store
		o.Store = func(obs outbox.Observer) (outbox.Store, error) {
			s, err := inner(obs)
			return &lateStore{Store: s, early: func() bool { return armed.CompareAndSwap(true, false) }}, err
		}
	}, func(b *bench) {
		b.put("a", `1`)
		b.settle()
		armed.Store(true)
		for armed.Load() { // until the next look is about to read the record
			b.after(100 * time.Millisecond)
		}
		b.must(b.Suspend(b.t.Context(), web("a")))
		b.after(time.Hour)
		b.wantOps("a", "apply")
		b.must(b.Resume(b.t.Context(), web("a")))
		b.after(time.Hour)
		if n := len(b.target.ops("a")); n < 4 {
			t.Errorf("%d calls in the hour after it was resumed", n)
		}
	})
}

func TestP3_AnOutcomeThatCouldNotBeStoredIsRememberedByTheRetry(t *testing.T) {
	inBubble(t, nil, func(b *bench) {
		b.target.slow(time.Second)
		b.target.always(sink.Result{Status: sink.Unreachable})
		b.put("a", `1`)
		b.settle()
		b.disk.FailCommits(1, errors.New("disk on fire"))
		b.after(2 * time.Second)
		b.target.slow(0)
		b.target.script(nil)
		b.must(b.Retry(b.t.Context(), web("a")))
		b.settle()
		b.wantOps("a", "apply", "observe", "apply")
		b.want("a", "Acked")
		b.put("a", `2`)
		b.after(10 * time.Second)
		b.want("a", "Pending") // the first request may still land
		b.after(time.Minute)
		b.want("a", "Acked")
	})
}

// TestManyAtOnce lets real goroutines loose on few keys. What they are told must
// come true, and nothing may be left over.
func TestManyAtOnce(t *testing.T) {
	inBubble(t, func(o *engine.Options) { o.Sinks[0].MaxInFlight = 3 }, func(b *bench) {
		var all sync.WaitGroup
		for g := range 8 {
			all.Go(func() {
				for i := range 100 {
					name := fmt.Sprint("k", (g+i)%3)
					switch i % 10 {
					case 3:
						_, _ = b.Delete(b.t.Context(), engine.Delete{Key: web(name)})
					case 5:
						_ = b.Forget(b.t.Context(), web(name))
					case 7:
						_ = b.Retry(b.t.Context(), web(name))
					default:
						res, err := b.Put(b.t.Context(), engine.Put{Key: web(name), Payload: fmt.Append(nil, g, i)})
						if err != nil {
							t.Error(err)
						}
						if i%4 == 0 {
							if _, err := b.Wait(b.t.Context(), web(name), res.Generation); err != nil {
								t.Error(err)
							}
						}
					}
				}
			})
		}
		all.Wait()
		b.settle()
		for i := range 3 {
			name := fmt.Sprint("k", i)
			r, err := b.Get(b.t.Context(), web(name))
			if errors.Is(err, engine.ErrNotFound) {
				continue
			}
			b.must(err)
			b.want(name, "Acked")
			b.wantTarget(name, string(r.Desired.Payload))
		}
		if s := b.Sinks()[0]; s.InFlight != 0 || b.Stats().Waiters != 0 {
			t.Errorf("%d in flight, %d waiters are left", s.InFlight, b.Stats().Waiters)
		}
	})
}
