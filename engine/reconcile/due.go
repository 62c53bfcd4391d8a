package reconcile

import (
	"time"

	"github.com/pawlsync/pawl/engine/outbox"
	"github.com/pawlsync/pawl/engine/record"
	"github.com/pawlsync/pawl/engine/schedule"
)

// Due says when a resource is next worked on, and in which class. rnd, in
// [0, 1), spreads checks.
func Due(r *Rules, h outbox.Head, suspended bool, now time.Time, rnd float64) schedule.Plan {
	st := Effective(h.Generation, h.Status)
	p := schedule.Plan{Phase: st.Phase, Since: h.WaitingSince}
	switch {
	case h.Generation == 0:
		return schedule.Plan{}
	case h.Gone:
		return schedule.Plan{At: h.GoneUntil, Class: schedule.Check}
	case suspended && !h.Tombstone: // R30
		return p
	case st.Command != record.NoCommand:
		p.At, p.Class = now, schedule.Fresh
		return p
	}
	switch st.Phase {
	case record.AckedPhase:
		p.Since = time.Time{}
		p.Class = schedule.Check
		if st.Acked != nil && r.acked(&st) == nil { // R13
			p.At, p.Class = now, schedule.Retry
		} else if st.Direction.TakesIn() {
			p.At = r.takeIn(&st, now, rnd)
		} else if r.DriftInterval > 0 && r.Looks() {
			p.At = later(now.Add(Spread(r.DriftInterval, rnd)), within(st.NextAt, now, st.Delay))
		}
	case record.Drifted:
		p.Class = schedule.Check
		p.At = now.Add(r.ReportInterval)
	case record.Failed, record.Obsolete:
		p.Since, p.Class = time.Time{}, schedule.Check
		if st.Direction == record.Inbound || st.Direction.TakesIn() && takenInQuietly(&st) { // the target may change, whatever we are refused
			p.At = r.takeIn(&st, now, rnd)
		}
	case record.Orphaned:
		if r.acked(&st) != nil { // the target that the deletion is owed to is back
			p.At, p.Class = now, schedule.Retry
		}
	default:
		p.At, p.Class = r.work(h, &st, now)
		if st.Direction == record.Inbound && takenInQuietly(&st) { // nothing is there, which is not our doing
			p.At, p.Class, p.Since = r.takeIn(&st, now, rnd), schedule.Check, time.Time{}
		}
	}
	return p
}

// takeIn says when a resource that takes in is looked at again; zero: never.
func (r *Rules) takeIn(st *record.Status, now time.Time, rnd float64) time.Time {
	every := r.takesInEvery()
	if every <= 0 {
		return time.Time{}
	}
	return later(now.Add(Spread(every, rnd)), within(st.NextAt, now, st.Delay))
}

// work says when a resource goes to which something is owed. A fresh state goes
// at once, but not sooner than the base delay after a call that failed (R02).
func (r *Rules) work(h outbox.Head, st *record.Status, now time.Time) (time.Time, schedule.Class) {
	if h.Status.Generation == h.Generation && st.Phase != "" && !st.NextAt.IsZero() {
		return within(st.NextAt, now, st.Delay), schedule.Retry
	}
	at := now
	if !st.FailedAt.IsZero() {
		base := r.retry(st.Retry).Base
		at = later(now, within(st.FailedAt.Add(base), now, base))
	}
	return at, schedule.Fresh
}

// within bounds a stored instant to what was waited for when it was stored: a
// clock that was set back makes nobody wait longer (R40).
func within(at, now time.Time, delay time.Duration) time.Time {
	if limit := now.Add(delay); at.After(limit) {
		return limit
	}
	return at
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// Effective is a status as its readers see it: one that speaks of an older
// generation than the desired one reads as Pending (R63).
func Effective(generation uint64, st record.Status) record.Status {
	if st.Generation == generation && st.Phase != "" {
		return st
	}
	st.Phase, st.Reason, st.Message = record.Pending, record.ReasonNone, ""
	st.Attempts, st.Looks, st.NextAt, st.Delay = 0, 0, time.Time{}, 0
	st.DriftPaths = nil
	if len(st.Conditions) > 0 {
		conditions := make([]record.Condition, len(st.Conditions))
		copy(conditions, st.Conditions)
		for i := range conditions {
			if c := &conditions[i]; c.ObservedGeneration != generation && (c.Type == record.CondAcked || c.Type == record.CondStalled) {
				c.Status, c.Reason, c.Message = record.False, record.ReasonNone, ""
			}
		}
		st.Conditions = conditions
	}
	return st
}
