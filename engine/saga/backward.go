package saga

import (
	"fmt"
	"time"

	"github.com/pawlsync/pawl/engine/sink"
)

// backward takes back what landed, the last step first. A step of which a request
// may still land is not over before that request's deadline has passed.
func (s *State) backward(now time.Time) Effect {
	for i := len(s.Steps) - 1; i >= 0; i-- {
		st := &s.Steps[i]
		switch {
		case st.Undone || st.Sent == 0:
		case st.Landed:
			return Effect{Kind: Restore, Step: i}
		case st.Doubt:
			return Effect{Kind: Ask, Step: i}
		default:
			st.Undone = true // it is known that nothing landed, nor will
		}
	}
	s.Phase, s.Outcome = Releasing, RolledBack
	return s.release(now)
}

// restored takes the answer to an undo.
func (s *State) restored(st *StepState, i int, r sink.Result, now time.Time) {
	switch r.Status {
	case sink.OK, sink.NotFound:
		s.progress()
		st.Undone = true
	case sink.Conflict:
		s.Stuck = fmt.Sprintf("step %d can't be undone: somebody changed %s since (%s)", i+1, s.spec.Steps[i].Key, r.Message)
	default: // also a refusal: rights may be given back
		s.later(r, now)
	}
}
