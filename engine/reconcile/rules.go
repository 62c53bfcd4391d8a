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
	"cmp"
	"time"

	"github.com/pawlsync/pawl/engine/record"
	"github.com/pawlsync/pawl/engine/sink"
)

// Rules are what a sink's configuration and its adapter say about its
// resources. All durations are positive unless said otherwise.
type Rules struct {
	Conflict record.ConflictPolicy // of resources that say nothing themselves
	Deletion record.DeletionPolicy
	// Direction is that of resources that say nothing themselves; empty: outbound.
	Direction record.Direction

	Timeout        time.Duration // of one call
	DriftInterval  time.Duration // between looks at an acknowledged resource; not positive: none
	PollInterval   time.Duration // between looks at one that takes in, where the sink can't poll
	ReportInterval time.Duration // between looks at one whose drift is only reported
	Retry          record.Retry  // of resources that say nothing themselves; every field is set
	FightsPerHour  int           // corrections of drift until Fighting
	OrderRetention time.Duration // how long a deleted resource's source order is kept

	ContentMax int // bytes of a target's object that are taken in; 0: no limit

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
func (r *Rules) keepsPayloads(d *record.Desired) bool {
	return r.conflict(d) != record.SourceWins || r.direction(d) == record.Both
}

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

// retry is what is in force for a resource of its own settings. Where it sets one of
// base and max, the sink's other one gives way.
func (r *Rules) retry(own record.Retry) record.Retry {
	in := record.Retry{
		Base: cmp.Or(own.Base, r.Retry.Base), Max: cmp.Or(own.Max, r.Retry.Max),
		MaxAttempts: cmp.Or(own.MaxAttempts, r.Retry.MaxAttempts), Stall: cmp.Or(own.Stall, r.Retry.Stall),
	}
	if own.Base == 0 {
		in.Base = min(in.Base, in.Max)
	}
	in.Max = max(in.Max, in.Base)
	return in
}

// backoff is the pause after the given number of failed attempts (R40); rnd is
// in [0, 1).
func backoff(r record.Retry, attempts int, rnd float64) time.Duration {
	return upperHalf(exponential(r.Base, r.Max, max(attempts-1, 0)), rnd)
}

// Spread jitters a check's interval by a tenth either way, so that resources
// that were acknowledged together are not looked at together for ever.
// rnd is in [0, 1).
func Spread(d time.Duration, rnd float64) time.Duration {
	return d - d/10 + time.Duration(rnd*float64(d/5))
}
