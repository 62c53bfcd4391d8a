package saga

import (
	"fmt"
	"time"

	"github.com/pawlsync/pawl/engine/sink"
)

// backward takes back what landed, the last step first. Nothing is in doubt: the
// step because of which it goes back is known not to have landed, those before it
// have, those after it were not sent.
func (s *State) backward(now time.Time) Effect {
	for i := len(s.Steps) - 1; i >= 0; i-- {
		if st := &s.Steps[i]; st.Landed && !st.Undone {
			st.Pending = now.Add(s.rules.Steps[i].Timeout)
			return Effect{Kind: Restore, Step: i, Durable: true}
		}
	}
	s.Phase, s.Outcome = Releasing, RolledBack
	return s.release(now)
}

// restored takes the answer to an undo.
func (s *State) restored(st *StepState, i int, r sink.Result, now time.Time) {
	switch {
	case r.Status == sink.OK:
		st.Pending, st.Undone = time.Time{}, true
		s.progress()
	case r.Status == sink.Conflict:
		st.Pending = time.Time{}
		if s.Phase == Undoing { // else an operator has decided meanwhile
			s.Stuck = fmt.Sprintf("step %d can't be undone: somebody changed %s since (%s)", i+1, s.spec.Steps[i].Key, r.Message)
		}
	case definitive(r.Status) || r.NotSent: // also a refusal is no end: rights may be given back
		st.Pending = time.Time{}
		s.later(r, now)
	default:
		st.unanswered()
		s.later(r, now)
	}
}
