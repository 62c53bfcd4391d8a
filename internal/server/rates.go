package server

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/pawlsync/pawl/engine"
	"github.com/pawlsync/pawl/engine/reconcile"
	"github.com/pawlsync/pawl/engine/record"
	"github.com/pawlsync/pawl/internal/api"
)

// Totals is an engine.Observer that counts by sink what rates are made of, and hands
// everything on.
type Totals struct {
	engine.Observer
	sinks sync.Map // name → *totals
}

type totals struct{ puts, acked, failed atomic.Uint64 }

// NewTotals returns one that hands on to next.
func NewTotals(next engine.Observer) *Totals { return &Totals{Observer: next} }

// of returns what is counted of a sink. Only names that the engine knows come here, so
// that callers can't make it grow.
func (t *Totals) of(name string) *totals {
	if found, ok := t.sinks.Load(name); ok {
		return found.(*totals)
	}
	found, _ := t.sinks.LoadOrStore(name, new(totals))
	return found.(*totals)
}

// PutDone implements engine.Observer.
func (t *Totals) PutDone(sinkName, outcome string, replaced bool, took time.Duration) {
	t.Observer.PutDone(sinkName, outcome, replaced, took)
	if outcome == "accepted" {
		t.of(sinkName).puts.Add(1)
	}
}

// AckDone implements engine.Observer.
func (t *Totals) AckDone(key record.Key, took time.Duration) {
	t.Observer.AckDone(key, took)
	t.of(key.Sink).acked.Add(1)
}

// DeliveryDone implements engine.Observer.
func (t *Totals) DeliveryDone(key record.Key, outcome engine.Outcome, took time.Duration) {
	t.Observer.DeliveryDone(key, outcome, took)
	if failed(outcome) {
		t.of(key.Sink).failed.Add(1)
	}
}

// failed tells deliveries that ended without what they were for, by a fault of the
// target, the plugin or the resource. One that is to be tried later because the target
// asked for it, or that met somebody else's decision, did not fail.
func failed(o engine.Outcome) bool {
	switch o {
	case reconcile.Retryable, reconcile.Unreachable, reconcile.Unauthorized, reconcile.Rejected, reconcile.PluginFault,
		reconcile.MovedTarget, reconcile.Undeletable, reconcile.NotConverged, reconcile.NoContent, reconcile.TooLarge:
		return true
	}
	return false
}

// Of is what was counted of a sink so far. A nil Totals has counted nothing.
func (t *Totals) Of(name string) api.SinkTotals {
	if t == nil {
		return api.SinkTotals{}
	}
	found, ok := t.sinks.Load(name)
	if !ok {
		return api.SinkTotals{}
	}
	c := found.(*totals)
	return api.SinkTotals{Puts: c.puts.Load(), Acked: c.acked.Load(), Failed: c.failed.Load()}
}
