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

// fitting is a sink at its target's place, with what the options and its manifest say
// of it. A delivery keeps the one that it began with to its end: what a sink does is
// judged by what that very sink says of itself.
type fitting struct {
	*service
	opts  *SinkOptions
	rules *reconcile.Rules
	slots chan struct{} // one is taken by each call under way
}

// service is one sink's time at a target's place. Fittings that differ in their
// options alone share it.
type service struct {
	sink       sink.Sink
	deliveries int           // under way; under Engine.mu
	replaced   bool          // takes no more of them; under Engine.mu
	free       chan struct{} // closed when it is replaced and the last of them has ended
}

func (e *Engine) fit(o *SinkOptions, s *service, epoch string) *fitting {
	return &fitting{service: s, opts: o, rules: o.rules(&e.opts, epoch, s.sink.Manifest()), slots: make(chan struct{}, o.MaxInFlight)}
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
func (s *service) leave() {
	s.deliveries--
	s.freeIfUnused()
}

// replace makes s take no more deliveries; Engine.mu is held.
func (s *service) replace() {
	s.replaced = true
	s.freeIfUnused()
}

func (s *service) freeIfUnused() {
	if s.replaced && s.deliveries == 0 {
		close(s.free)
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
	return e.swap("replace sink", t, nil, s)
}

// swap makes deliveries of t that begin from now on go by options o and to sink s, and
// retires what was there in the background, which Close waits for; retired gets the
// error of that. Nil stands for the options, or the sink, that are there.
func (e *Engine) swap(op string, t *target, o *SinkOptions, s sink.Sink) (retired <-chan error, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	e.mu.Lock()
	defer e.mu.Unlock()
	if err := e.absent(t); err != nil {
		return nil, fail(op, record.Key{Sink: t.name}, err, "")
	}
	was := t.fitting()
	served := was.service
	if s != nil {
		served = &service{sink: s, free: make(chan struct{})}
	}
	if o == nil {
		o = was.opts
	}
	is := e.fit(o, served, was.rules.Epoch)
	if o.MaxInFlight == was.opts.MaxInFlight {
		is.slots = was.slots // calls that are under way count
	}
	if err := is.canTakeIn(&record.Desired{}); err != nil && o != was.opts {
		return nil, fail(op, record.Key{Sink: t.name}, err, "")
	}
	t.fitted.Store(is)
	if is.service != was.service {
		was.replace()
	}
	e.sched.ConfigureSink(t.name, o.limits(is.batchMax()))
	if t.heldLocked() {
		e.sched.SuspendSink(t.name, true)
	}
	done := make(chan error, 1)
	e.running.Go(func() { done <- e.retire(op, t, was, is) })
	return done, nil
}

// absent says why t can't be changed: it was removed, or the engine is closed. e.mu is
// held.
func (e *Engine) absent(t *target) error {
	switch {
	case e.closed:
		return ErrClosed
	case e.targets.of(t.name) != t:
		return removed(t)
	}
	return nil
}

func removed(t *target) error { return fmt.Errorf("%w %q: it was removed", ErrUnknownSink, t.name) }

// retire plans the resources of t by what is there now, lets them go on, and closes the
// old sink, if it was replaced, when its last delivery has ended.
func (e *Engine) retire(op string, t *target, was, is *fitting) error {
	err := e.adopt(t, was)
	t.mu.Lock()
	e.mu.Lock()
	if e.targets.of(t.name) == t {
		e.sched.SuspendSink(t.name, t.heldLocked())
	}
	e.mu.Unlock()
	t.mu.Unlock()
	e.wakeDispatcher()
	if is.service != was.service || is.retimes(was) {
		t.compareSoon()
		t.pollSoon()
	}
	if is.service != was.service {
		err = errors.Join(err, e.dismiss(was))
	}
	if err != nil {
		return fail(op, record.Key{Sink: t.name}, err, "")
	}
	return nil
}

// dismiss closes a sink that takes no more deliveries when its last one has ended.
func (e *Engine) dismiss(f *fitting) error {
	<-f.free
	if err := f.sink.Close(context.WithoutCancel(e.calls)); err != nil {
		return fmt.Errorf("close the old sink: %w", err)
	}
	return nil
}

// retimes reports whether resources to which nothing is owed are due at other times
// than they were.
func (f *fitting) retimes(was *fitting) bool {
	a, b := f.opts, was.opts
	return a.DriftInterval != b.DriftInterval || a.PollInterval != b.PollInterval || a.ReportInterval != b.ReportInterval
}

// redirects reports whether it is to be decided anew who is right about resources to
// which nothing is owed.
func (f *fitting) redirects(was *fitting) bool {
	return f.opts.Direction != was.opts.Direction || f.opts.Conflict != was.opts.Conflict
}

// adopt plans those resources of t anew whose plan depends on what a manifest or the
// options say: what is acknowledged, by whom, whether it can be looked at, and when.
// Resources that are planned meanwhile have their plan by the new ones already; a plan
// of the past makes for a look too many at most.
func (e *Engine) adopt(t *target, was *fitting) error {
	is := t.fitting()
	m, old := &is.rules.Manifest, &was.rules.Manifest
	known := old.NotReady == "" && m.NotReady == ""
	retimed, redirected := is.retimes(was), is.redirects(was)
	same := old.Target == m.Target && old.Observes == m.Observes && old.Compares == m.Compares && !retimed && !redirected
	if m.NotReady != "" || known && same {
		return nil
	}
	now, looks := time.Now(), 0
	err := e.store.Heads(e.calls, outbox.Span{Sink: t.name}, func(h outbox.Head) bool {
		e.mu.Lock()
		defer e.mu.Unlock()
		entry, ok := e.sched.Lookup(h.Key)
		p := e.due(h, now)
		if !ok || entry.Removed || entry.Phase != p.Phase {
			return e.open() == nil
		}
		checks := entry.Class == schedule.Check
		switch moved := p.Phase == record.AckedPhase || p.Phase == record.Orphaned; {
		case moved && p.Class == schedule.Retry: // it is another target's, or its target is back (R13)
			entry.At, entry.Class = p.At, p.Class
		case old.NotReady != "" && checks && is.looksAtStart(p), // no look could be made yet (R34)
			redirected && checks && is.looks(p):
			entry.At = now.Add(is.pace(looks))
			looks++
		case retimed && checks && p.Class == schedule.Check,
			p.Phase == record.AckedPhase && entry.At.IsZero():
			entry.At = p.At
		}
		e.sched.Set(h.Key, entry.Plan)
		return e.open() == nil
	})
	if err != nil && e.open() == nil {
		return fmt.Errorf("plan the resources by what the sink says now: %w", err)
	}
	return nil
}

// pace is when, after a start, the n-th look at a resource is made (R34).
func (f *fitting) pace(n int) time.Duration {
	return time.Duration(float64(n) / f.opts.StartupRate * float64(time.Second))
}
