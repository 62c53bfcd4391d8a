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

// delivery is one resource's delivery under way.
type delivery struct {
	key     record.Key
	target  *target
	fitting *fitting
	flight  *flight
	core    *reconcile.Delivery
	began   time.Time
	failed  time.Time     // when the resource last failed before
	settled bool          // the schedule knows that it is done
	trace   DeliveryTrace // nil: nobody follows it
}

// deliver brings one resource to its desired state, or one attempt nearer.
func (e *Engine) deliver(d departure) {
	if w := e.begin(d, new(outbox.Record)); w != nil {
		e.proceed(w)
	}
}

// begin loads a resource that is due and asks the core how to go about it; nil
// where there is nothing to deliver. rec is room for what is loaded, for the time of
// begin: a batch has the same for all.
func (e *Engine) begin(d departure, rec *outbox.Record) *delivery {
	w := &delivery{key: d.Key, target: d.target, fitting: d.fitting, flight: d.flight, began: time.Now()}
	if over := e.looks.over(d.Key, d.flight); over != nil {
		<-over // bounded by the time of one call
	}
	err := e.load(w, rec)
	switch {
	case err != nil:
		e.abort(w, err)
		return nil
	case !rec.Desired.Exists():
		e.purge(w, &rec.Desired)
		return nil
	case e.held(d.Key) != nil: // since its dispatch
		e.hold(w, rec)
		return nil
	case (rec.Desired.Suspend || rec.Status.Suspended) && !rec.Desired.Tombstone:
		e.hold(w, rec)
		return nil
	}
	w.failed = rec.Status.FailedAt
	if gen := rec.Desired.Generation; d.Unsure && gen <= e.opened || e.flights.wasLost(d.Key, gen) {
		*rec = reconcile.MaybeSent(w.fitting.rules, *rec, w.began)
		d.Unsure = true
	}
	w.core = reconcile.Begin(w.fitting.rules, d.Key, *rec, w.began, d.Unsure)
	return w
}

// proceed takes a delivery to its end.
func (e *Engine) proceed(w *delivery) {
	for w.core.Step() != reconcile.Done {
		if w.core.Step() != reconcile.Store {
			w.core.Answer(e.call(w), time.Now())
			continue
		}
		if err := e.storeInterim(w); err != nil {
			e.abort(w, err)
			return
		}
		w.core.Stored(time.Now())
	}
	e.settle(w)
}

// load reads the newest record into rec, changes that wait for their commit included,
// and registers the delivery: a Put that comes later knows what it replaces.
func (e *Engine) load(w *delivery, rec *outbox.Record) error {
	ticket := e.store.Update(w.key, func(cur outbox.Record) (outbox.Change, error) {
		*rec = cur
		w.flight.read(cur.Desired.Generation)
		e.follow(w, &cur)
		return outbox.Change{}, nil
	})
	return ticket.Wait(context.Background())
}

// call makes the one call that a delivery asks for.
func (e *Engine) call(w *delivery) sink.Result {
	step := w.core.Step()
	defer w.fitting.enter(e.calls)()
	ctx, cancel := e.bounded(w.fitting)
	defer cancel()
	ctx, end := w.step(ctx, step.String())
	res := e.made(w.target, w.key, step.String(), func() sink.Result { return invoke(ctx, w.fitting.sink, step, w.core.Request()) })
	end(res.Status.String())
	return res
}

// made makes a call about key, and tells what came of it; what names it in metrics.
func (e *Engine) made(t *target, key record.Key, what string, call func() sink.Result) sink.Result {
	began := time.Now()
	res := checked(guarded(call))
	now := time.Now()
	t.note(res, now)
	e.obs.CallDone(key, what, res.Status, now.Sub(began))
	return res
}

// bounded bounds one call, where the sink does not do so itself (R49).
func (e *Engine) bounded(f *fitting) (context.Context, context.CancelFunc) {
	if f.rules.Manifest.OwnTimeout {
		return e.calls, func() {}
	}
	return context.WithTimeout(e.calls, f.opts.Timeout)
}

// guarded makes a call. A panic in it is the sink's fault, not the end of the engine.
func guarded(call func() sink.Result) (res sink.Result) {
	defer func() {
		if p := recover(); p != nil {
			res = panicked(p)
		}
	}()
	return call()
}

func invoke(ctx context.Context, s sink.Sink, step reconcile.Step, req *sink.Request) sink.Result {
	switch step {
	case reconcile.Observe:
		return s.Observe(ctx, req)
	case reconcile.Apply:
		return s.Apply(ctx, req)
	default:
		return s.Delete(ctx, req)
	}
}

func panicked(p any) sink.Result {
	return sink.Result{Status: sink.Fault, Message: fmt.Sprintf("the sink panicked: %v", p)}
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

// storeInterim makes durable what must be before the next call (R23, R51).
func (e *Engine) storeInterim(w *delivery) error {
	_, end := w.step(e.calls, "commit")
	return commit(end, e.store.Update(w.key, func(cur outbox.Record) (outbox.Change, error) {
		if !cur.Desired.Exists() {
			return outbox.Change{}, nil
		}
		return outbox.Change{Status: w.core.Interim(&cur.Status)}, nil
	}).Wait(context.Background()))
}

// outcome is how a delivery ended, on its way into the store.
type outcome struct {
	*delivery
	now        time.Time
	verdict    schedule.Verdict
	settlement reconcile.Settlement
	head       *outbox.Head // of a record that the outcome does not change; else nil
	ticket     outbox.Ticket
	last       bool         // no delivery is owed any more
	committed  func(string) // ends the step of the commit
}

// settle ends a delivery: it tells the schedule, stores the outcome and, when
// that is done, gives the resource free for its next delivery.
func (e *Engine) settle(w *delivery) { e.settleAll([]*delivery{w}) }

// settleAll settles deliveries. All outcomes are queued before one is waited for, so
// that those of a batch share a commit.
func (e *Engine) settleAll(ws []*delivery) {
	outcomes := make([]outcome, len(ws))
	for i, w := range ws {
		outcomes[i].delivery = w
		e.submitOutcome(&outcomes[i])
	}
	e.wakeDispatcher() // their places in flight are free, long before their outcomes are durable
	for i := range outcomes {
		e.stored(&outcomes[i])
	}
}

// submitOutcome tells the schedule how a delivery ended, and queues what is to be
// stored of it.
func (e *Engine) submitOutcome(o *outcome) {
	w, core := o.delivery, o.core
	o.now = time.Now()
	e.mu.Lock()
	e.settling++
	o.verdict = e.sched.Done(w.key, o.now, schedule.Report{Answered: core.Answered(), Unanswered: core.Unanswered(), Failed: w.failed, Started: w.began})
	v := reconcile.Verdict{Now: o.now, Charge: o.verdict.Charge, Random: e.random.Float64(), Contender: e.objects.claim(w.key, core.Object())}
	w.settled = true
	if core.Answered() {
		e.sched.SetUnsure(w.key, false)
	}
	if pause, whole := core.RetryAfter(); whole {
		e.sched.PauseSink(w.key.Sink, o.now.Add(pause))
	}
	e.mu.Unlock()

	_, o.committed = w.step(e.calls, "commit")
	o.ticket = e.store.Update(w.key, func(cur outbox.Record) (outbox.Change, error) {
		if o.settlement = core.Settle(cur, v); o.settlement.Change.Empty() {
			head := outbox.HeadOf(w.key, &cur)
			o.head = &head
		}
		o.last = settledBy(&o.settlement.Change, cur)
		if core.Answered() {
			w.flight.read(0) // nothing is under way any more
		} else {
			w.flight.read(core.Generation()) // in case that this commit fails
		}
		return o.settlement.Change, nil
	})
}

// stored waits until an outcome is durable, and ends its flight.
func (e *Engine) stored(o *outcome) {
	w := o.delivery
	if err := commit(o.committed, o.ticket.Wait(context.Background())); err != nil {
		e.abort(w, err)
		return
	}
	w.followed(string(o.settlement.Outcome), o.last)
	e.land(w, func() {
		e.flights.find(w.key)
		if o.head != nil && !w.flight.overtaken.Load() {
			e.sched.Settle(w.key, e.due(*o.head, o.now)) // nothing was stored; the next check is planned all the same
		}
	})
	e.report(w, &o.settlement, o.verdict)
}

// land ends a flight; plan is called under the lock, before the resource may be
// delivered again. A key whose record was removed and that was put again since may
// be in flight anew already: what is known of it then is another life's.
func (e *Engine) land(w *delivery, plan func()) {
	e.mu.Lock()
	e.settling--
	if e.flights.land(w.key, w.flight) {
		plan()
		e.sched.Release(w.key)
	}
	w.fitting.leave()
	close(w.flight.landed)
	e.mu.Unlock()
	e.wakeDispatcher()
}

// abort gives a delivery up whose record can't be read or outcome not be stored.
// What is stored still says what to do; it is tried again later.
func (e *Engine) abort(w *delivery, err error) {
	if !errors.Is(err, outbox.ErrClosed) {
		e.log.Error("a delivery could not be read or stored; it is tried again", "sink", w.key.Sink, "key", w.key.Name, "error", err,
			"hint", "if this goes on, stop the daemon and run `pawl store check`")
	}
	w.followed("error", false)
	now := time.Now()
	if !w.settled {
		e.done(w.key, now)
	}
	e.land(w, func() {
		if w.core != nil {
			e.flights.lose(w.key, w.core.Generation())
		}
		if w.flight.overtaken.Load() {
			return // what was committed since has planned it
		}
		if entry, ok := e.sched.Lookup(w.key); ok && !entry.Removed {
			entry.At, entry.Class = now.Add(min(10*w.fitting.opts.RetryBase, w.fitting.opts.RetryMax)), schedule.Retry
			e.sched.Set(w.key, entry.Plan)
		}
	})
}

// done tells the schedule that a delivery ended without a call.
func (e *Engine) done(key record.Key, now time.Time) {
	e.mu.Lock()
	e.settling++
	e.sched.Done(key, now, schedule.Report{Started: now})
	e.mu.Unlock()
}

// hold makes no call: the resource was suspended after its dispatch.
func (e *Engine) hold(w *delivery, rec *outbox.Record) {
	w.followed("held", false)
	e.done(w.key, w.began)
	e.land(w, func() {
		if !w.flight.overtaken.Load() {
			e.sched.Set(w.key, e.due(outbox.HeadOf(w.key, rec), w.began))
		}
	})
}

// purge drops a record that is no longer needed: one that is gone already, or
// whose source order has been remembered for long enough (R08).
func (e *Engine) purge(w *delivery, desired *record.Desired) {
	var err error
	if desired.Gone {
		err = e.store.Update(w.key, func(cur outbox.Record) (outbox.Change, error) {
			return outbox.Change{Remove: cur.Desired.Gone && !cur.Desired.GoneUntil.After(w.began)}, nil
		}).Wait(context.Background())
	}
	if err != nil {
		e.abort(w, err)
		return
	}
	e.done(w.key, w.began)
	e.land(w, func() {
		if desired.Generation == 0 && !w.flight.overtaken.Load() {
			e.sched.Remove(w.key)
		}
	})
}

// report tells log and metrics how a delivery ended.
func (e *Engine) report(w *delivery, s *reconcile.Settlement, v schedule.Verdict) {
	took := time.Since(w.began)
	e.obs.DeliveryDone(w.key, s.Outcome, took)
	if s.AckedAfter > 0 {
		e.obs.AckDone(w.key, s.AckedAfter)
	}
	reply := w.core.Reply()
	if v.Opened {
		e.obs.BreakerMoved(w.key.Sink, true)
		what := "the target does not answer"
		if reply.Status == sink.Unauthorized {
			what = "the target refuses the credentials"
		}
		e.log.Error(what+"; its sink is held and probed, nothing is lost", "sink", w.key.Sink, "status", reply.Status.String(), "error", reply.Message)
	}
	if v.Closed {
		e.obs.BreakerMoved(w.key.Sink, false)
		e.log.Info("the target answers again", "sink", w.key.Sink)
	}
	level, known := loud[s.Outcome]
	if !known {
		level = slog.LevelDebug
	}
	if st := s.Change.Status; st != nil && st.Phase == record.Stalled && !known {
		level = slog.LevelWarn
	}
	if s.Fighting {
		level = slog.LevelError
	}
	ctx := context.Background()
	if !e.log.Enabled(ctx, level) {
		return
	}
	attrs := []any{"sink", w.key.Sink, "key", w.key.Name, "generation", w.core.Generation(), "outcome", string(s.Outcome), "took", took}
	if reply.Message != "" {
		attrs = append(attrs, "message", reply.Message)
	}
	if s.Fighting {
		attrs = append(attrs, "hint", "somebody else keeps changing this object: find out who, or change the conflict policy")
	}
	e.log.Log(ctx, level, "delivery", attrs...)
}

// loud are the outcomes that an operator should see.
var loud = map[reconcile.Outcome]slog.Level{
	reconcile.Unreachable: slog.LevelWarn, reconcile.Rejected: slog.LevelWarn, reconcile.Unauthorized: slog.LevelError, reconcile.PluginFault: slog.LevelError,
	reconcile.Contended: slog.LevelWarn, reconcile.NotOurs: slog.LevelWarn, reconcile.MovedTarget: slog.LevelWarn,
	reconcile.Drifted: slog.LevelWarn, reconcile.NotConverged: slog.LevelWarn, reconcile.Undeletable: slog.LevelWarn,
}
