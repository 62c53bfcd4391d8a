// Package relay takes in what other pawls send: it is the receiving side of the
// plugin pawl. docs/relay.md describes what is said between the two.
//
// A request is a Hello and items. The Hello's sender must be declared, and its life
// the present one (lives.go); each item then becomes a Put or Delete in the sender's
// name, ordered by the sender's own numbers (items.go), and its Result says what is
// sure. compare.go answers which of many resources differ.
package relay

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/pawlsync/pawl/engine"
	"github.com/pawlsync/pawl/engine/record"
	"github.com/pawlsync/pawl/internal/relay/wire"
)

// ErrMalformed is wrapped by the errors about a request that can't be read.
var ErrMalformed = wire.ErrMalformed

// Engine is what a Receiver needs of *engine.Engine.
type Engine interface {
	Get(context.Context, record.Key) (engine.Resource, error)
	Wait(context.Context, record.Key, uint64) (engine.WaitResult, error)
	Owned(ctx context.Context, owner, sink string, fn func(engine.Resource) bool) error
	Note(name string) ([]byte, error)
	SetNote(name string, value []byte) error
}

// Sender is one pawl that may send: a source by its own name.
type Sender interface {
	// Sinks are those that it may send to; none: all.
	Sinks() []string
	// PutBatch stores in the sender's name.
	PutBatch(context.Context, []engine.Put) ([]engine.BatchItem, error)
	// Delete deletes in the sender's name. What the fuse holds is a source.ErrFused.
	Delete(context.Context, engine.Delete) (engine.PutResult, error)
	// Complete notes that what the receiver holds is what the sender has.
	Complete()
}

// Observer is told what came in, for metrics.
type Observer interface {
	// RelayDone reports items of one sender with the same outcome.
	RelayDone(sender string, outcome string, items int)
	// RelayCompared reports one comparison: how many resources were found to differ.
	RelayCompared(sender string, differing int)
}

// Options configure a Receiver. Observer and Logger may be left out.
type Options struct {
	Engine Engine
	// Sender finds a declared sender; of any other the error is a source.ErrUndeclared.
	Sender func(ctx context.Context, name string) (Sender, error)
	// BatchMax is the engine's limit of one batch. Defaults to 10,000.
	BatchMax int
	Observer Observer
	Logger   *slog.Logger
}

// Receiver answers other pawls. Its methods may be called from many goroutines.
type Receiver struct {
	o Options

	mu        sync.Mutex
	lives     map[string]*life
	snapshots map[snapshotKey]*snapshot
}

// maxWait bounds how long one request waits for items to be processed.
const maxWait = 10 * time.Second

// New returns a Receiver.
func New(o Options) *Receiver {
	if o.BatchMax == 0 {
		o.BatchMax = 10_000
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Observer == nil {
		o.Observer = nopObserver{}
	}
	return &Receiver{o: o, lives: map[string]*life{}, snapshots: map[snapshotKey]*snapshot{}}
}

type nopObserver struct{}

func (nopObserver) RelayDone(string, string, int) {}
func (nopObserver) RelayCompared(string, int)     {}

// Receive answers a request of items. A request that can't be read to its end changes
// nothing.
//
// # Errors
//
// source.ErrUndeclared, ErrMalformed; the engine's where it can answer nothing at all.
func (r *Receiver) Receive(ctx context.Context, request []byte) ([]byte, error) {
	return r.answer(ctx, request, func(*wire.Item) error { return nil })
}

// Look is Receive for items that look, and nothing else: it changes nothing.
func (r *Receiver) Look(ctx context.Context, request []byte) ([]byte, error) {
	return r.answer(ctx, request, func(it *wire.Item) error {
		if it.Kind != wire.Look {
			return fmt.Errorf("%w: an item of kind %d among those that only look", ErrMalformed, it.Kind)
		}
		return nil
	})
}

func (r *Receiver) answer(ctx context.Context, request []byte, check func(*wire.Item) error) ([]byte, error) {
	c, rest, err := r.greet(ctx, request)
	if err != nil {
		return nil, err
	}
	items, err := readItems(rest, check)
	if err != nil {
		return nil, err
	}
	welcome, leave, err := r.enter(&c.hello)
	if err != nil {
		return nil, err
	}
	answer := wire.AppendWelcome(make([]byte, 0, 64+32*len(items)), welcome)
	if welcome.State != wire.Present {
		return answer, nil
	}
	results := r.receive(ctx, c, items, leave)
	counts := map[wire.Outcome]int{}
	for i := range results {
		answer = wire.AppendResult(answer, &results[i])
		counts[results[i].Outcome]++
	}
	for outcome, n := range counts {
		r.o.Observer.RelayDone(c.hello.Sender, outcomeNames[outcome], n)
	}
	return answer, nil
}

var outcomeNames = map[wire.Outcome]string{
	wire.Done: "done", wire.Waiting: "waiting", wire.Failing: "failing", wire.Missing: "missing", wire.Differs: "differs",
	wire.Obsolete: "obsolete", wire.Refused: "refused", wire.Later: "later", wire.Held: "held",
}

// conversation is one request's Hello, checked, and whose it is.
type conversation struct {
	hello  wire.Hello
	sender Sender
}

// stream names what the sender's numbers belong to. Two sinks of a sender that lead
// here do not know of each other's resources.
func (c *conversation) stream() string { return c.hello.Sender + "/" + c.hello.From }

// greet reads the Hello that a request begins with.
func (r *Receiver) greet(ctx context.Context, request []byte) (c *conversation, rest []byte, err error) {
	msg, rest, err := wire.Next(request)
	if err == nil && msg == nil {
		err = fmt.Errorf("%w: the request is empty", ErrMalformed)
	}
	if err != nil {
		return nil, nil, err
	}
	c = &conversation{}
	if c.hello, err = wire.ReadHello(msg); err != nil {
		return nil, nil, err
	}
	h := &c.hello
	if h.Sender == "" || h.Epoch == "" || len(h.Sender)+len(h.From) >= record.MaxKeyBytes || len(h.Epoch) > record.MaxKeyBytes {
		return nil, nil, fmt.Errorf("%w: it needs a sender and an epoch of at most %d bytes each", ErrMalformed, record.MaxKeyBytes)
	}
	if err := errors.Join(record.ConflictPolicy(h.Conflict).Validate(), record.DeletionPolicy(h.Deletion).Validate()); err != nil {
		return nil, nil, fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	if c.sender, err = r.o.Sender(ctx, h.Sender); err != nil {
		return nil, nil, err
	}
	return c, rest, nil
}

func readItems(b []byte, check func(*wire.Item) error) (items []wire.Item, err error) {
	for {
		msg, rest, err := wire.Next(b)
		if err != nil || msg == nil {
			return items, err
		}
		it, err := wire.ReadItem(msg)
		if err == nil {
			err = check(&it)
		}
		if err != nil {
			return nil, err
		}
		items, b = append(items, it), rest
	}
}
