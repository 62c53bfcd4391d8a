package saga

import (
	"errors"
	"fmt"
	"testing"

	"github.com/pawlsync/pawl/engine/record"
	"github.com/pawlsync/pawl/engine/sink"
	"github.com/pawlsync/pawl/internal/race"
)

// shapes are the ways in which n steps can go to two targets: the first to target 0.
func shapes(n int) (out [][3]uint8) {
	for bits := range 1 << (n - 1) {
		var s [3]uint8
		for i := 1; i < n; i++ {
			s[i] = uint8(bits >> (i - 1) & 1)
		}
		out = append(out, s)
	}
	return out
}

// Locks count at the first target alone, and there in the one mode: elsewhere a
// target that has them is like one that has none.
var (
	firsts  = map[Mode][]ability{Pessimistic: {locker, latched}, Optimistic: {marker, keeper, plain}}
	seconds = []ability{marker, keeper, plain}
)

var (
	verbs        = [...]Verb{Create, Upsert, Delete}
	combinations = [...]int{1, 3, 9, 27} // of so many verbs
)

// specOf returns the spec of n steps with combination c of verbs.
func specOf(n int, mode Mode, shape [3]uint8, c int) *Spec {
	spec := &Spec{ID: "s", Mode: mode, Timeout: ticks(sagaTicks)}
	for i := range n {
		st := Step{Key: record.Key{Sink: sinkName(shape[i]), Name: fmt.Sprint(i)}, Verb: verbs[c%len(verbs)]}
		if st.Verb != Delete {
			st.Payload = []byte("p")
		}
		spec.Steps, c = append(spec.Steps, st), c/len(verbs)
	}
	return spec
}

// every calls f with each plan of n steps that Validate admits.
func every(n int, statuses []sink.Status, f func(p *plan)) {
	for _, shape := range shapes(n) {
		for _, mode := range []Mode{Pessimistic, Optimistic} {
			for _, first := range firsts[mode] {
				for k, second := range seconds {
					if shape == ([3]uint8{}) && k > 0 {
						break // nothing goes to it
					}
					for c := range combinations[n] {
						spec := specOf(n, mode, shape, c)
						for _, confirms := range []bool{true, false} {
							p := newPlan([2]*Spec{spec, spec}, shape, [2]ability{first, second}, confirms)
							if p == nil {
								continue
							}
							p.statuses, p.loose = statuses, true
							for start := range 1 << n {
								q := *p
								for i := range n {
									q.start[i] = content(start >> i & 1)
								}
								f(&q)
							}
						}
					}
				}
			}
		}
	}
}

// newPlan returns the plan for specs, nil where Validate does not admit them.
func newPlan(specs [2]*Spec, targets [3]uint8, can [2]ability, confirms bool) *plan {
	p := &plan{specs: specs, targets: targets, can: can, rules: Rules{Backoff: backoff}}
	for _, spec := range specs {
		if err := spec.Validate(func(name string) (sink.Manifest, bool) { return can[name[0]-'a'].manifest(confirms), true }); err != nil {
			if !errors.Is(err, ErrInvalid) {
				panic(err)
			}
			return nil
		}
	}
	for i := range specs[0].Steps {
		a := p.at(uint8(i))
		p.rules.Steps = append(p.rules.Steps, StepRules{Timeout: ticks(callTicks), Marks: a.marks, Locks: a.locks, Confirms: confirms})
	}
	return p
}

// tally is what a row of explorations came to.
type tally struct {
	plans, states, most int
	ends                map[string]int
}

func (ta *tally) explore(t *testing.T, p *plan, rivals int, left budget) bool {
	x := explore(p, rivals, left)
	ta.plans++
	ta.states += len(x.from)
	ta.most = max(ta.most, len(x.from))
	for k, v := range x.ends {
		ta.ends[k] += v
	}
	if x.fault != "" {
		t.Errorf("%s: %s", p, x.fault)
	}
	return x.fault == ""
}

// String tells a plan.
func (p *plan) String() string {
	s := string(p.specs[0].Mode)
	for i := range p.specs[0].Steps {
		s += fmt.Sprintf(", %s", p.verb(0, uint8(i)))
		if v := p.verb(1, uint8(i)); v != p.verb(0, uint8(i)) {
			s += "/" + string(v)
		}
		s += fmt.Sprintf(" at %s %s (holds %d)", p.at(uint8(i)).name, sinkName(p.targets[i]), p.start[i])
	}
	return fmt.Sprintf("%s, confirms: %v", s, p.rules.Steps[0].Confirms)
}

func (ta *tally) log(t *testing.T, b bound) {
	t.Helper()
	t.Logf("%+v of each %d. saga: %d sagas, %d states, at most %d of one; ends: %v", b.left, b.stride, ta.plans, ta.states, ta.most, ta.ends)
	for _, end := range []string{string(Committed), string(RolledBack)} {
		if ta.ends[end] == 0 && !t.Failed() {
			t.Errorf("no saga ended %s: the exploration did not get there", end)
		}
	}
}

// bound is how far an exploration goes: a budget, for each stride-th plan.
type bound struct {
	left   budget
	stride int
}

// bounds by the number of steps; with more steps fewer faults come together, but in
// some sagas. The small ones are for -short and -race.
var (
	bounds = [...][]bound{
		1: {{budget{2, 1, 1, 1, 1}, 1}, {budget{3, 0, 2, 0, 0}, 1}},
		2: {{budget{1, 1, 1, 0, 0}, 1}, {budget{1, 0, 0, 1, 0}, 1}, {budget{1, 0, 0, 0, 1}, 1}, {budget{0, 1, 2, 0, 0}, 1}, {budget{0, 1, 0, 1, 0}, 1}, {budget{2, 1, 1, 1, 1}, 211}},
		3: {{budget{1, 0, 0, 0, 0}, 1}, {budget{0, 1, 0, 0, 0}, 1}, {budget{0, 0, 1, 0, 0}, 1}, {budget{1, 1, 1, 0, 0}, 53}, {budget{0, 1, 0, 1, 1}, 307}, {budget{2, 1, 1, 1, 0}, 2003}},
	}
	smallBounds = [...][]bound{
		1: {{budget{1, 1, 1, 1, 0}, 3}},
		2: {{budget{1, 1, 0, 0, 0}, 7}, {budget{0, 1, 1, 0, 0}, 7}, {budget{1, 0, 0, 1, 1}, 53}},
		3: {{budget{1, 0, 1, 0, 0}, 211}, {budget{0, 1, 0, 1, 0}, 211}},
	}
)

// A saga of any verbs, at any targets, in any mode: whatever is lost, late, refused or
// dies, it ends in all of it or none, and tells its caller the truth.
func TestEverySagaEndsInAllOrNothing(t *testing.T) {
	for n := 1; n <= 3; n++ {
		t.Run(fmt.Sprintf("%d steps", n), func(t *testing.T) {
			t.Parallel()
			bs := bounds[n]
			if testing.Short() || race.Enabled {
				bs = smallBounds[n]
			}
			for _, b := range bs {
				ta, k := tally{ends: map[string]int{}}, 0
				every(n, []sink.Status{sink.Rejected, sink.Conflict}, func(p *plan) {
					if k++; k%b.stride == 0 && !t.Failed() {
						ta.explore(t, p, 1, b.left)
					}
				})
				ta.log(t, b)
			}
		})
	}
}

// The journal's bytes hold all that a later process goes on from.
func TestASagaGoesOnFromTheJournalsBytes(t *testing.T) {
	for c := range combinations[2] {
		spec := specOf(2, Pessimistic, [3]uint8{0, 1}, c)
		p := newPlan([2]*Spec{spec, spec}, [3]uint8{0, 1}, [2]ability{locker, marker}, true)
		p.statuses, p.loose, p.start = []sink.Status{sink.Rejected}, true, [3]content{original}
		x := (&explorer{plan: p, rivals: 1, json: true}).explore(budget{1, 1, 1, 0, 0})
		if x.fault != "" {
			t.Errorf("%s: %s", p, x.fault)
		}
	}
}
