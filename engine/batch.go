package engine

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/pawlsync/pawl/engine/outbox"
	"github.com/pawlsync/pawl/engine/reconcile"
	"github.com/pawlsync/pawl/engine/record"
	"github.com/pawlsync/pawl/engine/schedule"
	"github.com/pawlsync/pawl/engine/sink"
)

// gather returns d and, where its sink takes batches, more fresh work to go with it:
// items that the adapter calls overlapping never share a batch (R57). e.mu is held.
func (e *Engine) gather(d schedule.Dispatch, now time.Time) []schedule.Dispatch {
	overlap := e.targets.of(d.Key.Sink).fitting().rules.Manifest.Overlap
	chosen := []record.Key{d.Key}
	fits := func(key record.Key) bool {
		if overlap != nil {
			for _, other := range chosen {
				if overlap(other.Name, key.Name) {
					return false
				}
			}
		}
		chosen = append(chosen, key)
		return true
	}
	return append([]schedule.Dispatch{d}, e.sched.NextOf(d, now, fits)...)
}

// deliverBatch delivers many resources of one sink. Those whose first step is an
// Apply go to the target in one call; what follows, each goes on its own.
func (e *Engine) deliverBatch(ds []departure) {
	var together, all []*delivery
	var rec outbox.Record
	for _, d := range ds {
		w := e.begin(d, &rec)
		if w == nil {
			continue
		}
		all = append(all, w)
		if w.core.Step() == reconcile.Apply {
			together = append(together, w)
		}
	}
	if len(together) > 0 {
		e.applyBatch(together)
	}
	var wg sync.WaitGroup
	ended := together[:0]
	for _, w := range all {
		if w.core.Step() == reconcile.Done {
			ended = append(ended, w)
			continue
		}
		wg.Go(func() { e.proceed(w) })
	}
	e.settleAll(ended)
	wg.Wait()
}

// applyBatch applies a batch and hands each delivery its answer. An answer for
// the batch as a whole says nothing of its items: the batch is halved, burning no
// attempt, until it does; but where nothing was answered, nothing was for each.
func (e *Engine) applyBatch(ws []*delivery) {
	if len(ws) == 1 {
		ws[0].core.Answer(e.call(ws[0]), time.Now())
		return
	}
	results, whole := e.callBatch(ws)
	switch {
	case !whole:
		for i, w := range ws {
			w.core.Answer(results[i], time.Now())
		}
	case results[0].Status == sink.OK || !results[0].Status.Answered() || results[0].Status == sink.Unauthorized || results[0].RetryAfter > 0:
		for _, w := range ws {
			w.core.Answer(results[0], time.Now())
		}
	default:
		e.applyBatch(ws[:len(ws)/2])
		e.applyBatch(ws[len(ws)/2:])
	}
}

// callBatch makes one call for all of ws. It returns one result per delivery, or
// exactly one and whole.
func (e *Engine) callBatch(ws []*delivery) (results []sink.Result, whole bool) {
	t := ws[0].target
	reqs := make([]*sink.Request, len(ws))
	for i, w := range ws {
		reqs[i] = w.core.Request()
	}
	defer ws[0].fitting.enter(e.calls)()
	ctx, cancel := e.bounded(ws[0].fitting)
	defer cancel()
	ctx, end := e.batchStep(ctx, ws)
	began := time.Now()
	results, whole = invokeBatch(ctx, ws[0].fitting.sink.(sink.Batcher), reqs)
	if want := len(ws); whole && len(results) != 1 || !whole && len(results) != want {
		results, whole = []sink.Result{{Status: sink.Fault, Message: fmt.Sprintf("the sink gave %d answers to a batch of %d", len(results), want)}}, true
	}
	now := time.Now()
	for i := range results {
		results[i] = checked(results[i])
		// Of a fault nobody knows whose it is: each item goes on alone, uncharged.
		results[i].Suspect = results[i].Suspect || whole && results[i].Status == sink.Fault
		e.obs.CallDone(reqs[i].Key, "apply-batch", results[i].Status, now.Sub(began))
	}
	end(results)
	t.note(results[0], now)
	return results, whole
}

func invokeBatch(ctx context.Context, s sink.Batcher, reqs []*sink.Request) (results []sink.Result, whole bool) {
	defer func() {
		if p := recover(); p != nil {
			results, whole = []sink.Result{panicked(p)}, true
		}
	}()
	return s.ApplyBatch(ctx, reqs)
}
