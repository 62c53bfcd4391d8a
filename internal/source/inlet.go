package source

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"sync"
	"time"

	"github.com/pawlsync/pawl/engine"
	"github.com/pawlsync/pawl/engine/record"
)

// inlet keeps the books of one source, and is its Inlet.
type inlet struct {
	m     *Manager
	spec  Spec
	group string // the pawl source that it is a sender of; "" for all others
	log   *slog.Logger

	ctx    context.Context // ends with the source, and with the manager
	cancel context.CancelFunc
	done   chan struct{} // closed when it has ended; nil: it does not run by itself

	// turn is shared by all that put and delete; a confirmation or a handover has it
	// alone, so that what it was shown is what it finds.
	turn sync.RWMutex
	over bool // it takes in nothing more; under turn
	note noteKeeper

	mu       sync.Mutex // guards what follows; held for no I/O
	owned    keySet
	set      uint32 // number of the newest full set that was begun
	held     map[record.Key]heldKey
	heldWhy  string
	heldAt   time.Time
	fuse     *Fuse
	problems problems

	fullAt    time.Time // when the newest complete full set was through
	fullItems int
	blind     bool      // nothing was swept after it: of something not even the key could be read
	contactAt time.Time // when a sender was last heard of; zero: not since the start
	told      bool      // one was, since the start, that left nothing open
	running   bool
	troubles  [troubleKinds]error
	troubleAt time.Time
	retries   int  // of asking for a full set, since the last that had no passing error
	asking    bool // a Rescan is planned
}

// heldKey is a deletion that waits to be confirmed.
type heldKey struct {
	place   string
	order   record.Order
	partial bool
}

// trouble is a kind of what keeps a source from being taken in. The first is told first.
type trouble int

const (
	runFailed  trouble = iota // Run ended with an error
	unreadable                // the source told it
	cutOff                    // a full set ended with an error
	notStored                 // the engine took something not, for the moment
	notNoted                  // its books could not be read or written
	troubleKinds
)

func newInlet(m *Manager, spec Spec, group string) *inlet {
	in := &inlet{
		m: m, spec: spec, group: group, log: m.log.With("source", spec.Name),
		owned: newKeySet(), held: map[record.Key]heldKey{}, fuse: NewFuse(spec.Fuse), problems: problems{},
	}
	in.ctx, in.cancel = context.WithCancel(m.ctx)
	return in
}

// Put implements Inlet.
func (in *inlet) Put(ctx context.Context, items []Item) []error {
	errs := make([]error, 0, len(items))
	t := &telling{}
	for len(items) > 0 {
		n := min(len(items), in.m.o.GroupMax)
		g := group{items: items[:n]}
		in.mu.Lock()
		for i := range g.items {
			g.fresh = append(g.fresh, in.claim(g.items[i].Key, mark{in.set, g.items[i].Place}))
			in.problems.clear(g.items[i].Key, g.items[i].Place)
		}
		in.mu.Unlock()
		found, err := in.take(ctx, t, &g)
		if err != nil {
			for range items {
				errs = append(errs, err)
			}
			break
		}
		errs = append(errs, found...)
		items = items[n:]
	}
	in.mu.Lock()
	in.stand(t.problems)
	in.mended(false)
	in.fuse.Saw(time.Now(), in.owned.n)
	in.mu.Unlock()
	if t.passing != nil {
		in.again(t.delay())
	}
	return errs
}

// claim notes that the source has key, and reports whether that is news. in.mu is held.
func (in *inlet) claim(key record.Key, m mark) (fresh bool) {
	_, known := in.owned.get(key)
	in.owned.put(key, m)
	delete(in.held, key)
	return !known
}

// group is what is put in one batch.
type group struct {
	items []Item
	fresh []bool // the key was none of ours before
	bytes int
}

// telling is what comes of a full set, or of a Put.
type telling struct {
	mu       sync.Mutex
	set      uint32
	problems problems
	passing  error // the newest that may go better later
	delayed  int   // items of which that is so
}

// delay is the trouble that some may be stored later only; nil: none.
func (t *telling) delay() error {
	if t.passing == nil {
		return nil
	}
	return fmt.Errorf("%d of its resources could not be stored: %w", t.delayed, t.passing)
}

// take puts a group, whose keys are claimed, and keeps the books. The error is of
// the engine as a whole.
func (in *inlet) take(ctx context.Context, t *telling, g *group) ([]error, error) {
	puts := make([]engine.Put, len(g.items))
	for i := range g.items {
		it := &g.items[i]
		puts[i] = engine.Put{
			Key: it.Key, Payload: it.Payload, Conflict: it.Conflict, Deletion: it.Deletion, Suspend: it.Suspend, Direction: it.Direction,
			Retry: it.Retry, IdempotencyKey: it.IdempotencyKey,
			Order: it.Order, OrderPartial: it.OrderPartial, Owner: in.spec.Name,
		}
	}
	in.turn.RLock()
	results, err := in.m.engine.PutBatch(ctx, puts)
	in.turn.RUnlock()
	if err != nil {
		in.unclaim(g)
		return nil, err
	}
	return in.settle(t, g, results)
}

// unclaim takes back what was claimed of a group of which nothing was stored.
func (in *inlet) unclaim(g *group) {
	in.mu.Lock()
	defer in.mu.Unlock()
	for i, fresh := range g.fresh {
		if fresh {
			in.owned.remove(g.items[i].Key)
		}
	}
}

// settle keeps the books of what became of a group.
func (in *inlet) settle(t *telling, g *group, results []engine.BatchItem) ([]error, error) {
	errs := make([]error, len(results))
	var counts tally
	var failed error
	in.mu.Lock()
	for i := range results {
		err := results[i].Err
		switch kind := kindOf(err); kind {
		case accepted:
			counts[resultOf(results[i].Changed)]++
			continue
		case fatal:
			failed = err
			continue // it may be stored or not: the books keep it
		case passing:
			counts[resultFailed]++
		case refused:
			counts[resultRefused]++
		}
		errs[i] = err
		if g.fresh[i] {
			in.owned.remove(g.items[i].Key)
		}
	}
	in.mu.Unlock()
	in.m.count(in.spec.Name, "put", counts)
	if failed != nil {
		return nil, failed
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for i, err := range errs {
		it := &g.items[i]
		switch kindOf(err) {
		case passing:
			t.passing = err
			t.delayed++
		case refused:
			t.add(Problem{Key: it.Key, Place: it.Place, Message: err.Error(), Refused: true})
		}
		if it.Answer != nil {
			it.Answer(results[i].Err)
		}
	}
	return errs, nil
}

// add notes a problem; t.mu is held, or t is not shared.
func (t *telling) add(p Problem) {
	if t.problems == nil {
		t.problems = problems{}
	}
	t.problems.add(p)
}

// Keep implements Inlet.
func (in *inlet) Keep(kept []Kept) {
	in.mu.Lock()
	defer in.mu.Unlock()
	news := problems{}
	for _, k := range kept {
		if k.Err == nil {
			delete(in.problems, problemID(k.Key, k.Place))
			continue
		}
		news.add(Problem{Key: k.Key, Place: k.Place, Message: k.Err.Error()})
	}
	in.stand(news)
}

// stand adds news to the problems that stand. in.mu is held.
func (in *inlet) stand(news problems) {
	in.report(news)
	maps.Copy(in.problems, news)
}

// report logs what of news was not known. in.mu is held.
func (in *inlet) report(news problems) {
	const most = 20
	told := 0
	for id, p := range news {
		if in.problems[id] == p {
			continue
		}
		if told++; told > most {
			continue
		}
		in.log.Warn("the source has what can't be taken; the resource stays as it is", "place", p.Place, "sink", p.Key.Sink, "key", p.Key.Name, "error", p.Message)
	}
	if told > most {
		in.log.Warn("and more of that kind", "more", told-most, "see", "pawl source status "+in.spec.Name)
	}
}

// Trouble implements Inlet.
func (in *inlet) Trouble(err error) { in.trouble(unreadable, err) }

// trouble notes what keeps the source from being taken in; nil: that is over.
func (in *inlet) trouble(kind trouble, err error) {
	in.mu.Lock()
	defer in.mu.Unlock()
	was := in.troubles[kind]
	if fmt.Sprint(was) == fmt.Sprint(err) {
		return
	}
	if in.troubled() == nil {
		in.troubleAt = time.Now()
	}
	in.troubles[kind] = err
	switch {
	case err != nil:
		in.log.Warn("the source is in trouble; what it has put stays as it is", "error", err)
	case in.troubled() == nil:
		in.log.Info("the source is well again")
	}
}

// troubled is the trouble to be told first. in.mu is held.
func (in *inlet) troubled() error {
	for _, err := range in.troubles {
		if err != nil {
			return err
		}
	}
	return nil
}
