package saga

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
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
	raw, err := json.Marshal(r.state)
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

// found is a saga that was read from the journal.
type found struct {
	spec   Spec
	source []byte // the spec as it is stored
	state  State
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
	if err := json.Unmarshal(rec.Status.Acked.Payload, &f.state); err != nil {
		return nil, fmt.Errorf("read saga %q: %w: %w", id, outbox.ErrDamaged, err)
	}
	return f, nil
}

// Prepare takes up the sagas that an earlier process left, before anything is
// delivered: it is the engine's Options.Prepare.
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
		f, err := m.read(id)
		if err != nil {
			return err
		}
		if err := m.takeUp(f); err != nil {
			return err
		}
	}
	if len(open) > 0 {
		m.log.Info("sagas that were under way are taken up", "sagas", len(open))
	}
	m.running.Go(m.sweep)
	return nil
}

// takeUp goes on with a saga of an earlier process.
func (m *Manager) takeUp(f *found) (err error) {
	rules, locks := m.rulesOf(&f.spec)
	r := m.newRun(f.spec, f.source, locks)
	r.state = Resume(&f.state, &r.spec, rules)
	r.accepted = true
	if r.state.Outcome != "" {
		close(r.known)
	}
	if r.held, err = m.engine.Hold(context.Background(), r.hold(true)); err != nil {
		return fmt.Errorf("take up saga %q: %w", f.spec.ID, err)
	}
	m.byID[f.spec.ID] = r
	m.running.Go(func() { m.drive(r) })
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
		if err == nil {
			err = m.journal.Update(id, func(cur outbox.Record) (outbox.Change, error) {
				return outbox.Change{Remove: old(cur.Status.Phase, cur.Status.UpdatedAt)}, nil
			}).Err
		}
	}
	return err
}
