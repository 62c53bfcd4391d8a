package schedule

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pawlsync/pawl/engine/record"
)

// selected looks in portions of n.
func selected(s *Schedule, sel *Selection, n int) []record.Key {
	for s.Look(sel, n) {
	}
	return sel.Keys()
}

func ofPhase(want record.Phase) func(string, record.Phase, bool) bool {
	return func(_ string, p record.Phase, _ bool) bool { return p == want }
}

func TestASelectionFindsWhatLookingAtEachWouldFind(t *testing.T) {
	seed := rand.Uint64() >> 20
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 1))
	s := New(Options{})
	all := map[record.Key]record.Phase{}
	names := record.Phases()
	for range 3000 {
		k := record.Key{Sink: []string{"a", "b", "ab"}[r.IntN(3)], Name: fmt.Sprintf("%c/%d", 'p'+rune(r.IntN(3)), r.IntN(1500))}
		if r.IntN(5) == 0 {
			s.Remove(k)
			delete(all, k)
			continue
		}
		all[k] = names[r.IntN(len(names))]
		s.Set(k, Plan{Phase: all[k]})
	}
	for range 200 {
		sel := Selection{Limit: 1 + r.IntN(40), Fits: ofPhase(names[r.IntN(len(names))])}
		if r.IntN(2) == 0 {
			sel.Sink = []string{"a", "b", "ab", "none"}[r.IntN(4)]
		}
		if r.IntN(2) == 0 {
			sel.Prefix = []string{"p/", "q/1", "r/99", "x"}[r.IntN(4)]
		}
		if r.IntN(2) == 0 {
			sel.After = &record.Key{Sink: []string{"a", "b"}[r.IntN(2)], Name: fmt.Sprintf("q/%d", r.IntN(1500))}
		}
		var want []record.Key
		for k, p := range all {
			if sel.Fits(k.Sink, p, false) && (sel.Sink == "" || k.Sink == sel.Sink) && strings.HasPrefix(k.Name, sel.Prefix) && (sel.After == nil || k.Compare(*sel.After) > 0) {
				want = append(want, k)
			}
		}
		slices.SortFunc(want, record.Key.Compare)
		want = want[:min(len(want), sel.Limit)]
		if got := selected(s, &sel, 1+r.IntN(500)); !slices.Equal(got, want) {
			t.Fatalf("%+v\n got %v\nwant %v", sel, got, want)
		}
	}
}

func TestASelectionTellsWhatIsUnderWayFromWhatWaits(t *testing.T) {
	s := New(Options{})
	s.ConfigureSink("web", Limits{})
	now := time.Unix(1000, 0)
	for _, name := range []string{"a", "b", "c"} {
		s.Set(record.Key{Sink: "web", Name: name}, Plan{At: now, Phase: record.Pending})
	}
	d, ok := s.Next(now)
	if !ok {
		t.Fatal("nothing is due")
	}
	sel := Selection{Limit: 9, Fits: func(_ string, _ record.Phase, flying bool) bool { return flying }}
	if got := selected(s, &sel, 2); len(got) != 1 || got[0] != d.Key {
		t.Errorf("under way is %v, found %v", d.Key, got)
	}
}
