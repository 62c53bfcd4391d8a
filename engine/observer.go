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
	// CallDone reports one call to a sink: op is "observe", "apply", "delete",
	// "apply-batch", "compare" or "poll"; the key of the last two has a sink alone.
	CallDone(key record.Key, op string, status sink.Status, took time.Duration)
	// DeliveryDone reports one delivery by its one outcome, see Outcome.
	DeliveryDone(key record.Key, outcome Outcome, took time.Duration)
	// AckDone reports how long a generation took from Put to acknowledgement.
	AckDone(key record.Key, took time.Duration)
	// CompareDone reports one comparison of a sink's acknowledged resources with its
	// target: how many there were, how many are delivered anew because they differed,
	// and how many objects that nobody desires are deleted.
	CompareDone(sinkName string, resources, redelivered, deleted int)
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
func (nopObserver) CompareDone(string, int, int, int)                       {}
func (nopObserver) BreakerMoved(string, bool)                               {}
func (nopObserver) CommitDone(int, int, time.Duration, error)               {}
