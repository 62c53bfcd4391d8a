package reconcile

import (
	"time"

	"github.com/pawlsync/pawl/engine/outbox"
	"github.com/pawlsync/pawl/engine/record"
)

// Looks reports whether an acknowledged resource is to be looked at by a call of its
// own: not where the sink compares all of them at once.
func (r *Rules) Looks() bool { return r.Manifest.Observes && !r.Manifest.Compares }

// Redeliver makes a resource owed again of which a comparison found that the target
// has it no more as it acknowledged it (R34). What else became of it since stands. look
// reports that its conflict policy needs more than that to be known: a look must tell.
func Redeliver(r *Rules, cur outbox.Record, now time.Time) (change outbox.Change, look bool) {
	d, st := &cur.Desired, cur.Status
	if !d.Exists() || d.Tombstone || st.Generation != d.Generation || st.Phase != record.AckedPhase || r.acked(&st) == nil {
		return change, false
	}
	if r.conflict(d) != record.SourceWins {
		return change, true
	}
	st.History = withTransition(st.History, record.Transition{
		At: now, Phase: record.Pending, Reason: record.ReasonDrift, Message: "a comparison found that the target has it no more", Generation: d.Generation,
	})
	st.Generation, st.Phase, st.Reason, st.Message = 0, record.Pending, record.ReasonDrift, "the target has it no more as it was acknowledged"
	st.UpdatedAt = now
	owed := *d
	owed.WaitingSince = now
	return outbox.Change{Desired: &owed, Status: &st}, false
}

// Bury makes a tombstone for a key that is not known here, of which the target holds
// something that we once put (R34): its deletion is owed, and not forgotten.
func Bury(r *Rules, cur outbox.Record, now time.Time) outbox.Change {
	if cur.Desired.Exists() || r.Deletion == record.Retain {
		return outbox.Change{}
	}
	return outbox.Change{NewGeneration: true, Desired: &record.Desired{
		Tombstone: true, Order: cur.Desired.Order, PutAt: now, WaitingSince: now,
	}}
}

// AckedNow is the acknowledgement of what h desires by the present target, or nil:
// something is owed, or was accepted as it was found there.
func AckedNow(r *Rules, h *outbox.Head) *record.Acked {
	st := &h.Status
	if h.Generation == 0 || h.Gone || h.Tombstone || st.Direction == record.Inbound || st.Generation != h.Generation || st.Phase != record.AckedPhase {
		return nil
	}
	a := r.acked(st)
	if a == nil || a.Generation != h.Generation || a.Hash.IsZero() {
		return nil
	}
	return a
}
