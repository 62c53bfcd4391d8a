package schedule

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/pawlsync/pawl/engine/record"
)

// batching returns a schedule with a sink that takes batches of up to most.
func batching(sink string, most int) *Schedule {
	s := New(Options{})
	s.ConfigureSink(sink, Limits{BatchMax: most})
	return s
}

// nextBatch returns what Next yields with all that NextOf adds, or nil.
func nextBatch(s *Schedule, now time.Time) []Dispatch {
	d, ok := s.Next(now)
	if !ok {
		return nil
	}
	return append([]Dispatch{d}, s.NextOf(d, now, nil)...)
}

// batches takes what there is, and returns the sizes.
func batches(s *Schedule, now time.Time) (sizes []int) {
	for b := nextBatch(s, now); b != nil; b = nextBatch(s, now) {
		sizes = append(sizes, len(b))
	}
	return sizes
}

func end(s *Schedule, now time.Time, b []Dispatch) {
	for _, d := range b {
		s.Done(d.Key, now, answered)
	}
}

func TestBatch_FourFullOnesGoAndTheNextWaitsForAnEnd(t *testing.T) {
	s := batching("a", 100)
	fill(s, "a", 1000, t0, Fresh)
	first := nextBatch(s, t0)
	if got := append([]int{len(first)}, batches(s, t0)...); !slices.Equal(got, []int{100, 100, 100, 100}) {
		t.Fatalf("batches of %v", got)
	}
	mustWake(t, s, t0, time.Time{})
	end(s, t0, first)
	mustWake(t, s, t0, t0)
	if got := batches(s, t0); !slices.Equal(got, []int{100}) {
		t.Fatalf("then batches of %v", got)
	}
}

func TestBatch_ALoneResourceWaitsForNothing(t *testing.T) {
	s := batching("a", 100)
	for i := range 4 { // beside three that may hang
		s.Set(key("a", fmt.Sprint(i)), plan(t0, Fresh))
		if got := batches(s, t0); !slices.Equal(got, []int{1}) {
			t.Fatalf("resource %d: batches of %v", i, got)
		}
	}
}

func TestBatch_BesideALargeOneOnlyWhatIsAQuarterAsLargeGoes(t *testing.T) {
	s := batching("a", 100)
	fill(s, "a", 80, t0, Fresh)
	large := nextBatch(s, t0)
	for i := range 20 {
		s.Set(key("a", fmt.Sprint("x", i)), plan(t0, Fresh))
		mustNone(t, s, t0)
		mustWake(t, s, t0, time.Time{})
	}
	s.Set(key("a", "more"), plan(t0, Fresh))
	if got := batches(s, t0); !slices.Equal(got, []int{21}) {
		t.Fatalf("batches of %v", got)
	}
	s.Set(key("a", "lone"), plan(t0, Fresh))
	mustNone(t, s, t0)
	end(s, t0, large[:77]) // 24 are left
	mustNone(t, s, t0)
	end(s, t0, large[77:])
	mustNone(t, s, t0) // 21
	s.Done(key("a", "more"), t0, answered)
	for i := range 17 {
		s.Done(key("a", fmt.Sprint("x", i)), t0, answered)
	}
	mustNext(t, s, t0) // beside three
}

func TestBatch_RetriesAndChecksDoNotWaitForCompany(t *testing.T) {
	s := batching("a", 100)
	fill(s, "a", 100, t0, Fresh)
	nextBatch(s, t0)
	s.Set(key("a", "fresh"), plan(t0, Fresh))
	s.Set(key("a", "retry"), plan(t0, Retry))
	s.Set(key("a", "check"), plan(sec(1), Check))
	if d := mustNext(t, s, t0); d.Key.Name != "retry" || len(s.NextOf(d, t0, nil)) > 0 {
		t.Fatal(d)
	}
	mustNone(t, s, t0)
	mustWake(t, s, t0, sec(1))
	if d := mustNext(t, s, sec(1)); d.Key.Name != "check" {
		t.Fatal(d)
	}
	mustNone(t, s, sec(1))
}

func TestBatch_IsOneCallUntilTheLastOfItIsDone(t *testing.T) {
	s := New(Options{})
	s.ConfigureSink("a", Limits{MaxInFlight: 2, BatchMax: 10})
	fill(s, "a", 40, t0, Fresh)
	first := nextBatch(s, t0)
	if got := batches(s, t0); !slices.Equal(got, []int{10}) {
		t.Fatalf("batches of %v", got)
	}
	s.Remove(first[9].Key)
	end(s, t0, first[:9])
	mustNone(t, s, t0)
	end(s, t0, first[9:])
	if got := batches(s, t0); !slices.Equal(got, []int{10}) {
		t.Fatalf("then batches of %v", got)
	}
}

func TestBatch_IsOneCallOfThoseOverAllSinks(t *testing.T) {
	s := New(Options{MaxInFlight: 2})
	s.ConfigureSink("a", Limits{BatchMax: 10})
	s.ConfigureSink("b", Limits{})
	fill(s, "a", 10, t0, Fresh)
	fill(s, "b", 10, t0, Fresh)
	if got := batches(s, t0); !slices.Equal(got, []int{10, 1}) {
		t.Fatalf("batches of %v", got)
	}
	if n := s.Stats().InFlight; n != 11 {
		t.Fatalf("%d in flight", n)
	}
}

func TestBatch_AProbeGoesBesideALargeBatch(t *testing.T) {
	s := batching("a", 100)
	fill(s, "a", 100, t0, Fresh)
	b := nextBatch(s, t0)
	s.Set(key("a", "lone"), plan(t0, Fresh))
	for _, d := range b[:5] {
		s.Done(d.Key, t0, unanswered)
	}
	mustNone(t, s, t0)
	if d := mustNext(t, s, sec(2)); !d.Probe || d.Key.Name != "lone" {
		t.Fatal(d)
	}
}

func TestBatch_AnotherSizeTakesOver(t *testing.T) {
	s := batching("a", 100)
	fill(s, "a", 105, t0, Fresh)
	b := nextBatch(s, t0)
	mustNone(t, s, t0)
	s.ConfigureSink("a", Limits{}) // a plugin that takes none, instead of the old one
	if got := batches(s, t0); !slices.Equal(got, []int{1, 1, 1, 1, 1}) {
		t.Fatalf("batches of %v", got)
	}
	end(s, t0, b)
	s.ConfigureSink("a", Limits{MaxInFlight: 1, BatchMax: 3})
	fill(s, "a", 200, t0, Fresh)
	mustNone(t, s, t0) // the five are five calls
}

func TestNextOf_TakesDueOnesOfTheClassThatAreAccepted(t *testing.T) {
	s := batching("a", 10)
	s.ConfigureSink("b", Limits{BatchMax: 10})
	fill(s, "b", 3, sec(4), Fresh)
	for i := range 7 {
		s.Set(key("a", fmt.Sprint("f", i)), plan(sec(float64(i)), Fresh))
		s.Set(key("a", fmt.Sprint("r", i)), plan(sec(1), Retry))
	}
	s.SetUnsure(key("a", "f3"), true)
	first := mustNext(t, s, sec(0.5))
	var got []string
	for _, d := range s.NextOf(first, sec(4), func(k record.Key) bool { return k.Name != "f1" }) {
		got = append(got, fmt.Sprint(d.Key.Name, " ", d.Class, " ", d.Unsure))
	}
	if want := []string{"f2 fresh false", "f3 fresh true", "f4 fresh false"}; !slices.Equal(got, want) {
		t.Fatalf("%v, want %v", got, want)
	}
	if e, _ := s.Lookup(key("a", "f1")); e.InFlight {
		t.Error("the refused one is in flight")
	}
	if b := s.NextOf(first, sec(4), nil); len(b) != 1 || b[0].Key.Name != "f1" {
		t.Errorf("the refused one is not offered again: %v", b)
	}
	s.Done(first.Key, sec(4), answered)
	for _, d := range []Dispatch{first, {Key: key("nobody", "f0")}, {Key: key("a", "r1")}, {Key: key("a", "f6")}} {
		if b := s.NextOf(d, sec(9), nil); len(b) != 0 {
			t.Errorf("%v brings along %v", d, b)
		}
	}
}

func TestNextOf_AsksForABoundedNumber(t *testing.T) {
	s := batching("a", 11)
	fill(s, "a", 1000, t0, Fresh)
	asked := 0
	s.NextOf(mustNext(t, s, t0), t0, func(record.Key) bool { asked++; return false })
	if asked != 56 {
		t.Fatalf("asked for %d", asked)
	}
	if w := s.Sinks()[0].Waiting; w != [3]int{999, 0, 0} {
		t.Fatal(w)
	}
}
