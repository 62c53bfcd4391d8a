package source

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/pawlsync/pawl/engine"
	"github.com/pawlsync/pawl/engine/record"
	"github.com/pawlsync/pawl/internal/duration"
)

// Delete implements Inlet.
func (in *inlet) Delete(ctx context.Context, keys []record.Key) []error {
	return in.deleteKeys(ctx, keys, in.wholeChange)
}

// DeleteEach implements Inlet.
func (in *inlet) DeleteEach(ctx context.Context, keys []record.Key) []error {
	return in.deleteKeys(ctx, keys, in.singleEvents)
}

func (in *inlet) deleteKeys(ctx context.Context, keys []record.Key, rule fuseRule) []error {
	dels := make([]engine.Delete, len(keys))
	for i, key := range keys {
		dels[i] = engine.Delete{Key: key}
	}
	items := in.drop(ctx, dels, rule)
	errs := make([]error, len(keys))
	var failed error
	for i := range items {
		switch err := items[i].Err; {
		case errors.Is(err, engine.ErrNotFound), errors.Is(err, engine.ErrOwned):
		case err != nil:
			if errs[i] = err; !errors.Is(err, ErrFused) {
				failed = err
			}
		}
	}
	if failed != nil {
		in.again(fmt.Errorf("what it deleted could not be deleted: %w", failed))
	}
	return errs
}

// fuseRule says how many of n deletions may go, the first ones, and why not the
// others. in.mu is held.
type fuseRule func(now time.Time, n int) (going int, why string)

// singleEvents lets go what there is room for.
func (in *inlet) singleEvents(now time.Time, n int) (going int, why string) {
	if going = min(n, in.fuse.Room(now)); going < n {
		in.fuse.Count(now, going) // so that the reason has them
		why = in.tooMany(now)
		in.fuse.Count(now, -going)
	}
	return going, why
}

// wholeChange lets all of a change go or nothing: which part of it is right nobody can
// tell.
func (in *inlet) wholeChange(now time.Time, n int) (going int, why string) {
	if n > in.fuse.Room(now) {
		return 0, in.tooMany(now)
	}
	return n, ""
}

// drop deletes what changes say, as far as rule allows.
func (in *inlet) drop(ctx context.Context, dels []engine.Delete, rule fuseRule) []engine.BatchItem {
	in.turn.RLock()
	defer in.turn.RUnlock()
	items := make([]engine.BatchItem, len(dels))
	if in.over {
		for i := range items {
			items[i].Err = engine.ErrClosed // the source was ended; whoever sends tries again, and finds the one that is there now
		}
		return items
	}
	at, counted := in.admitDeletes(dels, items, rule)
	going := make([]engine.Delete, len(at))
	for j, i := range at {
		going[j] = dels[i]
	}
	done, err := in.removeCounted(ctx, going)
	vain := 0
	for j, i := range at {
		if err != nil {
			items[i].Err = err
		} else {
			items[i] = done[j]
		}
		if counted[i] && !items[i].Changed { // refused, or a deletion was there already
			vain++
		}
	}
	now := time.Now()
	in.mu.Lock()
	in.fuse.Count(now, -vain)
	in.fuse.Saw(now, in.owned.n)
	in.mu.Unlock()
	return items
}

// admitDeletes holds what rule does not let go, with an ErrFused in items, and returns
// the places of the others; counted are those of the fuse.
func (in *inlet) admitDeletes(dels []engine.Delete, items []engine.BatchItem, rule fuseRule) (at []int, counted []bool) {
	now := time.Now()
	in.mu.Lock()
	defer in.mu.Unlock()
	ours := make([]bool, len(dels))
	n := 0
	for i := range dels {
		dels[i].Owner, dels[i].DeletionElse = in.spec.Name, in.spec.Deletion
		if _, ours[i] = in.owned.get(dels[i].Key); ours[i] {
			n++
		}
	}
	going, why := rule(now, n)
	in.fuse.Count(now, going)
	held := map[record.Key]heldKey{}
	counted = make([]bool, len(dels))
	for i := range dels {
		d := &dels[i]
		if ours[i] && going == 0 {
			m, _ := in.owned.get(d.Key)
			held[d.Key] = heldKey{m.place, d.Order, d.OrderPartial}
			items[i].Err = fmt.Errorf("%w; see `pawl source confirm %s`", ErrFused, in.spec.Name)
			continue
		}
		if ours[i] {
			going--
			counted[i] = true
		}
		at = append(at, i)
	}
	if len(held) > 0 {
		in.hold(now, held, why)
	}
	return at, counted
}

// removeCounted deletes once it is durable how much that is: a process that dies in
// between must not begin to count anew.
func (in *inlet) removeCounted(ctx context.Context, dels []engine.Delete) ([]engine.BatchItem, error) {
	if err := in.save(); err != nil {
		return nil, err
	}
	return in.remove(ctx, dels), nil
}

// deletion is the deletion of one of our keys.
func (in *inlet) deletion(key record.Key, h heldKey) engine.Delete {
	return engine.Delete{Key: key, Owner: in.spec.Name, DeletionElse: in.spec.Deletion, Order: h.order, OrderPartial: h.partial}
}

// deletesAtOnce bounds how many deletions wait for one commit.
const deletesAtOnce = 5000

// remove deletes and keeps the books: what is gone, or somebody else's, is no longer
// ours. in.turn is held.
func (in *inlet) remove(ctx context.Context, dels []engine.Delete) []engine.BatchItem {
	items := make([]engine.BatchItem, 0, len(dels))
	for len(dels) > 0 {
		n := min(len(dels), deletesAtOnce)
		done := in.m.engine.DeleteBatch(ctx, dels[:n])
		var counts tally
		in.mu.Lock()
		for i := range done {
			key, err := dels[i].Key, done[i].Err
			switch {
			case err == nil, errors.Is(err, engine.ErrNotFound), errors.Is(err, engine.ErrOwned):
				in.owned.remove(key)
				delete(in.held, key)
				in.problems.clear(key, "")
				counts[resultOf(err == nil && done[i].Changed)]++
			case errors.Is(err, engine.ErrStale): // something newer is there
				delete(in.held, key)
				counts[resultRefused]++
			default:
				counts[resultFailed]++
			}
		}
		in.mu.Unlock()
		in.m.count(in.spec.Name, "delete", counts)
		items, dels = append(items, done...), dels[n:]
	}
	return items
}

// outcome counts what was deleted, and what could not be though it is there still.
func outcome(items []engine.BatchItem) (gone, left int, failed error) {
	for i := range items {
		switch err := items[i].Err; {
		case err == nil && items[i].Changed:
			gone++
		case err == nil, errors.Is(err, engine.ErrNotFound), errors.Is(err, engine.ErrOwned), errors.Is(err, engine.ErrStale):
		default:
			left++
			failed = err
		}
	}
	return gone, left, failed
}

// hold puts deletions on the list of those that wait for an operator. in.mu is held.
func (in *inlet) hold(now time.Time, more map[record.Key]heldKey, why string) {
	news := 0
	for key, h := range more {
		if _, ok := in.held[key]; !ok {
			news++
		}
		in.held[key] = h
	}
	first := in.heldAt.IsZero()
	if first {
		in.heldAt, in.heldWhy = now, why
	}
	in.fuse.Blow()
	var counts tally
	counts[resultHeld] = news
	in.m.count(in.spec.Name, "delete", counts)
	if first {
		in.log.Error("deletions are held, and everything stays as it is until somebody confirms them", "held", len(in.held), "why", why,
			"see", "pawl source confirm "+in.spec.Name)
	}
}

// tooMany says why deletions are held. How many those are is told beside it: it
// changes, and the reason does not. in.mu is held.
func (in *inlet) tooMany(now time.Time) string {
	if in.fuse.Blown() && len(in.held) == 0 {
		return "deletions were held before the restart, and nobody has confirmed them"
	}
	deleted, allowed, largest := in.fuse.Window(now)
	return fmt.Sprintf("%d were deleted within %s, and of %d resources it may delete %d in that time", deleted, duration.Text(in.spec.Fuse.Window), largest, allowed)
}

// mended ends the hold when nothing is held any more. Unless the source has just told
// all that it has, sure is false: then a list that is empty since a restart says
// nothing. in.mu is held.
func (in *inlet) mended(sure bool) {
	if len(in.held) > 0 || !in.fuse.Blown() || in.heldAt.IsZero() && !sure {
		return
	}
	in.fuse.Mend()
	if !in.heldAt.IsZero() {
		in.log.Info("no deletion is held any more")
	}
	in.heldAt, in.heldWhy = time.Time{}, ""
}

// noteKeeper makes what a fuse counted durable, the newest last.
type noteKeeper struct {
	mu    sync.Mutex
	saved string
}

// save makes what the fuse counted durable.
func (in *inlet) save() error {
	in.note.mu.Lock()
	defer in.note.mu.Unlock()
	in.mu.Lock()
	note := in.fuse.Note()
	in.mu.Unlock()
	if string(note) == in.note.saved {
		return nil
	}
	err := in.m.engine.SetNote(noteName(in.spec.Name), note)
	if err == nil {
		in.note.saved = string(note)
	}
	in.trouble(notNoted, err)
	return err
}

func noteName(source string) string { return "source/" + source }
