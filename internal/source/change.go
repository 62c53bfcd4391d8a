package source

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/pawlsync/pawl/engine"
	"github.com/pawlsync/pawl/engine/record"
)

// declared is what the configuration says, which does not change: Change puts another
// one in its place.
type declared struct {
	groups []Spec          // sources of kind pawl, whose senders are sources each
	own    map[string]bool // names of all others
}

func declare(specs []Spec) *declared {
	d := &declared{own: map[string]bool{}}
	for _, s := range specs {
		if s.Source == nil {
			d.groups = append(d.groups, s)
		} else {
			d.own[s.Name] = true
		}
	}
	return d
}

// Change ends the sources named in end, and runs those of begin, which may have the same
// names with other settings; all others go on as they are. What a source that is not
// there any more owns stays, and is nobody's to delete. A source that begins, begins with a
// full set, as after a start; its fuse goes on counting. It returns when what the new
// ones own is read, which takes seconds where a million resources are stored: senders
// wait until then.
//
// # Errors
//
// The error of ctx, while the books are read for the first time: nothing has changed.
// engine.ErrClosed: the manager is closed.
func (m *Manager) Change(ctx context.Context, end []string, begin []Spec) error {
	select {
	case <-m.ready:
	case <-ctx.Done():
		return ctx.Err()
	case <-m.ctx.Done():
		return engine.ErrClosed
	}
	m.changing.Lock()
	defer m.changing.Unlock()
	if m.ctx.Err() != nil {
		return engine.ErrClosed
	}
	ended := m.end(end)
	next := slices.DeleteFunc(slices.Clone(m.specs), func(s Spec) bool { return slices.Contains(end, s.Name) })
	next = append(next, begin...)
	m.specs = next
	m.declared.Store(declare(next))
	fresh, err := m.openFresh(begin)
	if err != nil {
		return err
	}
	m.mu.Lock()
	maps.Copy(m.inlets, fresh)
	for name, n := range ended {
		if _, configured := m.configured(name); n > 0 && !configured {
			m.strangers[name] = n
		}
	}
	for name := range fresh {
		delete(m.strangers, name)
	}
	m.mu.Unlock()
	for _, in := range fresh {
		m.launch(in)
	}
	return nil
}

// changed waits for the end of a Change that is under way. One that comes later finds the
// manager closed, and begins nothing.
func (m *Manager) changed() {
	m.changing.Lock()
	defer m.changing.Unlock()
}

// end takes sources, and the senders of those of kind pawl, off the books, waits until
// they have ended, and returns how much each owned.
func (m *Manager) end(names []string) map[string]int {
	m.mu.Lock()
	var ending []*inlet
	for name, in := range m.inlets {
		if slices.Contains(names, name) && in.group == "" || slices.Contains(names, in.group) {
			ending = append(ending, in)
			delete(m.inlets, name)
		}
	}
	m.mu.Unlock()
	owned := map[string]int{}
	for _, in := range ending {
		in.cancel()
		if in.done != nil {
			<-in.done
		}
		in.turn.Lock() // what a sender has under way is stored, and in the books that are read next
		in.over = true
		in.turn.Unlock()
		in.mu.Lock()
		owned[in.spec.Name] = in.owned.n
		in.mu.Unlock()
	}
	return owned
}

// openFresh makes the inlets of specs, and of senders that are known by what they own,
// and reads their books. It tries until it can, or the manager is closed: meanwhile
// nothing is taken in from them, and nothing lost.
func (m *Manager) openFresh(specs []Spec) (map[string]*inlet, error) {
	for failures := 0; ; failures++ {
		fresh, err := m.readFresh(specs)
		switch {
		case err == nil:
			return fresh, nil
		case errors.Is(err, engine.ErrClosed):
			return nil, err
		}
		m.log.Error("what sources own can't be read, and those that changed are not begun until it can", "error", err)
		select {
		case <-time.After(m.pause(failures)):
		case <-m.ctx.Done():
			return nil, engine.ErrClosed
		}
	}
}

func (m *Manager) readFresh(specs []Spec) (map[string]*inlet, error) {
	fresh, owned := map[string]*inlet{}, map[string]*keySet{}
	groups := map[string]bool{}
	for _, s := range specs {
		if s.Source == nil {
			groups[s.Name] = true
		} else {
			fresh[s.Name] = newInlet(m, s, "")
		}
	}
	if len(specs) == 0 {
		return fresh, nil
	}
	err := m.engine.Owners(m.ctx, func(key record.Key, owner string) bool {
		if owner == "" {
			return true
		}
		if fresh[owner] == nil {
			g, ok := m.groupOf(owner)
			if !ok || !groups[g.Name] {
				return true
			}
			fresh[owner] = m.newSender(owner, g)
		}
		if owned[owner] == nil {
			set := newKeySet()
			owned[owner] = &set
		}
		owned[owner].put(key, mark{})
		return true
	})
	if err != nil {
		return nil, err
	}
	for name, in := range fresh {
		if err := in.open(owned[name]); err != nil {
			return nil, fmt.Errorf("source %s: %w", name, err)
		}
	}
	return fresh, nil
}

// launch runs a source, unless it is one that sends by itself.
func (m *Manager) launch(in *inlet) {
	if in.spec.Source == nil {
		return
	}
	in.done = make(chan struct{})
	m.running.Go(func() {
		defer close(in.done)
		in.run(in.ctx)
	})
}
