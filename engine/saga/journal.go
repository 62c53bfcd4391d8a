package saga

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/pawlsync/pawl/engine"
	"github.com/pawlsync/pawl/engine/outbox"
	"github.com/pawlsync/pawl/engine/record"
)

// A saga's record in the store: what is desired is its Spec, what is known its
// State, each as JSON. So the journal has what the outbox has: shared commits,
// newest state only, checksums, backups. Ended sagas stay for Options.Retention.

// submit queues a saga's state for the next commit; the first one of a saga brings
// its Spec. The order of calls is that of the states.
func (m *Manager) submit(r *run) outbox.Ticket {
	raw, err := json.Marshal(entry{r.state, r.rules, r.locks})
	if err != nil {
		return outbox.NewTicket(0, nil, fmt.Errorf("encode the state of saga %q: %w", r.spec.ID, err))
	}
	now := time.Now()
	return m.journal.Update(r.spec.ID, func(cur outbox.Record) (outbox.Change, error) {
		c := outbox.Change{Status: &record.Status{
			Phase: record.Phase(r.state.Phase), Generation: cur.Desired.Generation, UpdatedAt: now,
			Acked: &record.Acked{Payload: raw},
		}}
		if cur.Desired.Generation == 0 {
			c.Desired = &record.Desired{Payload: r.source, Hash: record.HashOf(r.source), PutAt: now}
			c.NewGeneration = true
		}
		return c, nil
	})
}

// entry is what a saga's record holds beside its Spec. Rules and locks are those that
// it began with: a sink that is not ready, or that somebody configured anew, must not
// make it forget a lock that it took.
type entry struct {
	*State
	Rules []StepRules `json:"rules"`
	Locks []string    `json:"locks,omitempty"`
}

// found is a saga that was read from the journal.
type found struct {
	spec   Spec
	source []byte // the spec as it is stored
	entry
}

// read returns the saga called id, or ErrNotFound.
func (m *Manager) read(id string) (*found, error) {
	rec, err := m.journal.Get(id)
	if err != nil {
		return nil, fmt.Errorf("read saga %q: %w", id, err)
	}
	if rec.Desired.Generation == 0 {
		return nil, fmt.Errorf("%w: there is no saga %q", ErrNotFound, id)
	}
	f := &found{source: rec.Desired.Payload}
	if err := json.Unmarshal(rec.Desired.Payload, &f.spec); err != nil {
		return nil, fmt.Errorf("read saga %q: %w: %w", id, outbox.ErrDamaged, err)
	}
	if rec.Status.Acked == nil {
		return nil, fmt.Errorf("read saga %q: %w: it has no state", id, outbox.ErrDamaged)
	}
	if err := json.Unmarshal(rec.Status.Acked.Payload, &f.entry); err != nil {
		return nil, fmt.Errorf("read saga %q: %w: %w", id, outbox.ErrDamaged, err)
	}
	if n := len(f.spec.Steps); f.State == nil || len(f.Steps) != n || len(f.Rules) != n {
		return nil, fmt.Errorf("read saga %q: %w: its state is not one of %d steps", id, outbox.ErrDamaged, n)
	}
	return f, nil
}

// Prepare takes up the sagas that an earlier process left, before anything is
// delivered: it is the engine's Options.Prepare. One that can't be is no reason not to
// start: it is told, and stays unresolved.
func (m *Manager) Prepare(e *engine.Engine) error {
	m.engine, m.journal = e, e.Journal()
	var open []string
	err := m.journal.Heads(context.Background(), "", func(h outbox.Head) bool {
		if Phase(h.Status.Phase) != Ended {
			open = append(open, h.Key.Name)
		}
		return true
	})
	if err != nil {
		return fmt.Errorf("read the journal of sagas: %w", err)
	}
	for _, id := range open {
		err := m.takeUp(id)
		if errors.Is(err, outbox.ErrDamaged) || errors.Is(err, engine.ErrHeld) {
			m.lost[id] = err
			m.log.Error("a saga that was under way can't be taken up: its resources are not held, and what it wrote stays", "saga", id, "error", err, "hint", lostHint)
			continue
		}
		if err != nil {
			return fmt.Errorf("take up saga %q: %w", id, err)
		}
	}
	runs := slices.Collect(maps.Values(m.byID)) // of which the first may end before the last begins
	for _, r := range runs {                    // now that all holds are in force
		m.running.Go(func() { m.drive(r) })
	}
	if len(runs) > 0 {
		m.log.Info("sagas that were under way are taken up", "sagas", len(runs))
	}
	m.running.Go(m.sweep)
	return nil
}

const lostHint = "look at the objects at its targets, then resolve it as committed or rolled-back: it is forgotten"

// takeUp takes hold of what a saga of an earlier process had.
func (m *Manager) takeUp(id string) error {
	f, err := m.read(id)
	if err != nil {
		return err
	}
	r := m.newRun(f.spec, f.source)
	r.rules, r.locks = f.Rules, f.Locks
	r.state = Resume(f.State, &r.spec, m.coreRules(r.rules), time.Now())
	r.accepted = true
	if r.state.Outcome != "" {
		close(r.known)
	}
	if r.held, err = m.engine.Hold(context.Background(), r.hold(true)); err != nil {
		return err
	}
	for i, h := range r.held {
		if h.Damaged != nil && r.state.Outcome == "" {
			r.state.Stuck = fmt.Sprintf("what is stored of step %d's resource can't be read: %v", i+1, h.Damaged)
			m.log.Error("a saga that was under way is stuck until an operator resolves it", "saga", id, "error", h.Damaged)
		}
	}
	m.byID[id] = r
	return nil
}

// sweepInterval is how often ended sagas are looked through.
const sweepInterval = time.Hour

// sweep forgets sagas that ended long ago.
func (m *Manager) sweep() {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-m.closing:
			return
		case <-timer.C:
		}
		if err := m.forget(time.Now().Add(-m.opts.Retention)); err != nil && !errors.Is(err, outbox.ErrClosed) {
			m.log.Warn("old sagas could not be forgotten; it is tried again", "error", err, "in", sweepInterval)
		}
		timer.Reset(sweepInterval)
	}
}

// forget removes the sagas that ended before a time.
func (m *Manager) forget(before time.Time) error {
	old := func(phase record.Phase, at time.Time) bool { return Phase(phase) == Ended && at.Before(before) }
	var ids []string
	err := m.journal.Heads(context.Background(), "", func(h outbox.Head) bool {
		if old(h.Status.Phase, h.Status.UpdatedAt) {
			ids = append(ids, h.Key.Name)
		}
		return true
	})
	for _, id := range ids {
		err = errors.Join(err, m.journal.Update(id, func(cur outbox.Record) (outbox.Change, error) {
			return outbox.Change{Remove: old(cur.Status.Phase, cur.Status.UpdatedAt)}, nil
		}).Err)
	}
	return err
}
