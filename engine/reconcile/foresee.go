package reconcile

import (
	"time"

	"github.com/pawlsync/pawl/engine/outbox"
	"github.com/pawlsync/pawl/engine/record"
)

// Foresee begins a delivery of rec that is never made: it asks for one look at the
// target, where the sink can look, and Foreseen says what would follow. A Step that
// is not Observe is not to be carried out.
func Foresee(r *Rules, key record.Key, rec outbox.Record, now time.Time) *Delivery {
	d := Begin(r, key, rec, now, true)
	if d.step == Delete && r.Manifest.Observes {
		d.step = Observe
	}
	return d
}

// Foresight is what is known of a delivery before it is made.
type Foresight struct {
	Exists bool // the target has the object
	// Same: it is as desired; of a tombstone: it does not exist.
	Same bool
	// Drift: it is neither as desired nor as we left it.
	Drift     bool
	Differing []string // where it differs from what is desired
	// Inbound: nothing is ever sent, so that nothing can differ from what is desired (R31).
	Inbound bool

	// Next is the call that would follow: Apply or Delete; Done: none, and Outcome
	// is how the delivery would end.
	Next    Step
	Outcome Outcome
}

// Foreseen says what would follow. looked: an Observe found the object, or that there
// is none; else what the target has is what it acknowledged last.
func (d *Delivery) Foreseen(looked bool) Foresight {
	f := Foresight{Next: d.step, Outcome: d.outcome}
	if f.Next == Store {
		f.Next = Apply
		if d.desired.Tombstone {
			f.Next = Delete
		}
	}
	switch {
	case d.direction == record.Inbound:
		f.Exists, f.Same, f.Inbound = d.observed != nil, true, true
	case !looked:
		f.Exists = d.acked != nil && !d.acked.Missing
		f.Same = f.Exists && d.acked.Hash == d.desired.Hash && !d.desired.Tombstone
	case d.desired.Tombstone:
		f.Exists = d.observed != nil
		f.Same = !f.Exists
		f.Drift = f.Exists && d.mirrors() // it was deleted there, and is back
	default:
		v := d.judge()
		f.Exists, f.Same, f.Drift = d.observed != nil, v == matches || d.agreed(), v == drift && !d.agreed()
		if f.Exists && !f.Same {
			f.Differing = d.paths
		}
	}
	return f
}

// agreed reports whether both sides turned out to want the same, though the adapter
// told of a difference (R32).
func (d *Delivery) agreed() bool {
	if d.direction != record.Both || d.step != Done {
		return false
	}
	c := d.seen()
	return c != nil && SameContent(&d.desired, &record.Desired{Payload: c.Content, Hash: c.Hash})
}
