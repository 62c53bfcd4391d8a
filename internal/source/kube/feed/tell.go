package feed

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"slices"

	"github.com/pawlsync/pawl/engine/record"
	"github.com/pawlsync/pawl/internal/source"
)

// telling is what is told at once.
type telling struct {
	items []source.Item
	kept  []source.Kept
	gone  []record.Key
	// answers are those of kept, who asked for one: called without the shelf's lock.
	answers []func()
}

func (t *telling) add(e Entry) {
	if e.Err != nil {
		t.kept = append(t.kept, source.Kept{Key: e.Item.Key, Place: e.Item.Place, Err: e.Err})
		if e.Item.Answer != nil {
			t.answers = append(t.answers, func() { e.Item.Answer(e.Err) })
		}
		return
	}
	t.items = append(t.items, e.Item)
}

func (t *telling) addKey(s *Shelf, key record.Key) {
	if len(s.asking[key]) == 0 {
		t.gone = append(t.gone, key)
		return
	}
	first, others := s.winner(key)
	t.add(first)
	for _, e := range others {
		t.add(e)
	}
}

func (t *telling) full(ctx context.Context, in source.Inlet, settled func(record.Key, error)) error {
	slices.SortFunc(t.items, func(a, b source.Item) int {
		return cmp.Or(cmp.Compare(a.Key.Sink, b.Key.Sink), cmp.Compare(a.Key.Name, b.Key.Name))
	})
	var items iter.Seq2[source.Item, error] = func(yield func(source.Item, error) bool) {
		for _, i := range t.items {
			if !yield(i, nil) {
				return
			}
		}
	}
	if err := in.Full(ctx, items, func() []source.Kept { return t.kept }); err != nil {
		return err
	}
	t.settle(settled, make([]error, len(t.gone)))
	return nil
}

func (t *telling) changes(ctx context.Context, in source.Inlet, settled func(record.Key, error)) error {
	in.Put(ctx, t.items)               // each item is told its own answer
	in.Keep(t.kept)                    // after what belongs to another object by the same key
	errs := in.DeleteEach(ctx, t.gone) // objects are deleted one by one
	if ctx.Err() != nil {
		return ctx.Err()
	}
	t.settle(settled, errs)
	for _, err := range errs {
		if err != nil && !errors.Is(err, source.ErrFused) {
			return err // the next full set sweeps it
		}
	}
	return nil
}

func (t *telling) settle(settled func(record.Key, error), errs []error) {
	for _, answer := range t.answers {
		answer()
	}
	if settled == nil {
		return
	}
	for i, key := range t.gone {
		settled(key, errs[i])
	}
	for i := range t.items {
		settled(t.items[i].Key, nil)
	}
	for i := range t.kept {
		settled(t.kept[i].Key, nil)
	}
}
