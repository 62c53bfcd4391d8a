package engine

import (
	"context"
	"encoding/base64"
	"errors"
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
	if t := e.targets[key.Sink]; t != nil {
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
	if e.targets[key.Sink] == nil {
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

// List returns resources in key order, a page at a time.
//
// # Errors
//
// ErrInvalid for a page token that this engine did not give; the error of ctx;
// ErrClosed.
func (e *Engine) List(ctx context.Context, o ListOptions) (Page, error) {
	if err := e.open(); err != nil {
		return Page{}, &Error{Op: "list", Err: err}
	}
	span := outbox.Span{Sink: o.Sink, Prefix: o.Prefix}
	if o.Page != "" {
		after, err := parsePage(o.Page)
		if err != nil {
			return Page{}, &Error{Op: "list", Err: err, Hint: "start again with the first page"}
		}
		span.After = &after
	}
	limit := o.Limit
	if limit <= 0 {
		limit = 100
	}
	limit = min(limit, 1000)
	info := e.store.Info()
	page := Page{Token: token(info.Epoch, info.Revision)}
	keys := make([]record.Key, 0, limit)
	more := false
	err := e.store.Heads(ctx, span, func(h outbox.Head) bool {
		if h.Generation == 0 || h.Gone || h.Key.Sink == journalSink {
			return true
		}
		if len(o.Phases) > 0 && !slices.Contains(o.Phases, e.effective(h.Key, h.Generation, h.Status).Phase) {
			return true
		}
		if more = len(keys) == limit; more {
			return false
		}
		keys = append(keys, h.Key)
		return true
	})
	if err == nil {
		err = ctx.Err()
	}
	if err != nil {
		return Page{}, fail("list", record.Key{}, err, "")
	}
	if more {
		page.Next = pageAfter(keys[len(keys)-1])
	}
	for _, key := range keys {
		rec, err := e.store.Get(key)
		if errors.Is(err, outbox.ErrDamaged) {
			page.Items = append(page.Items, damaged(key, err)) // the others are as good as ever
			continue
		}
		if err != nil {
			return Page{}, fail("list", key, err, "")
		}
		if !rec.Desired.Exists() {
			continue // removed since
		}
		if !o.Payloads {
			rec = withoutPayloads(rec)
		}
		page.Items = append(page.Items, e.view(key, rec))
	}
	return page, nil
}

// damaged stands in a list for a resource whose record can't be read.
func damaged(key record.Key, err error) Resource {
	return Resource{Key: key, Status: record.Status{
		Phase: record.Failed, Reason: record.ReasonDamaged,
		Message: err.Error() + "; forget it, then put it again",
	}}
}

// A page token is the last key of the page before, unreadable so that nobody
// takes it apart.
func pageAfter(k record.Key) string {
	return base64.RawURLEncoding.EncodeToString([]byte(k.Sink + "\x00" + k.Name))
}

func parsePage(s string) (record.Key, error) {
	raw, err := base64.RawURLEncoding.DecodeString(s)
	if err == nil {
		if i := slices.Index(raw, 0); i >= 0 {
			k := record.Key{Sink: string(raw[:i]), Name: string(raw[i+1:])}
			if k.Validate() == nil {
				return k, nil
			}
		}
	}
	return record.Key{}, fmt.Errorf("%w: %q is no page token", ErrInvalid, s)
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
