package engine

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/pawlsync/pawl/engine/outbox"
	"github.com/pawlsync/pawl/engine/record"
	"github.com/pawlsync/pawl/engine/schedule"
)

// Check says what Open, AddSink and ChangeSink would refuse about o, or nil: so that
// many changes can be checked before the first is made.
func (o SinkOptions) Check() error {
	o.setDefaults()
	if err := o.validate(); err != nil {
		return err
	}
	service := &service{sink: o.Sink}
	if err := (&fitting{service: service, opts: &o, rules: o.rules(&Options{}, "", o.Sink.Manifest())}).canTakeIn(&record.Desired{}); err != nil {
		return fmt.Errorf("engine: sink %q: %w", o.Name, err)
	}
	return nil
}

// AddSink adds a target while the engine runs. What is stored for a sink of that name
// goes on, and is looked at as after a start (R12, R34). The engine is in charge of
// o.Sink from now on. It returns when all of it is planned.
//
// # Errors
//
// ErrInvalid for options that Open would refuse, or a name that is taken; ErrClosed;
// the store's. Nothing has changed then, and o.Sink is still the caller's.
func (e *Engine) AddSink(ctx context.Context, o SinkOptions) error {
	key := record.Key{Sink: o.Name}
	o.setDefaults()
	if err := o.validate(); err != nil {
		return fail("add sink", key, fmt.Errorf("%w: %w", ErrInvalid, err), "")
	}
	e.configuring.Lock()
	defer e.configuring.Unlock()
	if e.targets.of(o.Name) != nil {
		return fail("add sink", key, fmt.Errorf("%w: there is a sink of that name", ErrInvalid), "change it, or remove it first")
	}
	info := e.store.Info()
	t, err := e.newTarget(&o, info)
	if err != nil {
		return fail("add sink", key, err, "")
	}
	if info.Lossy && t.hold.Epoch != info.Epoch && t.hold.Suspended == record.ReasonNone && e.owes(o.Name) {
		t.hold.Suspended = record.ReasonRestored // in force before the first delivery, durable below
	}
	if !e.introduce(t) {
		return fail("add sink", key, ErrClosed, "")
	}
	defer e.running.Done()
	if t.suspended() == record.ReasonRestored {
		if err := e.setHold(t, record.ReasonRestored); err != nil {
			e.log.Error("that a sink of a restored store is held could not be stored; the next start holds it again", "sink", o.Name, "error", err)
		}
	}
	if err := e.enlist(ctx, t); err != nil {
		e.log.Error("the resources of a sink could not all be planned; those go on when they are put again, and all after a restart", "sink", o.Name, "error", err)
	}
	e.wakeDispatcher()
	return nil
}

// owes reports whether anything is stored for a sink.
func (e *Engine) owes(name string) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, s := range e.sched.Sinks() {
		if s.Name == name {
			return s.Entries > 0
		}
	}
	return false
}

// introduce makes t a sink like the others, and Close wait for running.Done. It reports
// false where the engine is closed.
func (e *Engine) introduce(t *target) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return false
	}
	e.targets.add(t)
	e.configure(t)
	e.keep(t)
	e.running.Add(1)
	return true
}

// enlist plans what is stored for a sink that has come. What was committed since is
// planned already, and no more Orphaned; of that a head may be the one before.
func (e *Engine) enlist(ctx context.Context, t *target) error {
	now, looks, f := time.Now(), 0, t.fitting()
	return e.store.Heads(context.WithoutCancel(ctx), outbox.Span{Sink: t.name}, func(h outbox.Head) bool {
		e.mu.Lock()
		defer e.mu.Unlock()
		entry, ok := e.sched.Lookup(h.Key)
		if !ok || entry.Removed || entry.Phase != leftAs(h) {
			return e.open() == nil
		}
		p := e.due(h, now)
		if f.looksAtStart(p) {
			p.Class, p.At = schedule.Check, now.Add(f.pace(looks))
			looks++
		}
		if p.Since.IsZero() && waits(p.Phase) {
			p.Since = cmp.Or(entry.Since, now)
		}
		e.sched.Set(h.Key, p)
		e.intake.set(h.Key, h.Status.Direction.TakesIn() && !h.Gone)
		return e.open() == nil
	})
}

// leftAs is the phase of a resource, by its head, whose sink is not there.
func leftAs(h outbox.Head) record.Phase {
	if h.Gone {
		return ""
	}
	return record.Orphaned
}

// RemoveSink takes a target out while the engine runs. Deliveries that have begun come
// to their end; what else is stored for it stays, as Orphaned (R12), and goes on when a
// sink of that name is added. retired gets one value, when the sink has no delivery left
// and is closed: nil, or what went wrong with that. Its suspension by an operator is
// kept.
//
// # Errors
//
// ErrUnknownSink, ErrClosed: nothing has changed.
func (e *Engine) RemoveSink(name string) (retired <-chan error, err error) {
	e.configuring.Lock()
	defer e.configuring.Unlock()
	key := record.Key{Sink: name}
	t, err := e.target("remove sink", key)
	if err != nil {
		return nil, err
	}
	done := make(chan error, 1)
	if err := e.strike(t, done); err != nil {
		return nil, fail("remove sink", key, err, "")
	}
	defer e.running.Done()
	if err := e.orphan(t); err != nil {
		e.log.Error("the resources of a sink that was removed could not all be counted as orphaned; a restart does", "sink", name, "error", err)
	}
	return done, nil
}

// strike makes t no sink any more, and Close wait for running.Done.
func (e *Engine) strike(t *target, done chan<- error) error {
	t.mu.Lock() // who replaces its sink is done, or finds it gone
	defer t.mu.Unlock()
	e.mu.Lock()
	defer e.mu.Unlock()
	if err := e.absent(t); err != nil {
		return err
	}
	e.targets.remove(t.name)
	close(t.gone)
	e.sched.RemoveSink(t.name)
	f := t.fitting()
	f.replace()
	e.running.Add(1)
	e.running.Go(func() {
		if err := e.dismiss(f); err != nil {
			done <- fail("remove sink", record.Key{Sink: t.name}, err, "")
			return
		}
		done <- nil
	})
	return nil
}

// orphan plans what is stored for a sink that has gone: nothing of it is due. What was
// committed since is planned so already, and its head may be the one before.
func (e *Engine) orphan(t *target) error {
	now := time.Now()
	return e.store.Heads(e.calls, outbox.Span{Sink: t.name}, func(h outbox.Head) bool {
		e.mu.Lock()
		defer e.mu.Unlock()
		if entry, ok := e.sched.Lookup(h.Key); ok && !entry.Removed && h.Gone == (entry.Phase == "") {
			p := e.due(h, now)
			p.Since = entry.Since
			e.sched.Set(h.Key, p)
		}
		return e.open() == nil
	})
}

// ChangeSink puts other options in force for the sink o.Name, and, unless o.Sink is nil,
// another sink in its place, as ReplaceSink does. Deliveries that have begun end by the
// options that they began with. Pauses after failures stay as they are until the next
// failure; checks are planned anew where their intervals changed, and where direction or
// conflict policy did, everything is looked at, paced by StartupRate.
//
// # Errors
//
// ErrUnknownSink, ErrClosed, ErrInvalid for options that Open would refuse: nothing has
// changed, and o.Sink is still the caller's.
func (e *Engine) ChangeSink(o SinkOptions) (retired <-chan error, err error) {
	key := record.Key{Sink: o.Name}
	t, err := e.target("change sink", key)
	if err != nil {
		return nil, err
	}
	next := o.Sink
	if o.Sink == nil {
		o.Sink = t.fitting().sink // for validate; swap takes the one that is there then
	}
	o.setDefaults()
	if err := o.validate(); err != nil {
		return nil, fail("change sink", key, fmt.Errorf("%w: %w", ErrInvalid, err), "")
	}
	return e.swap("change sink", t, &o, next)
}

// SetMaxInFlight bounds the calls in flight over all sinks from now on; 0: no bound.
// Calls that are in flight go on.
func (e *Engine) SetMaxInFlight(n int) {
	e.mu.Lock()
	e.sched.SetMaxInFlight(n)
	e.mu.Unlock()
	e.wakeDispatcher()
}
