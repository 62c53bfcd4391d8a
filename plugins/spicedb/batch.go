package main

import (
	"context"

	"github.com/pawlsync/pawl/plugins/spicedb/wire"
	pawl "github.com/pawlsync/pawl/sdk/go"
)

// ApplyBatch plans every resource, and writes as many of them in one request as
// fit: rows up to the limit, none twice, and no preconditions, which would be the
// whole request's. What does not fit goes alone.
func (a *adapter) ApplyBatch(ctx context.Context, rs []*pawl.Request) ([]pawl.BatchItem, error) {
	items := make([]pawl.BatchItem, len(rs))
	plans := make([]*plan, len(rs))
	work := make([]func() error, len(rs))
	for i := range rs {
		work[i] = func() error {
			plans[i], items[i].Err = a.plan(ctx, rs[i])
			return nil
		}
	}
	_ = inParallel(work) // each has its own error
	l := &load{a: a, items: items, plans: plans}
	var writes []func() error
	send := func(chosen []int) {
		writes = append(writes, func() error { l.write(ctx, chosen); return nil })
	}
	for i, p := range plans {
		switch {
		case p == nil:
		case len(p.updates) == 0:
			items[i].Observation = p.done
		case len(p.preconditions) > 0 || a.fitting(p.updates) < len(p.updates):
			writes = append(writes, func() error {
				items[i].Err = asError(a.carryOut(ctx, p))
				items[i].Observation = p.done
				return nil
			})
		default:
			if !l.fits(p) {
				send(l.take())
			}
			l.add(i)
		}
	}
	if len(l.chosen) > 0 {
		send(l.take())
	}
	_ = inParallel(writes)
	for i := range items {
		if items[i].Err != nil {
			items[i].Observation = pawl.Observation{}
		}
	}
	return items, nil
}

// load is what goes into the next request of a batch.
type load struct {
	a     *adapter
	items []pawl.BatchItem
	plans []*plan

	chosen []int // of plans
	keys   map[string]bool
	size   int
	rows   int
}

// fits reports whether a plan may go with those that are chosen.
func (l *load) fits(p *plan) bool {
	size := 0
	for i := range p.updates {
		size += sizeOf(&p.updates[i])
		if l.keys[keyOf(p.updates[i].Row)] {
			return false
		}
	}
	return len(l.chosen) == 0 || l.rows+len(p.updates) <= l.a.cfg.updates && l.size+size <= maxWriteBytes
}

// add chooses plan i.
func (l *load) add(i int) {
	if l.keys == nil {
		l.keys = map[string]bool{}
	}
	updates := l.plans[i].updates
	for j := range updates {
		l.keys[keyOf(updates[j].Row)] = true
		l.size += sizeOf(&updates[j])
	}
	l.chosen = append(l.chosen, i)
	l.rows += len(updates)
}

// take returns what is chosen, and starts anew.
func (l *load) take() []int {
	chosen := l.chosen
	l.chosen, l.keys, l.size, l.rows = nil, nil, 0, 0
	return chosen
}

// write writes some plans in one request. Where SpiceDB refuses it for what it says,
// halves of it are tried, until the plan is found that is at fault.
func (l *load) write(ctx context.Context, chosen []int) {
	first := l.plans[chosen[0]]
	var updates []wire.Update
	for _, i := range chosen {
		updates = append(updates, l.plans[i].updates...)
	}
	token, err := l.a.write(ctx, first.r, updates, nil)
	if err = asError(err); err != nil && len(chosen) > 1 && isRefusal(err) {
		l.write(ctx, chosen[:len(chosen)/2])
		l.write(ctx, chosen[len(chosen)/2:])
		return
	}
	for _, i := range chosen {
		done := l.plans[i].done
		done.Ref = token
		l.items[i] = pawl.BatchItem{Observation: done, Err: err}
	}
}

// isRefusal reports whether an answer is about what was sent, and not about the
// server, its credentials or the moment.
func isRefusal(err error) bool {
	switch pawl.AsError(err).Status {
	case pawl.StatusRejected, pawl.StatusConflict, pawl.StatusAlreadyExists:
		return true
	}
	return false
}
