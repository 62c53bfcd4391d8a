package saga

import (
	"fmt"
	"time"

	"github.com/pawlsync/pawl/engine/sink"
)

// forward goes on with the first step that has not landed.
func (s *State) forward(now time.Time) Effect {
	i := 0
	for i < len(s.Steps) && s.Steps[i].Landed {
		i++
	}
	if i == len(s.Steps) {
		s.Phase, s.Outcome = Releasing, Committed
		return s.release(now)
	}
	st := &s.Steps[i]
	switch {
	case st.Doubt:
		return Effect{Kind: Ask, Step: i}
	case st.Refusal != nil:
		return s.turn(i, st.Refusal.Message, now)
	case !now.Before(s.Deadline):
		return s.turn(i, "the deadline passed before it was written", now)
	case st.Missed && s.spec.Mode == Optimistic:
		return s.turn(i, "the target could not be written at once, and nothing was", now)
	case st.Before == nil:
		return Effect{Kind: Look, Step: i}
	}
	st.Sent++
	st.Pending = now.Add(s.rules.Steps[i].Timeout)
	return Effect{Kind: Write, Step: i, Durable: true}
}

// turn begins the way back, because of step i.
func (s *State) turn(i int, cause string, now time.Time) Effect {
	s.Phase, s.FailedStep, s.Cause = Undoing, i+1, cause
	s.progress()
	return s.backward(now) // durable in any case
}

// looked takes the image of what is there before the step writes.
func (s *State) looked(st *StepState, i int, r sink.Result, now time.Time) {
	switch {
	case r.Status == sink.NotFound:
		st.Before = &sink.Image{}
	case r.Status == sink.OK && r.Observation != nil:
		o := r.Observation
		st.Before = &sink.Image{Exists: o.Exists, CID: o.CID, UID: o.UID, Content: o.Content}
		switch {
		case o.Exists && s.spec.Steps[i].Verb == Create:
			st.Refusal = &Answer{sink.AlreadyExists, "it exists already", now}
		case len(o.Content) > sink.MaxImage:
			st.Before = nil
			st.Refusal = &Answer{sink.Rejected, fmt.Sprintf("what is there now has %d bytes, more than the %d that can be kept for an undo",
				len(o.Content), sink.MaxImage), now}
		}
	case definitive(r.Status):
		st.Refusal = &Answer{r.Status, r.Message, now}
	default:
		s.later(r, now)
		return
	}
	s.progress()
}

// definitive reports whether a status is the target's word that it won't.
func definitive(status sink.Status) bool {
	switch status {
	case sink.Rejected, sink.Conflict, sink.AlreadyExists, sink.NotFound, sink.Unauthorized, sink.Obsolete:
		return true
	}
	return false
}

// wrote takes the answer to a write.
func (s *State) wrote(st *StepState, i int, r sink.Result, now time.Time) {
	switch deletes := s.spec.Steps[i].Verb == Delete; {
	case deletes && (r.Status == sink.OK || r.Status == sink.InProgress || r.Status == sink.NotFound && (s.last(i) || !st.Before.Exists)),
		r.Status == sink.OK && s.rules.Steps[i].Confirms:
		st.Pending, st.Landed = time.Time{}, true
		s.progress()
	case r.Status == sink.OK:
		st.unanswered()
	case definitive(r.Status):
		st.Pending = time.Time{}
		st.Refusal = &Answer{r.Status, r.Message, now}
		switch r.Status {
		case sink.Conflict, sink.AlreadyExists, sink.NotFound:
			st.Doubt = true // it may speak of what a proxy's first try wrote
		}
	case r.NotSent:
		st.Pending, st.Missed = time.Time{}, true
		st.Sent--
		s.later(r, now)
	default: // also "not now": a proxy says so of what goes on behind it
		st.unanswered()
		s.later(r, now)
	}
}

// last reports whether i is the last step. Once that has landed all has, so it is
// never undone, and whose deletion it was that took its object away is all one.
func (s *State) last(i int) bool { return i == len(s.Steps)-1 }

// asked takes what a look for the step's mark found.
func (s *State) asked(st *StepState, i int, r sink.Result, now time.Time) {
	switch s.landed(i, r) {
	case sink.Yes:
		st.Landed, st.Doubt, st.Refusal = true, false, nil
		s.progress()
	case sink.No:
		if now.Before(st.LateUntil) {
			s.NextAt = st.LateUntil // a look now proves nothing: the request may be on its way
			return
		}
		st.Doubt, st.Missed = false, true
		if st.Refusal == nil {
			s.later(r, now) // before it is written again
		}
	default:
		s.later(r, now)
	}
}

// landed reads from a look whether the write of step i is there.
func (s *State) landed(i int, r sink.Result) sink.Tri {
	o, deletes, marks := r.Observation, s.spec.Steps[i].Verb == Delete, s.rules.Steps[i].Marks
	going := deletes && r.Status == sink.InProgress
	gone := going || r.Status == sink.NotFound || r.Status == sink.OK && o != nil && !o.Exists
	switch {
	case !gone && (r.Status != sink.OK || o == nil):
		return sink.Unknown
	case deletes && gone && s.last(i):
		return sink.Yes
	case marks && o != nil && o.Ours != sink.Unknown:
		return o.Ours
	case deletes && gone:
		return sink.Unknown // whose deletion it was decides whether it is undone
	case deletes || gone:
		return sink.No
	case marks:
		return sink.Unknown
	}
	return o.MatchDesired
}

// String names a kind, for logs and metrics.
func (k Kind) String() string {
	return [...]string{Look: "look", Write: "write", Ask: "ask", Restore: "restore", Adopt: "adopt", Unlock: "unlock", Wait: "wait", End: "end", Halt: "halt"}[k]
}

// String says what an effect is, for logs.
func (e Effect) String() string { return fmt.Sprintf("%s %d", e.Kind, e.Step+1) }
