package reconcile

import (
	"fmt"
	"slices"
	"time"

	"github.com/pawlsync/pawl/engine/outbox"
	"github.com/pawlsync/pawl/engine/record"
	"github.com/pawlsync/pawl/engine/sink"
)

// Verdict is what the engine knows of a delivery's surroundings when it settles.
type Verdict struct {
	Now time.Time
	// Charge: attempts burn although nothing was answered, for siblings of the
	// resource were (R43).
	Charge bool
	// Contender, where set, is the resource that owns the target's object (R37).
	Contender string
	// Random is in [0, 1).
	Random float64
}

// Settlement is what a delivery leaves behind.
type Settlement struct {
	Change  outbox.Change
	Outcome Outcome
	// Fighting: somebody else keeps changing what is corrected (R38).
	Fighting bool
	// AckedAfter is how long the work had waited when it was acknowledged; 0:
	// it was not, or not now.
	AckedAfter time.Duration
}

// Settle turns the delivery's outcome into a change of cur, the newest record.
// Of an outcome about a generation that is no longer the newest only what is
// true of the target is kept (R04, R60); of a resource that was forgotten
// meanwhile, nothing (R61).
func (d *Delivery) Settle(cur outbox.Record, v Verdict) Settlement {
	s := Settlement{Outcome: d.outcome}
	if v.Contender != "" && d.ackedNow != nil {
		s.Outcome = Contended
	}
	if !cur.Desired.Exists() {
		return s
	}
	st := cur.Status
	st.Retry = cur.Desired.Retry
	b := books{d: d, st: &st, cur: cur.Desired, v: v, took: v.Now.Sub(d.began), s: s}
	if cur.Desired.Generation != d.desired.Generation {
		b.old()
		b.s.Change = outbox.Change{Status: &st}
		return b.s
	}
	b.newest()
	if b.s.Change.Empty() && !b.nothing {
		b.s.Change = outbox.Change{Status: &st}
	}
	return b.s
}

// RetryAfter is the pause that the target asked for, within bounds, and whether
// it speaks for the whole target (R42).
func (d *Delivery) RetryAfter() (pause time.Duration, target bool) {
	if d.reply.RetryAfter <= 0 || d.reply.Status == sink.OK {
		return 0, false
	}
	return min(max(d.reply.RetryAfter, retryAfterMin), retryAfterMax), d.reply.RetryAfterTarget
}

// books writes one delivery's outcome into a status. What it holds by value would be
// allocated for each delivery where it held a pointer.
type books struct {
	d       *Delivery
	st      *record.Status
	cur     record.Desired // the newest: order and owner may have moved on since the delivery began
	v       Verdict
	took    time.Duration
	s       Settlement
	nothing bool // nothing is worth storing
}

// old keeps what an outcome for a replaced generation says of the target.
func (b *books) old() {
	d, st := b.d, b.st
	st.Attempted, _ = withContent(b.mergedAttempts(), &d.desired)
	switch b.s.Outcome {
	case Acked, Unchanged, Accepted:
		b.ack()
		if a := st.Acked; d.rules.keepsPayloads(&d.desired) && a != nil && a.Generation == d.desired.Generation && a.Hash == d.desired.Hash {
			kept := *a
			kept.Payload = d.desired.Payload
			st.Acked = &kept
		}
	case Deleted:
		st.Acked = nil
	case Retryable, Unreachable, Unauthorized, PluginFault, NotConverged, Rejected:
		st.FailedAt = b.v.Now
	}
	b.line(st.Phase, record.Reason(""), "of an older generation: "+string(b.s.Outcome))
	st.UpdatedAt = b.v.Now
}

// mergedAttempts are those of the delivery and those that were added to the
// record meanwhile: a Put that replaced the content in flight remembers it, and
// is set right by the delivery, which knows how the call ended.
func (b *books) mergedAttempts() []record.Attempt {
	out := b.d.attempts
	known := map[uint64]bool{b.d.desired.Generation: true}
	for _, a := range b.d.status.Attempted {
		known[a.Generation] = true
	}
	for _, a := range b.st.Attempted {
		if !known[a.Generation] {
			out = withAttempt(out, a)
		}
	}
	return out
}

// newest is the one switch over the outcomes of a delivery of what is still
// desired. Each arm says what is stored.
func (b *books) newest() {
	d, st := b.d, b.st
	st.Attempted = d.attempts
	if d.vanished || flipped(d.direction, st) {
		st.Acked = nil
	}
	if st.Direction = d.direction; d.direction == record.Outbound {
		st.Direction, st.Observed = "", nil
	}
	if st.Generation != d.desired.Generation {
		st.Attempts, st.Looks, st.DriftPaths = 0, 0, nil
	}
	switch b.s.Outcome {
	case Acked:
		b.acked()
	case Accepted:
		b.acknowledged(record.ReasonAccepted, "the target's own state was taken over", record.True)
	case Unchanged:
		b.unchanged()
	case Drifted:
		b.drifted()
	case TakenOver:
		b.takenOver()
	case Missing:
		b.missing()
	case NoContent, TooLarge:
		b.unusable()
	case Deleted, Released:
		b.remove()
	case NotOurs:
		b.rest(record.Failed, record.ReasonNotOurs, "the object bears no mark of ours; accept deletes it, forget leaves it")
	case MovedTarget:
		b.rest(record.Orphaned, record.ReasonTargetChanged, fmt.Sprintf("the deletion is owed to %s, and the sink now talks to %s", st.Acked.Target, d.rules.Manifest.Target))
	case Undeletable:
		b.rest(record.Failed, record.ReasonRejected, "the sink can't delete; forget gives the resource up")
	case Contended:
		b.rest(record.Failed, record.ReasonContended, fmt.Sprintf("the target's object belongs to %s already", b.v.Contender))
	case Rejected:
		st.FailedAt = b.v.Now
		b.rest(record.Failed, record.ReasonRejected, d.reply.Message)
	case Obsoleted:
		b.rest(record.Obsolete, record.ReasonObsolete, d.reply.Message)
	case Unsettled:
		b.wait(record.Pending, record.ReasonSettling, "a request that was never answered may still land", d.pendingUntil().Sub(b.v.Now)+time.Millisecond)
	case Converging:
		b.converging()
	case Paused:
		b.paused()
	case Unreachable:
		b.unanswered(record.ReasonUnreachable)
	case Unauthorized:
		b.unanswered(record.ReasonUnauthorized)
	case Suspect:
		b.suspected()
	case PluginFault:
		b.charge(record.ReasonPluginFault)
	case NotConverged:
		st.DriftPaths = d.paths
		b.charge(record.ReasonNotConverged)
	case Retryable:
		b.charge(b.retryReason())
	case LookFailed:
		b.lookFailed()
	}
	st.Generation = d.desired.Generation
	st.UpdatedAt = b.v.Now
}

func (b *books) retryReason() record.Reason {
	switch b.d.reply.Status {
	case sink.Conflict, sink.AlreadyExists, sink.NotFound:
		return record.ReasonConflict
	case sink.Rejected:
		return record.ReasonRejected
	}
	return record.ReasonRetryable
}

// ack records the acknowledgement, unless a newer one is known (R60).
func (b *books) ack() {
	a := b.d.ackedNow
	if a == nil || b.st.Acked != nil && b.st.Acked.Generation > a.Generation && b.st.Acked.Target == a.Target {
		return
	}
	b.st.Acked = a
}

func (b *books) acknowledged(reason record.Reason, message string, drifted record.Truth) {
	d, st := b.d, b.st
	first := st.Acked == nil || st.Acked.Generation != d.desired.Generation
	b.ack()
	if first {
		b.s.AckedAfter = max(b.v.Now.Sub(d.desired.WaitingSince), 1)
	}
	st.Attempts, st.Looks, st.NextAt, st.Delay, st.FailedAt = 0, 0, time.Time{}, 0, time.Time{}
	st.LookedAt, st.DriftPaths = b.v.Now, nil
	st.Observed = d.content
	b.carriedOut()
	if drifted == record.True {
		st.DriftPaths = d.paths
	}
	b.phase(record.AckedPhase, reason, message)
	b.condition(record.CondAcked, record.True, reason, message)
	b.condition(record.CondObserved, b.seen(), record.ReasonNone, "")
	b.condition(record.CondDrifted, drifted, reason, "")
	b.condition(record.CondStalled, record.False, record.ReasonNone, "")
	if d.drifted {
		b.corrected()
	}
}

// seen says whether the target was really looked at in this delivery.
func (b *books) seen() record.Truth {
	if b.d.observed != nil {
		return record.True
	}
	return record.Unknown
}

// corrected counts a correction of drift and notices a fight (R38).
func (b *books) corrected() {
	st, now := b.st, b.v.Now
	recent := make([]time.Time, 0, len(st.Corrections)+1)
	for _, t := range st.Corrections {
		if now.Sub(t) < time.Hour {
			recent = append(recent, t)
		}
	}
	recent = append(recent, now)
	if len(recent) > b.d.rules.FightsPerHour {
		b.s.Fighting = true
		st.Delay = b.retry().Stall
		st.NextAt = now.Add(st.Delay)
		recent = recent[len(recent)-b.d.rules.FightsPerHour-1:]
		b.phase(record.AckedPhase, record.ReasonFighting, "somebody else keeps changing it; left alone for a while")
	}
	st.Corrections = recent
}

// unchanged stores nothing unless the look brought news.
func (b *books) unchanged() {
	st := b.st
	news := st.Command != record.NoCommand || conditionOf(st, record.CondObserved) == record.Unknown && b.d.observed != nil ||
		len(st.Attempted) != len(b.d.status.Attempted) || st.Generation != b.d.desired.Generation || st.Phase == record.Pending ||
		st.Reason == record.ReasonFighting
	if !news {
		b.nothing = true
		return
	}
	st.LookedAt = b.v.Now
	b.carriedOut()
	b.condition(record.CondObserved, record.True, record.ReasonNone, "")
	if st.Phase != record.Failed && st.Phase != record.Obsolete {
		if st.Reason != record.ReasonAccepted { // which goes on to be true
			b.phase(record.AckedPhase, record.ReasonNone, "")
		}
		b.condition(record.CondAcked, record.True, record.ReasonNone, "")
	}
}

func (b *books) drifted() {
	b.st.DriftPaths, b.st.LookedAt, b.st.Observed = b.d.paths, b.v.Now, b.d.content
	message := "the target differs from what was acknowledged"
	if b.d.observed == nil {
		message = "the target's object is missing"
	}
	b.rest(record.Drifted, record.ReasonDrift, message)
	b.st.Delay = b.d.rules.ReportInterval
	b.condition(record.CondObserved, record.True, record.ReasonNone, "")
	b.condition(record.CondDrifted, record.True, record.ReasonDrift, "")
}

// remove lets the record go; where a source numbers its changes, its last
// number stays for a while (R08).
func (b *books) remove() {
	d := b.d
	if b.cur.Order == (record.Order{}) {
		b.s.Change = outbox.Change{Remove: true}
		return
	}
	gone := record.Desired{
		Generation: d.desired.Generation, Tombstone: true, Gone: true,
		GoneUntil: b.v.Now.Add(d.rules.OrderRetention), Order: b.cur.Order,
	}
	b.s.Change = outbox.Change{Desired: &gone, Status: &record.Status{Generation: gone.Generation}}
}

// rest leaves the resource until something happens: a new generation, an
// operator, a check.
func (b *books) rest(phase record.Phase, reason record.Reason, message string) {
	st := b.st
	st.NextAt, st.Delay, st.Looks = time.Time{}, 0, 0
	b.carriedOut()
	b.phase(phase, reason, message)
	b.condition(record.CondAcked, record.False, reason, message)
}

// carriedOut clears the operator's command that this delivery began with; one
// that came meanwhile waits for the next.
func (b *books) carriedOut() {
	if b.st.Command == b.d.status.Command {
		b.st.Command = record.NoCommand
	}
}

// wait makes the resource due again after delay, burning nothing.
func (b *books) wait(phase record.Phase, reason record.Reason, message string, delay time.Duration) {
	b.st.Delay = delay
	b.st.NextAt = b.v.Now.Add(delay)
	b.phase(phase, reason, message)
	b.condition(record.CondAcked, record.False, reason, message)
	if phase != record.Stalled {
		b.condition(record.CondStalled, record.False, record.ReasonNone, "")
	}
}

// converging polls an operation that the target still works on (R36, R53).
func (b *books) converging() {
	st := b.st
	delay := exponential(lookBase, lookMax, st.Looks)
	st.Looks++
	if b.d.desired.Tombstone {
		b.wait(record.Deleting, record.ReasonInProgress, b.d.reply.Message, delay)
		return
	}
	b.wait(record.Pending, record.ReasonInProgress, "the target is deleting the object; the newest state follows once it is gone", delay)
}

// paused leaves the target alone for as long as it asked (R42).
func (b *books) paused() {
	pause, _ := b.d.RetryAfter()
	b.st.FailedAt = b.v.Now
	b.wait(record.Pending, record.ReasonPaused, b.d.reply.Message, pause)
}

// unanswered: nothing is burnt, unless siblings of the resource are answered (R43, R44).
func (b *books) unanswered(reason record.Reason) {
	st := b.st
	if b.v.Charge {
		if reason == record.ReasonUnauthorized && !b.d.desired.Tombstone { // for one object alone it is a refusal (R44, R45)
			st.FailedAt = b.v.Now
			b.rest(record.Failed, reason, b.d.reply.Message)
			return
		}
		b.charge(reason)
		return
	}
	r := b.retry()
	delay := upperHalf(exponential(r.Base, min(lookMax, r.Max), st.Looks), b.v.Random)
	st.Looks++
	st.FailedAt = b.v.Now
	b.wait(record.Pending, reason, b.d.reply.Message, delay)
}

// suspected: the fault was probably another call's. It goes on at once, and only
// if that keeps happening with pauses.
func (b *books) suspected() {
	st, delay := b.st, time.Duration(0)
	if st.Looks > 0 {
		delay = backoff(b.retry(), st.Looks, b.v.Random)
	}
	st.Looks++
	b.wait(record.Pending, record.ReasonPluginFault, b.d.reply.Message, delay)
}

// retry is how the resource is tried again.
func (b *books) retry() record.Retry { return b.d.rules.retry(b.d.desired.Retry) }

// charge burns one attempt (R40, R41).
func (b *books) charge(reason record.Reason) {
	st, r := b.st, b.retry()
	st.FailedAt = b.v.Now
	if st.Phase == record.Stalled {
		st.Attempts = 0
	}
	st.Attempts++
	if st.Attempts >= r.MaxAttempts {
		b.wait(record.Stalled, reason, b.d.reply.Message, r.Stall)
		b.condition(record.CondStalled, record.True, reason, b.d.reply.Message)
		return
	}
	b.wait(record.Pending, reason, b.d.reply.Message, backoff(r, st.Attempts, b.v.Random))
}

// lookFailed keeps phase and attempts: the target is merely not known (R33).
func (b *books) lookFailed() {
	b.nothing = conditionOf(b.st, record.CondObserved) == record.Unknown
	b.condition(record.CondObserved, record.Unknown, record.ReasonUnreachable, b.d.reply.Message)
}

// phase moves the resource to a phase and writes a line of its history.
func (b *books) phase(phase record.Phase, reason record.Reason, message string) {
	st := b.st
	if st.Phase != phase || st.Reason != reason || st.Generation != b.d.desired.Generation {
		b.line(phase, reason, message)
	}
	st.Phase, st.Reason, st.Message = phase, reason, message
	st.Generation = b.d.desired.Generation
}

// line appends to the history, which is copied, since readers share the old one.
func (b *books) line(phase record.Phase, reason record.Reason, message string) {
	b.st.History = withTransition(b.st.History, record.Transition{
		At: b.v.Now, Phase: phase, Reason: reason, Message: message, Generation: b.d.desired.Generation, Took: b.took,
	})
}

// withTransition returns the newest of h, and t, in a slice of its own.
func withTransition(h []record.Transition, t record.Transition) []record.Transition {
	if n := len(h) - record.HistoryLength + 1; n > 0 {
		h = h[n:]
	}
	return append(append(make([]record.Transition, 0, len(h)+1), h...), t)
}

// condition sets one condition. What was never anything but False is not stored.
func (b *books) condition(kind string, truth record.Truth, reason record.Reason, message string) {
	old := b.st.Conditions
	at := slices.IndexFunc(old, func(c record.Condition) bool { return c.Type == kind })
	if at < 0 && truth == record.False && kind != record.CondAcked {
		return
	}
	next := record.Condition{Type: kind, Status: truth, Reason: reason, Message: message,
		LastTransitionTime: b.v.Now, ObservedGeneration: b.d.desired.Generation}
	out := append(make([]record.Condition, 0, len(old)+1), old...)
	if at < 0 {
		b.st.Conditions = append(out, next)
		return
	}
	if out[at].Status == truth {
		next.LastTransitionTime = out[at].LastTransitionTime
	}
	out[at] = next
	b.st.Conditions = out
}

func conditionOf(st *record.Status, kind string) record.Truth {
	for _, c := range st.Conditions {
		if c.Type == kind {
			return c.Status
		}
	}
	return record.False
}
