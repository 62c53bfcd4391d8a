package sim

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/pawlsync/pawl/engine"
	"github.com/pawlsync/pawl/engine/record"
)

// client asks for changes of resources that nobody else changes, one after the other,
// so that it knows what it was promised.
type client struct {
	w    *world
	rng  *rand.Rand
	keys []record.Key
	n    int // numbers payloads
	// number is the newest that was promised for the first key.
	number uint64
	waits  *waits
}

// waits are the calls of Wait under way.
type waits struct {
	sync.WaitGroup
	ctx context.Context // ends when all of them should have ended
}

func newClient(w *world, number int, waits *waits) *client {
	c := &client{w: w, rng: rand.New(rand.NewPCG(w.seed, 2+uint64(number))), waits: waits}
	for i := range keysPerClient {
		c.keys = append(c.keys, record.Key{Sink: w.targets[c.rng.IntN(len(w.targets))].name, Name: fmt.Sprintf("c%d-%d", number, i)})
	}
	return c
}

func (c *client) work() {
	for range 15 + c.rng.IntN(30) {
		time.Sleep(time.Duration(c.rng.Float64() * c.rng.Float64() * float64(40*time.Second)))
		c.step()
	}
}

func (c *client) step() {
	e, key := c.w.now(), c.keys[c.rng.IntN(len(c.keys))]
	ctx := context.Background()
	if c.rng.IntN(10) == 0 { // somebody without patience
		short, cancel := context.WithTimeout(ctx, 0)
		defer cancel()
		ctx = short
	}
	switch c.rng.IntN(20) {
	case 0, 1, 2, 3:
		c.n++
		order := c.order(key)
		_, err := e.Delete(ctx, engine.Delete{Key: key, Order: order})
		c.noted(key, "delete", nothing, err)
		c.ordered(key, order, err)
	case 4, 5:
		c.batch(ctx, e)
	case 6:
		c.drift(key)
	case 7:
		c.operate(ctx, e, key)
	case 8:
		err := e.Forget(ctx, key)
		c.w.promised(key)
		if !errors.Is(err, engine.ErrNotFound) {
			c.w.mu.Lock()
			c.w.ledger[key].forgotten = true
			c.w.mu.Unlock()
		}
		c.noted(key, "forget", nothing, err)
	case 9:
		c.again(ctx, e, key)
	case 10:
		c.stale(ctx, e)
	default:
		c.put(ctx, e, key, c.payload())
	}
}

func (c *client) payload() string {
	c.n++
	if c.rng.IntN(4) == 0 {
		return fmt.Sprintf(`"%s again"`, c.keys[0].Name) // what was there before may return
	}
	return fmt.Sprintf(`"%s %d"`, c.keys[0].Name, c.n)
}

func (c *client) put(ctx context.Context, e *engine.Engine, key record.Key, payload string) {
	order := c.order(key)
	res, err := e.Put(ctx, engine.Put{Key: key, Payload: []byte(payload), Order: order})
	c.noted(key, fmt.Sprintf("put %s as %d", payload, res.Generation), payload, err)
	c.ordered(key, order, err)
	if err == nil && c.rng.IntN(3) == 0 {
		c.wait(key, res.Generation)
	}
}

// order numbers the changes of the client's first key, as a source does.
func (c *client) order(key record.Key) record.Order {
	if key != c.keys[0] {
		return record.Order{}
	}
	return record.Order{Source: "sim", Epoch: "1", Number: uint64(c.n)}
}

// ordered remembers the newest number that certainly is stored.
func (c *client) ordered(key record.Key, o record.Order, err error) {
	if key == c.keys[0] && err == nil {
		c.number = o.Number
	}
}

// stale puts what comes late: it must be refused, also after the record went (R08).
func (c *client) stale(ctx context.Context, e *engine.Engine) {
	key := c.keys[0]
	p := c.w.promised(key)
	if c.number < 2 || p.forgotten { // a forgotten order is not known any more
		return
	}
	_, err := e.Put(ctx, engine.Put{Key: key, Payload: []byte(`"late"`), Order: record.Order{Source: "sim", Epoch: "1", Number: c.number - 1}})
	c.w.logf(key, "late put: %v", err)
	if err == nil {
		c.w.failf(key, "R08: number %d was taken after number %d", c.number-1, c.number)
	}
}

// again puts what is desired already, which is no new generation.
func (c *client) again(ctx context.Context, e *engine.Engine, key record.Key) {
	p := c.w.promised(key)
	if len(p.possible) == 1 && p.possible[0] != nothing {
		res, err := e.Put(ctx, engine.Put{Key: key, Payload: []byte(p.possible[0])})
		c.noted(key, fmt.Sprintf("put again, generation %d", res.Generation), p.possible[0], err)
		if err == nil && res.Changed {
			c.w.failf(key, "R03: equal content made generation %d", res.Generation)
		}
	}
}

func (c *client) batch(ctx context.Context, e *engine.Engine) {
	puts := make([]engine.Put, len(c.keys))
	for i, key := range c.keys {
		payload := c.payload()
		puts[i] = engine.Put{Key: key, Payload: []byte(payload), Order: c.order(key)}
	}
	items, err := e.PutBatch(ctx, puts)
	for i, key := range c.keys {
		itemErr := err
		if err == nil {
			itemErr = items[i].Err
		}
		c.noted(key, "put in a batch "+string(puts[i].Payload), string(puts[i].Payload), itemErr)
		c.ordered(key, puts[i].Order, itemErr)
	}
}

// drift changes the target behind the engine's back, where the sink would see it.
func (c *client) drift(key record.Key) {
	target, _ := c.w.of(key)
	if !target.manifest.Observes {
		return
	}
	p := c.w.promised(key)
	c.w.mu.Lock()
	p.drifted = true
	c.w.mu.Unlock()
	n := c.rng.IntN(100)
	c.w.logf(key, "drifts (%d)", n)
	target.drift(key.Name, n)
}

func (c *client) operate(ctx context.Context, e *engine.Engine, key record.Key) {
	var err error
	op := []string{"retry", "suspend", "resume", "force", "accept", "suspend sink", "resume sink"}[c.rng.IntN(7)]
	switch op {
	case "retry":
		err = e.Retry(ctx, key)
	case "suspend":
		err = e.Suspend(ctx, key)
	case "resume":
		err = e.Resume(ctx, key)
	case "force":
		err = e.ApplyForce(ctx, key)
	case "accept":
		err = e.Accept(ctx, key)
	case "suspend sink":
		err = e.SuspendSink(ctx, key.Sink)
	case "resume sink":
		err = e.ResumeSink(ctx, key.Sink)
	}
	c.w.logf(key, "%s: %v", op, err)
}

func (c *client) noted(key record.Key, what, want string, err error) {
	c.w.note(key, want, err)
	c.w.logf(key, "%s: %v", what, err)
}

// wait waits for a generation, over restarts: it ends when everything is at rest.
func (c *client) wait(key record.Key, generation uint64) {
	c.waits.Go(func() {
		for {
			e := c.w.now()
			res, err := e.Wait(c.waits.ctx, key, generation)
			if err == nil {
				c.w.logf(key, "waited for %d: done %t, gone %t, %s", generation, res.Done, res.Gone, res.Phase)
				return
			}
			if !errors.Is(err, engine.ErrClosed) {
				c.w.failf(key, "R63: wait for %d: %v", generation, err)
				return
			}
			time.Sleep(time.Second)
		}
	})
}
