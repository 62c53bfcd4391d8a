package schedule

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pawlsync/pawl/engine/record"
)

var t0 = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func sec(n float64) time.Time { return t0.Add(time.Duration(n * float64(time.Second))) }

func key(sink, name string) record.Key { return record.Key{Sink: sink, Name: name} }

func plan(at time.Time, c Class) Plan { return Plan{At: at, Class: c, Phase: record.Pending} }

// with returns a schedule with sinks that have the default limits.
func with(sinks ...string) *Schedule {
	s := New(Options{})
	for _, n := range sinks {
		s.ConfigureSink(n, Limits{})
	}
	return s
}

// fill sets n entries of a sink, due at at, named 0000, 0001 and so on.
func fill(s *Schedule, sink string, n int, at time.Time, c Class) {
	for i := range n {
		s.Set(key(sink, fmt.Sprintf("%04d", i)), plan(at, c))
	}
}

func mustNext(t *testing.T, s *Schedule, now time.Time) Dispatch {
	t.Helper()
	d, ok := s.Next(now)
	if !ok {
		t.Fatalf("Next at +%v: nothing, want a dispatch", now.Sub(t0))
	}
	return d
}

func mustNone(t *testing.T, s *Schedule, now time.Time) {
	t.Helper()
	if d, ok := s.Next(now); ok {
		t.Fatalf("Next at +%v: %v, want nothing", now.Sub(t0), d)
	}
}

func mustWake(t *testing.T, s *Schedule, now, want time.Time) {
	t.Helper()
	got, ok := s.Wake(now)
	if ok != !want.IsZero() || ok && !got.Equal(want) {
		t.Fatalf("Wake at +%v: %v, %v; want %v", now.Sub(t0), got, ok, want)
	}
}

// The table of states in the package's documentation, row by row.
func TestStates(t *testing.T) {
	k := key("a", "x")
	states := map[string]func(s *Schedule){
		"absent":  func(s *Schedule) {},
		"waiting": func(s *Schedule) { s.Set(k, plan(t0, Fresh)) },
		"in flight": func(s *Schedule) {
			s.Set(k, plan(t0, Fresh))
			s.Next(t0)
		},
		"removed": func(s *Schedule) {
			s.Set(k, plan(t0, Fresh))
			s.Next(t0)
			s.Remove(k)
		},
		"held": func(s *Schedule) {
			s.Set(k, plan(t0, Fresh))
			s.Next(t0)
			s.Done(k, t0, Report{})
		},
	}
	later := plan(sec(9), Retry)
	ops := map[string]func(s *Schedule){
		"Set":     func(s *Schedule) { s.Set(k, later) },
		"Remove":  func(s *Schedule) { s.Remove(k) },
		"Next":    func(s *Schedule) { s.Next(t0) },
		"Done":    func(s *Schedule) { s.Done(k, t0, Report{}) },
		"Settle":  func(s *Schedule) { s.Settle(k, later) },
		"Release": func(s *Schedule) { s.Release(k) },
	}
	state := func(s *Schedule) string {
		e, ok := s.Lookup(k)
		switch {
		case !ok:
			return "absent"
		case e.Removed:
			return "removed"
		case e.InFlight && e.Held:
			return "in flight and held"
		case e.InFlight:
			return "in flight"
		case e.Held:
			return "held"
		}
		return "waiting"
	}
	for _, row := range []struct{ from, op, to string }{
		{"absent", "Set", "waiting"}, {"absent", "Remove", "absent"}, {"absent", "Next", "absent"},
		{"absent", "Done", "absent"}, {"absent", "Settle", "waiting"}, {"absent", "Release", "absent"},
		{"waiting", "Set", "waiting"}, {"waiting", "Remove", "absent"}, {"waiting", "Next", "in flight"},
		{"waiting", "Done", "waiting"}, {"waiting", "Settle", "waiting"}, {"waiting", "Release", "waiting"},
		{"in flight", "Set", "in flight"}, {"in flight", "Remove", "removed"}, {"in flight", "Next", "in flight"},
		{"in flight", "Done", "held"}, {"in flight", "Settle", "in flight"}, {"in flight", "Release", "in flight"},
		{"removed", "Set", "in flight"}, {"removed", "Remove", "removed"}, {"removed", "Next", "removed"},
		{"removed", "Done", "absent"}, {"removed", "Settle", "in flight"}, {"removed", "Release", "removed"},
		{"held", "Set", "held"}, {"held", "Remove", "absent"}, {"held", "Next", "held"},
		{"held", "Done", "held"}, {"held", "Settle", "waiting"}, {"held", "Release", "waiting"},
	} {
		t.Run(row.from+"/"+row.op, func(t *testing.T) {
			s := with("a")
			states[row.from](s)
			if got := state(s); got != row.from {
				t.Fatalf("before: %s", got)
			}
			ops[row.op](s)
			if got := state(s); got != row.to {
				t.Fatalf("after: %s, want %s", got, row.to)
			}
			e, ok := s.Lookup(k)
			if changed := row.op == "Set" || row.op == "Settle"; ok && changed != e.At.Equal(later.At) {
				t.Errorf("due at %v, changed by %s: want %v", e.At, row.op, changed)
			}
			wantLen := 1
			if row.to == "absent" || row.to == "removed" {
				wantLen = 0
			}
			if s.Len() != wantLen {
				t.Errorf("Len %d, want %d", s.Len(), wantLen)
			}
		})
	}
}

func TestPutDuringDeliveryIsDeliveredAfterSettle(t *testing.T) {
	s, k := with("a"), key("a", "x")
	s.Set(k, plan(t0, Fresh))
	mustNext(t, s, t0)
	s.Set(k, plan(t0, Fresh)) // a Put
	mustNone(t, s, t0)
	s.Done(k, t0, Report{Answered: true})
	mustNone(t, s, t0)
	s.Set(k, plan(t0, Fresh)) // another
	mustNone(t, s, t0)
	s.Settle(k, plan(t0, Fresh))
	mustNext(t, s, t0)
}

func TestReleaseMakesTheLastPlanDueAgain(t *testing.T) {
	s, k := with("a"), key("a", "x")
	s.Set(k, plan(t0, Fresh))
	mustNext(t, s, t0)
	s.Set(k, plan(sec(3), Retry))
	s.Done(k, t0, Report{})
	s.Release(k)
	mustWake(t, s, t0, sec(3))
	if d := mustNext(t, s, sec(3)); d.Class != Retry {
		t.Fatalf("class %v, want retry", d.Class)
	}
}

func TestNewLifeWaitsForTheOldLifesCall(t *testing.T) {
	s, k := with("a"), key("a", "x")
	s.Set(k, plan(t0, Fresh))
	mustNext(t, s, t0)
	s.Remove(k)
	s.Set(k, plan(t0, Fresh))
	mustNone(t, s, t0)
	s.Done(k, t0, Report{Answered: true})
	s.Settle(k, plan(t0, Fresh))
	mustNext(t, s, t0)
}

func TestParkedIsNeverDue(t *testing.T) {
	s, k := with("a"), key("a", "x")
	s.Set(k, Plan{Phase: record.Failed})
	mustNone(t, s, sec(1e9))
	mustWake(t, s, sec(1e9), time.Time{})
	if e, ok := s.Lookup(k); !ok || !e.At.IsZero() || e.Phase != record.Failed {
		t.Fatalf("Lookup: %+v, %v", e, ok)
	}
}

func TestUnsure(t *testing.T) {
	s, k := with("a"), key("a", "x")
	s.SetUnsure(k, true)
	if s.Unsure(k) {
		t.Error("an unknown key became unsure")
	}
	s.Set(k, plan(t0, Fresh))
	s.SetUnsure(k, true)
	if d := mustNext(t, s, t0); !d.Unsure || !s.Unsure(k) {
		t.Error("not unsure in flight")
	}
	s.Done(k, t0, Report{})
	s.Settle(k, plan(t0, Fresh))
	if !s.Unsure(k) {
		t.Error("a new plan made it sure")
	}
	s.SetUnsure(k, false)
	if s.Unsure(k) {
		t.Error("still unsure")
	}
	s.SetUnsure(k, true)
	s.Remove(k)
	s.Set(k, plan(t0, Fresh))
	if s.Unsure(k) {
		t.Error("unsure from an earlier life")
	}
}

func TestLookupReturnsThePlan(t *testing.T) {
	s := New(Options{})
	for i, p := range record.Phases() {
		want := Plan{At: sec(float64(i)), Class: Class(i % 3), Phase: p, Since: sec(float64(-i))}
		s.Set(key("a", string(p)), want)
		if e, ok := s.Lookup(key("a", string(p))); !ok || e.Plan != want {
			t.Errorf("%s: got %+v, %v; want %+v", p, e.Plan, ok, want)
		}
	}
	s.Set(key("a", "odd"), Plan{Class: 77, Phase: "Odd"})
	if e, _ := s.Lookup(key("a", "odd")); e.Class != Check || e.Phase != "" {
		t.Errorf("odd: %+v", e)
	}
	if _, ok := s.Lookup(key("b", "x")); ok {
		t.Error("found in a sink that doesn't exist")
	}
}

func TestNameTooLongIsIgnored(t *testing.T) {
	s := with("a")
	long := key("a", strings.Repeat("x", record.MaxKeyBytes+1))
	s.Set(long, plan(t0, Fresh))
	if _, ok := s.Lookup(long); ok || s.Len() != 0 {
		t.Error("accepted")
	}
	s.Set(key("a", long.Name[1:]), plan(t0, Fresh))
	if d := mustNext(t, s, t0); d.Key.Name != long.Name[1:] {
		t.Errorf("got a name of %d bytes", len(d.Key.Name))
	}
}

func TestSinkStats(t *testing.T) {
	s := with("b", "a")
	s.Set(key("a", "1"), Plan{At: sec(5), Class: Retry, Phase: record.Pending, Since: sec(-9)})
	s.Set(key("a", "2"), Plan{At: sec(0), Class: Fresh, Phase: record.Pending, Since: sec(-7)})
	s.Set(key("a", "3"), Plan{At: sec(600), Class: Check, Phase: record.AckedPhase})
	s.Set(key("a", "4"), Plan{Phase: record.Failed, Since: sec(-8)})
	s.Set(key("c", "1"), Plan{At: sec(0), Phase: record.Pending})
	s.SuspendSink("d", true)
	mustNext(t, s, t0)
	s.PauseSink("a", sec(30))
	all := s.Sinks()
	if got := fmt.Sprint(len(all), all[0].Name, all[1].Name, all[2].Name, all[3].Name); got != "4abcd" {
		t.Fatal(got)
	}
	a, c, d := all[0], all[2], all[3]
	if a.Entries != 4 || a.Phases[record.Pending] != 2 || a.Phases[record.AckedPhase] != 1 || a.Waiting != [3]int{0, 1, 1} ||
		a.InFlight != 1 || !a.Oldest.Equal(sec(-9)) || !a.Paused.Equal(sec(30)) || !a.Due.Equal(sec(5)) || a.Breaker.String() != "closed" {
		t.Errorf("a: %+v", a)
	}
	if c.Configured || c.Entries != 1 || !d.Suspended || d.Configured {
		t.Errorf("c: %+v\nd: %+v", c, d)
	}
	s.Set(key("a", "1"), Plan{Phase: record.AckedPhase})
	s.Remove(key("a", "4"))
	s.Remove(key("a", "2")) // in flight
	if a := s.Sinks()[0]; !a.Oldest.IsZero() || a.Entries != 2 || a.Phases[record.Pending] != 0 {
		t.Errorf("a: %+v", a)
	}
	if st := s.Stats(); st.Entries != 3 || st.InFlight != 1 || st.Held != 0 || st.Bytes == 0 {
		t.Errorf("%+v", st)
	}
}

func TestSinksComeAndGo(t *testing.T) {
	s := New(Options{})
	k := key("a", "x")
	s.Set(k, plan(t0, Fresh))
	mustNone(t, s, t0) // not configured
	s.ConfigureSink("a", Limits{})
	s.SuspendSink("a", true)
	mustNone(t, s, t0)
	s.RemoveSink("a")
	s.ConfigureSink("a", Limits{})
	mustNone(t, s, t0) // still suspended
	s.SuspendSink("a", false)
	mustNext(t, s, t0)
	s.RemoveSink("a")
	s.Done(k, t0, Report{Answered: true})
	s.Settle(k, plan(t0, Fresh))
	mustNone(t, s, t0)
	s.Remove(k)
	if n := len(s.Sinks()); n != 0 {
		t.Fatalf("%d sinks are left", n)
	}
	s.PauseSink("a", sec(9))
	s.SuspendSink("a", false)
	s.RemoveSink("a")
	s.Set(key("b", "x"), plan(t0, Fresh)) // takes the place
	s.ConfigureSink("b", Limits{})
	if d := mustNext(t, s, t0); d.Key != key("b", "x") {
		t.Fatal(d)
	}
}

// schedule must stay pure: no clock, no I/O, no goroutine, no randomness.
func TestPure(t *testing.T) {
	allowed := map[string]bool{
		"container/heap": true, "encoding/binary": true, "hash/maphash": true, "math": true, "slices": true,
		"strings": true, "time": true, "unsafe": true, "github.com/pawlsync/pawl/engine/record": true,
	}
	clock := map[string]bool{
		"Now": true, "Since": true, "Until": true, "After": true, "AfterFunc": true, "NewTimer": true,
		"NewTicker": true, "Tick": true, "Sleep": true,
	}
	files, err := filepath.Glob("*.go")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, i := range f.Imports {
			if p := strings.Trim(i.Path.Value, `"`); !allowed[p] {
				t.Errorf("imports %s", p)
			}
		}
		ast.Inspect(f, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.GoStmt:
				t.Error("starts a goroutine")
			case *ast.SelectorExpr:
				if x, ok := n.X.(*ast.Ident); ok && x.Name == "time" && clock[n.Sel.Name] {
					t.Errorf("reads a clock: time.%s", n.Sel.Name)
				}
			}
			return true
		})
	}
}
