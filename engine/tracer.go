package engine

import (
	"cmp"
	"context"
	"time"

	"github.com/pawlsync/pawl/engine/outbox"
	"github.com/pawlsync/pawl/engine/record"
	"github.com/pawlsync/pawl/engine/sink"
)

// Tracer follows single changes from Put to acknowledgement. What it makes of them,
// spans of a trace say, is its own: the engine hands over what happens, and hands on
// the contexts that it gets. Its methods, and those of what it returns, are called
// from many goroutines and must return quickly.
//
// A Tracer never sees payloads, nor what targets say: only keys, and the engine's own
// words.
type Tracer interface {
	// PutBegan is told of a Put or Delete (op: "put" or "delete") that came in; ctx is
	// its caller's. It never returns nil.
	PutBegan(ctx context.Context, key record.Key, op string) PutTrace
	// DeliveryBegan is told of a delivery, while the resource's order is fixed: it
	// delivers the change that was Taken last. It may return nil: not followed.
	DeliveryBegan(key record.Key, s DeliveryStart) DeliveryTrace
}

// PutTrace follows one Put or Delete.
type PutTrace interface {
	// Taken is called, if the change is a new generation, while the resource's order is
	// fixed: deliveries that begin from now on deliver this one, or a newer one. The
	// change isn't durable yet.
	Taken()
	// Done is called once, with PutDone's outcome: the change is durable, or refused.
	Done(outcome string, replaced bool)
}

// DeliveryStart says what a delivery is about.
type DeliveryStart struct {
	Generation uint64
	Attempt    int       // 1 for the first
	Began      time.Time // before its record was read
	// Put: it delivers what was put since the engine was opened. Others look whether
	// something drifted, or deliver what an earlier process was given.
	Put bool
}

// DeliveryTrace follows one delivery.
type DeliveryTrace interface {
	// Step begins a step: a call, by CallDone's name of it, or "commit", a wait for the
	// store. The step is to run with the context that it returns; end is called with the
	// status, or "ok" or "error", when it is over. The call of a batch is a step of each
	// of its deliveries: it runs with the context of the first, which the others are given.
	Step(ctx context.Context, what string) (in context.Context, end func(status string))
	// Done is called once, with DeliveryDone's outcome, "held" where the resource is held
	// or suspended, or "error" where the store failed. last: the change is owed no more
	// deliveries.
	Done(outcome string, last bool)
}

// putBegan begins to follow a Put or Delete; nil where nobody follows any.
func (e *Engine) putBegan(ctx context.Context, key record.Key, op string) PutTrace {
	if e.tracer == nil {
		return nil
	}
	return e.tracer.PutBegan(ctx, key, op)
}

// taken tells that change, of a Put or Delete that is followed, was queued.
func taken(t PutTrace, change *outbox.Change, err error) {
	if t != nil && err == nil && change.NewGeneration {
		t.Taken()
	}
}

// follow begins to follow a delivery of cur.
func (e *Engine) follow(w *delivery, cur *outbox.Record) {
	if e.tracer == nil || !cur.Desired.Exists() {
		return
	}
	w.trace = e.tracer.DeliveryBegan(w.key, DeliveryStart{
		Generation: cur.Desired.Generation, Attempt: cur.Status.Attempts + 1, Began: w.began,
		Put: cur.Desired.Generation > e.opened && owed(cur),
	})
}

// owed reports whether the target still has to be brought to what rec desires.
func owed(rec *outbox.Record) bool {
	d, st := &rec.Desired, &rec.Status
	return d.Exists() && !d.Gone && (st.Generation != d.Generation || waits(st.Phase))
}

// settledBy reports whether nothing is owed any more once change is made of cur.
func settledBy(change *outbox.Change, cur outbox.Record) bool {
	if change.Remove {
		return true
	}
	if change.Desired != nil {
		cur.Desired = *change.Desired
	}
	if change.Status != nil {
		cur.Status = *change.Status
	}
	return !owed(&cur)
}

// step begins a step of a delivery.
func (w *delivery) step(ctx context.Context, what string) (context.Context, func(status string)) {
	if w.trace == nil {
		return ctx, ended
	}
	return w.trace.Step(ctx, what)
}

// batchStep begins the step that a batch's call is of each of its deliveries; end gets
// their results, or the one of the batch as a whole.
func (e *Engine) batchStep(ctx context.Context, ws []*delivery) (in context.Context, end func([]sink.Result)) {
	if e.tracer == nil {
		return ctx, func([]sink.Result) {}
	}
	ends := make([]func(string), len(ws))
	for i, w := range ws {
		own, end := w.step(cmp.Or(in, ctx), "apply-batch")
		ends[i] = end
		if in == nil && w.trace != nil {
			in = own
		}
	}
	return cmp.Or(in, ctx), func(results []sink.Result) {
		for i, end := range ends {
			end(results[min(i, len(results)-1)].Status.String())
		}
	}
}

// ended ends a step that nobody follows.
func ended(string) {}

// commit ends the step of a commit, by how it went.
func commit(end func(status string), err error) error {
	if err != nil {
		end("error")
	} else {
		end("ok")
	}
	return err
}

// followed ends what follows a delivery.
func (w *delivery) followed(outcome string, last bool) {
	if w.trace != nil {
		w.trace.Done(outcome, last)
	}
}
