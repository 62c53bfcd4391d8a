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
// ErrUnknownSink, ErrInvalid, ErrTooLarge, ErrStale, ErrConflict, ErrNoSpace and
// ErrClosed, wrapped in an *Error. When ctx ends first the state may or may not
// be stored.
func (e *Engine) Put(ctx context.Context, p Put) (PutResult, error) {
	began := time.Now()
	return e.await(ctx, "put", p.Key, began, e.submit(p, began))
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
		subs[i] = e.submit(puts[i], began)
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
// ErrNotFound, ErrStale, ErrConflict, ErrInvalid and ErrClosed, wrapped in an
// *Error.
func (e *Engine) Delete(ctx context.Context, del Delete) (PutResult, error) {
	began := time.Now()
	sub := submission{}
	sub.err = e.open()
	if sub.err == nil {
		sub.err = invalid(del.Key.Validate(), del.Deletion.Validate())
	}
	if sub.err == nil {
		req := reconcile.DeleteRequest{Deletion: del.Deletion, Order: del.Order, OrderPartial: del.OrderPartial, IfGeneration: del.IfGeneration}
		rules := e.rulesOf(del.Key)
		sub.ticket = e.store.Update(del.Key, func(cur outbox.Record) (outbox.Change, error) {
			if err := e.refused("delete", del.Key); err != nil {
				return outbox.Change{}, err
			}
			change, answer, err := reconcile.AcceptDelete(rules, cur, req, e.facts(del.Key, cur, began))
			sub.answer = answer
			return change, err
		})
	}
	return e.await(ctx, "delete", del.Key, began, sub)
}

// submission is a change on its way into the store.
type submission struct {
	ticket outbox.Ticket
	answer reconcile.Answer
	err    error // it was not submitted
}

// submit checks a Put and queues it.
func (e *Engine) submit(p Put, now time.Time) (sub submission) {
	if sub.err = e.check(&p); sub.err != nil {
		return sub
	}
	t, err := e.target("put", p.Key)
	if err != nil {
		sub.err = err
		return sub
	}
	payload := bytes.Clone(p.Payload)
	req := reconcile.PutRequest{
		Desired: record.Desired{
			Payload: payload, Hash: record.HashOf(payload), Conflict: p.Conflict, Deletion: p.Deletion,
			Suspend: p.Suspend, Order: p.Order, Owner: p.Owner,
		},
		OrderPartial: p.OrderPartial, IfGeneration: p.IfGeneration,
	}
	sub.ticket = e.store.Update(p.Key, func(cur outbox.Record) (outbox.Change, error) {
		if err := e.refused("put", p.Key); err != nil {
			return outbox.Change{}, err
		}
		change, answer, err := reconcile.AcceptPut(t.fitting().rules, cur, req, e.facts(p.Key, cur, now))
		sub.answer = answer
		return change, err
	})
	return sub
}

// check says what is wrong with a Put by itself (R10).
func (e *Engine) check(p *Put) error {
	if err := e.open(); err != nil {
		return err
	}
	if err := invalid(p.Key.Validate(), p.Conflict.Validate(), p.Deletion.Validate()); err != nil {
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
		e.obs.PutDone(key.Sink, refusal(err), false, took)
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
	e.obs.PutDone(key.Sink, outcome, res.Replaced, took)
	return res, nil
}

// refusal is the metric's word for an error of Put or Delete.
func refusal(err error) string {
	switch {
	case errors.Is(err, ErrStale):
		return "stale"
	case errors.Is(err, ErrConflict):
		return "conflict"
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
	case errors.Is(err, ErrConflict):
		return "read the resource again and decide anew"
	}
	return ""
}
