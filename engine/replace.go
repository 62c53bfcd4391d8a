package engine

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/pawlsync/pawl/engine/outbox"
	"github.com/pawlsync/pawl/engine/reconcile"
	"github.com/pawlsync/pawl/engine/record"
	"github.com/pawlsync/pawl/engine/schedule"
	"github.com/pawlsync/pawl/engine/sink"
)

// fitting is a sink at its target's place, with the rules that its manifest makes.
// A delivery keeps the one that it began with to its end: what a sink does is
// judged by what that very sink says of itself.
type fitting struct {
	sink  sink.Sink
	rules *reconcile.Rules

	deliveries int           // under way; under Engine.mu
	replaced   bool          // takes no more of them; under Engine.mu
	free       chan struct{} // closed when it is replaced and the last of them has ended
}

func (e *Engine) fit(t *target, s sink.Sink, epoch string) *fitting {
	return &fitting{sink: s, rules: t.opts.rules(&e.opts, epoch, s.Manifest()), free: make(chan struct{})}
}

// fitting is the one that takes new deliveries.
func (t *target) fitting() *fitting { return t.fitted.Load() }

// batchMax is how many resources one call may take: one, too, where each has to be
// looked at by itself, before or after (R35).
func (f *fitting) batchMax() int {
	m := &f.rules.Manifest
	if _, ok := f.sink.(sink.Batcher); !ok || !m.ApplyConfirms || !m.ApplyIdempotent || f.rules.Conflict != record.SourceWins {
		return 1
	}
	return m.BatchMax
}

// leave takes a delivery off; Engine.mu is held.
func (f *fitting) leave() {
	f.deliveries--
	f.freeIfUnused()
}

func (f *fitting) freeIfUnused() {
	if f.replaced && f.deliveries == 0 {
		close(f.free)
	}
}

// ReplaceSink puts s in the place of the sink called name while the engine runs,
// and no call is lost or held up: deliveries that have begun end with the old
// sink, those that begin from now on go to s, by what its Manifest says. The engine
// is in charge of s from now on. retired gets one value, when the old sink has no
// delivery left and is closed: nil, or what went wrong with that.
//
// A sink whose Manifest says NotReady gets no delivery until it is replaced by one
// that is ready; what is put for it meanwhile is stored and waits.
//
// # Errors
//
// An *Error that wraps ErrUnknownSink or ErrClosed: nothing has changed, and s is
// still the caller's.
func (e *Engine) ReplaceSink(name string, s sink.Sink) (retired <-chan error, err error) {
	t, err := e.target("replace sink", record.Key{Sink: name})
	if err != nil {
		return nil, err
	}
	done := make(chan error, 1)
	if !e.swap(t, e.fit(t, s, t.fitting().rules.Epoch), done) {
		return nil, fail("replace sink", record.Key{Sink: name}, ErrClosed, "")
	}
	return done, nil
}

// swap makes f take the deliveries of t that begin from now on, and retires what was
// there in the background, which Close waits for; done gets the error of that. It
// reports false where the engine is closed.
func (e *Engine) swap(t *target, f *fitting, done chan<- error) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return false
	}
	old := t.fitted.Swap(f)
	old.replaced = true
	old.freeIfUnused()
	e.sched.ConfigureSink(t.opts.Name, t.opts.limits(f.batchMax()))
	if t.heldLocked() {
		e.sched.SuspendSink(t.opts.Name, true)
	}
	e.running.Go(func() { done <- e.retire(t, old) })
	return true
}

// retire plans the resources of t by its new sink's rules, lets them go on, and
// closes the old sink when its last delivery has ended.
func (e *Engine) retire(t *target, old *fitting) error {
	err := e.adopt(t, &old.rules.Manifest)
	t.mu.Lock()
	e.mu.Lock()
	e.sched.SuspendSink(t.opts.Name, t.heldLocked())
	e.mu.Unlock()
	t.mu.Unlock()
	e.wakeDispatcher()
	<-old.free
	if cerr := old.sink.Close(context.WithoutCancel(e.calls)); cerr != nil {
		err = errors.Join(err, fmt.Errorf("close the old sink: %w", cerr))
	}
	if err != nil {
		return fail("replace sink", record.Key{Sink: t.opts.Name}, err, "")
	}
	return nil
}

// adopt plans those resources of t anew whose plan depends on what a manifest says:
// what is acknowledged, by whom, and whether it can be looked at. was is the old
// sink's manifest. Resources that are planned meanwhile have their plan by the new
// one already; a plan of the past makes for a look too many at most.
func (e *Engine) adopt(t *target, was *sink.Manifest) error {
	is := &t.fitting().rules.Manifest
	known := was.NotReady == "" && is.NotReady == ""
	if is.NotReady != "" || known && was.Target == is.Target && was.Observes == is.Observes {
		return nil
	}
	now, looks := time.Now(), 0
	err := e.store.Heads(e.calls, outbox.Span{Sink: t.opts.Name}, func(h outbox.Head) bool {
		e.mu.Lock()
		defer e.mu.Unlock()
		entry, ok := e.sched.Lookup(h.Key)
		p := e.due(h, now)
		if !ok || entry.Removed || entry.Phase != p.Phase {
			return e.open() == nil
		}
		switch moved := p.Phase == record.AckedPhase || p.Phase == record.Orphaned; {
		case moved && p.Class == schedule.Retry: // it is another target's, or its target is back (R13)
			entry.At, entry.Class = p.At, p.Class
		case was.NotReady != "" && entry.Class == schedule.Check && t.looksAtStart(p): // no look could be made yet (R34)
			entry.At = now.Add(t.pace(looks))
			looks++
		case p.Phase == record.AckedPhase && entry.At.IsZero():
			entry.At = p.At
		}
		e.sched.Set(h.Key, entry.Plan)
		return e.open() == nil
	})
	if err != nil && e.open() == nil {
		return fmt.Errorf("plan the resources by what the new sink says: %w", err)
	}
	return nil
}

// pace is when, after a start, the n-th look at a resource is made (R34).
func (t *target) pace(n int) time.Duration {
	return time.Duration(float64(n) / t.opts.StartupRate * float64(time.Second))
}
