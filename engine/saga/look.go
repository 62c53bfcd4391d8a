package saga

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/pawlsync/pawl/engine/outbox"
)

// Get returns a saga, ended ones too.
//
// # Errors
//
// ErrNotFound; outbox.ErrDamaged.
func (m *Manager) Get(id string) (View, error) {
	if r := m.of(id); r != nil {
		return r.view(), nil
	}
	if why := m.whyLost(id); why != nil {
		return View{Spec: Spec{ID: id}, State: State{Stuck: fmt.Sprintf("%v; %s", why, lostHint)}, Unresolved: true}, nil
	}
	f, err := m.read(id)
	if err != nil {
		return View{}, err
	}
	return view(f), nil
}

func (m *Manager) whyLost(id string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.lost[id]
}

func view(f *found) View {
	return View{Spec: f.spec, State: *f.State, Unresolved: f.Unresolved(time.Now())}
}

// ListOptions select sagas.
type ListOptions struct {
	After string // the id after which the page begins
	Limit int    // most of a page; defaults to 100, at most 1,000
	Open  bool   // only those that have not ended
}

// List returns sagas by id; more reports whether there are others behind them.
func (m *Manager) List(ctx context.Context, o ListOptions) (views []View, more bool, err error) {
	if o.Limit <= 0 {
		o.Limit = 100
	}
	o.Limit = min(o.Limit, 1000)
	var ids []string
	err = m.journal.Heads(ctx, o.After, func(h outbox.Head) bool {
		if o.Open && Phase(h.Status.Phase) == Ended {
			return true
		}
		if more = len(ids) == o.Limit; more {
			return false
		}
		ids = append(ids, h.Key.Name)
		return true
	})
	if err != nil {
		return nil, false, fmt.Errorf("list sagas: %w", err)
	}
	for _, id := range ids {
		v, err := m.Get(id)
		if errors.Is(err, ErrNotFound) {
			continue // forgotten since
		}
		if errors.Is(err, outbox.ErrDamaged) { // the others are as good as ever
			v, err = View{Spec: Spec{ID: id}, State: State{Phase: Ended, Stuck: err.Error()}}, nil
		}
		if err != nil {
			return nil, false, err
		}
		views = append(views, v)
	}
	return views, more, nil
}

// Resolve puts an operator's decision into force; it returns when that is durable.
//
// # Errors
//
// ErrNotFound; ErrNothingToDo for a saga whose outcome is known.
func (m *Manager) Resolve(ctx context.Context, id string, how Resolution) (View, error) {
	if !slices.Contains([]Resolution{TryAgain, TakeCommitted, TakeRolledBack}, how) {
		return View{}, fmt.Errorf("%w: unknown resolution %q; use %s, %s or %s", ErrInvalid, how, TryAgain, TakeCommitted, TakeRolledBack)
	}
	r := m.of(id)
	if r == nil && how != TryAgain && m.whyLost(id) != nil {
		return m.discard(ctx, id, how)
	}
	if r == nil {
		v, err := m.Get(id)
		if err == nil {
			err = fmt.Errorf("%w: saga %q has ended: %s", ErrNothingToDo, id, v.State.Outcome)
		}
		return v, err
	}
	r.mu.Lock()
	if r.state == nil || r.err != nil || !r.state.Resolve(how) {
		defer r.mu.Unlock()
		return r.viewLocked(), fmt.Errorf("%w: saga %q has only begun, or its outcome is known", ErrNothingToDo, id)
	}
	ticket := m.submit(r)
	r.mu.Unlock()
	if err := ticket.Wait(ctx); err != nil {
		return View{}, fmt.Errorf("resolve saga %q: %w", id, err)
	}
	r.poke()
	return r.view(), nil
}

// discard forgets a saga that could not be taken up.
func (m *Manager) discard(ctx context.Context, id string, how Resolution) (View, error) {
	if err := m.journal.Discard(id).Wait(ctx); err != nil {
		return View{}, fmt.Errorf("resolve saga %q: %w", id, err)
	}
	m.mu.Lock()
	delete(m.lost, id)
	m.mu.Unlock()
	v := View{Spec: Spec{ID: id}, State: State{Phase: Ended, Outcome: Committed, EndedAt: time.Now()}}
	if how == TakeRolledBack {
		v.State.Outcome = RolledBack
	}
	return v, nil
}

// Stats are a Manager's figures.
type Stats struct {
	Running    int // not ended
	Unresolved int
	Oldest     time.Time // start of the oldest unresolved one; zero: there is none
}

// Stats returns the figures of now.
func (m *Manager) Stats() Stats {
	m.mu.Lock()
	s := Stats{Running: len(m.byID), Unresolved: len(m.lost)}
	runs := slices.Collect(maps.Values(m.byID))
	m.mu.Unlock() // a run may be locked for as long as the journal takes
	now := time.Now()
	for _, r := range runs {
		r.mu.Lock()
		if r.state != nil && r.state.Unresolved(now) {
			s.Unresolved++
			if s.Oldest.IsZero() || r.state.Began.Before(s.Oldest) {
				s.Oldest = r.state.Began
			}
		}
		r.mu.Unlock()
	}
	return s
}
