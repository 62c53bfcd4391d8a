package reconcile

import (
	"errors"
	"fmt"
	"time"

	"github.com/pawlsync/pawl/engine/outbox"
	"github.com/pawlsync/pawl/engine/record"
)

// ErrNothingToDo is wrapped where an operator's command does not apply.
var ErrNothingToDo = errors.New("nothing to do")

// Retry makes a resource due at once with its attempts from 0 (R41, R45).
func Retry(cur outbox.Record, now time.Time) (outbox.Change, error) {
	return operate(cur, now, "retried by an operator", func(st *record.Status) error {
		st.Attempts, st.Looks, st.FailedAt = 0, 0, time.Time{}
		if st.Generation == cur.Desired.Generation && st.Phase != record.AckedPhase && st.Phase != record.Drifted {
			st.Phase, st.Reason, st.Message = record.Pending, record.ReasonOperator, "retried by an operator"
			st.NextAt, st.Delay = now, 0
		}
		return nil
	})
}

// Suspend sets or clears the operator's flag (R30).
func Suspend(cur outbox.Record, on bool, now time.Time) (outbox.Change, error) {
	line := "resumed by an operator"
	if on {
		line = "suspended by an operator"
	}
	if cur.Desired.Exists() && cur.Status.Suspended == on {
		return outbox.Change{}, nil
	}
	return operate(cur, now, line, func(st *record.Status) error {
		st.Suspended = on
		return nil
	})
}

// Accept orders that what the target holds is taken for acknowledged (R25, R55).
func Accept(cur outbox.Record, now time.Time) (outbox.Change, error) {
	return operate(cur, now, "accept ordered by an operator", func(st *record.Status) error {
		eff := Effective(cur.Desired.Generation, *st)
		if eff.Phase != record.Drifted && eff.Reason != record.ReasonNotOurs {
			return fmt.Errorf("%w: its phase is %s; only drift, or a deletion that met somebody else's object, can be accepted", ErrNothingToDo, eff.Phase)
		}
		st.Command = record.CommandAccept
		return nil
	})
}

// Force orders an Apply, whatever the conflict policy (R25).
func Force(cur outbox.Record, now time.Time) (outbox.Change, error) {
	return operate(cur, now, "force ordered by an operator", func(st *record.Status) error {
		if cur.Desired.Tombstone {
			return fmt.Errorf("%w: it is being deleted; there is nothing to apply", ErrNothingToDo)
		}
		if st.Direction == record.Inbound && st.Generation == cur.Desired.Generation {
			return fmt.Errorf("%w: its direction is inbound; nothing is ever applied", ErrNothingToDo)
		}
		st.Command = record.CommandForce
		return nil
	})
}

// operate changes a status by an operator's hand, with a line in the history.
func operate(cur outbox.Record, now time.Time, line string, do func(*record.Status) error) (outbox.Change, error) {
	if !cur.Desired.Exists() {
		return outbox.Change{}, &Refusal{Err: ErrNotFound, Message: "there is no such resource"}
	}
	st := cur.Status
	if err := do(&st); err != nil {
		return outbox.Change{}, err
	}
	eff := Effective(cur.Desired.Generation, st)
	st.History = withTransition(st.History, record.Transition{
		At: now, Phase: eff.Phase, Reason: record.ReasonOperator, Message: line, Generation: cur.Desired.Generation,
	})
	st.UpdatedAt = now
	return outbox.Change{Status: &st}, nil
}
