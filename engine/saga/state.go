package saga

import (
	"time"

	"github.com/pawlsync/pawl/engine/sink"
)

// Phase is where a saga is.
type Phase string

// The phases.
const (
	Forward   Phase = "Forward"   // its steps are being written
	Undoing   Phase = "Undoing"   // what it wrote is being taken back
	Releasing Phase = "Releasing" // its outcome stands; what it holds is being given up
	Ended     Phase = "Ended"
)

// Outcome is how a saga ended for its caller.
type Outcome string

// The outcomes; the empty one is not known yet.
const (
	Committed  Outcome = "Committed"  // all of it is written
	RolledBack Outcome = "RolledBack" // none of it is
)

// Answer is what a target said.
type Answer struct {
	Status  sink.Status `json:"status"`
	Message string      `json:"message,omitempty"` // the target's own; never payload
	At      time.Time   `json:"at"`
}

// StepState is how far one step has come.
type StepState struct {
	// Generation is the resource's when the saga took hold of it; 0: it was unknown.
	Generation uint64      `json:"generation,omitempty"`
	Before     *sink.Image `json:"before,omitempty"` // nil: not looked at yet

	Sent int `json:"sent,omitempty"` // writes that may have been sent
	// Pending is the deadline of the write or restore that is under way, durable
	// before it is sent. Found by a later process, nobody knows what became of it.
	Pending time.Time `json:"pending,omitzero"`
	// LateUntil is until when a request that had no answer may still land.
	LateUntil time.Time `json:"late_until,omitzero"`
	Missed    bool      `json:"missed,omitempty"` // a write of it is known not to have landed
	// Doubt: whether the write landed is to be asked before anything else.
	Doubt   bool    `json:"doubt,omitempty"`
	Refusal *Answer `json:"refusal,omitempty"` // definitive, of a write; stands once nothing is in doubt
	Landed  bool    `json:"landed,omitempty"`  // our write is there
	Undone  bool    `json:"undone,omitempty"`  // nothing of ours is there, nor will be

	Last *Answer `json:"last,omitempty"` // the newest answer, for people
}

// State is all that a saga's journal holds of it, but its Spec. It is changed by
// Next and Answered alone; both are pure.
type State struct {
	Run      string      `json:"run"`
	Began    time.Time   `json:"began"`
	Deadline time.Time   `json:"deadline"` // to go forward
	Phase    Phase       `json:"phase"`
	Outcome  Outcome     `json:"outcome,omitempty"`
	Steps    []StepState `json:"steps"`
	// Cause is why it does not go forward: FailedStep's refusal, or that time was up.
	Cause      string    `json:"cause,omitempty"`
	FailedStep int       `json:"failed_step,omitempty"` // from 1; 0: none
	EndedAt    time.Time `json:"ended_at,omitzero"`
	// Stuck is why the saga can't be ended without an operator; "": it can.
	Stuck string `json:"stuck,omitempty"`

	Tries    int       `json:"-"` // without progress, for the backoff
	NextAt   time.Time `json:"-"` // nothing is done before
	Released int       `json:"-"` // sinks that were unlocked
	Adopted  bool      `json:"-"` // outcome handed to the outbox

	spec  *Spec
	rules Rules
}

// Rules are what the core knows of the sinks of a saga's steps, by step.
type Rules struct {
	Steps []StepRules
	// Backoff is how long to wait after so many tries in vain, from 1.
	Backoff func(tries int) time.Duration
}

// StepRules are those of one step's sink.
type StepRules struct {
	Target   string        `json:"target,omitempty"`
	Timeout  time.Duration `json:"timeout"` // of one call
	Marks    bool          `json:"marks,omitempty"`
	Locks    bool          `json:"locks,omitempty"`
	Confirms bool          `json:"confirms,omitempty"` // an OK of a write proves that it is persisted
}

// Start returns the state of a new saga.
func Start(spec *Spec, rules Rules, run string, now time.Time) *State {
	return (&State{Run: run, Began: now, Deadline: now.Add(spec.Timeout), Phase: Forward, Steps: make([]StepState, len(spec.Steps))}).bind(spec, rules)
}

// Resume returns the state that was found in the journal, for this process: of a
// request that was under way nobody knows the end. Where the clock was set back since,
// nothing is waited for longer than it could have taken.
func Resume(found *State, spec *Spec, rules Rules, now time.Time) *State {
	found.Deadline = earlier(found.Deadline, now.Add(spec.Timeout))
	for i := range found.Steps {
		st := &found.Steps[i]
		if !st.Pending.IsZero() {
			st.unanswered()
		}
		st.LateUntil = earlier(st.LateUntil, now.Add(rules.Steps[i].Timeout))
	}
	return found.bind(spec, rules)
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

func (s *State) bind(spec *Spec, rules Rules) *State {
	s.spec, s.rules = spec, rules
	return s
}

// Kind sorts effects.
type Kind uint8

// The kinds of effect, and the call that each is.
const (
	Look    Kind = iota + 1 // Observe, for the image of the step's object from before
	Write                   // Apply or Delete
	Ask                     // Observe, for the mark
	Restore                 // Restore
	Adopt                   // hand the outcome to the outbox
	Unlock                  // Unlock, at the sink of Step
	Wait                    // do nothing until Until
	End                     // nothing is left to do
	Halt                    // nothing can be done until an operator resolves it
)

// Effect is what to do next.
type Effect struct {
	Kind  Kind
	Step  int       // whose it is
	Until time.Time // of Wait
	// Durable: the state is to be durable before this is done.
	Durable bool
}

// Next says what to do next, and makes the state what has to be known about it.
func (s *State) Next(now time.Time) Effect {
	if s.Stuck != "" {
		return Effect{Kind: Halt, Durable: true}
	}
	if now.Before(s.NextAt) {
		return Effect{Kind: Wait, Until: s.NextAt}
	}
	switch s.Phase {
	case Forward:
		return s.forward(now)
	case Undoing:
		return s.backward(now)
	case Releasing:
		return s.release(now)
	}
	return Effect{Kind: End, Durable: true}
}

// release gives up what the saga holds. Its outcome is durable. A request that may
// still land could take a lock, or change what is somebody else's by then: it is
// waited for.
func (s *State) release(now time.Time) Effect {
	if !s.Adopted {
		return Effect{Kind: Adopt, Durable: true}
	}
	for i := range s.Steps {
		if late := s.Steps[i].LateUntil; now.Before(late) {
			return Effect{Kind: Wait, Until: late}
		}
	}
	for ; s.Released < len(s.Steps); s.Released++ {
		i := s.Released
		rules := &s.rules.Steps[i]
		if s.Steps[i].Sent > 0 && (rules.Marks || rules.Locks) && s.firstAtSink(i) {
			return Effect{Kind: Unlock, Step: i}
		}
	}
	s.Phase, s.EndedAt = Ended, now
	for i := range s.Steps {
		s.Steps[i].Before = nil // what the targets held is not kept as long as the saga is
	}
	return Effect{Kind: End, Durable: true}
}

// firstAtSink reports whether step i is the first that was sent to its sink.
func (s *State) firstAtSink(i int) bool {
	for j := range i {
		if s.spec.Steps[j].Key.Sink == s.spec.Steps[i].Key.Sink && s.Steps[j].Sent > 0 {
			return false
		}
	}
	return true
}

// Answered takes what came of e.
func (s *State) Answered(e Effect, r sink.Result, now time.Time) {
	if e.Kind == Adopt {
		s.Adopted = true
		return
	}
	st := &s.Steps[e.Step]
	st.Last = &Answer{r.Status, r.Message, now}
	switch e.Kind {
	case Look:
		s.looked(st, e.Step, r, now)
	case Write:
		s.wrote(st, e.Step, r, now)
	case Ask:
		s.asked(st, e.Step, r, now)
	case Restore:
		s.restored(st, e.Step, r, now)
	case Unlock:
		if r.Status == sink.OK || r.Status == sink.NotFound {
			s.progress()
			s.Released++
		} else {
			s.later(r, now)
		}
	}
}

// progress ends a row of tries in vain.
func (s *State) progress() { s.Tries, s.NextAt = 0, time.Time{} }

// later puts the next try off, but not beyond the deadline: then there may be
// something else to do.
func (s *State) later(r sink.Result, now time.Time) {
	s.Tries++
	s.NextAt = now.Add(max(s.rules.Backoff(s.Tries), r.RetryAfter))
	if now.Before(s.Deadline) && s.NextAt.After(s.Deadline) {
		s.NextAt = s.Deadline
	}
}

// unanswered notes that the request which was under way may still land. Of a
// restore it is not asked: it is sent again.
func (st *StepState) unanswered() {
	if st.Pending.After(st.LateUntil) {
		st.LateUntil = st.Pending
	}
	st.Pending, st.Doubt = time.Time{}, !st.Landed
}

// Resolution is what an operator makes of a saga.
type Resolution string

// The resolutions.
const (
	TryAgain       Resolution = "retry"       // whatever it is stuck at
	TakeCommitted  Resolution = "committed"   // the operator vouches that all is written
	TakeRolledBack Resolution = "rolled-back" // the operator vouches that nothing is
)

// Resolve puts an operator's decision into force, and reports whether there was
// anything to decide.
func (s *State) Resolve(r Resolution) bool {
	if s.Outcome != "" {
		return false
	}
	switch r {
	case TryAgain:
	case TakeCommitted:
		s.Phase, s.Outcome = Releasing, Committed
	case TakeRolledBack:
		s.Phase, s.Outcome = Releasing, RolledBack
	default:
		return false
	}
	s.Stuck = ""
	s.progress()
	return true
}

// Unresolved reports whether the deadline has passed, or only an operator can go
// on, and nobody can say how the saga ends.
func (s *State) Unresolved(now time.Time) bool {
	return s.Outcome == "" && (s.Stuck != "" || now.After(s.Deadline))
}
