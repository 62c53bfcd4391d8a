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
	load := &load{a: a, items: items, plans: plans}
	for i, p := range plans {
		switch {
		case p == nil:
		case len(p.updates) == 0:
			items[i].Observation = p.done
		case len(p.preconditions) > 0 || a.fitting(p.updates) < len(p.updates):
			items[i].Observation, items[i].Err = p.done, asError(a.carryOut(ctx, p))
			items[i].Observation = p.done
		default:
			load.add(ctx, i)
		}
	}
	load.send(ctx)
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

// add takes plan i along, and sends the load first where it does not fit.
func (l *load) add(ctx context.Context, i int) {
	p := l.plans[i]
	size, shared := 0, false
	for j := range p.updates {
		size += sizeOf(&p.updates[j])
		shared = shared || l.keys[keyOf(p.updates[j].Row)]
	}
	if shared || l.rows+len(p.updates) > l.a.cfg.updates || l.size+size > maxWriteBytes {
		l.send(ctx)
	}
	if l.keys == nil {
		l.keys = map[string]bool{}
	}
	for j := range p.updates {
		l.keys[keyOf(p.updates[j].Row)] = true
	}
	l.chosen = append(l.chosen, i)
	l.rows += len(p.updates)
	l.size += size
}

// send writes the load and starts a new one.
func (l *load) send(ctx context.Context) {
	if len(l.chosen) > 0 {
		l.write(ctx, l.chosen)
	}
	l.chosen, l.keys, l.size, l.rows = l.chosen[:0], nil, 0, 0
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
