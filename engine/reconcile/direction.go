package reconcile

import (
	"cmp"
	"fmt"
	"time"

	"github.com/pawlsync/pawl/engine/outbox"
	"github.com/pawlsync/pawl/engine/record"
	"github.com/pawlsync/pawl/engine/sink"
)

// direction is the one in force for d.
func (r *Rules) direction(d *record.Desired) record.Direction {
	return cmp.Or(d.Direction, r.Direction, record.Outbound)
}

// TakesIn reports whether d takes in what the target has.
func (r *Rules) TakesIn(d *record.Desired) bool { return r.direction(d).TakesIn() }

// takesInEvery is how often a resource that takes in is looked at; not positive: never.
// Where polls tell what changed, looks are for what they miss.
func (r *Rules) takesInEvery() time.Duration {
	switch {
	case !r.Manifest.Observes:
		return 0
	case r.Manifest.Polls:
		return r.DriftInterval
	}
	return r.PollInterval
}

// ContentHash is the hash of a payload by which the source's own one is known again:
// equal for equal JSON values, as R03 has it.
func ContentHash(payload []byte) record.Hash {
	if c, ok := canonical(payload); ok {
		return record.HashOf(c)
	}
	return record.HashOf(payload)
}

// sourceHash is the ContentHash of what the source put last.
func sourceHash(d *record.Desired) record.Hash {
	if d.Origin == record.FromTarget {
		return d.SourceHash
	}
	return ContentHash(d.Payload)
}

// repeats reports whether d is what the source had put before the target's change
// was taken over: it has nothing new to say (R32).
func (r *Rules) repeats(old, d *record.Desired) bool {
	return old.Exists() && old.Origin == record.FromTarget && r.direction(d) == record.Both && ContentHash(d.Payload) == old.SourceHash
}

// flipped reports whether st was written while the resource went the other way: what
// was merely seen at the target is no acknowledgement of what is sent there.
func flipped(now record.Direction, st *record.Status) bool {
	return (now == record.Inbound) != (st.Direction == record.Inbound)
}

// beginInbound: the target is looked at, and nothing else (R31).
func (d *Delivery) beginInbound() {
	m := &d.rules.Manifest
	d.look = d.status.Generation == d.desired.Generation && (takenInQuietly(&d.status) || d.status.Phase == record.Failed)
	if !m.Observes || !m.ReportsContent {
		d.end(NoContent)
		return
	}
	d.step = Observe
}

// takenInQuietly reports whether nothing is owed to a resource that takes in: what
// the target has is known, or that it has nothing of use.
func takenInQuietly(st *record.Status) bool {
	switch st.Reason {
	case record.ReasonMissing, record.ReasonNoContent, record.ReasonTooLarge:
		return true
	}
	return st.Phase == record.AckedPhase
}

// sawInbound goes on after the look.
func (d *Delivery) sawInbound(res sink.Result) {
	o := res.Observation
	switch {
	case res.Status == sink.NotFound, res.Status == sink.OK && o != nil && !o.Exists:
		d.endWith(Missing, res)
		return
	case res.Status != sink.OK:
		d.failed(res)
		return
	}
	if d.observed = o; !d.takeable(res) {
		return
	}
	d.ackedNow = d.ackOf(o)
	d.ackedNow.Hash = d.content.Hash
	d.attempts = keep(d.attempts, func(a record.Attempt) bool { return a.Deadline.After(d.now) })
	if was := d.status.Observed; d.look && d.status.Phase == record.AckedPhase && was != nil && d.acked != nil &&
		d.acked.UID == o.UID && sameBytes(was, d.content) {
		d.endWith(Unchanged, res)
		return
	}
	d.endWith(Acked, res)
}

func sameBytes(a, b *record.Observed) bool {
	return SameContent(&record.Desired{Payload: a.Content, Hash: a.Hash}, &record.Desired{Payload: b.Content, Hash: b.Hash})
}

// takeable keeps the content of what was observed. Where there is none of use it ends
// the delivery and returns false.
func (d *Delivery) takeable(res sink.Result) bool {
	switch {
	case d.observed == nil || d.observed.Content == nil:
		d.endWith(NoContent, res)
		return false
	case d.rules.ContentMax > 0 && len(d.observed.Content) > d.rules.ContentMax:
		d.endWith(TooLarge, res)
		return false
	}
	d.content = d.seen()
	return true
}

// seen is what was observed, where it has content.
func (d *Delivery) seen() *record.Observed {
	o := d.observed
	if o == nil || o.Content == nil || d.rules.ContentMax > 0 && len(o.Content) > d.rules.ContentMax {
		return nil
	}
	return &record.Observed{Content: o.Content, Hash: record.HashOf(o.Content), Cursor: o.Cursor, At: d.now}
}

// driftOfBoth: the target differs from what both sides agreed on. Where the source
// stayed as it was the target's change is what is desired now; where both changed the
// conflict policy decides (R32).
func (d *Delivery) driftOfBoth(res sink.Result) {
	sourceMoved := d.acked == nil || d.acked.Generation != d.desired.Generation
	switch policy := d.rules.conflict(&d.desired); {
	case !sourceMoved, policy == record.TargetWins:
		d.takeOver(res)
	case policy == record.ReportOnly:
		d.content = d.seen()
		d.endWith(Drifted, res)
	default:
		d.apply(d.acked != nil)
	}
}

// takeOver ends the delivery with the target's own state as what is desired. What an
// unanswered call of ours may still do there must not be taken for somebody's change.
func (d *Delivery) takeOver(res sink.Result) {
	if d.pendingUntil().After(d.now) {
		d.endWith(Unsettled, res)
		return
	}
	d.attempts = nil
	if d.observed == nil {
		d.ackedNow = d.ackOf(nil)
		if d.acked != nil { // what the adapter needs to find the object again, should it come back
			d.ackedNow.Ref, d.ackedNow.Object, d.ackedNow.Adapter = d.acked.Ref, d.acked.Object, d.acked.Adapter
		}
		d.ackedNow.Hash, d.ackedNow.Missing = record.Hash{}, true
		d.endWith(TakenOver, res)
		return
	}
	if !d.takeable(res) {
		return
	}
	d.ackedNow = d.ackOf(d.observed)
	found := record.Desired{Payload: d.content.Content, Hash: d.content.Hash}
	if !d.desired.Tombstone && SameContent(&d.desired, &found) { // it is as desired, whatever the adapter says
		d.content = nil
		d.endWith(d.matched(), res)
		return
	}
	d.ackedNow.Hash = d.content.Hash
	d.endWith(TakenOver, res)
}

// mirrors reports whether the tombstone is the target's: the object was deleted
// there. It rests until its source deletes it too, or puts something new.
func (d *Delivery) mirrors() bool {
	return d.desired.Tombstone && d.desired.Origin == record.FromTarget && d.direction == record.Both
}

// sawMirrored goes on after the look at what was deleted at the target.
func (d *Delivery) sawMirrored(res sink.Result) {
	o := res.Observation
	switch {
	case (res.Status == sink.NotFound || res.Status == sink.OK && o != nil && !o.Exists) && d.acked == nil: // at another target (R13)
		d.ackedNow = d.ackOf(nil)
		d.ackedNow.Missing = true
		d.endWith(Acked, res)
	case res.Status == sink.NotFound, res.Status == sink.OK && o != nil && !o.Exists:
		d.endWith(Unchanged, res)
	case res.Status != sink.OK:
		d.failed(res)
	default: // it is back
		d.observed = o
		d.takeOver(res)
	}
}

// acked acknowledges, and has a row of the history for each change that was taken in:
// phase and generation of an inbound resource stay as they were (R31).
func (b *books) acked() {
	st := b.st
	again := b.d.direction == record.Inbound && st.Phase == record.AckedPhase && st.Reason == record.ReasonNone && st.Generation == b.d.desired.Generation
	b.acknowledged(record.ReasonNone, "", record.False)
	if again {
		b.line(st.Phase, st.Reason, "the target's change was taken in")
	}
}

// takenOver makes the target's state the desired one, in the commit that
// acknowledges it: whoever reads sees both, or neither.
func (b *books) takenOver() {
	d := b.d
	next := b.cur
	next.SourceHash, next.Origin = sourceHash(&b.cur), record.FromTarget
	next.Payload, next.Hash, next.Tombstone = nil, record.Hash{}, true
	next.PutAt, next.WaitingSince = b.v.Now, b.v.Now
	reason, message := record.ReasonTargetDeleted, "it was deleted at the target; delete it at its source, or put something new there"
	if c := d.content; c != nil {
		next.Payload, next.Hash, next.Tombstone = c.Content, c.Hash, false
		reason, message = record.ReasonTakenOver, "the target's change was taken over"
	}
	b.acknowledged(reason, message, record.False)
	b.st.Observed = nil // it is what is desired
	b.s.Change = outbox.Change{Desired: &next, NewGeneration: true, Settled: true, Status: b.st}
}

// missing: the target has no such object, of an inbound resource (R31).
func (b *books) missing() {
	st := b.st
	b.nothing = st.Reason == record.ReasonMissing && st.Generation == b.d.desired.Generation && st.Command == record.NoCommand
	st.Acked, st.Observed, st.LookedAt = nil, nil, b.v.Now
	st.Attempts, st.FailedAt = 0, time.Time{}
	b.rest(record.Pending, record.ReasonMissing, "the target has no such object")
	b.condition(record.CondObserved, record.True, record.ReasonNone, "")
}

// unusable: what was found can't be taken in.
func (b *books) unusable() {
	reason, message := record.ReasonNoContent, "the sink's adapter reported no content of the target's object, which its direction needs"
	if b.s.Outcome == TooLarge {
		reason = record.ReasonTooLarge
		message = fmt.Sprintf("the target's object has %d bytes, more than the %d that are kept", len(b.d.observed.Content), b.d.rules.ContentMax)
	}
	b.rest(record.Failed, reason, message)
}
