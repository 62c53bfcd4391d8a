package engine

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pawlsync/pawl/engine/outbox"
	"github.com/pawlsync/pawl/engine/reconcile"
	"github.com/pawlsync/pawl/engine/record"
	"github.com/pawlsync/pawl/engine/schedule"
	"github.com/pawlsync/pawl/engine/sink"
)

// target is one configured sink at work.
type target struct {
	name    string
	fitted  atomic.Pointer[fitting]
	compare chan struct{} // makes keepComparing look whether it has to
	repoll  chan struct{} // the same for keepPolling
	gone    chan struct{} // closed when it is removed; under Engine.mu

	mu        sync.Mutex
	hold      sinkHold // the operator's, durable
	lastError string
	lastState sink.Status
	lastAt    time.Time
}

// sinkHold is the durable part of a sink's state: the document "sink/NAME".
type sinkHold struct {
	Suspended record.Reason `json:"suspended,omitempty"` // why; empty: it is not
	// Epoch is the store's life that this was written in. Of an earlier one than a
	// restored store's, an operator has yet to confirm the sink (R67).
	Epoch string `json:"epoch,omitempty"`
}

func (e *Engine) addTarget(o *SinkOptions, info outbox.Info) error {
	t, err := e.newTarget(o, info)
	if err != nil {
		return err
	}
	e.targets.add(t)
	e.configure(t)
	return e.holdRestored(t, info)
}

// newTarget makes the target of a sink, with the suspension that is stored.
func (e *Engine) newTarget(o *SinkOptions, info outbox.Info) (*target, error) {
	t := &target{name: o.Name, compare: make(chan struct{}, 1), repoll: make(chan struct{}, 1), gone: make(chan struct{})}
	t.fitted.Store(e.fit(o, &service{sink: o.Sink, free: make(chan struct{})}, info.Epoch))
	raw, err := e.store.Meta(holdName(o.Name))
	if err != nil {
		return nil, fmt.Errorf("read whether sink %q is suspended: %w", o.Name, err)
	}
	if raw != nil {
		if err := json.Unmarshal(raw, &t.hold); err != nil {
			return nil, fmt.Errorf("read whether sink %q is suspended: %w", o.Name, err)
		}
	}
	if err := t.fitting().canTakeIn(&record.Desired{}); err != nil {
		return nil, fmt.Errorf("sink %q: %w", o.Name, err)
	}
	return t, nil
}

// configure tells the schedule of t. At Open, or with e.mu held; t.mu is held, or
// nobody else knows t.
func (e *Engine) configure(t *target) {
	f := t.fitting()
	e.sched.ConfigureSink(t.name, f.opts.limits(f.batchMax()))
	e.sched.SuspendSink(t.name, t.heldLocked())
}

// holdRestored suspends a sink that no operator has let go on since its store was
// restored, or lost data (R67). An operator's own hold is one already.
func (e *Engine) holdRestored(t *target, info outbox.Info) error {
	if info.Lossy && t.hold.Epoch != info.Epoch && t.hold.Suspended == record.ReasonNone {
		return e.setHold(t, record.ReasonRestored)
	}
	return nil
}

// targets are the configured sinks, by name. Reading them takes no lock: they change
// seldom, and each change makes another map. Engine.mu is held for that, so that who
// holds it sees one state.
type targets struct {
	byName atomic.Pointer[map[string]*target]
}

func newTargets() *targets {
	ts := &targets{}
	ts.byName.Store(&map[string]*target{})
	return ts
}

func (ts *targets) all() map[string]*target { return *ts.byName.Load() }

// of returns the target of that name, or nil.
func (ts *targets) of(name string) *target { return ts.all()[name] }

func (ts *targets) add(t *target) {
	next := maps.Clone(ts.all())
	next[t.name] = t
	ts.byName.Store(&next)
}

func (ts *targets) remove(name string) {
	next := maps.Clone(ts.all())
	delete(next, name)
	ts.byName.Store(&next)
}

func holdName(sinkName string) string { return "sink/" + sinkName }

// suspended says why no call is made, or "".
func (t *target) suspended() record.Reason {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.suspendedLocked()
}

func (t *target) suspendedLocked() record.Reason {
	if t.hold.Suspended == "" && t.fitting().opts.Suspended {
		return record.ReasonSink
	}
	return t.hold.Suspended
}

// heldLocked reports whether no call is to be made: the sink is suspended, or not
// ready. t.mu is held.
func (t *target) heldLocked() bool {
	return t.suspendedLocked() != record.ReasonNone || t.fitting().rules.Manifest.NotReady != ""
}

// looksAtStart reports whether a resource with plan p is looked at after a start (R34).
func (f *fitting) looksAtStart(p schedule.Plan) bool {
	return !f.opts.SkipStartupCheck && f.looks(p)
}

// looks reports whether a look at a resource with plan p can tell anything new.
func (f *fitting) looks(p schedule.Plan) bool {
	if !f.rules.Manifest.Observes {
		return false
	}
	switch p.Phase {
	case record.AckedPhase:
		return p.Class == schedule.Check && f.rules.Looks()
	case record.Drifted:
		return p.Class == schedule.Check
	case record.Failed, record.Obsolete:
		return p.At.IsZero() && p.Class == schedule.Check
	}
	return false
}

// enter waits until a call may begin; the call's end is told by leave. The schedule
// counts a batch as one call, but what follows it is a call for each of its items. When
// calls ends there is nothing to wait for: the call will be cut off at once.
func (f *fitting) enter(calls context.Context) (leave func()) {
	select {
	case f.slots <- struct{}{}:
		return func() { <-f.slots }
	case <-calls.Done():
		return func() {}
	}
}

// note remembers the newest failure for people to read.
func (t *target) note(res sink.Result, now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch res.Status {
	case sink.OK, sink.NotFound:
		t.lastError, t.lastState, t.lastAt = "", 0, time.Time{}
	case 0:
	default:
		t.lastError, t.lastState, t.lastAt = res.Message, res.Status, now
	}
}

// setHold makes a sink's suspension durable and puts it into force.
func (e *Engine) setHold(t *target, reason record.Reason) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return e.setHoldLocked(t, reason)
}

// setHoldLocked is setHold; t.mu is held. Of a sink that was removed meanwhile it changes
// nothing: one of its name may be there already, with what was stored before.
func (e *Engine) setHoldLocked(t *target, reason record.Reason) error {
	if e.targets.of(t.name) != t {
		return removed(t)
	}
	h := sinkHold{Suspended: reason, Epoch: e.store.Info().Epoch}
	raw, err := json.Marshal(h)
	if err != nil {
		return err
	}
	if err := e.store.SetMeta(holdName(t.name), raw); err != nil {
		return err
	}
	t.hold = h
	e.mu.Lock()
	e.sched.SuspendSink(t.name, t.heldLocked())
	e.mu.Unlock()
	t.compareSoon()
	return nil
}

// releaseEmpty lets those sinks of a restored store go on that have no resource in
// it, nor an open saga's: there is nothing old to protect their targets from.
func (e *Engine) releaseEmpty(info outbox.Info) error {
	if !info.Lossy {
		return nil
	}
	filled := map[string]bool{}
	e.mu.Lock()
	for _, s := range e.sched.Sinks() {
		filled[s.Name] = s.Entries > 0
	}
	for key := range e.holds.byKey {
		filled[key.Sink] = true
	}
	e.mu.Unlock()
	for name, t := range e.targets.all() {
		if t.hold.Suspended == record.ReasonRestored && !filled[name] {
			if err := e.setHold(t, record.ReasonNone); err != nil {
				return err
			}
		}
	}
	return nil
}

// target finds a configured sink.
func (e *Engine) target(op string, key record.Key) (*target, error) {
	if t := e.targets.of(key.Sink); t != nil {
		return t, nil
	}
	names := slices.Sorted(maps.Keys(e.targets.all()))
	hint := "no sink is configured"
	if len(names) > 0 {
		hint = "the configured sinks are " + strings.Join(names, ", ")
	}
	return nil, fail(op, key, fmt.Errorf("%w %q", ErrUnknownSink, key.Sink), hint)
}

// rulesOf are those of key's sink, or of a sink that is not configured.
func (e *Engine) rulesOf(key record.Key) *reconcile.Rules {
	if t := e.targets.of(key.Sink); t != nil {
		return t.fitting().rules
	}
	return e.fallen
}

// Sinks describes every sink that is configured or has resources, by name.
func (e *Engine) Sinks() []SinkStatus {
	e.mu.Lock()
	stats := e.sched.Sinks()
	e.mu.Unlock()
	out := make([]SinkStatus, 0, len(stats))
	for _, s := range stats {
		x := SinkStatus{
			Name: s.Name, Configured: s.Configured, Counts: s.Phases, InFlight: s.InFlight, Waiting: s.Waiting,
			Breaker: s.Breaker, NextProbe: s.NextProbe, PausedUntil: s.Paused, OldestUnacked: s.Oldest,
		}
		if t := e.targets.of(s.Name); t != nil {
			m := &t.fitting().rules.Manifest
			x.Plugin, x.Digest, x.Target, x.NotReady = strings.TrimSpace(m.Name+" "+m.Version), m.Digest, m.Target, m.NotReady
			x.Direction = t.fitting().opts.Direction
			x.SuspendReason = t.suspended()
			x.Suspended = x.SuspendReason != record.ReasonNone
			t.mu.Lock()
			x.LastError, x.LastErrorStatus, x.LastErrorAt = t.lastError, t.lastState, t.lastAt
			t.mu.Unlock()
		}
		delete(x.Counts, "") // gone ones, whose source order is remembered
		if !x.Configured && len(x.Counts) == 0 && x.InFlight == 0 {
			continue // it is suspended, or has those alone: nobody misses it
		}
		out = append(out, x)
	}
	return out
}
