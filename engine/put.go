package engine

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/pawlsync/pawl/engine/outbox"
	"github.com/pawlsync/pawl/engine/reconcile"
	"github.com/pawlsync/pawl/engine/record"
)

// Put stores a desired state. It returns once the state is durable: from then
// on it survives any crash until the target has it or something newer replaces
// it. Equal content is a no-op (R03).
//
// # Errors
//
// ErrUnknownSink, ErrInvalid, ErrTooLarge, ErrStale, ErrConflict, ErrOwned, ErrKeyUsed, ErrNoSpace and
// ErrClosed, wrapped in an *Error. When ctx ends first the state may or may not
// be stored.
func (e *Engine) Put(ctx context.Context, p Put) (PutResult, error) {
	began := time.Now()
	return e.await(ctx, "put", p.Key, began, e.submit(ctx, p, began))
}

// PutBatch stores many states in one commit, or few. Its results are in the
// order of puts; the error of one spoils no other (R11). The error of the batch
// as a whole, ErrTooLarge or ErrClosed, says that nothing was stored.
func (e *Engine) PutBatch(ctx context.Context, puts []Put) ([]BatchItem, error) {
	if len(puts) > e.opts.BatchMax {
		return nil, &Error{Op: "put batch", Err: fmt.Errorf("%w: %d puts in one batch, more than the %d allowed", ErrTooLarge, len(puts), e.opts.BatchMax),
			Hint: "split the batch; nothing of it was stored"}
	}
	if err := e.open(); err != nil {
		return nil, &Error{Op: "put batch", Err: err}
	}
	began := time.Now()
	subs := make([]submission, len(puts))
	for i := range puts {
		subs[i] = e.submit(ctx, puts[i], began)
	}
	items := make([]BatchItem, len(puts))
	for i := range subs {
		items[i].PutResult, items[i].Err = e.await(ctx, "put", puts[i].Key, began, subs[i])
	}
	return items, nil
}

// Delete asks for a resource to be deleted, at its target as the deletion policy
// says. It returns once the tombstone is durable; the tombstone stays until the
// target confirmed (R05, R54).
//
// # Errors
//
// ErrNotFound, ErrStale, ErrConflict, ErrOwned, ErrInvalid and ErrClosed, wrapped in an
// *Error.
func (e *Engine) Delete(ctx context.Context, del Delete) (PutResult, error) {
	began := time.Now()
	return e.await(ctx, "delete", del.Key, began, e.submitDelete(ctx, &del, began))
}

// DeleteBatch asks for many resources to be deleted, in one commit or few. Its
// results are in the order of dels; the error of one, as of Delete, spoils no other.
func (e *Engine) DeleteBatch(ctx context.Context, dels []Delete) []BatchItem {
	began := time.Now()
	subs := make([]submission, len(dels))
	for i := range dels {
		subs[i] = e.submitDelete(ctx, &dels[i], began)
	}
	items := make([]BatchItem, len(dels))
	for i := range subs {
		items[i].PutResult, items[i].Err = e.await(ctx, "delete", dels[i].Key, began, subs[i])
	}
	return items
}

// submitDelete checks a Delete and queues it.
func (e *Engine) submitDelete(ctx context.Context, del *Delete, now time.Time) (sub submission) {
	sub.trace = e.putBegan(ctx, del.Key, "delete")
	if sub.err = e.open(); sub.err != nil {
		return sub
	}
	if sub.err = invalid(del.Key.Validate(), del.Deletion.Validate(), del.DeletionElse.Validate()); sub.err != nil {
		return sub
	}
	key := del.Key
	req := del.request()
	rules := e.rulesOf(key)
	sub.ticket = e.store.Update(key, func(cur outbox.Record) (outbox.Change, error) {
		if err := e.refused("delete", key); err != nil {
			return outbox.Change{}, err
		}
		change, answer, err := reconcile.AcceptDelete(rules, cur, req, e.facts(key, cur, now))
		sub.answer = answer
		taken(sub.trace, &change, err)
		return change, err
	})
	return sub
}

// request is del as the core takes it.
func (del *Delete) request() reconcile.DeleteRequest {
	return reconcile.DeleteRequest{
		Deletion: del.Deletion, DeletionElse: del.DeletionElse, Order: del.Order, OrderPartial: del.OrderPartial,
		IfGeneration: del.IfGeneration, Owner: del.Owner, TakeOver: del.TakeOver,
	}
}

// submission is a change on its way into the store.
type submission struct {
	ticket outbox.Ticket
	answer reconcile.Answer
	err    error    // it was not submitted
	trace  PutTrace // nil: nobody follows it
}

// submit checks a Put and queues it.
func (e *Engine) submit(ctx context.Context, p Put, now time.Time) (sub submission) {
	sub.trace = e.putBegan(ctx, p.Key, "put")
	if sub.err = e.check(&p); sub.err != nil {
		return sub
	}
	t, err := e.target("put", p.Key)
	if err != nil {
		sub.err = err
		return sub
	}
	p.Payload = bytes.Clone(p.Payload)
	key, req := p.Key, p.request()
	if sub.err = t.fitting().canTakeIn(&req.Desired); sub.err != nil {
		return sub
	}
	sub.ticket = e.store.Update(key, func(cur outbox.Record) (outbox.Change, error) {
		if err := e.refused("put", key); err != nil {
			return outbox.Change{}, err
		}
		change, answer, err := reconcile.AcceptPut(t.fitting().rules, cur, req, e.facts(key, cur, now))
		sub.answer = answer
		taken(sub.trace, &change, err)
		return change, err
	})
	return sub
}

// request is p as the core takes it; the payload stays p's.
func (p *Put) request() reconcile.PutRequest {
	return reconcile.PutRequest{
		Desired: record.Desired{
			Payload: p.Payload, Hash: record.HashOf(p.Payload), Conflict: p.Conflict, Deletion: p.Deletion,
			Suspend: p.Suspend, Order: p.Order, Owner: p.Owner, Direction: p.Direction,
			Retry: p.Retry, IdempotencyKey: p.IdempotencyKey,
		},
		OrderPartial: p.OrderPartial, IfGeneration: p.IfGeneration, TakeOver: p.TakeOver,
	}
}

// check says what is wrong with a Put by itself (R10).
func (e *Engine) check(p *Put) error {
	if err := e.open(); err != nil {
		return err
	}
	if err := invalid(p.Key.Validate(), p.Conflict.Validate(), p.Deletion.Validate(), p.Direction.Validate(), p.Retry.Validate(), record.ValidateIdempotencyKey(p.IdempotencyKey)); err != nil {
		return err
	}
	if len(p.Payload) > e.opts.PayloadMaxBytes {
		return fmt.Errorf("%w: the payload has %d bytes, more than the %d allowed", ErrTooLarge, len(p.Payload), e.opts.PayloadMaxBytes)
	}
	if len(p.Owner) > record.MaxKeyBytes || len(p.Order.Source) > record.MaxKeyBytes || len(p.Order.Epoch) > record.MaxKeyBytes {
		return fmt.Errorf("%w: owner, source and epoch may have %d bytes each", ErrTooLarge, record.MaxKeyBytes)
	}
	return nil
}

func invalid(errs ...error) error {
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	return nil
}

// facts are what only the engine knows about key. It is called with the key's
// order in the store fixed, so that it can't miss a delivery that is loading.
func (e *Engine) facts(key record.Key, cur outbox.Record, now time.Time) reconcile.Facts {
	f := reconcile.Facts{Now: now}
	if !cur.Desired.Exists() {
		return f
	}
	gen := cur.Desired.Generation
	f.MaybeSent = e.flights.maybeSent(key, gen) || gen <= e.opened && e.unsure(key)
	return f
}

// unsure reports whether a call of an earlier process may have been sent.
func (e *Engine) unsure(key record.Key) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.sched.Unsure(key)
}

// await waits until a submission is durable and answers its caller.
func (e *Engine) await(ctx context.Context, op string, key record.Key, began time.Time, sub submission) (PutResult, error) {
	err := sub.err
	if err == nil {
		err = sub.ticket.Wait(ctx)
	}
	took := time.Since(began)
	if err != nil {
		e.putDone(key.Sink, sub.trace, refusal(err), false, took)
		if typed := (*Error)(nil); errors.As(err, &typed) {
			return PutResult{}, err
		}
		return PutResult{}, fail(op, key, err, hintFor(err))
	}
	res := PutResult{Generation: sub.answer.Generation, Replaced: sub.answer.Replaced}
	outcome := "unchanged"
	if res.Generation == 0 {
		res.Generation, res.Changed, outcome = sub.ticket.Revision, true, "accepted"
	}
	e.putDone(key.Sink, sub.trace, outcome, res.Replaced, took)
	return res, nil
}

// putDone tells how a Put or Delete was answered.
func (e *Engine) putDone(sinkName string, t PutTrace, outcome string, replaced bool, took time.Duration) {
	e.obs.PutDone(sinkName, outcome, replaced, took)
	if t != nil {
		t.Done(outcome, replaced)
	}
}

// refusal is the metric's word for an error of Put or Delete.
func refusal(err error) string {
	switch {
	case errors.Is(err, ErrStale):
		return "stale"
	case errors.Is(err, ErrConflict), errors.Is(err, ErrKeyUsed):
		return "conflict"
	case errors.Is(err, ErrOwned):
		return "owned"
	case errors.Is(err, ErrNoSpace):
		return "no-space"
	case errors.Is(err, ErrHeld):
		return "held"
	case errors.Is(err, ErrInvalid), errors.Is(err, ErrTooLarge), errors.Is(err, ErrUnknownSink), errors.Is(err, ErrNotFound):
		return "invalid"
	}
	return "error"
}

func hintFor(err error) string {
	switch {
	case errors.Is(err, ErrNoSpace):
		return "free disk space or raise the store's volume; deliveries go on and Puts are accepted again by themselves"
	case errors.Is(err, ErrStale):
		return "the source has put something newer already; nothing was changed"
	case errors.Is(err, ErrOwned):
		return "change it where its source has it, or hand it over (`pawl source handover`, takeOver in the API)"
	case errors.Is(err, ErrKeyUsed):
		return "give the new content an idempotency key of its own, or none"
	case errors.Is(err, ErrConflict):
		return "read the resource again and decide anew"
	}
	return ""
}
