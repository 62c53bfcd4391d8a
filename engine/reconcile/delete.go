package reconcile

import (
	"time"

	"github.com/pawlsync/pawl/engine/record"
	"github.com/pawlsync/pawl/engine/sink"
)

// beginDelete chooses the first step of a tombstone's delivery (R50 to R55).
func (d *Delivery) beginDelete() {
	m := &d.rules.Manifest
	moved := d.status.Acked != nil && d.acked == nil
	switch {
	case d.rules.deletion(&d.desired) == record.Retain, d.direction == record.Inbound, d.contended():
		d.end(Released)
	case moved:
		d.end(MovedTarget) // owed to a target that is no longer there (R13)
	case !m.Deletes:
		d.end(Undeletable)
	case m.Observes && d.looksBeforeDelete():
		d.step = Observe
	default:
		if d.acked != nil {
			d.uid = d.acked.UID
		}
		d.step = Delete
	}
}

// contended reports whether all that is known of the resource is that its object
// belongs to another one, which keeps it (R37).
func (d *Delivery) contended() bool {
	return d.status.Reason == record.ReasonContended && d.status.Acked == nil && len(d.attempts) == 0
}

// looksBeforeDelete reports whether the object must be seen before it may be
// deleted: to store what is there, to know whose it is, to follow a deletion
// that is under way, or because an unanswered call may still have changed it.
func (d *Delivery) looksBeforeDelete() bool {
	uidUnknown := d.rules.Manifest.ReportsUID && (d.acked == nil || d.acked.UID == "")
	return d.rules.deletion(&d.desired) == record.AckThenDelete || uidUnknown ||
		d.status.Command == record.CommandAccept || d.underWay()
}

// underWay reports whether the target said that it is deleting the object.
func (d *Delivery) underWay() bool {
	return d.status.Phase == record.Deleting && d.status.Generation == d.desired.Generation
}

// lookedForDelete goes on after an Observe of a resource that shall go.
func (d *Delivery) lookedForDelete(res sink.Result) {
	switch {
	case res.Status == sink.NotFound, res.Status == sink.OK && res.Observation != nil && !res.Observation.Exists:
		d.gone(res)
		return
	case res.Status != sink.OK:
		d.failed(res)
		return
	}
	d.observed = res.Observation
	if d.observed == nil {
		d.observed = &sink.Observation{Exists: true}
	}
	if !d.mayDelete(res) {
		return
	}
	if d.rules.deletion(&d.desired) == record.AckThenDelete && !d.rechecked {
		d.step = Store
		return
	}
	d.step = Delete
}

// mayDelete settles whose object it is (R55). Where it is not ours, or can't be
// told, it ends the delivery and returns false.
func (d *Delivery) mayDelete(res sink.Result) bool {
	if !d.rules.Manifest.ReportsUID {
		return true
	}
	o := d.observed
	d.uid = o.UID
	known := d.acked != nil && d.acked.UID != "" && d.acked.UID == o.UID
	switch {
	case known, o.Ours == sink.Yes, d.status.Command == record.CommandAccept:
		return true
	case o.Ours == sink.No:
		d.notOurs(res)
	default:
		d.endWith(NotOurs, res)
	}
	return false
}

// notOurs: somebody else's object bears the name; ours is gone.
func (d *Delivery) notOurs(res sink.Result) {
	res.Message = "the target's object is somebody else's; ours is gone"
	d.gone(res)
}

// Interim is what must be durable before the next call. Before an object is deleted
// that is what was seen of it (R51); the uid stays the acknowledged one. Before
// drift of an acknowledged resource is corrected, it is that the content is on its
// way again: should the engine be killed meanwhile, nothing else tells (P3).
func (d *Delivery) Interim(cur *record.Status) *record.Status {
	next := *cur
	if !d.desired.Tombstone {
		next.Attempted = withAttempt(cur.Attempted, d.rules.attempt(&d.desired, d.now))
		return &next
	}
	a := *d.ackOf(d.observed)
	if d.acked != nil {
		a.Generation, a.Hash = d.acked.Generation, d.acked.Hash
		if d.acked.UID != "" {
			a.UID = d.acked.UID
		}
	}
	next.Acked = &a
	return &next
}

// Stored goes on after Interim is durable.
func (d *Delivery) Stored(now time.Time) {
	d.now = now
	d.step = Apply
	if d.desired.Tombstone {
		d.step = Delete
	}
}

// deleted goes on after a Delete.
func (d *Delivery) deleted(res sink.Result) {
	switch res.Status {
	case sink.OK, sink.NotFound, sink.Obsolete:
		d.gone(res)
	case sink.Conflict:
		if d.rules.Manifest.ReportsUID && d.rules.Manifest.Observes && !d.rechecked {
			d.rechecked = true // another uid than the acked one: look whose it is
			d.step = Observe
			return
		}
		d.failed(res)
	default:
		d.failed(res)
	}
}

// gone ends the delivery of a tombstone: the object does not exist. A call that
// was never answered could bring it back until its deadline.
func (d *Delivery) gone(res sink.Result) {
	d.confirm(Deleted, res, nil)
}

// pendingUntil is the latest deadline of all unanswered calls.
func (d *Delivery) pendingUntil() (until time.Time) {
	for _, a := range d.attempts {
		if a.Deadline.After(until) {
			until = a.Deadline
		}
	}
	return until
}
