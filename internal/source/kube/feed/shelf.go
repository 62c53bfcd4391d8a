package feed

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/pawlsync/pawl/engine/record"
	"github.com/pawlsync/pawl/internal/source"
)

// Entry is what one object of a cluster asks for.
type Entry struct {
	// Item is the resource. Where Err is set only its key and place count; without a
	// key nothing is swept while the entry is there.
	Item source.Item
	Err  error // why it can't be put now
	// Rank decides between objects that ask for one key: the smallest has it.
	Rank string
}

// ErrTaken is wrapped by the error of an object whose key an older one has.
var ErrTaken = errors.New("its key is another's")

// Shelf holds what a source's objects ask for, and tells it to an Inlet: what changed
// while the Inlet was busy is told once, in its newest form. Its methods may be called
// by many at once.
type Shelf struct {
	// Settled, where set, is called when what changed of a key has been told; err is
	// that of its deletion.
	Settled func(key record.Key, err error)

	mu       sync.Mutex
	parts    map[string]bool  // what the set is made of, and whether it is there
	troubles map[string]error // by part
	entries  map[string]Entry // by object
	asking   map[record.Key][]string
	changed  map[record.Key]bool
	unkeyed  map[string]bool // changed objects without a key
	full     bool            // a full set is to be told
	told     bool            // one was
	troubled bool            // troubles changed
	wake     chan struct{}
}

// NewShelf makes a Shelf whose full set has the named parts.
func NewShelf(parts ...string) *Shelf {
	s := &Shelf{
		parts: map[string]bool{}, troubles: map[string]error{}, entries: map[string]Entry{},
		asking: map[record.Key][]string{}, changed: map[record.Key]bool{}, unkeyed: map[string]bool{},
		full: true, wake: make(chan struct{}, 1),
	}
	for _, p := range parts {
		s.parts[p] = false
	}
	return s
}

// do changes the shelf, and wakes Run.
func (s *Shelf) do(change func()) {
	s.mu.Lock()
	change()
	s.mu.Unlock()
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// Set says what an object asks for now.
func (s *Shelf) Set(object string, e Entry) { s.do(func() { s.set(object, e) }) }

// Drop says that an object asks for nothing any more.
func (s *Shelf) Drop(object string) { s.do(func() { s.drop(object) }) }

// Touch makes what is asked for of a key be told again, its deletion if it is nothing.
func (s *Shelf) Touch(key record.Key) { s.do(func() { s.changed[key] = true }) }

// Replace says what all objects of a part ask for; mine tells which of those that are
// on the shelf are of that part. It is followed by a full set when all parts are there.
func (s *Shelf) Replace(part string, objects map[string]Entry, mine func(object string) bool) {
	s.do(func() {
		for id := range s.entries {
			if _, there := objects[id]; !there && mine(id) {
				s.drop(id)
			}
		}
		for id, e := range objects {
			s.set(id, e)
		}
		s.parts[part], s.full = true, true
	})
}

// Expect makes a full set wait for a part, unless it is there.
func (s *Shelf) Expect(part string) {
	s.do(func() {
		if _, known := s.parts[part]; !known {
			s.parts[part] = false
		}
	})
}

// Ready says that a part is there.
func (s *Shelf) Ready(part string) { s.do(func() { s.parts[part] = true }) }

// Forget lets go of a part and its trouble.
func (s *Shelf) Forget(part string) {
	s.do(func() {
		delete(s.parts, part)
		s.trouble(part, nil)
	})
}

// Trouble says why a part can't be read at the moment; nil: it can.
func (s *Shelf) Trouble(part string, err error) { s.do(func() { s.trouble(part, err) }) }

// Full asks for a full set.
func (s *Shelf) Full() { s.do(func() { s.full = true }) }

func (s *Shelf) trouble(part string, err error) {
	if old := s.troubles[part]; old == nil && err == nil || old != nil && err != nil && old.Error() == err.Error() {
		return
	}
	s.troubled = true
	if err == nil {
		delete(s.troubles, part)
		return
	}
	s.troubles[part] = err
}

func (s *Shelf) set(id string, e Entry) {
	old, was := s.entries[id]
	switch {
	case was && old.Item.Key != e.Item.Key:
		s.drop(id)
	case was && same(&old, &e):
		return
	}
	key := e.Item.Key
	s.entries[id] = e
	if key == (record.Key{}) {
		s.unkeyed[id] = true
		return
	}
	if !slices.Contains(s.asking[key], id) {
		s.asking[key] = append(s.asking[key], id)
	}
	s.changed[key] = true
}

// same: nothing that is told has changed. Who wants an answer wants it each time.
func same(a, b *Entry) bool {
	return a.Err == nil && b.Err == nil && a.Rank == b.Rank && a.Item.Answer == nil && b.Item.Answer == nil &&
		bytes.Equal(a.Item.Payload, b.Item.Payload)
}

func (s *Shelf) drop(id string) {
	old, was := s.entries[id]
	if !was {
		return
	}
	delete(s.entries, id)
	key := old.Item.Key
	if key == (record.Key{}) {
		s.full = true // it stood for what could not be swept
		return
	}
	if s.asking[key] = slices.DeleteFunc(s.asking[key], func(o string) bool { return o == id }); len(s.asking[key]) == 0 {
		delete(s.asking, key)
	}
	s.changed[key] = true
}

// winner is the entry that a key belongs to, and those that ask for it in vain.
func (s *Shelf) winner(key record.Key) (Entry, []Entry) {
	ids := slices.Clone(s.asking[key])
	slices.SortFunc(ids, func(a, b string) int {
		return cmp.Or(cmp.Compare(s.entries[a].Rank, s.entries[b].Rank), cmp.Compare(a, b))
	})
	first := s.entries[ids[0]]
	var others []Entry
	for _, id := range ids[1:] {
		e := s.entries[id]
		e.Err = fmt.Errorf("%w: %s has %s; give this one another key, or delete one of them", ErrTaken, first.Item.Place, key)
		others = append(others, e)
	}
	return first, others
}

// changesMax is how many changes are told at once.
const changesMax = 1000

// Run tells in what the shelf holds, until ctx ends. Its errors are the engine's; after
// one it may be run again.
func (s *Shelf) Run(ctx context.Context, in source.Inlet) error {
	s.Full()
	for {
		if err := s.tell(ctx, in); err != nil {
			return err
		}
		select {
		case <-s.wake:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// tell tells all that there is to tell now.
func (s *Shelf) tell(ctx context.Context, in source.Inlet) error {
	for ctx.Err() == nil {
		s.mu.Lock()
		if s.troubled {
			s.troubled = false
			err := s.combined()
			s.mu.Unlock()
			in.Trouble(err)
			continue
		}
		if s.full && s.complete() {
			set := s.take()
			s.mu.Unlock()
			if err := set.full(ctx, in, s.Settled); err != nil {
				return err
			}
			continue
		}
		if !s.told || len(s.changed)+len(s.unkeyed) == 0 {
			s.mu.Unlock()
			return nil
		}
		set := s.next()
		s.mu.Unlock()
		if err := set.changes(ctx, in, s.Settled); err != nil {
			return err
		}
	}
	return ctx.Err()
}

func (s *Shelf) complete() bool {
	for _, there := range s.parts {
		if !there {
			return false
		}
	}
	return true
}

func (s *Shelf) combined() error {
	var all []error
	for _, part := range slices.Sorted(maps.Keys(s.troubles)) {
		all = append(all, s.troubles[part])
	}
	return errors.Join(all...)
}

// take empties the shelf's changes into a full set.
func (s *Shelf) take() *telling {
	t := &telling{}
	for key := range s.changed {
		if len(s.asking[key]) == 0 {
			t.gone = append(t.gone, key) // not told, but swept
		}
	}
	for key := range s.asking {
		t.addKey(s, key)
	}
	for _, e := range s.entries {
		if e.Item.Key == (record.Key{}) {
			t.add(e)
		}
	}
	clear(s.changed)
	clear(s.unkeyed)
	s.full, s.told = false, true
	return t
}

// next takes some changes from the shelf.
func (s *Shelf) next() *telling {
	t := &telling{}
	for id := range s.unkeyed {
		if e, there := s.entries[id]; there {
			t.add(e)
		}
	}
	clear(s.unkeyed)
	n := 0
	for key := range s.changed {
		if n++; n > changesMax {
			break
		}
		t.addKey(s, key)
		delete(s.changed, key)
	}
	return t
}
