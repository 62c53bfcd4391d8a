package saga

import (
	"fmt"
	"testing"

	"github.com/pawlsync/pawl/internal/race"
)

// everyRivals calls f with each plan of two sagas of n steps on the same objects.
func everyRivals(n int, mode Mode, f func(p *plan)) {
	first := marker
	if mode == Pessimistic {
		first = locker
	}
	for _, shape := range shapes(n) {
		for a := range combinations[n] {
			for b := range combinations[n] {
				if mode == Optimistic && (verbs[a%len(verbs)] != Create || verbs[b%len(verbs)] != Create) {
					continue // nothing keeps such rivals apart, see doc.go
				}
				p := newPlan([2]*Spec{specOf(n, mode, shape, a), specOf(n, mode, shape, b)}, shape, [2]ability{first, marker}, true)
				if p == nil {
					panic("a saga of these targets can be run")
				}
				p.loose = mode == Pessimistic
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

// Two sagas after the same objects, whatever they do there (S3, S6, S12, S13): one
// wins or none; who does not win takes nothing of the winner's away and leaves
// nothing of its own.
func TestOfRivalsOneWinsOrNone(t *testing.T) {
	bounds := [...][]bound{
		1: {{budget{1, 1, 0, 0, 0}, 1}, {budget{1, 0, 1, 0, 0}, 1}, {budget{0, 1, 1, 0, 0}, 1}},
		2: {{budget{0, 0, 0, 0, 0}, 1}, {budget{1, 0, 0, 0, 0}, 13}, {budget{0, 1, 0, 0, 0}, 5}, {budget{0, 0, 1, 0, 0}, 13}, {budget{1, 1, 0, 0, 0}, 71}},
	}
	if testing.Short() || race.Enabled {
		bounds = [...][]bound{
			1: {{budget{1, 0, 0, 0, 0}, 1}},
			2: {{budget{0, 0, 0, 0, 0}, 29}, {budget{0, 1, 0, 0, 0}, 61}},
		}
	}
	for _, mode := range []Mode{Pessimistic, Optimistic} {
		for n := 1; n <= 2; n++ {
			t.Run(fmt.Sprintf("%s, %d steps", mode, n), func(t *testing.T) {
				t.Parallel()
				for _, b := range bounds[n] {
					ta, k := tally{ends: map[string]int{}}, 0
					everyRivals(n, mode, func(p *plan) {
						if k++; k%b.stride == 0 && !t.Failed() {
							ta.explore(t, p, 2, b.left)
						}
					})
					ta.log(t, b)
				}
			})
		}
	}
}
