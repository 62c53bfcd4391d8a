// Package source brings desired state into the engine from where people keep it.
//
// A Source tells what it wants, a full set first and changes afterwards. Its Inlet
// makes that the engine's: what the set has is put as the source's own, and what it
// lacks is deleted, as far as the fuse allows (fuse.go). What can't be read is never
// taken for something that was deleted.
package source

import (
	"context"
	"iter"

	"github.com/pawlsync/pawl/engine/record"
)

// Source is one place where desired state is kept: a directory, a cluster.
type Source interface {
	// Run tells in everything, then what changes, until ctx ends. It begins with a
	// Full. An error means that the source can't go on at all: Run is called again
	// after a pause, and begins with a Full again. Troubles that it can wait out by
	// itself it tells by Trouble.
	Run(ctx context.Context, in Inlet) error
	// Rescan asks a Run that is under way for a Full as soon as it can. It does not block.
	Rescan()
}

// Item is one resource as its source wants it.
type Item struct {
	Key      record.Key
	Payload  []byte
	Conflict record.ConflictPolicy // empty: the sink's
	Deletion record.DeletionPolicy // empty: the source's, else the sink's
	Suspend  bool
	// Direction says which way the resource is kept in sync; empty: the sink's.
	Direction record.Direction
	// Retry says how it is tried again; zero fields: as the sink says.
	Retry record.Retry
	// IdempotencyKey, where set, is what calls for this content bear (R10b).
	IdempotencyKey string
	// Order, where set, places the item among those of its source (R08).
	Order        record.Order
	OrderPartial bool
	// Place says where the source has it, for people: "web.yaml:12", "ConfigMap app/settings".
	Place string
	// Answer, where set, is called with what became of the item, nil where it was
	// accepted: by Put and Full alike, before they return, one call at a time. It is told
	// engine.ErrStale too, which is no problem to an operator.
	Answer func(err error)
}

// Kept is something that the source has and can't be put now: a document with a
// mistake, an object that no template fits. The resource of that key stays as it is.
type Kept struct {
	Key   record.Key // zero where not even that can be read: then nothing of the set is swept
	Place string
	Err   error // nil, for Keep alone: what stood of this key, or of this place, stands no more
}

// Inlet takes in what one source tells. Its methods wait until it is durable, and
// may be called by one goroutine at a time.
type Inlet interface {
	// Full takes in all that the source has. What an earlier set had, and this one
	// has neither in items nor in kept, is deleted. Of two items of one key the first
	// is taken, and the second is an error that names both places. kept is asked once, when items has
	// ended: a source may read as it tells. nil: there is none. When items stops with an
	// error in the middle the set is cut off, and nothing is deleted. An error that Full
	// returns is of the engine: the set should be told again.
	Full(ctx context.Context, items iter.Seq2[Item, error], kept func() []Kept) error
	// Put takes in changes. Errs has one for each item, nil where it was accepted, or
	// overtaken by a newer order: they are told to the operator already, and stand until
	// the item is put again. What may go better later, on a full disk say, is asked for
	// again by Rescan.
	Put(ctx context.Context, items []Item) (errs []error)
	// Keep notes what can't be put now. It stands until the key or the place comes again.
	Keep(kept []Kept)
	// Delete deletes what the source no longer has, as one change: what is more than the
	// fuse allows is held as a whole. Errs has one for each key: one that
	// wraps ErrFused where the fuse holds it, which needs nothing more of the source. It
	// goes when an operator confirms it, and is off the list when it is put again. What
	// is gone already, or somebody else's by now, is no error.
	Delete(ctx context.Context, keys []record.Key) (errs []error)
	// DeleteEach is Delete of single events, which have nothing to do with each other: the
	// fuse lets the first ones go, and holds those that are beyond.
	DeleteEach(ctx context.Context, keys []record.Key) (errs []error)
	// Trouble tells what keeps the source from being read at the moment; nil: nothing
	// any more.
	Trouble(err error)
}
