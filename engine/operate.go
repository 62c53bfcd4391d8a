package engine

import (
	"context"
	"errors"
	"time"

	"github.com/pawlsync/pawl/engine/outbox"
	"github.com/pawlsync/pawl/engine/reconcile"
	"github.com/pawlsync/pawl/engine/record"
)

// Retry makes a resource due at once, its attempts from 0: one that is Stalled
// or Failed is delivered again, one that is Acked or Drifted looked at.
//
// # Errors
//
// Of all operators' calls: ErrNotFound, ErrClosed, the error of ctx. What they
// order is durable when they return (R66).
func (e *Engine) Retry(ctx context.Context, key record.Key) error {
	err := e.operate(ctx, "retry", key, func(cur outbox.Record, now time.Time) (outbox.Change, error) {
		return reconcile.Retry(cur, now)
	})
	if err != nil {
		return err
	}
	e.lookSoon(key)
	return nil
}

// Suspend holds all calls about a resource, its deletion excepted, until Resume.
// Puts go on being accepted.
func (e *Engine) Suspend(ctx context.Context, key record.Key) error {
	return e.operate(ctx, "suspend", key, func(cur outbox.Record, now time.Time) (outbox.Change, error) {
		return reconcile.Suspend(cur, true, now)
	})
}

// Resume ends what Suspend began; the source's own flag stays.
func (e *Engine) Resume(ctx context.Context, key record.Key) error {
	return e.operate(ctx, "resume", key, func(cur outbox.Record, now time.Time) (outbox.Change, error) {
		return reconcile.Suspend(cur, false, now)
	})
}

// Accept takes what the target holds for acknowledged, of a resource that is
// Drifted; of a deletion that met an object which may not be ours, it deletes
// that object. ErrNothingToDo where neither is the case.
func (e *Engine) Accept(ctx context.Context, key record.Key) error {
	return e.operate(ctx, "accept", key, reconcile.Accept)
}

// ApplyForce applies the desired state once, whatever the conflict policy says.
// ErrNothingToDo for a resource that is being deleted.
func (e *Engine) ApplyForce(ctx context.Context, key record.Key) error {
	return e.operate(ctx, "force", key, reconcile.Force)
}

func (e *Engine) operate(ctx context.Context, op string, key record.Key, do func(outbox.Record, time.Time) (outbox.Change, error)) error {
	err := e.open()
	if err == nil {
		err = invalid(key.Validate())
	}
	if err == nil {
		now := time.Now()
		err = e.store.Update(key, func(cur outbox.Record) (outbox.Change, error) { return do(cur, now) }).Wait(ctx)
	}
	if err != nil {
		return fail(op, key, err, "")
	}
	e.log.Info("operator", "op", op, "sink", key.Sink, "key", key.Name)
	return nil
}

var errInFlight = errors.New("a call is in flight")

// Forget drops a resource without a word to its target: a deletion that can't be
// finished, a resource of a sink that is gone, one whose stored record is damaged.
// It waits for a call in flight.
func (e *Engine) Forget(ctx context.Context, key record.Key) error {
	for {
		err := e.operate(ctx, "forget", key, func(cur outbox.Record, _ time.Time) (outbox.Change, error) {
			if !cur.Desired.Exists() {
				return outbox.Change{}, &reconcile.Refusal{Err: ErrNotFound, Message: "there is no such resource"}
			}
			if e.landing(key) != nil {
				return outbox.Change{}, errInFlight
			}
			return outbox.Change{Remove: true}, nil
		})
		if errors.Is(err, outbox.ErrDamaged) {
			return e.discard(ctx, key, err)
		}
		if !errors.Is(err, errInFlight) {
			return err
		}
		if landed := e.landing(key); landed != nil {
			select {
			case <-landed:
			case <-ctx.Done():
				return fail("forget", key, ctx.Err(), "a call about it is still in flight")
			}
		}
	}
}

// discard forgets a resource whose record is damaged, where the store can.
func (e *Engine) discard(ctx context.Context, key record.Key, damage error) error {
	d, ok := e.store.(outbox.Discarder)
	if !ok {
		return damage
	}
	if err := d.Discard(key).Wait(ctx); err != nil {
		return fail("forget", key, err, "")
	}
	e.log.Warn("operator", "op", "forget", "sink", key.Sink, "key", key.Name, "damage", damage)
	return nil
}

// landing returns what is closed when the delivery of key that is under way
// ends; nil when there is none.
func (e *Engine) landing(key record.Key) <-chan struct{} {
	if fl := e.flights.of(key); fl != nil {
		return fl.landed
	}
	return nil
}

// SuspendSink holds all calls of a sink, deletions included, until ResumeSink.
func (e *Engine) SuspendSink(_ context.Context, name string) error {
	return e.holdSink("suspend sink", name, record.ReasonOperator)
}

// ResumeSink ends what SuspendSink, or the restoring of a store, began. It does
// not overrule the configuration.
func (e *Engine) ResumeSink(_ context.Context, name string) error {
	return e.holdSink("resume sink", name, record.ReasonNone)
}

// ReleaseRestored lets a sink go on that the restoring of a store suspended: the
// caller knows that what is desired there is as its sources have it now (R67). It
// reports whether it did: not where the sink is suspended for another reason or not
// at all, nor while a saga of the restored store waits for an operator at it.
func (e *Engine) ReleaseRestored(name string) (released bool, err error) {
	const op = "release sink"
	key := record.Key{Sink: name}
	t, err := e.target(op, key)
	if err != nil {
		return false, err
	}
	if err := e.open(); err != nil {
		return false, fail(op, key, err, "")
	}
	if e.holdsAt(name) {
		return false, nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.suspendedLocked() != record.ReasonRestored {
		return false, nil
	}
	if err := e.setHoldLocked(t, record.ReasonNone); err != nil {
		return false, fail(op, key, err, "")
	}
	e.wakeDispatcher()
	return true, nil
}

// holdsAt reports whether something is held of a sink.
func (e *Engine) holdsAt(name string) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	for key := range e.holds.byKey {
		if key.Sink == name {
			return true
		}
	}
	return false
}

func (e *Engine) holdSink(op, name string, reason record.Reason) error {
	key := record.Key{Sink: name}
	t, err := e.target(op, key)
	if err != nil {
		return err
	}
	if err := e.open(); err != nil {
		return fail(op, key, err, "")
	}
	if reason == record.ReasonNone && t.fitting().opts.Suspended {
		return fail(op, key, ErrNothingToDo, "the configuration suspends the sink; change it there")
	}
	if err := e.setHold(t, reason); err != nil {
		return fail(op, key, err, "")
	}
	e.log.Info("operator", "op", op, "sink", name)
	e.wakeDispatcher()
	return nil
}
