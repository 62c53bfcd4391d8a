package relay

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/pawlsync/pawl/engine/record"
	"github.com/pawlsync/pawl/internal/api"
)

// edge is one agent, and what it was told.
type edge struct {
	*pawl
	name  string
	link  *link
	next  map[string]int    // by key, the number of its newest change
	holds map[string]string // as it was acknowledged to us
}

// change changes some resources, as far as the agent takes it.
func (e *edge) change(ctx context.Context, r *rand.Rand) error {
	for range 1 + r.IntN(20) {
		key := fmt.Sprint("k", r.IntN(30))
		if _, exists := e.holds[key]; exists && r.IntN(6) == 0 {
			if _, err := e.Delete(ctx, record.Key{Sink: "up", Name: key}, api.DeleteRequest{}); err != nil {
				return err
			}
			delete(e.holds, key)
			continue
		}
		e.next[key]++
		if err := e.put(ctx, "up", key, payload(e.next[key])); err != nil {
			return err
		}
		e.holds[key] = payload(e.next[key])
	}
	return nil
}

// house is a principal with its target, and two agents that send to it.
type house struct {
	t         *testing.T
	target    *target
	principal *pawl
	edges     []*edge
}

func newHouse(t *testing.T, ack string) *house {
	h := &house{t: t, target: newTarget(t)}
	h.principal = newPawl(t, principalConfig(h.target, noFuse))
	h.principal.start()
	for _, name := range []string{"edge-1", "edge-2"} {
		e := &edge{name: name, link: newLink(t, h.principal), next: map[string]int{}, holds: map[string]string{}}
		e.pawl = newPawl(t, agentConfig(e.link.url(), name, ack))
		e.start()
		h.edges = append(h.edges, e)
	}
	return h
}

// round lets links fail while the agents are told changes, and kills an agent, and the
// principal where it is mortal, at some moment of it. Then the links are mended, and the
// principal's target comes to hold what the agents hold.
func (h *house) round(n int, r *rand.Rand, mortal bool) {
	h.t.Helper()
	for _, e := range h.edges {
		e.link.befall(faults[r.IntN(len(faults))])
	}
	const moments = 4
	principal, agent := r.IntN(moments), r.IntN(moments)
	for moment := range moments {
		for _, e := range h.edges {
			must(h.t, e.change(h.t.Context(), r))
		}
		if mortal && moment == principal {
			h.principal.kill()
			h.principal.start()
		}
		if moment == agent {
			e := h.edges[r.IntN(len(h.edges))]
			e.kill()
			e.start()
		}
	}
	want := map[string]string{}
	for _, e := range h.edges {
		e.link.mend()
		want = both(want, under(e.name+"/", e.holds))
	}
	eventually(h.t, fmt.Sprintf("round %d: the target holds what the agents hold", n), func(context.Context) error { return h.target.holds(want) })
	for _, e := range h.edges {
		eventually(h.t, fmt.Sprintf("round %d: %s has it acknowledged", n, e.name), e.quiet("up", len(e.holds)))
	}
}

// twice counts what the target was told, and what of it a second time; what it was told
// out of order is an error.
func (h *house) twice() (told, twice int) {
	for key, history := range h.target.history() {
		newest := 0
		for i, was := range history {
			told++
			switch {
			case was.n == 0:
			case was.n < newest:
				h.t.Errorf("%s: number %d came after %d", key, was.n, newest)
			case was.n == newest && history[i-1].n == was.n:
				twice++
			}
			newest = max(newest, was.n)
		}
	}
	return told, twice
}

// Two agents send to one principal, while links fail and both sides are killed at any
// instant. The principal comes to hold each agent's newest state, and its target is told
// nothing out of order.
func TestThePrincipalConvergesWhateverFails(t *testing.T) {
	for _, ack := range []string{"persisted", "processed"} {
		t.Run(ack, func(t *testing.T) {
			r := random(t)
			h := newHouse(t, ack)
			for round := range *roundsFlag {
				h.round(round, r, true)
			}
			told, twice := h.twice()
			t.Logf("%d rounds, each with a kill of the principal and of an agent: the target was told %d times, %d of them for the second time", *roundsFlag, told, twice)
		})
	}
}

// What an agent sends again, because an answer was lost or it was killed, the principal
// knows already: it is no change to its target.
func TestThePrincipalsTargetIsToldNothingTwiceWhileThePrincipalLives(t *testing.T) {
	r := random(t)
	h := newHouse(t, "persisted")
	for round := range *roundsFlag {
		h.round(round, r, false)
	}
	told, twice := h.twice()
	t.Logf("%d rounds, each with a kill of an agent: the target was told %d times", *roundsFlag, told)
	if twice > 0 {
		t.Errorf("%d of %d changes were told twice, and no answer of the target was lost", twice, told)
	}
}
