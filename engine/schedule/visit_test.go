package schedule

import (
	"testing"
	"time"
)

func mustVisit(t *testing.T, s *Schedule, now time.Time, want Block, until time.Time) {
	t.Helper()
	if got, at := s.Visit("a", now); got != want || !at.Equal(until) {
		t.Fatalf("visit at +%v: %d until %v, want %d until %v", now.Sub(t0), got, at, want, until)
	}
}

func TestVisit_SharesTheRateWithDispatches(t *testing.T) {
	s := New(Options{})
	s.ConfigureSink("a", Limits{Rate: 1, Burst: 2})
	fill(s, "a", 3, t0, Fresh)
	mustVisit(t, s, t0, Open, time.Time{})
	mustNext(t, s, t0)
	mustNone(t, s, t0)
	mustVisit(t, s, t0, Spent, sec(1))
	mustVisit(t, s, sec(1), Open, time.Time{})
	mustNone(t, s, sec(1))
	mustWake(t, s, sec(1), sec(2))
	mustNext(t, s, sec(2))
}

func TestVisit_IsKeptFromASinkAsDispatchesAre(t *testing.T) {
	s := open(t, 5)
	mustVisit(t, s, t0, Broken, sec(2))
	mustVisit(t, s, sec(3), Broken, sec(2)) // it is no probe
	mustNext(t, s, sec(3))

	s = with("a")
	s.PauseSink("a", sec(10))
	mustVisit(t, s, sec(9), Pausing, sec(10))
	mustVisit(t, s, sec(10), Open, time.Time{})
	s.SuspendSink("a", true)
	mustVisit(t, s, sec(10), Suspending, time.Time{})

	mustVisit(t, New(Options{}), t0, Suspending, time.Time{}) // not configured
}
