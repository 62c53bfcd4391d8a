package engine_test

import (
	"context"
	"testing"
	"time"

	"github.com/pawlsync/pawl/engine"
	"github.com/pawlsync/pawl/engine/outbox"
	"github.com/pawlsync/pawl/engine/record"
)

// lateStore answers some updates a second after they are durable (or were found
// to change nothing), as a busy machine may: what was committed shows before its
// author goes on.
type lateStore struct {
	outbox.Store
	late func(outbox.Change) bool
}

func (s *lateStore) Update(key record.Key, decide outbox.Decide) outbox.Ticket {
	var made outbox.Change
	ticket := s.Store.Update(key, func(cur outbox.Record) (outbox.Change, error) {
		change, err := decide(cur)
		made = change
		return change, err
	})
	if s.late(made) {
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
		return &lateStore{s, late}, err
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
