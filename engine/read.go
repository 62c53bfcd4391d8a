package engine

import (
	"context"
	"fmt"
	"slices"

	"github.com/pawlsync/pawl/engine/outbox"
	"github.com/pawlsync/pawl/engine/reconcile"
	"github.com/pawlsync/pawl/engine/record"
)

// Get returns one resource, payload included.
//
// # Errors
//
// ErrNotFound, ErrInvalid, ErrClosed; outbox.ErrDamaged where the stored record
// is damaged.
func (e *Engine) Get(_ context.Context, key record.Key) (Resource, error) {
	if err := e.open(); err != nil {
		return Resource{}, fail("get", key, err, "")
	}
	if err := invalid(key.Validate()); err != nil {
		return Resource{}, fail("get", key, err, "")
	}
	rec, err := e.store.Get(key)
	if err != nil {
		return Resource{}, fail("get", key, err, "")
	}
	if !rec.Desired.Exists() {
		return Resource{}, fail("get", key, fmt.Errorf("%w: there is no such resource", ErrNotFound), "")
	}
	return e.view(key, rec), nil
}

// view is a record as its readers see it.
func (e *Engine) view(key record.Key, rec outbox.Record) Resource {
	st := e.effective(key, rec.Desired.Generation, rec.Status)
	if reason, message := e.heldBack(key, &rec); reason != record.ReasonNone {
		st.Conditions = append(slices.Clip(st.Conditions), record.Condition{
			Type: record.CondSuspended, Status: record.True, Reason: reason, Message: message,
			LastTransitionTime: st.UpdatedAt, ObservedGeneration: rec.Desired.Generation,
		})
	}
	return Resource{Key: key, Desired: rec.Desired, Status: st}
}

// heldBack says why a resource gets no calls (R30).
func (e *Engine) heldBack(key record.Key, rec *outbox.Record) (record.Reason, string) {
	if t := e.targets.of(key.Sink); t != nil {
		if reason := t.suspended(); reason != record.ReasonNone {
			return reason, "the whole sink is suspended"
		}
	}
	switch {
	case rec.Desired.Tombstone: // only a sink's suspension holds deletes
	case rec.Status.Suspended:
		return record.ReasonOperator, "suspended by an operator"
	case rec.Desired.Suspend:
		return record.ReasonSource, "suspended by its source"
	}
	return record.ReasonNone, ""
}

// effective is the status with what only the engine knows: what is in flight,
// and which sinks are configured.
func (e *Engine) effective(key record.Key, generation uint64, stored record.Status) record.Status {
	st := reconcile.Effective(generation, stored)
	if e.targets.of(key.Sink) == nil {
		st.Phase, st.Reason = record.Orphaned, record.ReasonSink
		st.Message = "its sink is not configured; it goes on when the sink returns, or forget it"
		return st
	}
	if st.Phase == record.Pending || st.Phase == record.Stalled {
		if e.flights.of(key) != nil {
			st.Phase = record.Delivering
		}
	}
	return st
}

// Stats returns the engine's figures.
func (e *Engine) Stats() Stats {
	s := Stats{Store: e.store.Stats(), Info: e.store.Info()}
	e.mu.Lock()
	defer e.mu.Unlock()
	s.Resources, s.ScheduleBytes, s.Watchers = e.sched.Len(), e.sched.Bytes(), e.changes.watchers
	s.Waiters = e.waiters.count()
	return s
}
