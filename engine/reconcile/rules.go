// Package reconcile decides what becomes of one resource. It is pure: time,
// randomness and what targets answer come in as arguments, decisions go out as
// values. It starts no goroutine, reads no clock and does no I/O.
//
// The way of a resource through it: AcceptPut and AcceptDelete take a change
// in; Due says when the resource is next worked on; a Delivery goes from step
// to step until it is done, and Settle turns its outcome into what is stored.
// The rows named in comments (R01 …) are those of docs/behaviour.md.
package reconcile

import (
	"time"

	"github.com/pawlsync/pawl/engine/record"
	"github.com/pawlsync/pawl/engine/sink"
)

// Rules are what a sink's configuration and its adapter say about its
// resources. All durations are positive unless said otherwise.
type Rules struct {
	Conflict record.ConflictPolicy // of resources that say nothing themselves
	Deletion record.DeletionPolicy

	Timeout        time.Duration // of one call
	DriftInterval  time.Duration // between looks at an acknowledged resource; not positive: none
	ReportInterval time.Duration // between looks at one whose drift is only reported
	RetryBase      time.Duration // first pause after a failure, doubled
	RetryMax       time.Duration // longest pause
	MaxAttempts    int           // until Stalled
	StallRetry     time.Duration // pause while Stalled
	FightsPerHour  int           // corrections of drift until Fighting
	OrderRetention time.Duration // how long a deleted resource's source order is kept

	Epoch    string // of the store, for idempotency keys
	Manifest sink.Manifest
}

// Pauses that no configuration changes.
const (
	lookBase      = 5 * time.Second // between polls of an operation that the target still works on (R36, R53)
	lookMax       = time.Minute
	retryAfterMin = time.Second // bounds of what a target may ask for (R42)
	retryAfterMax = time.Hour
)

// conflict is the policy in force for d.
func (r *Rules) conflict(d *record.Desired) record.ConflictPolicy {
	if d.Conflict != "" {
		return d.Conflict
	}
	return r.Conflict
}

// deletion is the policy in force for d.
func (r *Rules) deletion(d *record.Desired) record.DeletionPolicy {
	if d.Deletion != "" {
		return d.Deletion
	}
	return r.Deletion
}

// keepsPayloads reports whether the payloads of acked and attempted content are
// kept for comparison while newer work waits.
func (r *Rules) keepsPayloads(d *record.Desired) bool { return r.conflict(d) != record.SourceWins }

// acked is what the present target acknowledged of s, or nil. What another
// target acknowledged counts for nothing here (R13). While it is not known which
// target there is, it is taken for the same one.
func (r *Rules) acked(s *record.Status) *record.Acked {
	if s.Acked == nil || r.Manifest.NotReady == "" && s.Acked.Target != r.Manifest.Target {
		return nil
	}
	return s.Acked
}

// exponential returns base doubled n times, at most limit. It never overflows.
func exponential(base, limit time.Duration, n int) time.Duration {
	d := base
	for ; n > 0 && d < limit; n-- {
		d *= 2
	}
	return min(d, limit)
}

// upperHalf jitters d to between its half and its whole; rnd is in [0, 1).
func upperHalf(d time.Duration, rnd float64) time.Duration {
	return d/2 + time.Duration(rnd*float64(d/2))
}

// Backoff is the pause after the given number of failed attempts (R40); rnd is
// in [0, 1).
func (r *Rules) Backoff(attempts int, rnd float64) time.Duration {
	return upperHalf(exponential(r.RetryBase, r.RetryMax, max(attempts-1, 0)), rnd)
}

// spread jitters a check's interval by a tenth either way, so that resources
// that were acknowledged together are not looked at together for ever.
func spread(d time.Duration, rnd float64) time.Duration {
	return d - d/10 + time.Duration(rnd*float64(d/5))
}
