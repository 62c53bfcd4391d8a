package schedule

import (
	"fmt"
	"testing"
	"time"

	"github.com/pawlsync/pawl/engine/record"
)

var (
	answered   = Report{Answered: true}
	unanswered = Report{Unanswered: true}
)

// call delivers the next resource, reports r, and plans it for later.
func call(t *testing.T, s *Schedule, now time.Time, r Report, next time.Time) (Dispatch, Verdict) {
	t.Helper()
	d := mustNext(t, s, now)
	v := s.Done(d.Key, now, r)
	s.Settle(d.Key, plan(next, d.Class))
	return d, v
}

// open opens the breaker of sink "a", which has n resources due at t0. Those that
// failed are due again 2 s later.
func open(t *testing.T, n int) *Schedule {
	t.Helper()
	s := with("a")
	fill(s, "a", n, t0, Fresh)
	for i := range 5 {
		if _, v := call(t, s, t0, unanswered, sec(2)); v.Opened != (i == 4) || v.Charge {
			t.Fatalf("call %d: %+v", i, v)
		}
	}
	return s
}

func TestR42_PauseHoldsTheSinkAndNoOther(t *testing.T) {
	s := with("a", "b")
	fill(s, "a", 1, t0, Fresh)
	s.PauseSink("a", sec(10))
	mustNone(t, s, t0)
	mustWake(t, s, t0, sec(10))
	fill(s, "b", 1, t0, Fresh)
	if d := mustNext(t, s, t0); d.Key.Sink != "b" {
		t.Fatal(d)
	}
	mustNone(t, s, sec(9.999))
	mustNext(t, s, sec(10))
}

func TestR42_LaterPauseWins(t *testing.T) {
	s := with("a")
	fill(s, "a", 1, t0, Fresh)
	s.PauseSink("a", sec(10))
	s.PauseSink("a", sec(5))
	mustWake(t, s, t0, sec(10))
	s.PauseSink("a", sec(20))
	mustWake(t, s, t0, sec(20))
	s.PauseSink("a", time.Time{})
	mustWake(t, s, t0, t0)
}

func TestR42_PauseAlsoHoldsBatches(t *testing.T) {
	s := batching("a", 9)
	fill(s, "a", 3, t0, Fresh)
	d := mustNext(t, s, t0)
	s.PauseSink("a", sec(1))
	if b := s.NextOf(d, t0, nil); b != nil {
		t.Fatal(b)
	}
}

func TestR43_OpensAfterDistinctResourcesUnanswered(t *testing.T) {
	s := open(t, 10)
	mustNone(t, s, t0)
	mustWake(t, s, t0, sec(2))
	if st := s.Sinks()[0]; st.Breaker != BreakerOpen || !st.NextProbe.Equal(sec(2)) {
		t.Fatalf("%+v", st)
	}
}

func TestR43_OneResourceAloneNeverOpens(t *testing.T) {
	s := with("a")
	fill(s, "a", 1, t0, Fresh)
	for i := range 50 {
		if _, v := call(t, s, sec(float64(i)), unanswered, sec(float64(i+1))); v != (Verdict{}) {
			t.Fatalf("call %d: %+v", i, v)
		}
	}
}

func TestR43_AnAnswerBetweenStartsTheCountAnew(t *testing.T) {
	s := with("a")
	fill(s, "a", 20, t0, Fresh)
	for i := range 20 {
		r := unanswered
		if i%5 == 4 {
			r = answered
		}
		if _, v := call(t, s, t0, r, sec(99)); v.Opened {
			t.Fatalf("opened at call %d", i)
		}
	}
}

func TestR43_NoCallMadeSaysNothing(t *testing.T) {
	s := with("a")
	fill(s, "a", 20, t0, Fresh)
	for i := range 9 {
		r := unanswered
		if i%2 == 1 {
			r = Report{}
		}
		if _, v := call(t, s, t0, r, sec(99)); v.Opened != (i == 8) {
			t.Fatalf("call %d: %+v", i, v)
		}
	}
}

func TestR43_ProbesDoubleToTheirMaximum(t *testing.T) {
	s := open(t, 100)
	now := t0
	for i, wait := range []time.Duration{2, 4, 8, 16, 32, 60, 60} {
		wait *= time.Second
		mustWake(t, s, now, now.Add(wait))
		mustNone(t, s, now.Add(wait-1))
		now = now.Add(wait)
		d := mustNext(t, s, now)
		if !d.Probe {
			t.Fatalf("probe %d isn't one", i)
		}
		mustNone(t, s, now.Add(time.Hour)) // one at a time
		if st := s.Sinks()[0]; st.Breaker != BreakerHalfOpen {
			t.Fatal(st.Breaker)
		}
		now = now.Add(time.Hour)
		if v := s.Done(d.Key, now, unanswered); v != (Verdict{}) {
			t.Fatalf("probe %d: %+v", i, v)
		}
		s.Settle(d.Key, plan(now.Add(2*time.Second), Retry))
	}
}

func TestR43_ProbesRotateOverResources(t *testing.T) {
	s := open(t, 12)
	probed := map[string]int{}
	now := t0
	for range 24 {
		at, _ := s.Wake(now)
		now = at
		d, _ := call(t, s, now, unanswered, now.Add(2*time.Second))
		probed[d.Key.Name]++
	}
	for name, n := range probed {
		if n != 2 || len(probed) != 12 {
			t.Fatalf("%s probed %d times; all: %v", name, n, probed)
		}
	}
}

func TestR43_AProbeIsNotRepeatedThoughItIsFirst(t *testing.T) {
	for _, other := range []Class{Fresh, Check} {
		s := open(t, 5)
		fill(s, "a", 5, sec(1e6), Fresh)
		s.Set(key("a", "first"), plan(t0, Fresh))
		s.Set(key("a", "second"), plan(sec(1), other))
		now, last := t0, ""
		for i := range 6 {
			now, _ = s.Wake(now)
			d := mustNext(t, s, now)
			if d.Key.Name == last {
				t.Fatalf("other of class %v: probe %d is %s again", other, i, last)
			}
			last = d.Key.Name
			s.Done(d.Key, now, unanswered)
			s.Release(d.Key) // due by its old plan
		}
	}
}

func TestR43_TheOnlyResourceIsProbedAgain(t *testing.T) {
	s := open(t, 5)
	fill(s, "a", 5, sec(1e6), Fresh)
	s.Set(key("a", "only"), plan(t0, Fresh))
	for _, at := range []float64{2, 6} {
		if d, _ := call(t, s, sec(at), unanswered, t0); d.Key.Name != "only" || !d.Probe {
			t.Fatal(d)
		}
	}
}

func TestR43_AProbeThatMadeNoCallLetsTheNextGo(t *testing.T) {
	s := open(t, 10)
	d, _ := call(t, s, sec(2), Report{}, sec(99))
	e := mustNext(t, s, sec(2))
	if !e.Probe || e.Key == d.Key {
		t.Fatal(d, e)
	}
}

func TestR43_AnyAnswerCloses(t *testing.T) {
	t.Run("a probe's", func(t *testing.T) {
		s := open(t, 10)
		if _, v := call(t, s, sec(2), answered, sec(99)); !v.Closed {
			t.Fatal(v)
		}
		for range 9 {
			if d := mustNext(t, s, sec(2)); d.Probe {
				t.Fatal("still probing")
			}
		}
	})
	t.Run("a late one's, while a probe is in flight", func(t *testing.T) {
		s := with("a")
		fill(s, "a", 20, t0, Fresh)
		late := mustNext(t, s, t0)
		for range 5 {
			call(t, s, t0, unanswered, sec(99))
		}
		probe := mustNext(t, s, sec(2))
		if v := s.Done(late.Key, sec(2), answered); !v.Closed {
			t.Fatal(v)
		}
		if d := mustNext(t, s, sec(2)); d.Probe {
			t.Fatal("still probing")
		}
		if v := s.Done(probe.Key, sec(3), unanswered); v.Opened {
			t.Fatal("the old probe opened it again")
		}
	})
}

func TestR43_LateUnansweredCallsDoNotPutOffTheProbe(t *testing.T) {
	s := with("a")
	fill(s, "a", 20, t0, Fresh)
	late := mustNext(t, s, t0)
	for range 5 {
		call(t, s, t0, unanswered, sec(99))
	}
	if v := s.Done(late.Key, sec(1), unanswered); v != (Verdict{}) {
		t.Fatal(v)
	}
	mustWake(t, s, sec(1), sec(2))
}

func TestR43_NoBatchWhileOpen(t *testing.T) {
	s := open(t, 10)
	s.ConfigureSink("a", Limits{BatchMax: 9})
	d := mustNext(t, s, sec(2))
	if b := s.NextOf(d, sec(2), nil); b != nil {
		t.Fatal(b)
	}
}

func TestR43_ARemovedProbeDoesNotBlock(t *testing.T) {
	s := open(t, 10)
	d := mustNext(t, s, sec(2))
	s.Remove(d.Key)
	mustNone(t, s, sec(2))
	s.Done(d.Key, sec(3), unanswered)
	mustWake(t, s, sec(3), sec(7))
	mustNext(t, s, sec(7))
}

func TestR43_ADeadTargetDelaysNoOther(t *testing.T) {
	s := open(t, 1000)
	s.ConfigureSink("b", Limits{MaxInFlight: 1000})
	fill(s, "b", 1000, t0, Fresh)
	for range 1000 {
		if d := mustNext(t, s, t0); d.Key.Sink != "b" {
			t.Fatal(d)
		}
	}
}

func TestR43_AttemptsBurnOnlyWhereSiblingsAreAnswered(t *testing.T) {
	type event struct {
		at       float64
		name     string
		answered bool
	}
	for _, row := range []struct {
		name            string
		before          []event // calls of others
		failed, started float64 // of x; failed -1: never
		charge          bool
	}{
		{name: "no sibling was ever answered", failed: 5, started: 7},
		{name: "never failed, no sibling was ever answered", failed: -1, started: 7},
		{name: "a sibling since the last failure", before: []event{{6, "y", true}}, failed: 5, started: 7, charge: true},
		{name: "a sibling before the last failure", before: []event{{4, "y", true}}, failed: 5, started: 7},
		{name: "a sibling at the last failure", before: []event{{5, "y", true}}, failed: 5, started: 7},
		{name: "x itself since", before: []event{{6, "x", true}}, failed: 5, started: 7},
		{name: "x itself, a sibling before that", before: []event{{6, "y", true}, {6.5, "x", true}}, failed: 5, started: 7, charge: true},
		{name: "x itself, a sibling too long before", before: []event{{4, "y", true}, {6.5, "x", true}}, failed: 5, started: 7},
		{name: "never failed, a sibling during the call", before: []event{{8, "y", true}}, failed: -1, started: 7, charge: true},
		{name: "never failed, a sibling before the call", before: []event{{6, "y", true}}, failed: -1, started: 7},
		{name: "the call that opens the breaker", before: []event{{6, "y", true},
			{7, "1", false}, {7, "2", false}, {7, "3", false}, {7, "4", false}}, failed: 5, started: 7},
		{name: "a call that ends after the breaker opened", before: []event{{6, "y", true},
			{7, "1", false}, {7, "2", false}, {7, "3", false}, {7, "4", false}, {7, "5", false}}, failed: 5, started: 7},
	} {
		t.Run(row.name, func(t *testing.T) {
			s := with("a")
			run := func(name string, at float64) record.Key {
				k := key("a", name)
				s.Set(k, plan(sec(at), Fresh))
				if d := mustNext(t, s, sec(at)); d.Key != k {
					t.Fatal(d)
				}
				return k
			}
			done := func(e event) {
				k := run(e.name, min(e.at, row.started))
				s.Done(k, sec(e.at), Report{Answered: e.answered, Unanswered: !e.answered, Started: sec(e.at)})
				s.Settle(k, Plan{})
			}
			var x record.Key
			for _, e := range row.before {
				if e.at >= row.started && x.Name == "" {
					x = run("x", row.started)
				}
				done(e)
			}
			if x.Name == "" {
				x = run("x", row.started)
			}
			r := Report{Unanswered: true, Started: sec(row.started)}
			if row.failed >= 0 {
				r.Failed = sec(row.failed)
			}
			if v := s.Done(x, sec(9), r); v.Charge != row.charge {
				t.Errorf("charged %v, want %v", v.Charge, row.charge)
			}
		})
	}
}

func TestR43_AnswersOfResourcesThatAreGoneStillCount(t *testing.T) {
	s := with("a")
	y, x := key("a", "y"), key("a", "x")
	s.Set(y, plan(t0, Fresh))
	mustNext(t, s, t0)
	s.Done(y, sec(6), answered)
	s.Remove(y)
	s.Set(x, plan(t0, Fresh)) // takes its place in memory
	mustNext(t, s, sec(7))
	if v := s.Done(x, sec(8), Report{Unanswered: true, Failed: sec(5), Started: sec(7)}); !v.Charge {
		t.Fatal("not charged")
	}
}

func TestR43_StrikesOfResourcesThatAreGoneStillCount(t *testing.T) {
	s := with("a")
	for i := range 5 {
		k := key("a", fmt.Sprint(i))
		s.Set(k, plan(t0, Fresh))
		mustNext(t, s, t0)
		if v := s.Done(k, t0, unanswered); v.Opened != (i == 4) {
			t.Fatalf("call %d: %+v", i, v)
		}
		s.Remove(k)
	}
}

func TestR44_UnauthorisedOpensAsUnreachableDoesAndSurvivesNewLimits(t *testing.T) {
	s := open(t, 10)
	mustWake(t, s, t0, sec(2))
	s.ConfigureSink("a", Limits{ProbeBase: time.Second, ProbeMax: time.Second})
	mustWake(t, s, t0, sec(1))
	call(t, s, sec(1), unanswered, sec(99))
	mustWake(t, s, sec(1), sec(2))
	s.RemoveSink("a")
	s.ConfigureSink("a", Limits{})
	if st := s.Sinks()[0]; st.Breaker != BreakerClosed {
		t.Fatalf("a sink that left and came back is %v", st.Breaker)
	}
}

func TestR40_AClockSetBackLengthensNoWait(t *testing.T) {
	const year = 365 * 24 * time.Hour
	for _, row := range []struct {
		name string
		make func(t *testing.T) *Schedule // something is due in 10 s
	}{
		{"backoff", func(t *testing.T) *Schedule {
			s := with("a")
			s.Set(key("a", "x"), plan(sec(10), Retry))
			return s
		}},
		{"pause", func(t *testing.T) *Schedule {
			s := with("a")
			fill(s, "a", 1, t0, Fresh)
			s.PauseSink("a", sec(10))
			return s
		}},
		{"probe", func(t *testing.T) *Schedule {
			s := open(t, 10)
			s.ConfigureSink("a", Limits{ProbeBase: 10 * time.Second})
			call(t, s, sec(2), answered, sec(99))
			for range 5 {
				call(t, s, t0, unanswered, t0)
			}
			return s
		}},
		{"rate", func(t *testing.T) *Schedule {
			s := New(Options{})
			s.ConfigureSink("a", Limits{Rate: 0.1})
			fill(s, "a", 2, t0, Fresh)
			mustNext(t, s, t0)
			return s
		}},
	} {
		t.Run(row.name, func(t *testing.T) {
			s := row.make(t)
			start, ok := s.Wake(t0)
			if wait := start.Sub(t0); !ok || wait < 10*time.Second || wait > 12*time.Second {
				t.Fatalf("waits %v at first", wait)
			}
			at := start.Add(-6 * time.Second)
			mustNone(t, s, at)
			at = at.Add(-year)
			mustWake(t, s, at, at.Add(6*time.Second))
			mustNone(t, s, at.Add(6*time.Second-1))
			mustNext(t, s, at.Add(6*time.Second))
		})
	}
}

func TestR40_ABackoffSeenAfterTheClockWasSetBack(t *testing.T) {
	s := with("a")
	s.Set(key("a", "x"), plan(sec(10), Retry))
	s.Wake(t0)
	s.Wake(sec(-3600))
	if e, _ := s.Lookup(key("a", "x")); !e.At.Equal(sec(-3590)) {
		t.Fatal(e.At)
	}
}

func TestCallersClocksMayRace(t *testing.T) {
	s := with("a")
	for i := range 1000 { // each reads its clock 1 ms before the one that came first
		s.Set(key("a", "x"), plan(sec(1e6), Retry))
		s.Wake(sec(float64(i)))
		s.Wake(sec(float64(i) - 0.001))
	}
	mustWake(t, s, sec(1000), sec(1e6))
}

func TestTimesFarAway(t *testing.T) {
	s := with("a")
	s.Set(key("a", "past"), plan(time.Date(1, 2, 3, 0, 0, 0, 0, time.UTC), Fresh))
	s.Set(key("a", "future"), plan(time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC), Fresh))
	s.PauseSink("a", time.Date(-9999, 1, 1, 0, 0, 0, 0, time.UTC))
	if d := mustNext(t, s, t0); d.Key.Name != "past" {
		t.Fatal(d)
	}
	mustNone(t, s, t0)
	for i := range 9 { // a clock that went mad
		s.Wake(time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC))
		now := t0
		if i%2 == 0 {
			s.Wake(time.Time{})
		}
		s.Wake(now)
		k := key("a", "x")
		s.Set(k, plan(now.Add(10*time.Second), Check))
		s.Remove(key("a", "future")) // it has become due
		mustWake(t, s, now, now.Add(10*time.Second))
		mustNone(t, s, now.Add(9*time.Second))
		call(t, s, now.Add(10*time.Second), answered, time.Time{})
	}
}
