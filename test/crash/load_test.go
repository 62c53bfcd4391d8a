package crash

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/pawlsync/pawl/engine/record"
	"github.com/pawlsync/pawl/internal/api"
	"github.com/pawlsync/pawl/internal/client"
)

// load is many clients at work, until they are stopped or the daemon is gone.
type load struct {
	d        *daemon
	books    *ledger
	clients  sync.WaitGroup
	stop     chan struct{}
	answered atomic.Int64
	full     atomic.Int64 // requests that were refused for want of space
	returned chan string  // told of keys of which a change was just answered; never blocks

	graceful bool // nothing is stored that was not answered: the daemon is told to stop, not killed
}

const (
	clients  = 12
	hotKeys  = 6
	coldKeys = 200
)

// number tells all payloads apart.
var number atomic.Uint64

func startLoad(d *daemon, books *ledger, rng *rand.Rand, graceful bool) *load {
	l := &load{d: d, books: books, graceful: graceful, stop: make(chan struct{}), returned: make(chan string)}
	for range clients {
		c := &worker{load: l, rng: rand.New(rand.NewPCG(rng.Uint64(), 2))}
		l.clients.Go(c.work)
	}
	return l
}

// end lets clients finish what they are at, which the daemon's death does as well.
func (l *load) end() {
	close(l.stop)
	l.clients.Wait()
}

func (l *load) note(key string) {
	l.answered.Add(1)
	select {
	case l.returned <- key:
	default:
	}
}

// worker is one client.
type worker struct {
	*load
	rng *rand.Rand
}

func (c *worker) work() {
	for {
		select {
		case <-c.stop:
			return
		default:
		}
		if err := c.step(); err != nil {
			return // the daemon is gone
		}
	}
}

// key is a hot one every third time.
func (c *worker) key() string {
	if c.rng.IntN(3) == 0 {
		return fmt.Sprintf("hot/%d", c.rng.IntN(hotKeys))
	}
	return fmt.Sprintf("cold/%03d", c.rng.IntN(coldKeys))
}

// body is most often small, and sometimes large enough for the value log.
func (c *worker) body() string {
	size := 10
	switch c.rng.IntN(20) {
	case 0:
		size = 20_000
	case 1, 2, 3, 4:
		size = 1_500
	}
	return fmt.Sprintf(`{"n":%d,"pad":"%s"}`, number.Add(1), strings.Repeat("x", c.rng.IntN(size)))
}

func (c *worker) step() error {
	switch c.rng.IntN(10) {
	case 0, 1:
		return c.remove(c.key())
	case 2:
		return c.batch()
	case 3:
		_, err := c.d.Get(context.Background(), web(c.key()), client.GetOptions{Payload: true})
		return c.expected(err)
	}
	return c.put(c.key())
}

func web(key string) record.Key { return record.Key{Sink: "web", Name: key} }

// expected is err without what may happen at any time; the daemon's death stays.
func (c *worker) expected(err error) error {
	switch api.CodeOf(err) {
	case api.CodeNotFound:
		return nil
	case api.CodeNoSpace:
		c.full.Add(1)
		return nil
	case "", api.CodeClosed:
		return err
	}
	c.books.t.Errorf("the daemon refused a request: %v", err)
	return nil
}

func (c *worker) put(key string) error {
	body := c.body()
	q := c.books.ask(key, body)
	res, err := c.d.Put(context.Background(), web(key), api.PutRequest{Payload: json.RawMessage(body)})
	return c.answer(q, res, err)
}

func (c *worker) answer(q *asking, res api.PutResult, err error) error {
	switch {
	case api.CodeOf(err) != "", err != nil && c.graceful:
		q.refused(err)
		return c.expected(err)
	case err != nil:
		q.unanswered(err)
		return err
	}
	if res.Changed {
		q.granted(res.Generation)
	} else {
		q.refused("it was so already")
	}
	c.note(q.key)
	return nil
}

func (c *worker) remove(key string) error {
	q := c.books.ask(key, "")
	res, err := c.d.Delete(context.Background(), web(key), api.DeleteRequest{})
	return c.answer(q, res, err)
}

func (c *worker) batch() error {
	asked := make([]*asking, 1+c.rng.IntN(20))
	lines := make([]api.BatchLine, len(asked))
	for i := range asked {
		key, body := c.key(), c.body()
		asked[i] = c.books.ask(key, body)
		lines[i] = api.BatchLine{Sink: "web", Key: key, PutRequest: api.PutRequest{Payload: json.RawMessage(body)}}
	}
	for a, err := range c.d.Batch(context.Background(), slices.Values(lines)) {
		switch {
		case err != nil:
			return c.expected(err) // lines without an answer stay open
		case a.Error != nil:
			if err := c.answer(asked[a.Line-1], api.PutResult{}, a.Error); err != nil {
				return err
			}
		default:
			if err := c.answer(asked[a.Line-1], *a.PutResult, nil); err != nil {
				return err
			}
		}
	}
	return nil
}
