package source

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/pawlsync/pawl/engine"
	"github.com/pawlsync/pawl/engine/record"
)

// Sender takes in what another pawl sends, which is a source of its own, with the
// settings of the pawl source that it belongs to. Its methods may be called from many
// goroutines.
type Sender struct{ in *inlet }

// Sender returns the one of that name, and makes it where a source of kind pawl
// declares it. It waits until the books are read, or ctx ends.
//
// # Errors
//
// ErrUndeclared; the error of ctx; the engine's.
func (m *Manager) Sender(ctx context.Context, name string) (*Sender, error) {
	if _, ok := m.groupOf(name); ok { // whom nobody declares is not kept waiting
		select {
		case <-m.ready:
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-m.ctx.Done():
			return nil, engine.ErrClosed
		}
	}
	m.changing.RLock()
	defer m.changing.RUnlock()
	spec, ok := m.groupOf(name)
	if !ok {
		return nil, fmt.Errorf("%w: %q", ErrUndeclared, name)
	}
	m.mu.Lock()
	in := m.inlets[name]
	m.mu.Unlock()
	if in != nil {
		return &Sender{in}, nil
	}
	in = m.newSender(name, spec)
	if err := in.open(nil); err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if other := m.inlets[name]; other != nil {
		in = other
	} else {
		m.inlets[name] = in
	}
	return &Sender{in}, nil
}

func (m *Manager) newSender(name string, spec Spec) *inlet {
	group := spec.Name
	spec.Name = name
	return newInlet(m, spec, group)
}

// groupOf returns the pawl source that declares a sender. The names of other sources
// are no senders'.
func (m *Manager) groupOf(name string) (Spec, bool) {
	d := m.declared.Load()
	if d.own[name] {
		return Spec{}, false
	}
	for _, g := range d.groups {
		for _, pattern := range g.Senders {
			prefix, wild := strings.CutSuffix(pattern, "*")
			if pattern == name || wild && strings.HasPrefix(name, prefix) {
				return g, true
			}
		}
	}
	return Spec{}, false
}

// Heard notes that the sender has sent or asked something.
func (s *Sender) Heard() {
	s.in.mu.Lock()
	s.in.contactAt = time.Now()
	s.in.mu.Unlock()
}

// Sinks returns the sinks that it may send to; none: all.
func (s *Sender) Sinks() []string { return s.in.spec.Sinks }

// PutBatch is the engine's, of puts that are the sender's own. Owner is set.
func (s *Sender) PutBatch(ctx context.Context, puts []engine.Put) ([]engine.BatchItem, error) {
	in := s.in
	g := group{items: make([]Item, len(puts)), fresh: make([]bool, len(puts))}
	in.mu.Lock()
	for i := range puts {
		puts[i].Owner = in.spec.Name
		g.items[i].Key = puts[i].Key
		g.fresh[i] = in.claim(puts[i].Key, mark{set: in.set})
		in.problems.clear(puts[i].Key, "")
	}
	in.mended(false)
	in.mu.Unlock()
	results, err := in.putBatch(ctx, puts)
	if err != nil {
		in.unclaim(&g)
		return nil, err
	}
	t := &telling{}
	if _, err := in.settle(t, &g, results); err == nil {
		in.noteBatch(t)
	}
	return results, nil
}

func (in *inlet) putBatch(ctx context.Context, puts []engine.Put) ([]engine.BatchItem, error) {
	in.turn.RLock()
	defer in.turn.RUnlock()
	if in.over {
		return nil, engine.ErrClosed // as in drop
	}
	return in.m.engine.PutBatch(ctx, puts)
}

// noteBatch notes what of a batch was refused, and how much the sender has now.
func (in *inlet) noteBatch(t *telling) {
	in.mu.Lock()
	in.stand(t.problems)
	in.fuse.Saw(time.Now(), in.owned.n)
	in.mu.Unlock()
	in.trouble(notStored, t.delay())
}

// Delete is the engine's, of what is the sender's own. Owner is set.
//
// # Errors
//
// ErrFused: nothing is stored, and the deletion is on the list of what an operator
// may confirm; those of the engine.
func (s *Sender) Delete(ctx context.Context, del engine.Delete) (engine.PutResult, error) {
	items := s.DeleteBatch(ctx, []engine.Delete{del})
	return items[0].PutResult, items[0].Err
}

// DeleteBatch is Delete of many. Its results are in the order of dels.
func (s *Sender) DeleteBatch(ctx context.Context, dels []engine.Delete) []engine.BatchItem {
	return s.in.drop(ctx, slices.Clone(dels), s.in.singleEvents)
}

// Complete notes that the sender has told all that it has, its deletions included:
// for a restored store that counts as its full set. Of one that was ended it is not
// noted: the sender compares again, and its successor hears it.
func (s *Sender) Complete() {
	in := s.in
	in.turn.RLock()
	defer in.turn.RUnlock()
	if in.over {
		return
	}
	in.mu.Lock()
	in.mended(true)
	n := in.owned.n
	in.mu.Unlock()
	_ = in.save() // which tells it
	in.finished(n, true)
}

// Held reports whether the deletion of key waits for an operator.
func (s *Sender) Held(key record.Key) bool {
	s.in.mu.Lock()
	defer s.in.mu.Unlock()
	_, held := s.in.held[key]
	return held
}
