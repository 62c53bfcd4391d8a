package engine

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/pawlsync/pawl/engine/digest"
	"github.com/pawlsync/pawl/engine/outbox"
	"github.com/pawlsync/pawl/engine/reconcile"
	"github.com/pawlsync/pawl/engine/record"
	"github.com/pawlsync/pawl/engine/sink"
)

// A sink that is a Comparer is compared as a whole, after a start and at the drift
// interval, instead of being asked about one resource after the other (R33, R34). What
// is found is decided against the newest record, never against what was read when the
// comparison began: Puts go on meanwhile.

// compareAgain is when a comparison that found something is followed by another one,
// doubled from then on up to the drift interval: until nothing is found.
const compareAgain = 10 * time.Second

// keepComparing compares t's resources with its target as often as is due, until the
// engine closes or t is removed.
func (e *Engine) keepComparing(t *target) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	if t.fitting().opts.SkipStartupCheck {
		timer.Stop()
		if t.fitting().opts.DriftInterval > 0 {
			timer.Reset(t.fitting().opts.DriftInterval)
		}
	}
	found, failed := 0, 0 // in a row
	for {
		select {
		case <-e.closing:
			return
		case <-t.gone:
			return
		case <-t.compare: // its sink was replaced, or goes on
			found, failed = 0, 0
		case <-timer.C:
		}
		if !t.compares() {
			timer.Stop() // until t.compare
			continue
		}
		news, err := e.compareTarget(t)
		switch {
		case errors.Is(err, ErrClosed): // the sink was removed, or the engine closes
		case err != nil:
			failed++
			timer.Reset(min(t.fitting().opts.RetryBase<<min(failed-1, 16), t.fitting().opts.BreakerProbeMax))
			e.log.Warn("the resources of a sink can't be compared with its target; it is tried again", "sink", t.name, "error", err)
		case news:
			found, failed = found+1, 0
			again := compareAgain << min(found-1, 16)
			if t.fitting().opts.DriftInterval > 0 {
				again = min(again, t.fitting().opts.DriftInterval)
			}
			timer.Reset(again)
		default:
			found, failed = 0, 0
			timer.Stop()
			if t.fitting().opts.DriftInterval > 0 {
				e.mu.Lock()
				timer.Reset(reconcile.Spread(t.fitting().opts.DriftInterval, e.random.Float64()))
				e.mu.Unlock()
			}
		}
	}
}

// compares reports whether t can be compared now.
func (t *target) compares() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	f := t.fitting()
	_, ok := f.sink.(sink.Comparer)
	return ok && f.rules.Manifest.Compares && !t.heldLocked()
}

// compareSoon makes t be compared at once.
func (t *target) compareSoon() { nudge(t.compare) }

// nudge wakes whoever waits for c, which holds one value, without waiting.
func nudge(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// compareTarget compares t's acknowledged resources with its target, and reports
// whether anything was found to be done.
func (e *Engine) compareTarget(t *target) (news bool, err error) {
	f := e.occupy(t)
	if f == nil {
		return false, ErrClosed
	}
	defer e.vacate(f)
	items, err := e.acknowledged(t, f)
	if err != nil {
		return false, err
	}
	d := &descent{tree: digest.NewTree(items), epoch: e.store.Info().Epoch, differing: map[digest.Hash]bool{}}
	if err := d.run(func(c *sink.Comparison) (sink.Difference, error) { return e.callCompare(t, f, c) }); err != nil {
		return false, err
	}
	redelivered, err := e.redeliver(t, f, d.differing)
	if err != nil {
		return false, err
	}
	buried, err := e.bury(t, f, d.extra)
	if err != nil {
		return false, err
	}
	e.obs.CompareDone(t.name, len(items), redelivered, buried)
	if redelivered+buried > 0 {
		e.log.Info("the target differs from what it had acknowledged; it is set right", "sink", t.name, "resources", len(items), "delivered_anew", redelivered, "deletions", buried)
		e.wakeDispatcher()
	}
	return redelivered+buried > 0, nil
}

func (e *Engine) callCompare(t *target, f *fitting, c *sink.Comparison) (d sink.Difference, err error) {
	if e.open() != nil {
		return d, ErrClosed
	}
	defer f.enter(e.calls)()
	ctx, cancel := e.bounded(f)
	defer cancel()
	res := e.made(t, record.Key{Sink: t.name}, "compare", func() (res sink.Result) {
		d, res = f.sink.(sink.Comparer).Compare(ctx, c)
		return res
	})
	if res.Status != sink.OK {
		return sink.Difference{}, fmt.Errorf("%s: %s", res.Status, res.Message)
	}
	return d, nil
}

// acknowledged are the resources of t that its present target has acknowledged as
// they are desired now.
func (e *Engine) acknowledged(t *target, f *fitting) (items []digest.Item, err error) {
	err = e.headsOf(t, func(h outbox.Head) {
		if a := reconcile.AckedNow(f.rules, &h); a != nil {
			items = append(items, digest.Item{Key: digest.Key(h.Key.Name), Content: digest.Content(a.Hash)})
		}
	})
	return items, err
}

func (e *Engine) headsOf(t *target, fn func(outbox.Head)) error {
	err := e.store.Heads(e.calls, outbox.Span{Sink: t.name}, func(h outbox.Head) bool {
		fn(h)
		return e.open() == nil
	})
	if err == nil {
		err = e.open()
	}
	return err
}

// redeliver makes what differs owed again, and counts it. What does not differ has
// been looked at: nothing about it is unsure any more.
func (e *Engine) redeliver(t *target, f *fitting, differing map[digest.Hash]bool) (n int, err error) {
	e.mu.Lock()
	unsure := e.sched.Stats().Unsure > 0
	e.mu.Unlock()
	if len(differing) == 0 && !unsure {
		return 0, nil
	}
	var keys, same []record.Key
	err = e.headsOf(t, func(h outbox.Head) {
		switch {
		case reconcile.AckedNow(f.rules, &h) == nil:
		case differing[digest.Key(h.Key.Name)]:
			keys = append(keys, h.Key)
		case unsure:
			same = append(same, h.Key)
		}
	})
	if err != nil {
		return 0, err
	}
	e.mu.Lock()
	for _, key := range same {
		e.sched.SetUnsure(key, false)
	}
	e.mu.Unlock()
	return e.updateAll(keys, func(key record.Key, cur outbox.Record, now time.Time) (outbox.Change, bool) {
		change, look := reconcile.Redeliver(f.rules, cur, now)
		if look {
			e.lookSoon(key)
		}
		return change, look || !change.Empty()
	})
}

// bury makes tombstones for what the target holds and we do not know, and counts them.
func (e *Engine) bury(t *target, f *fitting, names []string) (n int, err error) {
	var keys []record.Key
	for _, name := range names {
		if key := (record.Key{Sink: t.name, Name: name}); key.Validate() == nil {
			keys = append(keys, key)
		}
	}
	return e.updateAll(keys, func(key record.Key, cur outbox.Record, now time.Time) (outbox.Change, bool) {
		if e.held(key) != nil { // whoever holds it knows what is there, and why
			return outbox.Change{}, false
		}
		change := reconcile.Bury(f.rules, cur, now)
		return change, !change.Empty()
	})
}

// updateAll changes many records in few commits, and counts those of which decide
// says so.
func (e *Engine) updateAll(keys []record.Key, decide func(record.Key, outbox.Record, time.Time) (outbox.Change, bool)) (n int, err error) {
	now := time.Now()
	for len(keys) > 0 {
		part := keys[:min(len(keys), e.opts.BatchMax)]
		keys = keys[len(part):]
		tickets := make([]outbox.Ticket, len(part))
		for i, key := range part {
			tickets[i] = e.store.Update(key, func(cur outbox.Record) (outbox.Change, error) {
				change, counts := decide(key, cur, now)
				if counts {
					n++
				}
				return change, nil
			})
		}
		for _, ticket := range tickets {
			if err := ticket.Wait(context.WithoutCancel(e.calls)); err != nil {
				return n, err
			}
		}
	}
	return n, nil
}
