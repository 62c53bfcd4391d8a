package saga

import (
	"errors"
	"fmt"
	"time"

	"github.com/pawlsync/pawl/engine/record"
	"github.com/pawlsync/pawl/engine/sink"
)

// Mode says whether a saga keeps others off its objects while it runs.
type Mode string

// The modes.
const (
	// Pessimistic takes locks for the objects of all steps, together with the first
	// step's write, and tries until the deadline.
	Pessimistic Mode = "pessimistic"
	// Optimistic takes none, and undoes what it did when a later step can't be done
	// at once.
	Optimistic Mode = "optimistic"
)

// Verb is what a step does.
type Verb string

// The verbs.
const (
	Create Verb = "create" // the object must not exist
	Upsert Verb = "upsert" // create or replace
	Delete Verb = "delete"
)

// After says what becomes of a step's resource after the saga has committed.
type After string

// What becomes of it. The empty one is Keep.
const (
	Keep   After = "keep"   // an ordinary resource, drift-checked
	Forget After = "forget" // Pawl knows nothing of it
)

// Step is one write.
type Step struct {
	Key     record.Key `json:"key"`
	Verb    Verb       `json:"verb"`
	Payload []byte     `json:"payload,omitempty"` // none for Delete
	After   After      `json:"after,omitempty"`
}

// Spec is what a caller asks for.
type Spec struct {
	// ID is the caller's: the same ID and content are the same saga, also after it
	// ended; the same ID and other content are refused.
	ID    string `json:"id"`
	Mode  Mode   `json:"mode"`
	Steps []Step `json:"steps"`
	// Timeout is how long the saga tries to go forward; beyond it, it undoes.
	Timeout time.Duration `json:"timeout"`
	// RefusePuts: a Put or Delete of a step's resource is refused while the saga
	// runs; else it is stored and delivered afterwards.
	RefusePuts bool `json:"refuse_puts,omitempty"`
}

// Limits of a Spec.
const (
	MaxSteps   = 16
	MaxIDBytes = 128
	MaxTimeout = time.Hour
)

// ErrInvalid: the saga can't be run as it is asked for.
var ErrInvalid = errors.New("invalid saga")

// Validate says what is wrong with s, given what the sinks can do, and which
// sink's name is unknown; nil where it can be run.
func (s *Spec) Validate(manifest func(sinkName string) (sink.Manifest, bool)) error {
	if err := s.check(); err != nil {
		return fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	objects := map[[2]string]int{} // target and name
	for i := range s.Steps {
		m, ok := manifest(s.Steps[i].Key.Sink)
		if !ok {
			return fmt.Errorf("%w: step %d: no sink %q is configured", ErrInvalid, i+1, s.Steps[i].Key.Sink)
		}
		if err := s.fits(i, &m); err != nil {
			return fmt.Errorf("%w: step %d (%s %s): %w", ErrInvalid, i+1, s.Steps[i].Verb, s.Steps[i].Key, err)
		}
		object := [2]string{m.Target, s.Steps[i].Key.Name}
		if j, ok := objects[object]; ok && m.Target != "" {
			return fmt.Errorf("%w: steps %d and %d are of one object: sinks %q and %q have the same target", ErrInvalid, j+1, i+1, s.Steps[j].Key.Sink, s.Steps[i].Key.Sink)
		}
		objects[object] = i
	}
	return nil
}

func (s *Spec) check() error {
	switch {
	case s.ID == "" || len(s.ID) > MaxIDBytes:
		return fmt.Errorf("the id has %d bytes; it needs 1 to %d", len(s.ID), MaxIDBytes)
	case s.Mode != Pessimistic && s.Mode != Optimistic:
		return fmt.Errorf("unknown mode %q; use %s or %s", s.Mode, Pessimistic, Optimistic)
	case len(s.Steps) == 0 || len(s.Steps) > MaxSteps:
		return fmt.Errorf("it has %d steps; it needs 1 to %d", len(s.Steps), MaxSteps)
	case s.Timeout <= 0 || s.Timeout > MaxTimeout:
		return fmt.Errorf("the timeout is %v; it must be above 0 and at most %v", s.Timeout, MaxTimeout)
	}
	if err := (record.Key{Sink: "a", Name: s.ID}).Validate(); err != nil {
		return fmt.Errorf("the id is no key: %w", err)
	}
	seen := map[record.Key]int{}
	for i, st := range s.Steps {
		switch {
		case st.Key.Validate() != nil:
			return fmt.Errorf("step %d: %w", i+1, st.Key.Validate())
		case st.Verb != Create && st.Verb != Upsert && st.Verb != Delete:
			return fmt.Errorf("step %d: unknown verb %q; use %s, %s or %s", i+1, st.Verb, Create, Upsert, Delete)
		case st.Verb == Delete && len(st.Payload) > 0:
			return fmt.Errorf("step %d: a deletion has no payload", i+1)
		case st.Verb != Delete && len(st.Payload) == 0: // a Restore would take it for a deletion
			return fmt.Errorf("step %d: there is no payload to write; to remove the object use %s", i+1, Delete)
		case st.After != "" && st.After != Keep && st.After != Forget:
			return fmt.Errorf("step %d: unknown after %q; use %s or %s", i+1, st.After, Keep, Forget)
		}
		if j, ok := seen[st.Key]; ok {
			return fmt.Errorf("steps %d and %d are of one resource, %s", j+1, i+1, st.Key)
		}
		seen[st.Key] = i
	}
	return nil
}

// fits says why a sink can't do step i.
func (s *Spec) fits(i int, m *sink.Manifest) error {
	st, last := &s.Steps[i], i == len(s.Steps)-1
	undone := m.RestoresApply
	if st.Verb == Delete {
		undone = m.RestoresDelete
	}
	switch {
	case st.Verb == Delete && !m.Deletes:
		return errors.New("its sink can't delete")
	case !m.Observes:
		return errors.New("its sink can't observe, so that a write without an answer would stay unknown")
	case !last && !m.Marks:
		return errors.New("its sink can't mark what it writes, so that only the last step can be there")
	case !last && !undone:
		return errors.New("its sink can't undo that, so that only the last step can be it")
	case st.Verb == Create && !m.Marks:
		return errors.New("its sink can't mark what it writes, so that nobody could tell whose object there is; use upsert")
	case i == 0 && s.Mode == Pessimistic && !m.Locks:
		return fmt.Errorf("its sink takes no locks; begin with a step at one that does, or use the mode %s", Optimistic)
	}
	return nil
}
