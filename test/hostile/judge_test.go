package hostile

import (
	"context"
	"flag"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/pawlsync/pawl/internal/race"
)

// The claim, and how it is judged.
const (
	slowerAtMost = 3    // p99, against the neighbour undisturbed
	rateAtLeast  = 0.95 // of what the neighbour had undisturbed

	phaseLength = 400 * time.Millisecond
	roundsMost  = 5
	busyMost    = 3 // rounds in which the machine was too busy to tell, until it is given up
)

// The race detector makes an allocation of a few MiB a matter of tens of
// milliseconds for everybody, so that the claim is judged without it.
var neighbourFlag = flag.Bool("neighbour", !race.Enabled, "watch the neighbour; without it a trial takes a moment, and shows only how the module ends")

// round is one attack on the neighbour: before it, under it, and how the twin
// fared at the same time.
type round struct{ before, attacked, twin phase }

func (r round) String() string {
	return fmt.Sprintf("before: %v; attacked: %v; its twin meanwhile: %v", r.before, r.attacked, r.twin)
}

// harmless is the claim: against the neighbour before the attack, or where the
// machine itself was slower by then, against its twin during it.
func (r round) harmless() bool {
	return r.attacked.p99 <= slowerAtMost*max(r.before.p99, r.twin.p99) &&
		r.attacked.rate >= rateAtLeast*min(r.before.rate, r.twin.rate)
}

// telling reports whether the machine had time for the twin, which nobody
// attacks: where it had not, the neighbour's rate was not one below saturation.
func (r round) telling() bool {
	return r.twin.served > 0 && r.twin.p50 < 2*targetLatency && r.twin.p99 < 10*targetLatency
}

// undisturbed checks that the neighbour does not suffer from attack, which goes
// on until its context ends; calm ends what is left of it.
//
// The machine may be busy with other things, whose noise is larger than what is
// measured. So where one round is not fine, the medians of three decide, and of
// five: noise comes and goes, an attack that harms does so each time.
func undisturbed(t *testing.T, n *neighbour, attack func(ctx context.Context), calm func()) {
	t.Helper()
	if !*neighbourFlag {
		ctx, cancel := context.WithCancel(t.Context())
		cancel() // at once: one of everything is enough
		attack(ctx)
		calm()
		return
	}
	twin := theTwin(t)
	measure := func(meanwhile func()) phase {
		p, err := n.during(meanwhile)
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	var rounds []round
	for busy := 0; busy < busyMost && len(rounds) < roundsMost; {
		var r round
		r.before = measure(func() { <-time.After(phaseLength) })
		r.attacked = measure(func() {
			ctx, cancel := context.WithTimeout(t.Context(), phaseLength)
			defer cancel()
			attack(ctx)
		})
		calm()
		r.twin = twin.between(t, r.attacked.from, r.attacked.to)
		if !r.telling() {
			t.Logf("the machine was too busy to tell: %v", r)
			busy++
			continue
		}
		if rounds = append(rounds, r); len(rounds)%2 == 0 {
			continue
		}
		if m := medians(rounds); m.harmless() {
			t.Logf("the neighbour, in %d rounds: %v", len(rounds), m)
			return
		}
	}
	if len(rounds) < roundsMost { // too few to blame the attack
		t.Logf("the machine is too busy to tell whether the neighbour suffers")
		return
	}
	t.Errorf("the neighbour suffered: %v", rounds)
}

func medians(rs []round) round {
	of := func(pick func(round) phase) phase {
		middle := func(value func(phase) float64) float64 {
			vs := make([]float64, len(rs))
			for i, r := range rs {
				vs[i] = value(pick(r))
			}
			slices.Sort(vs)
			return vs[len(vs)/2]
		}
		return phase{
			served: int(middle(func(p phase) float64 { return float64(p.served) })),
			rate:   middle(func(p phase) float64 { return p.rate }),
			p50:    time.Duration(middle(func(p phase) float64 { return float64(p.p50) })),
			p99:    time.Duration(middle(func(p phase) float64 { return float64(p.p99) })),
		}
	}
	return round{
		before:   of(func(r round) phase { return r.before }),
		attacked: of(func(r round) phase { return r.attacked }),
		twin:     of(func(r round) phase { return r.twin }),
	}
}
