package saga

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/pawlsync/pawl/engine/record"
	"github.com/pawlsync/pawl/engine/sink"
)

func TestValidateSaysWhatIsWrong(t *testing.T) {
	sinks := map[string]sink.Manifest{
		"all":    {Observes: true, Deletes: true, Marks: true, Locks: true, RestoresApply: true, RestoresDelete: true},
		"nolock": {Observes: true, Deletes: true, Marks: true, RestoresApply: true, RestoresDelete: true},
		"keeps":  {Observes: true, Deletes: true, Marks: true, Locks: true, RestoresApply: true},
		"forgot": {Observes: true, Deletes: true, Marks: true, Locks: true, RestoresDelete: true},
		"nomark": {Observes: true, Deletes: true, Locks: true, RestoresApply: true, RestoresDelete: true},
		"blind":  {Deletes: true, Marks: true, Locks: true, RestoresApply: true, RestoresDelete: true},
		"grows":  {Observes: true, Marks: true, Locks: true, RestoresApply: true, RestoresDelete: true},
	}
	step := func(sinkName string, v Verb) Step {
		st := Step{Key: record.Key{Sink: sinkName, Name: "k"}, Verb: v, Payload: []byte("p")}
		if v == Delete {
			st.Payload = nil
		}
		return st
	}
	steps := func(sts ...Step) func(*Spec) { return func(s *Spec) { s.Steps = sts } }
	for _, c := range []struct {
		name string
		make func(*Spec)
		want string // "": nothing is wrong
	}{
		{"a whole one", func(*Spec) {}, ""},
		{"no id", func(s *Spec) { s.ID = "" }, "the id has 0 bytes; it needs 1 to 128"},
		{"a long id", func(s *Spec) { s.ID = strings.Repeat("x", MaxIDBytes+1) }, "the id has 129 bytes"},
		{"a broken id", func(s *Spec) { s.ID = "a\nb" }, "the id is no key"},
		{"no mode", func(s *Spec) { s.Mode = "" }, `unknown mode ""; use pessimistic or optimistic`},
		{"no steps", steps(), "it has 0 steps; it needs 1 to 16"},
		{"too many steps", func(s *Spec) { s.Steps = make([]Step, MaxSteps+1) }, "it has 17 steps"},
		{"no timeout", func(s *Spec) { s.Timeout = 0 }, "the timeout is 0s; it must be above 0 and at most 1h0m0s"},
		{"a long timeout", func(s *Spec) { s.Timeout = MaxTimeout + 1 }, "the timeout is 1h0m0.000000001s"},
		{"a broken key", steps(Step{Key: record.Key{Sink: "all"}, Verb: Delete}), "step 1: the key is empty"},
		{"no verb", steps(step("all", "")), `step 1: unknown verb ""; use create, upsert or delete`},
		{"a deletion with payload", steps(Step{Key: record.Key{Sink: "all", Name: "k"}, Verb: Delete, Payload: []byte("p")}), "step 1: a deletion has no payload"},
		{"nothing to write", steps(Step{Key: record.Key{Sink: "all", Name: "k"}, Verb: Upsert}), "step 1: there is no payload to write; to remove the object use delete"},
		{"an unknown after", func(s *Spec) { s.Steps[0].After = "burn" }, `step 1: unknown after "burn"; use keep or forget`},
		{"one resource twice", steps(step("all", Upsert), step("all", Delete)), "steps 1 and 2 are of one resource, all/k"},
		{"an unknown sink", steps(step("none", Upsert)), `step 1: no sink "none" is configured`},
		{"a sink that can't delete", steps(step("grows", Delete)), "step 1 (delete grows/k): its sink can't delete"},
		{"a sink that can't observe", steps(step("all", Upsert), step("blind", Upsert)), "step 2 (upsert blind/k): its sink can't observe"},
		{"unmarked, not last", steps(step("nomark", Upsert), step("all", Upsert)), "step 1 (upsert nomark/k): its sink can't mark what it writes, so that only the last step can be there"},
		{"unmarked creation", steps(step("all", Upsert), step("nomark", Create)), "step 2 (create nomark/k): its sink can't mark what it writes, so that nobody could tell whose object there is; use upsert"},
		{"unmarked upsert as the last", steps(step("all", Upsert), step("nomark", Upsert)), ""},
		{"a deletion for good, not last", steps(step("keeps", Delete), step("all", Upsert)), "step 1 (delete keeps/k): its sink can't undo that, so that only the last step can be it"},
		{"a deletion for good as the last", steps(step("all", Upsert), step("keeps", Delete)), ""},
		{"two that can't be undone", steps(step("keeps", Delete), step("forgot", Upsert)), "only the last step can be it"},
		{"an apply for good, not last", steps(step("forgot", Create), step("all", Upsert)), "step 1 (create forgot/k): its sink can't undo that"},
		{"an apply where only deletions are for good", steps(step("keeps", Create), step("all", Upsert)), ""},
		{"no locks at the first", steps(step("nolock", Upsert), step("all", Upsert)), "step 1 (upsert nolock/k): its sink takes no locks; begin with a step at one that does, or use the mode optimistic"},
		{"no locks at the second", steps(step("all", Upsert), step("nolock", Upsert)), ""},
		{"no locks, optimistic", func(s *Spec) { s.Mode, s.Steps = Optimistic, []Step{step("nolock", Upsert)} }, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := &Spec{ID: "id", Mode: Pessimistic, Steps: []Step{step("all", Create)}, Timeout: time.Minute}
			c.make(s)
			err := s.Validate(func(name string) (sink.Manifest, bool) { m, ok := sinks[name]; return m, ok })
			switch {
			case c.want == "" && err != nil:
				t.Errorf("refused: %v", err)
			case c.want != "" && (err == nil || !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), c.want)):
				t.Errorf("got %v, want ErrInvalid and %q", err, c.want)
			}
		})
	}
}
