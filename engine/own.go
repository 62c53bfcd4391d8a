package engine

import (
	"context"
	"errors"
	"time"

	"github.com/pawlsync/pawl/engine/outbox"
	"github.com/pawlsync/pawl/engine/reconcile"
	"github.com/pawlsync/pawl/engine/record"
)

// HandOver makes to the owner of a resource that from owns; "" is nobody. What is
// desired stays, and no call is made. It is durable when HandOver returns.
//
// # Errors
//
// ErrNotFound; ErrOwned where neither owns it; ErrClosed; the error of ctx.
func (e *Engine) HandOver(ctx context.Context, key record.Key, from, to string) error {
	return e.operate(ctx, "hand over", key, func(cur outbox.Record, _ time.Time) (outbox.Change, error) {
		return reconcile.AcceptHandOver(cur, from, to)
	})
}

// Owned calls fn with every resource that owner put and nobody has deleted, in key
// order, until fn returns false; sink "" is all. It reads each record, payload
// included, so that it takes seconds for a million. A damaged one is left out, since
// nobody can tell whose it is.
func (e *Engine) Owned(ctx context.Context, owner, sink string, fn func(Resource) bool) error {
	return e.standing(ctx, sink, func(key record.Key, rec *outbox.Record) bool {
		if rec.Desired.Owner != owner {
			return true
		}
		return fn(Resource{Key: key, Desired: rec.Desired, Status: e.effective(key, rec.Desired.Generation, rec.Status)})
	})
}

// Owners calls fn with the owner, "" for nobody, of every resource that nobody has
// deleted, in key order, until fn returns false. It costs what Owned does.
func (e *Engine) Owners(ctx context.Context, fn func(key record.Key, owner string) bool) error {
	return e.standing(ctx, "", func(key record.Key, rec *outbox.Record) bool { return fn(key, rec.Desired.Owner) })
}

// standing calls fn with every record that is neither damaged nor to be deleted.
func (e *Engine) standing(ctx context.Context, sink string, fn func(record.Key, *outbox.Record) bool) error {
	if err := e.open(); err != nil {
		return &Error{Op: "list", Err: err}
	}
	var failed error
	err := e.store.Heads(ctx, outbox.Span{Sink: sink}, func(h outbox.Head) bool {
		if h.Generation == 0 || h.Gone || h.Tombstone || h.Key.Sink == journalSink {
			return true
		}
		rec, err := e.store.Get(h.Key)
		if errors.Is(err, outbox.ErrDamaged) {
			return true
		}
		if failed = err; err != nil {
			return false
		}
		if !rec.Desired.Exists() || rec.Desired.Tombstone {
			return true
		}
		return fn(h.Key, &rec)
	})
	if err = errors.Join(err, failed, ctx.Err()); err != nil {
		return fail("list", record.Key{}, err, "")
	}
	return nil
}
