package engine

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/pawlsync/pawl/engine/outbox"
	"github.com/pawlsync/pawl/engine/reconcile"
	"github.com/pawlsync/pawl/engine/record"
	"github.com/pawlsync/pawl/engine/schedule"
	"github.com/pawlsync/pawl/engine/sink"
)

// deliver brings one resource to its desired state, or one attempt nearer.
func (e *Engine) deliver(d schedule.Dispatch) {
	began := time.Now()
	t := e.targets[d.Key.Sink]
	rec, err := e.load(d.Key)
	if err != nil {
		e.abort(d.Key, t, err)
		return
	}
	if !rec.Desired.Exists() {
		e.purge(d.Key, rec, began)
		return
	}
	dl := reconcile.Begin(t.rules, d.Key, rec, began, d.Unsure)
	for dl.Step() != reconcile.Done {
		if dl.Step() == reconcile.Store {
			if err := e.storeInterim(d.Key, dl); err != nil {
				e.abort(d.Key, t, err)
				return
			}
			dl.Stored(time.Now())
			continue
		}
		dl.Answer(e.call(t, dl), time.Now())
	}
	e.settle(d.Key, t, dl, rec.Status.FailedAt, began)
}

// load reads the newest record, changes that wait for their commit included, and
// registers the delivery: a Put that comes later knows what it replaces.
func (e *Engine) load(key record.Key) (outbox.Record, error) {
	var rec outbox.Record
	ticket := e.store.Update(key, func(cur outbox.Record) (outbox.Change, error) {
		rec = cur
		e.mu.Lock()
		e.flights[key].generation = cur.Desired.Generation
		e.mu.Unlock()
		return outbox.Change{}, nil
	})
	return rec, ticket.Wait(context.Background())
}

// call makes the one call that dl asks for.
func (e *Engine) call(t *target, dl *reconcile.Delivery) sink.Result {
	req, step := dl.Request(), dl.Step()
	ctx, cancel := e.calls, context.CancelFunc(func() {})
	if !t.rules.Manifest.OwnTimeout {
		ctx, cancel = context.WithTimeout(ctx, t.opts.Timeout)
	}
	defer cancel()
	began := time.Now()
	res := checked(invoke(ctx, t.opts.Sink, step, req))
	now := time.Now()
	t.note(res, now)
	e.obs.CallDone(req.Key, step.String(), res.Status, now.Sub(began))
	return res
}

// invoke calls the sink. A panic in it is its fault, not the end of the engine.
func invoke(ctx context.Context, s sink.Sink, step reconcile.Step, req *sink.Request) (res sink.Result) {
	defer func() {
		if p := recover(); p != nil {
			res = sink.Result{Status: sink.Fault, Message: fmt.Sprintf("the sink panicked: %v", p)}
		}
	}()
	switch step {
	case reconcile.Observe:
		return s.Observe(ctx, req)
	case reconcile.Apply:
		return s.Apply(ctx, req)
	default:
		return s.Delete(ctx, req)
	}
}

// maxAdapterState is how much an adapter may have kept with an ack.
const maxAdapterState = 64 << 10

// checked turns an answer that breaks the contract into a fault.
func checked(res sink.Result) sink.Result {
	switch {
	case res.Status == 0 || res.Status.String() == "unknown":
		return sink.Result{Status: sink.Fault, Message: fmt.Sprintf("the sink answered with status %d, which does not exist", res.Status)}
	case res.Observation != nil && len(res.Observation.AdapterState) > maxAdapterState:
		return sink.Result{Status: sink.Fault, Message: fmt.Sprintf("the adapter state has %d bytes, more than the %d allowed", len(res.Observation.AdapterState), maxAdapterState)}
	}
	return res
}

// storeInterim makes what was seen durable before the object is deleted (R51).
func (e *Engine) storeInterim(key record.Key, dl *reconcile.Delivery) error {
	return e.store.Update(key, func(cur outbox.Record) (outbox.Change, error) {
		if !cur.Desired.Exists() {
			return outbox.Change{}, nil
		}
		return outbox.Change{Status: dl.Interim(&cur.Status)}, nil
	}).Wait(context.Background())
}

// settle ends a delivery: it tells the schedule, stores the outcome and, when
// that is done, gives the resource free for its next delivery.
func (e *Engine) settle(key record.Key, t *target, dl *reconcile.Delivery, failed, began time.Time) {
	now := time.Now()
	e.mu.Lock()
	verdict := e.sched.Done(key, now, schedule.Report{Answered: dl.Answered(), Unanswered: dl.Unanswered(), Failed: failed, Started: began})
	v := reconcile.Verdict{Now: now, Charge: verdict.Charge, Random: e.random.Float64(), Contender: e.objects.claim(key, dl.Object())}
	if dl.Answered() {
		e.sched.SetUnsure(key, false)
	}
	e.mu.Unlock()

	var s reconcile.Settlement
	var head outbox.Head
	err := e.store.Update(key, func(cur outbox.Record) (outbox.Change, error) {
		s = dl.Settle(cur, v)
		head = outbox.HeadOf(key, &cur)
		return s.Change, nil
	}).Wait(context.Background())
	if err != nil {
		e.abort(key, t, err)
		return
	}
	if s.PauseSink > 0 {
		e.mu.Lock()
		e.sched.PauseSink(key.Sink, now.Add(s.PauseSink))
		e.mu.Unlock()
	}
	e.land(key, func(fl *flight) {
		if s.Change.Empty() && !fl.overtaken {
			e.sched.Set(key, e.due(head, now)) // nothing was stored; the next check is planned all the same
		}
	})
	e.report(key, t, dl, &s, verdict, time.Since(began))
}

// land ends a flight; plan, where given, is called under the lock.
func (e *Engine) land(key record.Key, plan func(*flight)) {
	e.mu.Lock()
	fl := e.flights[key]
	delete(e.flights, key)
	if plan != nil {
		plan(fl)
	}
	e.sched.Release(key)
	close(fl.landed)
	e.mu.Unlock()
	e.wakeDispatcher()
}

// abort gives a delivery up whose outcome can't be stored, or whose record can't
// be read. What is stored still says what to do; it is tried again later.
func (e *Engine) abort(key record.Key, t *target, err error) {
	if !errors.Is(err, outbox.ErrClosed) {
		e.log.Error("a delivery could not be stored or read", "sink", key.Sink, "key", key.Name, "error", err,
			"hint", "run `pawl store check` while the daemon is stopped if this goes on")
	}
	now := time.Now()
	e.mu.Lock()
	e.sched.Done(key, now, schedule.Report{Started: now})
	e.mu.Unlock()
	e.land(key, func(fl *flight) {
		if entry, ok := e.sched.Lookup(key); ok && !entry.Removed {
			e.sched.Set(key, schedule.Plan{At: now.Add(t.opts.RetryMax / 10), Class: schedule.Retry, Phase: entry.Phase, Since: entry.Since})
		}
	})
}

// purge drops a record that is no longer needed: one that is gone already, or
// whose source order has been remembered for long enough (R08).
func (e *Engine) purge(key record.Key, rec outbox.Record, now time.Time) {
	var err error
	if rec.Desired.Gone {
		err = e.store.Update(key, func(cur outbox.Record) (outbox.Change, error) {
			stale := cur.Desired.Gone && !cur.Desired.GoneUntil.After(now)
			return outbox.Change{Remove: stale}, nil
		}).Wait(context.Background())
	}
	if err != nil && !errors.Is(err, outbox.ErrClosed) {
		e.log.Error("a deleted resource could not be purged", "sink", key.Sink, "key", key.Name, "error", err)
	}
	e.mu.Lock()
	e.sched.Done(key, now, schedule.Report{Started: now})
	e.mu.Unlock()
	e.land(key, func(fl *flight) {
		if rec.Desired.Generation == 0 && !fl.overtaken {
			e.sched.Remove(key)
		}
	})
}

// report tells log and metrics how a delivery ended.
func (e *Engine) report(key record.Key, t *target, dl *reconcile.Delivery, s *reconcile.Settlement, v schedule.Verdict, took time.Duration) {
	e.obs.DeliveryDone(key, s.Outcome, took)
	if s.AckedAfter > 0 {
		e.obs.AckDone(key, s.AckedAfter)
	}
	if v.Opened || v.Closed {
		e.obs.BreakerMoved(key.Sink, v.Opened)
		if v.Opened {
			e.log.Error("the target does not answer; its sink is held and probed, nothing is lost", "sink", key.Sink, "status", dl.Reply().Status.String(), "error", dl.Reply().Message)
		} else {
			e.log.Info("the target answers again", "sink", key.Sink)
		}
	}
	level, ok := loud[s.Outcome]
	if s.Fighting {
		level, ok = slog.LevelError, true
	}
	if !ok {
		level = slog.LevelDebug
	}
	if e.log.Enabled(context.Background(), level) {
		attrs := []any{"sink", key.Sink, "key", key.Name, "generation", dl.Generation(), "outcome", string(s.Outcome), "took", took}
		if m := dl.Reply().Message; m != "" {
			attrs = append(attrs, "message", m)
		}
		if s.Fighting {
			attrs = append(attrs, "hint", "somebody else keeps changing this object; find out who, or change the conflict policy")
		}
		e.log.Log(context.Background(), level, "delivery", attrs...)
	}
}

// loud are the outcomes that an operator should see.
var loud = map[reconcile.Outcome]slog.Level{
	reconcile.Rejected: slog.LevelWarn, reconcile.Unauthorized: slog.LevelError, reconcile.PluginFault: slog.LevelError,
	reconcile.Contended: slog.LevelWarn, reconcile.NotOurs: slog.LevelWarn, reconcile.MovedTarget: slog.LevelWarn,
	reconcile.Drifted: slog.LevelWarn, reconcile.NotConverged: slog.LevelWarn, reconcile.Undeletable: slog.LevelWarn,
}
