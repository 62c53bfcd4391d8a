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
	e := s.backward(now)
	e.Durable = true
	return e
}

// looked takes the image of what is there before the step writes.
func (s *State) looked(st *StepState, i int, r sink.Result, now time.Time) {
	switch {
	case r.Status == sink.NotFound:
		st.Before = &sink.Image{}
	case r.Status == sink.OK && r.Observation != nil:
		o := r.Observation
		st.Before = &sink.Image{Exists: o.Exists, CID: o.CID, UID: o.UID, Content: o.Content}
		if o.Exists && s.spec.Steps[i].Verb == Create {
			st.Refusal = &Answer{sink.AlreadyExists, "it exists already", now}
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
	verb := s.spec.Steps[i].Verb
	done := r.Status == sink.OK || verb == Delete && (r.Status == sink.NotFound || r.Status == sink.InProgress)
	switch {
	case done && (s.rules.Steps[i].Confirms || verb == Delete):
		st.Pending, st.Landed = time.Time{}, true
		s.progress()
	case done:
		st.Pending, st.Doubt = time.Time{}, true
	case !r.Status.Answered() && r.NotSent:
		st.Pending, st.Missed = time.Time{}, true
		st.Sent--
		s.later(r, now)
	case definitive(r.Status):
		st.Pending = time.Time{}
		st.Refusal = &Answer{r.Status, r.Message, now}
		// It may speak of what an earlier try, or a proxy's, wrote.
		st.Doubt = st.Doubt || st.Sent > 1 || r.Status == sink.Conflict || r.Status == sink.AlreadyExists
	case r.Status.Answered(): // "not now", or "at it": it may have been written, but can't be later
		st.Pending, st.Doubt = time.Time{}, true
		s.later(r, now)
	default:
		st.unanswered()
	}
}

// asked takes what a look for the step's mark found.
func (s *State) asked(st *StepState, i int, r sink.Result, now time.Time) {
	switch landed(r, s.spec.Steps[i].Verb, s.rules.Steps[i].Marks) {
	case sink.Yes:
		st.Landed, st.Doubt, st.Refusal = true, false, nil
		s.progress()
	case sink.No:
		s.progress()
		if now.Before(st.LateUntil) {
			s.NextAt = st.LateUntil // a look now proves nothing: the request may be on its way
			return
		}
		st.Doubt, st.Missed = false, true
	default:
		s.later(r, now)
	}
}

// landed reads from a look whether the step's write is there.
func landed(r sink.Result, verb Verb, marks bool) sink.Tri {
	o := r.Observation
	missing := r.Status == sink.NotFound || r.Status == sink.OK && o != nil && !o.Exists
	switch {
	case o != nil && o.Ours == sink.Yes:
		return sink.Yes
	case verb == Delete && r.Status == sink.InProgress:
		return sink.Yes // it is going
	case verb == Delete && missing:
		if o != nil && o.Ours == sink.No {
			return sink.No // gone, and not by us
		}
		return sink.Yes
	case missing:
		return sink.No
	case r.Status != sink.OK || o == nil:
		return sink.Unknown
	case verb == Delete:
		return sink.No
	case marks:
		return o.Ours
	}
	return o.MatchDesired
}

// String names a kind, for logs and metrics.
func (k Kind) String() string {
	return [...]string{Look: "look", Write: "write", Ask: "ask", Restore: "restore", Adopt: "adopt", Unlock: "unlock", Wait: "wait", End: "end", Halt: "halt"}[k]
}

// String says what an effect is, for logs.
func (e Effect) String() string { return fmt.Sprintf("%s %d", e.Kind, e.Step+1) }
