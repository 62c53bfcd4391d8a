package reconcile

import (
	"github.com/pawlsync/pawl/engine/record"
	"github.com/pawlsync/pawl/engine/sink"
)

// looked goes on after an Observe of a resource that shall exist.
func (d *Delivery) looked(res sink.Result) {
	switch res.Status {
	case sink.OK:
		d.observed = res.Observation
		if d.observed == nil {
			d.observed = &sink.Observation{Exists: true}
		}
		if !d.observed.Exists {
			d.observed = nil
		}
	case sink.NotFound:
		d.observed = nil
	default:
		d.failed(res)
		return
	}
	if d.observed == nil && d.status.Reason == record.ReasonInProgress && d.direction == record.Outbound {
		d.acked, d.vanished = nil, true
	}
	d.compare(res)
}

// verdict is what a comparison of desired, observed and last acked says.
type verdict uint8

const (
	matches       verdict = iota // the target is as desired (R20)
	stands                       // it is as acknowledged, and nothing newer is desired (R22b)
	sourceChanged                // it is as we left it, and something newer is desired (R21, R22)
	drift                        // somebody else changed it (R23)
)

// compare is the three-way comparison (R20 to R26).
func (d *Delivery) compare(res sink.Result) {
	v := d.judge()
	if d.applied { // the look after an Apply that proves nothing by itself (R28)
		if v != matches {
			d.endWith(NotConverged, res)
			return
		}
		d.confirm(Acked, res, d.ackOf(d.observed))
		return
	}
	switch {
	case v == matches:
		d.confirm(d.matched(), res, d.ackOf(d.observed))
	case d.look && (d.status.Phase == record.Failed || d.status.Phase == record.Obsolete) && !takenInQuietly(&d.status):
		d.endWith(Unchanged, res) // looked at, never applied (R34)
	case d.status.Command == record.CommandForce:
		d.apply(v == drift)
	case d.status.Command == record.CommandAccept && v != sourceChanged && d.direction == record.Both:
		d.takeOver(res)
	case d.status.Command == record.CommandAccept && v != sourceChanged:
		d.accept(res)
	case v == stands:
		d.endWith(Unchanged, res)
	case v == sourceChanged:
		d.apply(false)
	default:
		d.drift(res)
	}
}

// judge compares what was observed with desired, acked and attempted.
func (d *Delivery) judge() verdict {
	o, a := d.observed, d.acked
	newer := a == nil || a.Generation != d.desired.Generation
	if o == nil {
		switch {
		case a == nil || d.sentDelete():
			return sourceChanged // R21
		case a.Missing && newer:
			return sourceChanged
		case a.Missing:
			return stands
		}
		return drift
	}
	m := &d.rules.Manifest
	if o.MatchDesired == sink.Yes || o.MatchDesired == sink.Unknown && m.AsFoundComparable && o.AsFound != "" && o.AsFound == d.desired.Hash.Hex() {
		return matches
	}
	asAcked := o.MatchAcked
	if asAcked == sink.Unknown && a != nil && o.AsFound != "" && a.AsFound != "" {
		asAcked = sink.TriOf(o.AsFound == a.AsFound)
	}
	if a == nil || a.Missing {
		asAcked = sink.No
	}
	asAttempted := o.MatchAttempted
	if len(d.attempts) == 0 {
		asAttempted = sink.No
	}
	blind := o.MatchDesired == sink.Unknown && o.MatchAcked == sink.Unknown && o.MatchAttempted == sink.Unknown && o.AsFound == ""
	switch {
	case newer && (blind || asAcked == sink.Yes || asAttempted == sink.Yes):
		return sourceChanged // R22, R26
	case !newer && asAcked == sink.Yes:
		return stands
	}
	return drift
}

// sentDelete reports whether a delete of ours may be what removed the object.
func (d *Delivery) sentDelete() bool {
	for _, a := range d.attempts {
		if a.Delete {
			return true
		}
	}
	return false
}

// drift handles a target that somebody else changed (R23 to R25).
func (d *Delivery) drift(res sink.Result) {
	if d.direction == record.Both {
		d.driftOfBoth(res)
		return
	}
	switch d.rules.conflict(&d.desired) {
	case record.TargetWins:
		d.accept(res)
	case record.ReportOnly:
		d.endWith(Drifted, res)
	default:
		d.apply(d.acked != nil)
	}
}

// accept takes what the target holds for acknowledged (R24).
func (d *Delivery) accept(res sink.Result) {
	a := d.ackOf(d.observed)
	a.Missing = d.observed == nil
	a.Hash = record.Hash{}
	d.confirm(Accepted, res, a)
}

// apply asks for an Apply, unless an unanswered one must be waited for first:
// an adapter that is not idempotent would do the work twice (R49).
func (d *Delivery) apply(corrects bool) {
	if !d.rules.Manifest.ApplyIdempotent && d.pendingUntil().After(d.now) {
		d.end(Unsettled)
		return
	}
	d.drifted = corrects
	d.step = Apply
	if d.look { // from here on work is owed, and the record does not say so
		d.look, d.step = false, Store
	}
}

// appliedWith goes on after an Apply.
func (d *Delivery) appliedWith(res sink.Result) {
	if res.Status != sink.OK {
		d.failed(res)
		return
	}
	d.applied = true
	if d.rules.Manifest.ApplyConfirms || !d.rules.Manifest.Observes {
		d.confirm(Acked, res, d.ackOf(res.Observation))
		return
	}
	d.step = Observe
}

// failed ends a delivery whose call did not go well, whatever the call was.
func (d *Delivery) failed(res sink.Result) {
	if d.look && res.Status != sink.Obsolete && res.Status != sink.InProgress {
		d.endWith(LookFailed, res)
		return
	}
	d.endWith(d.failure(res), res)
}

// failure sorts an answer that is no success (R40 to R47).
func (d *Delivery) failure(res sink.Result) Outcome {
	switch res.Status {
	case sink.InProgress:
		return Converging
	case sink.Rejected:
		if d.desired.Tombstone {
			return Retryable
		}
		return Rejected
	case sink.Obsolete:
		if d.desired.Tombstone { // of a look: only Delete's own answer ends it
			return Retryable
		}
		return Obsoleted
	case sink.Unauthorized:
		return Unauthorized
	case sink.Unreachable:
		return Unreachable
	case sink.Fault:
		if res.Suspect {
			return Suspect
		}
		return PluginFault
	}
	if res.RetryAfter > 0 {
		return Paused
	}
	return Retryable
}

// matched is the outcome of a target that is as desired: no news where it was
// known to be.
func (d *Delivery) matched() Outcome {
	if d.look && d.status.Phase == record.AckedPhase && d.acked != nil && d.acked.Hash == d.desired.Hash {
		return Unchanged
	}
	return Acked
}
