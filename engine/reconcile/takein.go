package reconcile

import (
	"time"

	"github.com/pawlsync/pawl/engine/outbox"
	"github.com/pawlsync/pawl/engine/record"
	"github.com/pawlsync/pawl/engine/sink"
)

// TakeIn takes in what a poll that began at began saw of a resource's object. Of an
// inbound one that is a look like any other, and change is what it leaves. look
// reports that the target is to be looked at by a call of its own instead: under both
// directions nothing but a look tells whose change it is, and whatever was learnt since
// the poll began counts for more than what it saw.
func TakeIn(r *Rules, key record.Key, cur outbox.Record, o sink.Observation, began, now time.Time) (change outbox.Change, look bool) {
	d, st := &cur.Desired, &cur.Status
	inbound := r.direction(d) == record.Inbound
	switch {
	case !d.Exists() || !r.TakesIn(d) || d.Suspend || st.Suspended:
		return outbox.Change{}, false
	case d.Tombstone && (inbound || d.Origin != record.FromTarget):
		return outbox.Change{}, false // it goes anyway
	case !inbound:
		return outbox.Change{}, !asKnown(d, st, &o)
	case st.LookedAt.After(began), st.Command != record.NoCommand:
		return outbox.Change{}, true
	}
	w := Begin(r, key, cur, began, false)
	if w.Step() == Observe {
		w.Answer(polled(o), now)
	}
	if w.Step() != Done {
		return outbox.Change{}, true
	}
	return w.Settle(cur, Verdict{Now: now}).Change, false
}

// asKnown reports whether o is what d desires, and what the target acknowledged.
func asKnown(d *record.Desired, st *record.Status, o *sink.Observation) bool {
	if st.Generation != d.Generation || st.Phase != record.AckedPhase {
		return true // it is on its way, and looked at then
	}
	if !o.Exists || d.Tombstone {
		return o.Exists != d.Tombstone
	}
	return SameContent(d, &record.Desired{Payload: o.Content, Hash: record.HashOf(o.Content)})
}

// polled is the answer to a look that would have seen o.
func polled(o sink.Observation) sink.Result {
	if !o.Exists {
		return sink.Result{Status: sink.NotFound}
	}
	return sink.Result{Status: sink.OK, Observation: &o}
}
