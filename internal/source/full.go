package source

import (
	"context"
	"fmt"
	"iter"
	"sync"
	"time"

	"github.com/pawlsync/pawl/engine"
	"github.com/pawlsync/pawl/engine/record"
)

// Full implements Inlet.
func (in *inlet) Full(ctx context.Context, items iter.Seq2[Item, error], kept func() []Kept) error {
	t := in.begin()
	n, cut, err := in.putAll(ctx, t, items)
	if err == nil {
		err = ctx.Err() // items may have ended because of it
	}
	if err != nil {
		return err
	}
	if delay := t.delay(); delay != nil {
		in.again(delay)
	} else {
		in.settled()
	}
	if cut != nil {
		in.trouble(cutOff, fmt.Errorf("the full set was cut off after %d resources, and nothing is deleted: %w", n, cut))
		return nil
	}
	in.trouble(cutOff, nil)
	var keep []Kept
	if kept != nil {
		keep = kept()
	}
	blind := in.keepAll(t, keep)
	if err := in.sweep(ctx, t.set, n, blind); err != nil {
		return err
	}
	in.finished(n, !blind && len(keep) == 0 && t.passing == nil)
	return nil
}

// begin opens a full set.
func (in *inlet) begin() *telling {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.set++
	in.fuse.Saw(time.Now(), in.owned.n)
	return &telling{set: in.set, problems: problems{}}
}

// Of the groups of a full set so many are on their way at once: while one is
// being committed the next ones gather.
const (
	groupsAtOnce  = 4
	groupMaxBytes = 4 << 20
)

// putAll puts what items has, and returns how many those are. cut is why they ended
// before their end; err is of the engine.
func (in *inlet) putAll(ctx context.Context, t *telling, items iter.Seq2[Item, error]) (n int, cut, err error) {
	var (
		g      group
		out    sync.WaitGroup
		slots  = make(chan struct{}, groupsAtOnce)
		mu     sync.Mutex
		failed error
	)
	fail := func(err error) {
		mu.Lock()
		defer mu.Unlock()
		if failed == nil {
			failed = err
		}
	}
	broken := func() bool {
		mu.Lock()
		defer mu.Unlock()
		return failed != nil
	}
	send := func() {
		full := g
		g = group{}
		slots <- struct{}{}
		out.Go(func() {
			defer func() { <-slots }()
			if _, err := in.take(ctx, t, &full); err != nil {
				fail(err)
			}
		})
	}
	for item, err := range items {
		if err != nil {
			cut = err
			break
		}
		n++
		if !in.admit(t, &g, item) {
			continue
		}
		if len(g.items) >= in.m.o.GroupMax || g.bytes >= groupMaxBytes {
			send()
			if broken() {
				break
			}
		}
	}
	if len(g.items) > 0 {
		send()
	}
	out.Wait()
	return n, cut, failed
}

// admit adds item to g, unless the set had its key before.
func (in *inlet) admit(t *telling, g *group, item Item) bool {
	in.mu.Lock()
	first, known := in.owned.get(item.Key)
	if !known || first.set != t.set {
		g.fresh = append(g.fresh, in.claim(item.Key, mark{t.set, item.Place}))
		in.mu.Unlock()
		g.items = append(g.items, item)
		g.bytes += len(item.Payload)
		return true
	}
	in.mu.Unlock()
	err := fmt.Errorf("%s is at %s already, which is taken; a key stands for one resource", item.Key, first.place)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.add(Problem{Key: item.Key, Place: item.Place, Message: err.Error()})
	if item.Answer != nil {
		item.Answer(err)
	}
	return false
}

// keepAll notes what can't be put, and with it all that is wrong with the set. blind:
// not even the key of something could be read.
func (in *inlet) keepAll(t *telling, kept []Kept) (blind bool) {
	in.mu.Lock()
	defer in.mu.Unlock()
	for _, k := range kept {
		t.add(Problem{Key: k.Key, Place: k.Place, Message: fmt.Sprint(k.Err)})
		if k.Key == (record.Key{}) {
			blind = true
			continue
		}
		if _, ok := in.owned.get(k.Key); ok {
			in.claim(k.Key, mark{t.set, k.Place})
		}
	}
	in.report(t.problems)
	in.problems, in.blind = t.problems, blind
	return blind
}

// sweep deletes what the source owns and set, of n items, has not. More than the
// fuse allows is held as a whole: which part of it is right nobody can tell.
func (in *inlet) sweep(ctx context.Context, set uint32, n int, blind bool) error {
	in.turn.RLock()
	defer in.turn.RUnlock()
	now := time.Now()
	in.mu.Lock()
	lacks := map[record.Key]heldKey{}
	for key, m := range in.owned.all() {
		if m.set != set {
			lacks[key] = heldKey{place: m.place, order: in.held[key].order, partial: in.held[key].partial}
		}
	}
	in.fuse.Saw(now, in.owned.n-len(lacks))
	room := in.fuse.Room(now)
	switch {
	case len(lacks) == 0:
		in.mended(true)
	case blind:
		in.log.Warn("nothing is deleted: of something in the set not even the key can be read", "lacking", len(lacks), "see", "pawl source status "+in.spec.Name)
	case n == 0:
		in.hold(now, lacks, "the source's full set is empty")
	case len(lacks) > room:
		in.hold(now, lacks, in.tooMany(now))
	default:
		in.fuse.Count(now, len(lacks))
		in.mu.Unlock()
		return in.sweepNow(ctx, now, lacks)
	}
	in.mu.Unlock()
	_ = in.save() // which tells it; what is held stays so, whether it is noted or not
	return nil
}

// sweepNow deletes what is counted already. in.turn is shared.
func (in *inlet) sweepNow(ctx context.Context, now time.Time, lacks map[record.Key]heldKey) error {
	dels := make([]engine.Delete, 0, len(lacks))
	for key, h := range lacks {
		dels = append(dels, in.deletion(key, h))
	}
	items, err := in.removeCounted(ctx, dels)
	gone, left, failed := outcome(items)
	if err != nil {
		left, failed = len(dels), err
	}
	in.mu.Lock()
	in.fuse.Count(now, gone-len(dels))
	in.fuse.Saw(now, in.owned.n)
	in.mu.Unlock()
	in.log.Info("deleted what the full set lacks", "resources", gone)
	switch {
	case kindOf(failed) == fatal:
		return failed
	case left > 0:
		in.again(fmt.Errorf("%d resources that it lacks could not be deleted: %w", left, failed))
	}
	return nil
}

// finished notes that a full set is through; all: nothing of it is open.
func (in *inlet) finished(n int, all bool) {
	in.mu.Lock()
	in.fullAt, in.fullItems = time.Now(), n
	in.told = in.told || all
	told := in.told
	in.mu.Unlock()
	in.trouble(runFailed, nil)
	if told {
		in.m.release(in.spec.Name)
	}
}
