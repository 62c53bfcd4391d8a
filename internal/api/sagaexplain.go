package api

import (
	"fmt"
	"strings"
	"time"
)

// ExplainSaga says in a paragraph how far a saga has come, what it waits for and
// until when, and what an operator may do. It names no payload values.
func ExplainSaga(s *Saga, now time.Time) string {
	x := &sagaExplanation{s, now}
	return sentences(x.opening(), x.place(), x.holds(), x.operator())
}

type sagaExplanation struct {
	s   *Saga
	now time.Time
}

func (x *sagaExplanation) opening() string {
	if x.s.Began.IsZero() {
		return fmt.Sprintf("Saga %s has %s and has not begun.", x.s.ID, count(len(x.s.Steps), "step"))
	}
	return fmt.Sprintf("Saga %s (%s, %s) began %s.", x.s.ID, x.s.Mode, count(len(x.s.Steps), "step"), ago(x.s.Began, x.now))
}

// place says where it is.
func (x *sagaExplanation) place() string {
	s := x.s
	switch {
	case s.Outcome == SagaCommitted:
		return sentences("It is committed: all of it is written.", x.ending())
	case s.Outcome == SagaRolledBack:
		return sentences("It is rolled back: nothing of it is left. "+x.cause(), x.ending())
	case s.Stuck != "":
		return sentences("It can't be ended without an operator: "+trim(s.Stuck)+".", x.cause())
	case s.Phase == SagaWaiting:
		return "A delivery of one of its resources is under way, and it begins when that has ended."
	case s.Phase == SagaUndoing:
		return sentences(x.cause(), "What it wrote is being taken back, and that is tried for as long as it takes.", x.current())
	}
	return sentences(x.current(), x.deadline())
}

func (x *sagaExplanation) cause() string {
	s := x.s
	if s.Cause == "" {
		return ""
	}
	return "It did not go forward: " + trim(s.Failure()) + "."
}

// Failure says which step could not be written and why, in the target's own words:
// "step 2 (create cluster/ns/foo): rejected: quota". "" where the saga goes forward.
func (s *Saga) Failure() string {
	i, why := s.FailedStep-1, s.Cause
	if i < 0 || i >= len(s.Steps) {
		return why
	}
	switch r, last := s.Steps[i].Refusal, s.Steps[i].Answer; {
	case r != nil:
		why = r.String()
	case last != nil && last.Status != "ok":
		why += " (" + last.String() + ")"
	}
	return s.name(i) + ": " + why
}

// String is status and message: "rejected: the name is taken".
func (a *SagaAnswer) String() string {
	if a.Message == "" {
		return a.Status
	}
	return a.Status + ": " + a.Message
}

// name says what step i is, for people.
func (s *Saga) name(i int) string {
	st := &s.Steps[i]
	return fmt.Sprintf("step %d (%s %s/%s)", i+1, st.Verb, st.Sink, st.Key)
}

// ending says of a saga whose outcome stands what is left to do.
func (x *sagaExplanation) ending() string {
	switch s := x.s; {
	case s.Phase == SagaEnded:
		return fmt.Sprintf("It ended %s.", ago(s.EndedAt, x.now))
	case !x.later().IsZero():
		return sentences(fmt.Sprintf("A request of it may still land, so that its hold and its locks stay until that is over, %s.", in(x.later(), x.now)), x.tried())
	}
	return sentences("Its hold and its locks are being given up, which is tried until it is done.", x.tried())
}

// later is until when some request may still land; zero: none may.
func (x *sagaExplanation) later() (until time.Time) {
	for i := range x.s.Steps {
		if at := x.s.Steps[i].MayLandUntil; at.After(x.now) && at.After(until) {
			until = at
		}
	}
	return until
}

// current says what it is at.
func (x *sagaExplanation) current() string {
	s := x.s
	i := s.at()
	if i < 0 {
		return ""
	}
	st := &s.Steps[i]
	what := ""
	switch st.State {
	case StepSending:
		what = "is being sent"
	case StepUndoing:
		what = "is being undone"
	case StepWritten:
		what = "is written and is still to be undone"
	case StepInDoubt:
		what = "was sent, and no answer says whether it was written; its target is asked"
	case StepRefused:
		what = "was refused"
	default:
		what = "is next"
	}
	late := ""
	if st.MayLandUntil.After(x.now) {
		late = fmt.Sprintf("A request of it may still land, until %s (%s).", clock(st.MayLandUntil), in(st.MayLandUntil, x.now))
	}
	return sentences(upper(s.name(i))+" "+what+".", late, x.tried())
}

// at is the step that the saga is at; -1: none.
func (s *Saga) at() int {
	if s.Phase == SagaUndoing {
		for i := len(s.Steps) - 1; i >= 0; i-- {
			switch s.Steps[i].State {
			case StepWritten, StepUndoing, StepInDoubt, StepSending:
				return i
			}
		}
		return -1
	}
	for i := range s.Steps {
		if s.Steps[i].State != StepWritten {
			return i
		}
	}
	return -1
}

// tried tells of tries in vain.
func (x *sagaExplanation) tried() string {
	s := x.s
	if s.Tries == 0 {
		return ""
	}
	said := ""
	if a := s.newest(); a != nil {
		said = " (" + trim(a.String()) + ")"
	}
	return fmt.Sprintf("%s failed%s; it goes on %s.", tries(s.Tries), said, in(s.NextAt, x.now))
}

// newest is the newest answer about any step; nil: there is none.
func (s *Saga) newest() (a *SagaAnswer) {
	for i := range s.Steps {
		if b := s.Steps[i].Answer; b != nil && (a == nil || b.At.After(a.At)) {
			a = b
		}
	}
	return a
}

func (x *sagaExplanation) deadline() string {
	if !x.now.Before(x.s.Deadline) {
		return fmt.Sprintf("Its deadline passed %s.", ago(x.s.Deadline, x.now))
	}
	return fmt.Sprintf("It has until %s (%s); after that what it wrote is taken back.", clock(x.s.Deadline), in(x.s.Deadline, x.now))
}

// holds says what else waits for it.
func (x *sagaExplanation) holds() string {
	s := x.s
	if s.Phase == SagaEnded || s.Phase == SagaWaiting {
		return ""
	}
	puts := "Puts and Deletes of them are stored, and delivered afterwards."
	if s.RefusePuts {
		puts = "Puts and Deletes of them are refused."
	}
	return "Until it has ended nothing else is delivered to its resources. " + puts
}

// operator says what somebody may do about it.
func (x *sagaExplanation) operator() string {
	s := x.s
	byHand := fmt.Sprintf("look at the objects of all steps at their targets, make them all written or all as before, and say which with pawl saga resolve %s --as committed or --as rolled-back", s.ID)
	switch {
	case s.Outcome != "" || !s.Unresolved:
		return ""
	case s.Stuck != "":
		return fmt.Sprintf("Put right what stands in its way and let it try again (pawl saga resolve %s --as retry), or %s.", s.ID, byHand)
	}
	return fmt.Sprintf("It is unresolved: its deadline has passed, and nobody can say yet how it ends. It ends by itself when its targets answer; where one never will, %s.", byHand)
}

func tries(n int) string {
	if n == 1 {
		return "1 try"
	}
	return fmt.Sprintf("%d tries", n)
}

func clock(at time.Time) string { return at.UTC().Format("15:04:05 MST") }

func trim(s string) string { return strings.TrimRight(s, ".") }
