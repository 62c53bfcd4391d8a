package engine

import (
	"context"
	"encoding/json"
	"fmt"
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
	opts   *SinkOptions
	fitted atomic.Pointer[fitting]
	slots  chan struct{} // one is taken by each call under way

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
	t := &target{opts: o, slots: make(chan struct{}, o.MaxInFlight)}
	t.fitted.Store(e.fit(t, o.Sink, info.Epoch))
	raw, err := e.store.Meta(holdName(o.Name))
	if err != nil {
		return fmt.Errorf("read whether sink %q is suspended: %w", o.Name, err)
	}
	if raw != nil {
		if err := json.Unmarshal(raw, &t.hold); err != nil {
			return fmt.Errorf("read whether sink %q is suspended: %w", o.Name, err)
		}
	}
	e.targets[o.Name] = t
	e.sched.ConfigureSink(o.Name, o.limits(t.fitting().batchMax()))
	e.sched.SuspendSink(o.Name, t.heldLocked())
	// Of a store that was restored, or lost data, no operator has let the sink go on
	// since (R67). An operator's own hold is one already.
	if info.Lossy && t.hold.Epoch != info.Epoch && t.hold.Suspended == record.ReasonNone {
		return e.setHold(t, record.ReasonRestored)
	}
	return nil
}

func holdName(sinkName string) string { return "sink/" + sinkName }

// suspended says why no call is made, or "".
func (t *target) suspended() record.Reason {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.suspendedLocked()
}

func (t *target) suspendedLocked() record.Reason {
	if t.hold.Suspended == "" && t.opts.Suspended {
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
func (t *target) looksAtStart(p schedule.Plan) bool {
	if t.opts.SkipStartupCheck || !t.fitting().rules.Manifest.Observes {
		return false
	}
	switch p.Phase {
	case record.AckedPhase, record.Drifted:
		return p.Class == schedule.Check
	case record.Failed, record.Obsolete:
		return p.At.IsZero() && p.Class == schedule.Check
	}
	return false
}

// enter waits until a call may begin; the call's end is told by leave. The schedule
// counts a batch as one call, but what follows it is a call for each of its items. When
// calls ends there is nothing to wait for: the call will be cut off at once.
func (t *target) enter(calls context.Context) (leave func()) {
	select {
	case t.slots <- struct{}{}:
		return func() { <-t.slots }
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
	h := sinkHold{Suspended: reason, Epoch: e.store.Info().Epoch}
	raw, err := json.Marshal(h)
	if err != nil {
		return err
	}
	if err := e.store.SetMeta(holdName(t.opts.Name), raw); err != nil {
		return err
	}
	t.hold = h
	e.mu.Lock()
	e.sched.SuspendSink(t.opts.Name, t.heldLocked())
	e.mu.Unlock()
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
	for name, t := range e.targets {
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
	if t := e.targets[key.Sink]; t != nil {
		return t, nil
	}
	names := make([]string, 0, len(e.targets))
	for n := range e.targets {
		names = append(names, n)
	}
	slices.Sort(names)
	hint := "no sink is configured"
	if len(names) > 0 {
		hint = "the configured sinks are " + strings.Join(names, ", ")
	}
	return nil, fail(op, key, fmt.Errorf("%w %q", ErrUnknownSink, key.Sink), hint)
}

// rulesOf are those of key's sink, or of a sink that is not configured.
func (e *Engine) rulesOf(key record.Key) *reconcile.Rules {
	if t := e.targets[key.Sink]; t != nil {
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
		if t := e.targets[s.Name]; t != nil {
			m := &t.fitting().rules.Manifest
			x.Plugin, x.Digest, x.Target, x.NotReady = strings.TrimSpace(m.Name+" "+m.Version), m.Digest, m.Target, m.NotReady
			x.SuspendReason = t.suspended()
			x.Suspended = x.SuspendReason != record.ReasonNone
			t.mu.Lock()
			x.LastError, x.LastErrorStatus, x.LastErrorAt = t.lastError, t.lastState, t.lastAt
			t.mu.Unlock()
		}
		delete(x.Counts, "") // gone ones, whose source order is remembered
		out = append(out, x)
	}
	return out
}
