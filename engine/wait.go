package engine

import (
	"context"
	"fmt"
	"slices"
	"sync"

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
	w := e.waiters.add(key)
	defer e.waiters.drop(key, w)
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

// waiters are those who wait, by key. They have a lock of their own, taken after
// Engine.mu where both are held.
type waiters struct {
	mu    sync.Mutex
	byKey map[record.Key][]*waiter
}

func (ws *waiters) add(key record.Key) *waiter {
	w := &waiter{news: make(chan struct{}, 1)}
	ws.mu.Lock()
	ws.byKey[key] = append(ws.byKey[key], w)
	ws.mu.Unlock()
	return w
}

func (ws *waiters) drop(key record.Key, w *waiter) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	list := slices.DeleteFunc(ws.byKey[key], func(x *waiter) bool { return x == w })
	if len(list) == 0 {
		delete(ws.byKey, key)
	} else {
		ws.byKey[key] = list
	}
}

// wake wakes those who wait for key.
func (ws *waiters) wake(key record.Key) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	for _, w := range ws.byKey[key] {
		w.wake()
	}
}

func (ws *waiters) wakeAll() {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	for _, list := range ws.byKey {
		for _, w := range list {
			w.wake()
		}
	}
}

func (ws *waiters) count() (n int) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	for _, list := range ws.byKey {
		n += len(list)
	}
	return n
}
