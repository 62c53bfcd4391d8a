package engine

import (
	"context"
	"fmt"

	"github.com/pawlsync/pawl/engine/outbox"
	"github.com/pawlsync/pawl/engine/reconcile"
	"github.com/pawlsync/pawl/engine/record"
)

// waiter is woken by every commit of its key.
type waiter struct{ news chan struct{} }

func (w *waiter) wake() {
	select {
	case w.news <- struct{}{}:
	default:
	}
}

// Wait blocks until the resource is acknowledged at the given generation or a
// newer one, or is gone, or came to rest otherwise: Failed, Obsolete or Drifted
// at that generation or a newer one (R63). Generation 0 means the newest.
//
// # Errors
//
// ErrNotFound, where generation is 0 and there is no such resource; the error of
// ctx; ErrClosed.
func (e *Engine) Wait(ctx context.Context, key record.Key, generation uint64) (WaitResult, error) {
	w := &waiter{news: make(chan struct{}, 1)}
	e.mu.Lock()
	e.waiters[key] = append(e.waiters[key], w)
	e.mu.Unlock()
	defer e.dropWaiter(key, w)
	for {
		rec, err := e.store.Get(key)
		if err != nil {
			return WaitResult{}, fail("wait", key, err, "")
		}
		if generation == 0 {
			if !rec.Desired.Exists() {
				return WaitResult{}, fail("wait", key, fmt.Errorf("%w: there is no such resource", ErrNotFound), "")
			}
			generation = rec.Desired.Generation
		}
		if res, ok := waited(&rec, generation); ok {
			return res, nil
		}
		if err := e.open(); err != nil {
			return WaitResult{}, fail("wait", key, err, "the daemon is stopping; wait again once it runs")
		}
		select {
		case <-w.news:
		case <-ctx.Done():
			st := reconcile.Effective(rec.Desired.Generation, rec.Status)
			return resultOf(&rec, &st), ctx.Err()
		}
	}
}

// waited reports whether rec ends a wait for generation.
func waited(rec *outbox.Record, generation uint64) (WaitResult, bool) {
	if !rec.Desired.Exists() {
		return WaitResult{Done: true, Gone: true}, true
	}
	st := reconcile.Effective(rec.Desired.Generation, rec.Status)
	res := resultOf(rec, &st)
	if a := st.Acked; a != nil && a.Generation >= generation && !rec.Desired.Tombstone && (a.Generation < rec.Desired.Generation || st.Phase == record.AckedPhase) {
		res.Done = true
		return res, true
	}
	if rec.Desired.Generation < generation {
		return res, false
	}
	switch st.Phase {
	case record.Failed, record.Obsolete, record.Drifted:
		return res, true
	}
	return res, false
}

func resultOf(rec *outbox.Record, st *record.Status) WaitResult {
	return WaitResult{Phase: st.Phase, Reason: st.Reason, Message: st.Message, Generation: rec.Desired.Generation}
}

// answerWaiters wakes those who wait for key; e.mu is held.
func (e *Engine) answerWaiters(key record.Key) {
	for _, w := range e.waiters[key] {
		w.wake()
	}
}

func (e *Engine) dropWaiter(key record.Key, w *waiter) {
	e.mu.Lock()
	defer e.mu.Unlock()
	list := e.waiters[key]
	for i := range list {
		if list[i] == w {
			list[i] = list[len(list)-1]
			list = list[:len(list)-1]
			break
		}
	}
	if len(list) == 0 {
		delete(e.waiters, key)
	} else {
		e.waiters[key] = list
	}
}
