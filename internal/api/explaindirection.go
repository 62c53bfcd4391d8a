package api

import (
	"cmp"
	"fmt"

	"github.com/pawlsync/pawl/engine/record"
)

func (x *explanation) direction() record.Direction {
	return cmp.Or(x.r.Direction, x.s.Direction, record.Outbound)
}

// inbound: nothing of it is ever sent.
func (x *explanation) inbound() bool { return x.direction() == record.Inbound }

// takingIn has the words of a resource that takes in what its target has, where they
// are others than those of delivery; else "".
func (x *explanation) takingIn() string {
	st := x.st
	switch {
	case x.direction() == record.Outbound:
		return ""
	case st.Reason == record.ReasonNoContent, st.Reason == record.ReasonTooLarge:
		return fmt.Sprintf("What the target has can't be taken in: %s. It is looked at again, and taken in once it can be.", message(st))
	case st.Reason == record.ReasonTakenOver && st.Phase == record.AckedPhase:
		return "The target's change was taken over: it is what is desired now, and nothing more is owed."
	case st.Reason == record.ReasonTargetDeleted && st.Phase == record.AckedPhase:
		return "So it is desired no more. Delete it at its source too, or put something new there; should it be back at the target, that is taken over."
	case !x.inbound():
		return ""
	case x.r.Tombstone:
		return "It is to be deleted here; the target's object stays."
	case st.Reason == record.ReasonMissing:
		return "The target has no such object. Once it has, that is taken in."
	case st.Phase == record.AckedPhase:
		return "What the target has is known, and its changes are taken in."
	}
	return ""
}

// takenIn says when something was taken in last.
func (x *explanation) takenIn() string {
	if o := x.st.Observed; o != nil {
		return fmt.Sprintf("It was last taken in %s.", ago(o.At, x.now))
	}
	return "Nothing that the target has is known here."
}
