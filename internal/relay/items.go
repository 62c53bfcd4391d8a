package relay

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/pawlsync/pawl/engine"
	"github.com/pawlsync/pawl/engine/outbox"
	"github.com/pawlsync/pawl/engine/record"
	"github.com/pawlsync/pawl/internal/relay/wire"
	"github.com/pawlsync/pawl/internal/source"
)

// When a sender is to look again, by what keeps it waiting.
const (
	waitingMillis = 1_000  // its resource is on its way to the receiver's own sink
	busyMillis    = 2_000  // the receiver can't take it at the moment
	heldMillis    = 30_000 // somebody has to confirm
)

// key is where an item's resource is at the receiver.
func (c *conversation) key(name string) (record.Key, error) {
	k := record.Key{Sink: c.hello.Sink, Name: c.hello.Prefix + name}
	if c.hello.Sink == "" {
		sink, rest, ok := strings.Cut(name, "/")
		if !ok {
			return k, fmt.Errorf("the key has no / after the receiving sink's name; call it SINK/KEY, or set sink in the config of the sending sink")
		}
		k = record.Key{Sink: sink, Name: c.hello.Prefix + rest}
	}
	if may := c.sender.Sinks(); len(may) > 0 && !slices.Contains(may, k.Sink) {
		return k, fmt.Errorf("sender %q may not send to sink %q here; the receiver's sources.*.pawl.sinks lists where to", c.hello.Sender, k.Sink)
	}
	return k, k.Validate()
}

// keyAtSender is the name that the sender has for a key of the receiver; false: what
// this conversation says can't be about it.
func (c *conversation) keyAtSender(k record.Key) (string, bool) {
	rest, ok := strings.CutPrefix(k.Name, c.hello.Prefix)
	if c.hello.Sink == "" {
		return k.Sink + "/" + rest, ok
	}
	return rest, ok && k.Sink == c.hello.Sink
}

// receive carries out items in their order. leave is called when all of them are
// stored: what is waited for after that changes nothing.
func (r *Receiver) receive(ctx context.Context, c *conversation, items []wire.Item, leave func()) []wire.Result {
	results := make([]wire.Result, len(items))
	stored := make([]waiting, 0, len(items))
	puts, of := make([]engine.Put, 0, len(items)), make([]int, 0, len(items))
	flush := func() {
		stored = append(stored, r.put(ctx, c, puts, of, results)...)
		puts, of = puts[:0], of[:0]
	}
	for i := range items {
		it := &items[i]
		key, err := c.key(it.Key)
		if err != nil {
			results[i] = wire.Result{Outcome: wire.Later, Message: err.Error()}
			continue
		}
		results[i].Ref = key.String()
		order := record.Order{Source: c.stream(), Epoch: c.hello.Epoch, Number: it.Number}
		switch it.Kind {
		case wire.Put:
			// The same number again is a correction of drift: what is here may be another's, or
			// under other policies.
			puts = append(puts, engine.Put{Key: key, Payload: it.Payload, Order: order, OrderPartial: true,
				Conflict: record.ConflictPolicy(c.hello.Conflict), Deletion: record.DeletionPolicy(c.hello.Deletion)})
			if of = append(of, i); len(puts) == r.o.BatchMax {
				flush()
			}
		case wire.Delete:
			flush()
			stored = append(stored, r.delete(ctx, c, key, order, i, results)...)
		case wire.Look:
			stored = append(stored, r.look(ctx, c, key, it, i, results)...)
		}
	}
	flush()
	leave()
	if c.hello.Ack == wire.Processed {
		r.await(ctx, min(time.Duration(c.hello.Millis)*time.Millisecond, maxWait), stored, results)
	}
	return results
}

// put stores puts, whose results are those at of, and returns what is stored.
func (r *Receiver) put(ctx context.Context, c *conversation, puts []engine.Put, of []int, results []wire.Result) (stored []waiting) {
	if len(puts) == 0 {
		return nil
	}
	done, err := c.sender.PutBatch(ctx, puts)
	for n, i := range of {
		itemErr := err
		if err == nil {
			itemErr = done[n].Err
		}
		if itemErr != nil {
			r.refuse(&results[i], itemErr)
			continue
		}
		results[i].Outcome = wire.Done
		stored = append(stored, waiting{key: puts[n].Key, generation: done[n].Generation, at: i})
	}
	return stored
}

func (r *Receiver) delete(ctx context.Context, c *conversation, key record.Key, order record.Order, at int, results []wire.Result) []waiting {
	done, err := c.sender.Delete(ctx, engine.Delete{Key: key, Order: order})
	switch {
	case err == nil:
		results[at].Outcome = wire.Done
		return []waiting{{key: key, generation: done.Generation, at: at}}
	case errors.Is(err, engine.ErrNotFound):
		results[at].Outcome, results[at].Message = wire.Done, "there is no such resource"
	case errors.Is(err, engine.ErrOwned):
		results[at].Outcome, results[at].Message = wire.Done, "the receiver's resource is somebody else's; the sender's is gone"
	case errors.Is(err, source.ErrFused):
		results[at].Outcome, results[at].Millis = wire.Held, heldMillis
		results[at].Message = fmt.Sprintf("the receiver holds the deletion, since the sender has deleted much; `pawl source confirm %s` there lets it go on", c.hello.Sender)
	default:
		r.refuse(&results[at], err)
	}
	return nil
}

// look compares what the receiver holds with what the sender desires.
func (r *Receiver) look(ctx context.Context, c *conversation, key record.Key, it *wire.Item, at int, results []wire.Result) []waiting {
	res := &results[at]
	found, err := r.o.Engine.Get(ctx, key)
	d := &found.Desired
	switch {
	case errors.Is(err, engine.ErrNotFound), err == nil && (d.Tombstone || d.Owner != c.hello.Sender):
		res.Outcome = wire.Missing
	case err != nil:
		r.refuse(res, err)
	case !c.asAsked(d) || string(d.Hash[:]) != string(it.Hash):
		res.Outcome, res.Hash = wire.Differs, d.Hash[:]
	default:
		res.Outcome, res.Hash = wire.Done, d.Hash[:]
		return []waiting{{key: key, generation: d.Generation, at: at}}
	}
	return nil
}

// asAsked reports whether d has the policies that the sender asks for.
func (c *conversation) asAsked(d *record.Desired) bool {
	return d.Conflict == record.ConflictPolicy(c.hello.Conflict) && (c.hello.Deletion == "" || d.Deletion == record.DeletionPolicy(c.hello.Deletion))
}

// refuse says why an item was not taken, and whether it may be later.
func (r *Receiver) refuse(res *wire.Result, err error) {
	res.Message = err.Error()
	switch {
	case errors.Is(err, engine.ErrStale):
		res.Outcome = wire.Obsolete
	case errors.Is(err, engine.ErrInvalid), errors.Is(err, engine.ErrTooLarge):
		res.Outcome = wire.Refused
	case errors.Is(err, engine.ErrHeld), errors.Is(err, engine.ErrBusy), errors.Is(err, engine.ErrNoSpace), errors.Is(err, engine.ErrClosed),
		errors.Is(err, outbox.ErrUnavailable), errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		res.Outcome, res.Millis = wire.Later, busyMillis
	default: // an unknown sink, another owner: somebody has to do something first
		res.Outcome = wire.Later
	}
}

// waiting is a stored item of which the sender wants to know whether it is processed.
type waiting struct {
	key        record.Key
	generation uint64
	at         int // in the results
}

// await waits until the receiver's own sinks have acknowledged what is stored, for
// patience at most: an item that takes longer keeps no other waiting.
func (r *Receiver) await(ctx context.Context, patience time.Duration, stored []waiting, results []wire.Result) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	var wg sync.WaitGroup
	for _, w := range stored {
		wg.Go(func() {
			done, err := r.o.Engine.Wait(ctx, w.key, w.generation)
			res := &results[w.at]
			switch {
			case err != nil:
				res.Outcome, res.Millis, res.Message = wire.Waiting, waitingMillis, "the receiver has it, and its own sink has not acknowledged it yet"
			case done.Done:
			case done.Phase == record.Obsolete:
				res.Outcome, res.Message = wire.Obsolete, done.Message
			default:
				res.Outcome, res.Message = wire.Failing, fmt.Sprintf("the receiver has it, and there it is %s: %s", done.Phase, done.Message)
			}
		})
	}
	wg.Wait()
}
