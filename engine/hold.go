package engine

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/pawlsync/pawl/engine/outbox"
	"github.com/pawlsync/pawl/engine/reconcile"
	"github.com/pawlsync/pawl/engine/record"
	"github.com/pawlsync/pawl/engine/sink"
)

// What engine/saga needs of the engine: to keep deliveries off resources that it
// writes itself, to call their sinks, to hand an outcome over, and a journal.

// What goes wrong with holds, for errors.Is.
var (
	ErrHeld      = errors.New("held by a saga")
	ErrBusy      = errors.New("the resource has work that waits")
	ErrSuspended = errors.New("the sink takes no calls now")
)

// Hold keeps deliveries off Keys.
type Hold struct {
	Holder     string
	Keys       []record.Key
	RefusePuts bool // of Keys; else they are stored, and delivered after the release
	// Resumed: it was held by an earlier process already, so that nothing is refused.
	Resumed bool
}

// holds are the resources that no delivery may touch.
type holds struct {
	n     atomic.Int64         // len(byKey), for those who don't hold Engine.mu
	byKey map[record.Key]*Hold // under Engine.mu
}

// Held is a resource as a hold found it.
type Held struct {
	Generation uint64        // 0: it is not known
	Acked      *record.Acked // nil: never acknowledged; read only
	Damaged    error         // its record can't be read; of a resumed hold only
}

// Hold takes resources for itself and says how each of them is. It waits for deliveries that are under way.
//
// # Errors
//
// ErrHeld, ErrBusy for a resource that is not as its source wants it,
// ErrUnknownSink, ErrSuspended, ErrClosed and the error of ctx; nothing is held then.
func (e *Engine) Hold(ctx context.Context, h Hold) (found []Held, err error) {
	if err := e.open(); err != nil {
		return nil, fail("hold", record.Key{}, err, "")
	}
	if !h.Resumed { // else its calls will say so, again and again
		if err := e.holdable(h.Keys); err != nil {
			return nil, err
		}
	}
	calls, err := e.take(&h)
	if err != nil {
		return nil, err
	}
	for _, over := range calls {
		select {
		case <-over:
		case <-ctx.Done():
			e.LetGo(h.Keys)
			return nil, fail("hold", record.Key{}, ctx.Err(), "")
		}
	}
	for _, key := range h.Keys {
		var rec outbox.Record
		// What was put before the hold took effect counts, though it waits for its commit.
		err := e.store.Update(key, func(cur outbox.Record) (outbox.Change, error) {
			rec = cur
			if h.Resumed {
				return outbox.Change{}, nil
			}
			return outbox.Change{}, idle(&cur)
		}).Wait(ctx)
		damaged := h.Resumed && errors.Is(err, outbox.ErrDamaged)
		if err != nil && !damaged {
			e.LetGo(h.Keys)
			return nil, fail("hold", key, err, holdHint)
		}
		found = append(found, Held{Generation: rec.Desired.Generation, Acked: rec.Status.Acked, Damaged: err})
	}
	return found, nil
}

const holdHint = "wait until it is acknowledged, or retry, resume or delete it"

// holdable says why no saga may begin over keys. It leaves the schedule as it is: take
// would put off, and LetGo make due, what waits after a failure.
func (e *Engine) holdable(keys []record.Key) error {
	for _, key := range keys {
		if err := e.takesCalls(key); err != nil {
			return err
		}
	}
	for _, key := range keys {
		if rec, err := e.store.Get(key); err == nil && e.flights.of(key) == nil {
			if err := idle(&rec); err != nil {
				return fail("hold", key, err, holdHint)
			}
		}
	}
	return nil
}

// takesCalls says why key's sink takes none now.
func (e *Engine) takesCalls(key record.Key) error {
	t, err := e.target("hold", key)
	if err != nil {
		return err
	}
	if reason := t.suspended(); reason != record.ReasonNone {
		return fail("hold", key, fmt.Errorf("%w: it is suspended (%s)", ErrSuspended, reason), "resume the sink")
	}
	if why := t.fitting().rules.Manifest.NotReady; why != "" {
		return fail("hold", key, fmt.Errorf("%w: it is not ready: %s", ErrSuspended, why), "")
	}
	return nil
}

// take puts h into force, and returns what is closed when the deliveries and looks
// end that are still under way.
func (e *Engine) take(h *Hold) (calls []<-chan struct{}, err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, key := range h.Keys {
		if other := e.holds.byKey[key]; other != nil {
			return nil, fail("hold", key, fmt.Errorf("%w %q", ErrHeld, other.Holder), "try again when that one has ended")
		}
	}
	for _, key := range h.Keys {
		e.holds.byKey[key] = h
		if entry, ok := e.sched.Lookup(key); ok && !entry.Removed {
			entry.At = time.Time{}
			e.sched.Set(key, entry.Plan)
		}
		if f := e.flights.of(key); f != nil {
			calls = append(calls, f.landed)
		}
		if over := e.looks.over(key, nil); over != nil {
			calls = append(calls, over)
		}
	}
	e.holds.n.Store(int64(len(e.holds.byKey)))
	return calls, nil
}

// idle says why a resource can't be taken: something is owed to its target.
func idle(rec *outbox.Record) error {
	if !rec.Desired.Exists() {
		return nil
	}
	if rec.Desired.Suspend || rec.Status.Suspended {
		return fmt.Errorf("%w: the resource is suspended", ErrSuspended)
	}
	st := reconcile.Effective(rec.Desired.Generation, rec.Status)
	switch st.Phase {
	case record.AckedPhase, record.Drifted:
		return nil
	}
	return fmt.Errorf("%w: it is %s", ErrBusy, st.Phase)
}

// LetGo ends the hold on keys: what waits for them is delivered, and their targets
// are looked at.
func (e *Engine) LetGo(keys []record.Key) {
	now := time.Now()
	e.mu.Lock()
	for _, key := range keys {
		delete(e.holds.byKey, key)
		if entry, ok := e.sched.Lookup(key); ok && !entry.Removed {
			entry.At = now
			e.sched.Set(key, entry.Plan)
		}
	}
	e.holds.n.Store(int64(len(e.holds.byKey)))
	e.mu.Unlock()
	e.wakeDispatcher()
}

// held returns what keeps deliveries off key, or nil.
func (e *Engine) held(key record.Key) *Hold {
	if e.holds.n.Load() == 0 {
		return nil
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.holds.byKey[key]
}

// HeldBy returns who keeps deliveries off key, "" for nobody.
func (e *Engine) HeldBy(key record.Key) string {
	if h := e.held(key); h != nil {
		return h.Holder
	}
	return ""
}

// refused says why a Put or Delete of key is not taken now. It is called with the key's
// order in the store fixed: what comes before the hold's own look is waiting work.
func (e *Engine) refused(op string, key record.Key) error {
	if h := e.held(key); h != nil && h.RefusePuts {
		return fail(op, key, fmt.Errorf("%w %q", ErrHeld, h.Holder), "try again when it has ended")
	}
	return nil
}

// Ability returns what a configured sink can do and how long one call of it may take.
func (e *Engine) Ability(name string) (m sink.Manifest, timeout time.Duration, ok bool) {
	t := e.targets.of(name)
	if t == nil {
		return sink.Manifest{}, 0, false
	}
	return t.fitting().rules.Manifest, t.fitting().opts.Timeout, true
}

// Call makes one call about key to its sink, within the sink's limits, and ends it
// by deadline, unless that is zero. what names it in metrics.
func (e *Engine) Call(key record.Key, what string, deadline time.Time, do func(context.Context, sink.Sink) sink.Result) sink.Result {
	t := e.targets.of(key.Sink)
	if t == nil {
		return sink.Result{Status: sink.Unreachable, NotSent: true, Message: fmt.Sprintf("no sink %q is configured", key.Sink)}
	}
	defer t.fitting().enter(e.calls)()
	f := e.occupy(t) // not before: a sink that is replaced is not to wait for calls in the queue
	if f == nil {
		return sink.Result{Status: sink.Unreachable, NotSent: true, Message: "the sink takes no more calls: it is removed, or the engine closes"}
	}
	defer e.vacate(f)
	if why := f.rules.Manifest.NotReady; why != "" {
		return sink.Result{Status: sink.Unreachable, NotSent: true, Message: why}
	}
	if t.suspended() == record.ReasonRestored { // what a saga of the copy wants may be long past (R67)
		return sink.Result{Status: sink.Unreachable, NotSent: true, Message: "the store was restored, and nobody has let the sink go on; resume it"}
	}
	ctx, cancel := e.bounded(f)
	defer cancel()
	if !deadline.IsZero() {
		if !time.Now().Before(deadline) {
			return sink.Result{Status: sink.Unreachable, NotSent: true, Message: "its time was up before it could be made"}
		}
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, deadline)
		defer cancel()
	}
	return e.made(t, key, what, func() sink.Result { return do(ctx, f.sink) })
}

// occupy begins a call that is no delivery: neither the sink nor the engine is closed
// before vacate. Nil: the engine closes, or t was removed.
func (e *Engine) occupy(t *target) *fitting {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed || e.targets.of(t.name) != t {
		return nil
	}
	f := t.fitting()
	f.deliveries++
	e.running.Add(1)
	return f
}

func (e *Engine) vacate(f *fitting) {
	e.mu.Lock()
	f.leave()
	e.mu.Unlock()
	e.running.Done()
}

// Adoption is what a saga leaves of one resource.
type Adoption struct {
	Key record.Key
	// Generation is the one that Hold returned: where it is another now, somebody
	// wants something else since, and that stands.
	Generation uint64
	Payload    []byte
	Forget     bool // the resource is not kept, or was deleted
}

// Adopt makes the outcome of a saga what is desired: from the release on they are
// ordinary resources. It returns when that is durable, and may be repeated.
func (e *Engine) Adopt(ctx context.Context, outcomes []Adoption) error {
	now := time.Now()
	tickets := make([]outbox.Ticket, len(outcomes))
	for i, o := range outcomes {
		tickets[i] = e.store.Update(o.Key, func(cur outbox.Record) (outbox.Change, error) {
			if cur.Desired.Generation != o.Generation {
				return outbox.Change{}, nil
			}
			return e.adopted(o, cur, now)
		})
	}
	for i, t := range tickets {
		err := t.Wait(ctx)
		if errors.Is(err, outbox.ErrDamaged) { // it stays as it is, until somebody forgets it
			e.log.Error("the outcome of a saga can't be kept: the resource's record is damaged", "sink", outcomes[i].Key.Sink, "key", outcomes[i].Key.Name, "error", err)
			continue
		}
		if err != nil {
			return fail("adopt", outcomes[i].Key, err, hintFor(err))
		}
	}
	return nil
}

func (e *Engine) adopted(o Adoption, cur outbox.Record, now time.Time) (outbox.Change, error) {
	facts := reconcile.Facts{Now: now}
	if o.Forget {
		if !cur.Desired.Exists() {
			return outbox.Change{}, nil
		}
		change, _, err := reconcile.AcceptDelete(e.rulesOf(o.Key), cur, reconcile.DeleteRequest{Deletion: record.Retain, TakeOver: true}, facts)
		return change, err
	}
	req := reconcile.PutRequest{Desired: record.Desired{Payload: o.Payload, Hash: record.HashOf(o.Payload)}}
	if was := &cur.Desired; was.Exists() && !was.Tombstone { // a saga says nothing about whose it is, or how it is kept
		req.Desired.Owner, req.Desired.Conflict, req.Desired.Deletion, req.Desired.Suspend = was.Owner, was.Conflict, was.Deletion, was.Suspend
		req.Desired.Direction, req.Desired.Retry = was.Direction, was.Retry
		if was.Origin != record.FromTarget && reconcile.SameContent(was, &req.Desired) { // the key was given for no other content
			req.Desired.IdempotencyKey = was.IdempotencyKey
		}
	}
	change, _, err := reconcile.AcceptPut(e.rulesOf(o.Key), cur, req, facts)
	return change, err
}

// journalSink is no sink's name, as no name has capitals: its records are the
// journal of sagas, and no resources.
const journalSink = "SAGA"

// Journal keeps the records of sagas in the engine's store, by the saga's id.
type Journal struct{ store outbox.Store }

// Journal returns the one of this engine's store.
func (e *Engine) Journal() Journal { return Journal{e.store} }

// Update is that of outbox.Store.
func (j Journal) Update(id string, decide outbox.Decide) outbox.Ticket {
	return j.store.Update(record.Key{Sink: journalSink, Name: id}, decide)
}

// Has reports whether there is a record, changes that wait for their commit included.
func (j Journal) Has(id string) (there bool, err error) {
	err = j.Update(id, func(cur outbox.Record) (outbox.Change, error) {
		there = cur.Desired.Generation != 0
		return outbox.Change{}, nil
	}).Err
	return there, err
}

// Discard is that of outbox.Discarder.
func (j Journal) Discard(id string) outbox.Ticket {
	d, ok := j.store.(outbox.Discarder)
	if !ok {
		return outbox.NewTicket(0, nil, errors.New("the store can't remove what it can't read"))
	}
	return d.Discard(record.Key{Sink: journalSink, Name: id})
}

// Get is that of outbox.Store.
func (j Journal) Get(id string) (outbox.Record, error) {
	return j.store.Get(record.Key{Sink: journalSink, Name: id})
}

// Heads calls fn with every record's head, by id, from the one after the id after.
func (j Journal) Heads(ctx context.Context, after string, fn func(outbox.Head) bool) error {
	span := outbox.Span{Sink: journalSink}
	if after != "" {
		span.After = &record.Key{Sink: journalSink, Name: after}
	}
	return j.store.Heads(ctx, span, fn)
}
