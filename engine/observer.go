package engine

import (
	"time"

	"github.com/pawlsync/pawl/engine/reconcile"
	"github.com/pawlsync/pawl/engine/record"
	"github.com/pawlsync/pawl/engine/sink"
)

// Observer is told what the engine does. It is called from many goroutines and
// must return quickly. Keys are given for logs and traces; they make no labels.
type Observer interface {
	// PutDone reports one Put or Delete: "accepted", "unchanged", "stale",
	// "conflict", "invalid", "no-space" or "error"; replaced: older waiting work
	// was coalesced away.
	PutDone(sinkName, outcome string, replaced bool, took time.Duration)
	// CallDone reports one call to a sink: op is "observe", "apply", "delete" or "apply-batch".
	CallDone(key record.Key, op string, status sink.Status, took time.Duration)
	// DeliveryDone reports one delivery by its one outcome, see Outcome.
	DeliveryDone(key record.Key, outcome Outcome, took time.Duration)
	// AckDone reports how long a generation took from Put to acknowledgement.
	AckDone(key record.Key, took time.Duration)
	// BreakerMoved reports a sink's breaker opening or closing.
	BreakerMoved(sinkName string, open bool)
	// CommitDone reports one transaction of the store.
	CommitDone(changes, records int, took time.Duration, err error)
}

// Outcome is how one delivery ended; the one word that metrics count.
type Outcome = reconcile.Outcome

// Outcomes lists every outcome.
func Outcomes() []Outcome { return reconcile.Outcomes() }

type nopObserver struct{}

func (nopObserver) PutDone(string, string, bool, time.Duration)             {}
func (nopObserver) CallDone(record.Key, string, sink.Status, time.Duration) {}
func (nopObserver) DeliveryDone(record.Key, Outcome, time.Duration)         {}
func (nopObserver) AckDone(record.Key, time.Duration)                       {}
func (nopObserver) BreakerMoved(string, bool)                               {}
func (nopObserver) CommitDone(int, int, time.Duration, error)               {}
