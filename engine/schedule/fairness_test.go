package schedule

import (
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/pawlsync/pawl/internal/race"
)

func TestFairness_AMillionWaitingDelayNoOther(t *testing.T) {
	n := 1_000_000
	if testing.Short() || race.Enabled {
		n = 50_000
	}
	s := New(Options{})
	s.ConfigureSink("big", Limits{MaxInFlight: n})
	s.ConfigureSink("small", Limits{})
	fill(s, "big", n, sec(-60), Fresh)
	for range 100 {
		mustNext(t, s, t0)
	}
	s.Set(key("small", "x"), plan(t0, Check))
	if a, b := mustNext(t, s, t0), mustNext(t, s, t0); a.Key.Sink != "small" && b.Key.Sink != "small" {
		t.Fatalf("small waits behind big: %v %v", a.Key, b.Key)
	}
}

func TestFairness_SinksTakeTurns(t *testing.T) {
	s := New(Options{})
	for i := range 1000 {
		n := fmt.Sprintf("s%d", i)
		s.ConfigureSink(n, Limits{})
		switch {
		case i%10 != 0:
			fill(s, n, 1, sec(3600), Check) // idle
		default:
			fill(s, n, 5, t0, Fresh)
		}
	}
	for round := range 5 {
		seen := map[string]bool{}
		for range 100 {
			seen[mustNext(t, s, t0).Key.Sink] = true
		}
		if len(seen) != 100 {
			t.Fatalf("round %d: %d sinks, want each of 100 once", round, len(seen))
		}
	}
	mustWake(t, s, t0, sec(3600))
}

func TestFairness_ClassesShare12To3To1(t *testing.T) {
	for _, row := range []struct {
		name string
		have []Class
		want [3]int // of 160 dispatches
	}{
		{"all", []Class{Fresh, Retry, Check}, [3]int{120, 30, 10}},
		{"fresh and retry", []Class{Fresh, Retry}, [3]int{128, 32, 0}},
		{"retry and check", []Class{Retry, Check}, [3]int{0, 120, 40}},
		{"check alone", []Class{Check}, [3]int{0, 0, 160}},
	} {
		t.Run(row.name, func(t *testing.T) {
			s := New(Options{})
			s.ConfigureSink("a", Limits{MaxInFlight: 1000})
			for _, c := range row.have {
				for i := range 160 {
					s.Set(key("a", fmt.Sprint(c, i)), plan(t0, c))
				}
			}
			var got [3]int
			for range 160 {
				got[mustNext(t, s, t0).Class]++
			}
			for c := range got {
				if d := got[c] - row.want[c]; d < -2 || d > 2 {
					t.Fatalf("dispatches by class: %v, want about %v", got, row.want)
				}
			}
		})
	}
}

func TestFairness_FreshWorkOvertakesAnOldBacklog(t *testing.T) {
	s := New(Options{})
	s.ConfigureSink("a", Limits{MaxInFlight: 1000})
	fill(s, "a", 500, sec(-60), Check)
	for range 100 {
		mustNext(t, s, t0)
	}
	s.Set(key("a", "new"), plan(t0, Fresh))
	first := mustNext(t, s, t0)
	second := mustNext(t, s, t0)
	if first.Class != Fresh && second.Class != Fresh {
		t.Fatal("fresh work waits behind checks")
	}
}

func TestFairness_AClassThatWasIdleHasSavedNothingUp(t *testing.T) {
	s := New(Options{})
	s.ConfigureSink("a", Limits{MaxInFlight: 10000})
	fill(s, "a", 2000, t0, Fresh)
	for range 1000 {
		mustNext(t, s, t0)
	}
	for i := range 100 {
		s.Set(key("a", fmt.Sprint("check", i)), plan(t0, Check))
	}
	checks := 0
	for range 130 {
		if mustNext(t, s, t0).Class == Check {
			checks++
		}
	}
	if checks != 10 {
		t.Fatalf("%d checks in 130 dispatches, want 10", checks)
	}
}

func TestOrder_WithinAClassByDueTime(t *testing.T) {
	s := with("a")
	due := []float64{5, 3, 9, 1, 7, 2, 8}
	for _, n := range due {
		s.Set(key("a", fmt.Sprint(n)), plan(sec(n), Fresh))
	}
	s.Set(key("a", "5"), plan(sec(0), Fresh)) // moved to the front
	s.Set(key("a", "1"), plan(sec(6), Fresh)) // moved back
	s.Remove(key("a", "3"))
	var got []string
	for range 6 {
		got = append(got, mustNext(t, s, sec(10)).Key.Name)
	}
	if want := []string{"5", "2", "1", "7", "8", "9"}; !slices.Equal(got, want) {
		t.Fatalf("%v, want %v", got, want)
	}
}

func TestLimit_InFlightOfASink(t *testing.T) {
	s := New(Options{})
	s.ConfigureSink("a", Limits{MaxInFlight: 2})
	fill(s, "a", 5, t0, Fresh)
	d := mustNext(t, s, t0)
	mustNext(t, s, t0)
	mustNone(t, s, t0)
	mustWake(t, s, t0, time.Time{})
	s.Done(d.Key, t0, answered) // held, and no longer in flight
	mustNext(t, s, t0)
	mustNone(t, s, t0)
}

func TestLimit_InFlightOverAll(t *testing.T) {
	s := New(Options{MaxInFlight: 3})
	for _, n := range []string{"a", "b"} {
		s.ConfigureSink(n, Limits{})
		fill(s, n, 5, t0, Fresh)
	}
	d := mustNext(t, s, t0)
	mustNext(t, s, t0)
	mustNext(t, s, t0)
	mustNone(t, s, t0)
	if at, ok := s.Wake(t0); ok {
		t.Fatalf("Wake says %v, though only a Done helps", at)
	}
	s.Done(d.Key, t0, answered) // held, and no longer in flight
	mustNext(t, s, t0)
	mustNone(t, s, t0)
}

func TestLimit_Rate(t *testing.T) {
	s := New(Options{})
	s.ConfigureSink("a", Limits{Rate: 10, Burst: 3})
	fill(s, "a", 60, t0, Fresh)
	for range 3 {
		mustNext(t, s, t0)
	}
	mustNone(t, s, t0)
	mustWake(t, s, t0, sec(0.1))
	for i := range 20 {
		mustNext(t, s, sec(0.1*float64(i+1)))
		mustNone(t, s, sec(0.1*float64(i+1)))
	}
	for range 3 { // a lull saves up the burst and no more
		mustNext(t, s, sec(100))
	}
	mustNone(t, s, sec(100))
}

func TestLimit_RateSpendsOneForABatch(t *testing.T) {
	s := New(Options{})
	s.ConfigureSink("a", Limits{Rate: 1, Burst: 1, BatchMax: 21})
	fill(s, "a", 60, t0, Fresh)
	if b := s.NextOf(mustNext(t, s, t0), t0, nil); len(b) != 20 {
		t.Fatalf("a batch of %d", len(b))
	}
	mustWake(t, s, t0, sec(1))
}

func TestLimit_ALowerRateForgivesAndAHigherDoesNotWaitForTheOld(t *testing.T) {
	s := New(Options{})
	s.ConfigureSink("a", Limits{Rate: 0.001})
	fill(s, "a", 60, t0, Fresh)
	mustNext(t, s, t0)
	mustWake(t, s, t0, sec(1000))
	s.ConfigureSink("a", Limits{Rate: 2, Burst: 1})
	mustWake(t, s, t0, sec(0.5))
	s.ConfigureSink("a", Limits{})
	mustWake(t, s, t0, t0)
}

func TestLimit_ASinkThatLeftHasSpentNothing(t *testing.T) {
	s := New(Options{})
	s.ConfigureSink("a", Limits{Rate: 0.001})
	fill(s, "a", 60, t0, Fresh)
	mustNext(t, s, t0)
	s.RemoveSink("a")
	s.ConfigureSink("a", Limits{Rate: 0.001})
	mustNext(t, s, t0)
	mustNone(t, s, t0)
}

func TestLimit_OddValuesAreDefaults(t *testing.T) {
	for _, l := range []Limits{
		{}, {MaxInFlight: -1, Rate: -1, Burst: -1, BreakerAfter: -1, ProbeBase: -1, ProbeMax: -1}, {Rate: math.NaN()}, {Rate: math.Inf(1)},
	} {
		got := l.withDefaults()
		if got.MaxInFlight != 64 || got.Rate != 0 || got.Burst != 1 || got.BreakerAfter != 5 || got.ProbeBase.Seconds() != 2 || got.ProbeMax.Minutes() != 1 {
			t.Errorf("%+v became %+v", l, got)
		}
	}
	s := New(Options{})
	for _, l := range []Limits{{Rate: 1e300}, {Rate: 1e-300, Burst: 1 << 40}, {BreakerAfter: 1 << 40}} {
		s.ConfigureSink("a", l)
		fill(s, "a", 10, t0, Fresh)
		mustNext(t, s, t0)
		s.Wake(sec(1e9))
	}
}

// What is decided must not depend on the hash's seed or the order of maps.
func TestDeterministic(t *testing.T) {
	history := func() (all []string) {
		s := New(Options{MaxInFlight: 50})
		for i := range 20 {
			n := fmt.Sprintf("s%d", i%7)
			s.ConfigureSink(n, Limits{Rate: float64(i), BatchMax: i})
			fill(s, n, 30*i, sec(float64(i%3)), Class(i%3))
		}
		for i := range 2000 {
			now := sec(float64(i) / 10)
			d, ok := s.Next(now)
			all = append(all, fmt.Sprint(d, ok))
			if ok && i%3 > 0 {
				s.Done(d.Key, now, Report{Answered: i%7 == 0, Unanswered: i%7 > 2})
				s.Settle(d.Key, plan(now.Add(1e9), Retry))
			}
		}
		return all
	}
	if a, b := history(), history(); !slices.Equal(a, b) {
		t.Fatal("two runs differ")
	}
}
