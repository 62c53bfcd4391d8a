package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/pawlsync/pawl/engine/outbox"
	"github.com/pawlsync/pawl/engine/reconcile"
	"github.com/pawlsync/pawl/engine/record"
	"github.com/pawlsync/pawl/engine/schedule"
	"github.com/pawlsync/pawl/engine/sink"
)

// A sink that is a Poller tells what changed at its target, so that resources which
// take that in need not be looked at one by one (R31, R32). What it tells is decided
// against the newest record; what it may have missed a look finds at the drift
// interval.

// pollMark is the durable part of a sink's polls: the document "poll/NAME".
type pollMark struct {
	Target string `json:"target"` // whose cursor it is
	Cursor string `json:"cursor,omitempty"`
	// Whole: what was told so far began with everything and has not come to its end.
	// The keys that it told of are not kept: after a restart it begins again.
	Whole bool `json:"whole,omitempty"`
}

// maxCursor is how long a cursor may be that is kept, in bytes.
const maxCursor = 16 << 10

// polling is one sink's polls, as their goroutine knows them.
type polling struct {
	target *target
	mark   pollMark
	read   bool                // mark was read from the store
	told   map[string]struct{} // while mark.Whole: names that were told of
	failed bool                // the last poll; told once
}

func pollName(sinkName string) string { return "poll/" + sinkName }

// keepPolling polls t's target every poll interval, until the engine closes or t is removed.
func (e *Engine) keepPolling(t *target) {
	p := &polling{target: t}
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-e.closing:
			return
		case <-t.gone:
			return
		case <-t.repoll: // by another interval
		case <-timer.C:
		}
		if !t.polls() || !e.takesIn(t.name) {
			timer.Reset(t.fitting().opts.PollInterval)
			continue
		}
		timer.Reset(e.pollAll(p))
	}
}

// polls reports whether t can be polled now.
func (t *target) polls() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	f := t.fitting()
	_, ok := f.sink.(sink.Poller)
	return ok && f.rules.Manifest.Polls && !t.heldLocked()
}

// pollSoon makes t be polled at once.
func (t *target) pollSoon() { nudge(t.repoll) }

func (e *Engine) takesIn(sinkName string) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return len(e.intake[sinkName]) > 0
}

// pollAll polls until there is no more, and returns when to poll again.
func (e *Engine) pollAll(p *polling) time.Duration {
	every := p.target.fitting().opts.PollInterval
	for e.open() == nil {
		more, res, err := e.pollOnce(p)
		switch {
		case errors.Is(err, ErrClosed):
			return every // the sink was removed, or the engine closes
		case err != nil:
			e.log.Error("what a poll told could not be stored; it is polled again", "sink", p.target.name, "error", err)
			p.read = false
			return every
		case res.Status != sink.OK:
			if !p.failed {
				e.log.Warn("the target can't be polled for changes; it is tried again", "sink", p.target.name, "status", res.Status.String(), "error", res.Message, "every", every)
			}
			p.failed = true
			return max(every, min(res.RetryAfter, time.Hour))
		}
		if p.failed {
			e.log.Info("the target can be polled again", "sink", p.target.name)
		}
		if p.failed = false; !more {
			break
		}
	}
	return every
}

// pollOnce makes one poll and takes in what it tells. The cursor is kept when all of
// it is durable, so that a crash in between makes for something told twice.
func (e *Engine) pollOnce(p *polling) (more bool, res sink.Result, err error) {
	t := p.target
	defer t.fitting().enter(e.calls)()
	f := e.occupy(t)
	if f == nil {
		return false, sink.Result{}, ErrClosed
	}
	defer e.vacate(f)
	if err := e.pollFrom(p, f); err != nil {
		return false, sink.Result{}, err
	}
	began := time.Now()
	changes, res := e.callPoll(t, f, p.mark.Cursor)
	if res.Status != sink.OK {
		return false, res, nil
	}
	if changes.Reset || p.mark.Cursor == "" {
		p.mark.Whole, p.told = true, map[string]struct{}{}
	}
	if err := e.takeIn(p, f, changes.Seen, began); err != nil {
		return false, res, err
	}
	if p.mark.Whole && !changes.More {
		e.lookForUntold(p)
		p.mark.Whole, p.told = false, nil
	}
	p.mark.Cursor = changes.Cursor
	return changes.More, res, e.keepMark(p)
}

// pollFrom finds out from where to go on.
func (e *Engine) pollFrom(p *polling, f *fitting) error {
	if !p.read {
		raw, err := e.store.Meta(pollName(p.target.name))
		if err != nil {
			return err
		}
		p.mark, p.told = pollMark{}, nil
		if raw != nil {
			if err := json.Unmarshal(raw, &p.mark); err != nil {
				return fmt.Errorf("the cursor of its polls is damaged: %w", err)
			}
		}
		if p.mark.Whole {
			p.mark = pollMark{}
		}
		p.read = true
	}
	if target := f.rules.Manifest.Target; p.mark.Target != target {
		p.mark, p.told = pollMark{Target: target}, nil
	}
	return nil
}

func (e *Engine) keepMark(p *polling) error {
	raw, err := json.Marshal(p.mark)
	if err != nil {
		return err
	}
	return e.store.SetMeta(pollName(p.target.name), raw)
}

// callPoll makes the call.
func (e *Engine) callPoll(t *target, f *fitting, cursor string) (changes sink.Changes, res sink.Result) {
	ctx, cancel := e.bounded(f)
	defer cancel()
	res = e.made(t, record.Key{Sink: t.name}, "poll", func() (res sink.Result) {
		changes, res = f.sink.(sink.Poller).Poll(ctx, cursor)
		return checkedPoll(cursor, &changes, res)
	})
	return changes, res
}

// checkedPoll turns an answer that can't be gone on from into a fault.
func checkedPoll(cursor string, c *sink.Changes, res sink.Result) sink.Result {
	switch {
	case res.Status != sink.OK:
	case len(c.Cursor) > maxCursor:
		return sink.Result{Status: sink.Fault, Message: fmt.Sprintf("the cursor of a poll has %d bytes, more than the %d that are kept", len(c.Cursor), maxCursor)}
	case c.More && c.Cursor == cursor:
		return sink.Result{Status: sink.Fault, Message: "a poll said that there is more, and did not move on"}
	}
	return res
}

// takeIn stores what a poll saw of the resources that take it in, and makes those due
// that must be looked at.
func (e *Engine) takeIn(p *polling, f *fitting, seen []sink.Seen, began time.Time) error {
	tickets := make([]outbox.Ticket, len(seen))
	looks := make([]bool, len(seen))
	for i := range seen {
		key := record.Key{Sink: p.target.name, Name: seen[i].Key.Name}
		if p.told != nil {
			p.told[key.Name] = struct{}{}
		}
		e.mu.Lock()
		known := e.intake.has(key)
		e.mu.Unlock()
		if !known {
			continue
		}
		tickets[i] = e.store.Update(key, func(cur outbox.Record) (change outbox.Change, err error) {
			if e.held(key) != nil || e.flights.of(key) != nil { // a call about it is under way: which of the two is newer nobody knows
				looks[i] = true
				return outbox.Change{}, nil
			}
			change, looks[i] = reconcile.TakeIn(f.rules, key, cur, seen[i].Observation, began, time.Now())
			return change, nil
		})
	}
	for i, t := range tickets {
		key := record.Key{Sink: p.target.name, Name: seen[i].Key.Name}
		if err := t.Wait(context.Background()); err != nil {
			return fmt.Errorf("%s: %w", key, err)
		}
		if looks[i] {
			e.lookSoon(key)
		}
	}
	return nil
}

// lookForUntold looks at what takes in and was not told of, when everything has been:
// it is gone, or the poll can't see it.
func (e *Engine) lookForUntold(p *polling) {
	name := p.target.name
	var keys []record.Key
	e.mu.Lock()
	for n := range e.intake[name] {
		if _, ok := p.told[n]; !ok {
			keys = append(keys, record.Key{Sink: name, Name: n})
		}
	}
	e.mu.Unlock()
	for _, key := range keys {
		e.lookSoon(key)
	}
}

// lookSoon makes a resource to which nothing is owed be looked at now. One that is
// suspended is of another class.
func (e *Engine) lookSoon(key record.Key) {
	now := time.Now()
	e.mu.Lock()
	entry, ok := e.sched.Lookup(key)
	if ok && !entry.Removed && entry.Class == schedule.Check && e.holds.byKey[key] == nil && (entry.At.IsZero() || entry.At.After(now)) {
		entry.At = now
		e.sched.Set(key, entry.Plan)
	}
	e.mu.Unlock()
	e.wakeDispatcher()
}
