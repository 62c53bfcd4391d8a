package source

import (
	"flag"
	"math/rand/v2"
	"testing"
	"time"
)

var seed = flag.Uint64("seed", 0, "seed of the random tests; 0: a new one")

func seeded(t *testing.T) *rand.Rand {
	t.Helper()
	s := *seed
	if s == 0 {
		s = rand.Uint64()
	}
	t.Logf("go test ./internal/source -run %s -seed %d", t.Name(), s)
	return rand.New(rand.NewPCG(s, 1))
}

var dawn = time.Date(2026, 1, 1, 6, 0, 0, 0, time.UTC)

func hourly() FuseOptions { return FuseOptions{Window: time.Hour, Share: 0.2, AtLeast: 10} }

func TestTheFuseAllowsAShareOfTheLargestSetAndAFewInAnyCase(t *testing.T) {
	for _, c := range []struct{ size, want int }{{0, 10}, {3, 10}, {50, 10}, {55, 11}, {1000, 200}, {1004, 200}} {
		f := NewFuse(hourly())
		f.Saw(dawn, c.size)
		if got := f.Room(dawn); got != c.want {
			t.Errorf("of %d resources %d may go, want %d", c.size, got, c.want)
		}
	}
}

func TestAShareOfOneLetsEverythingGoHoweverOften(t *testing.T) {
	f := NewFuse(FuseOptions{Window: time.Hour, Share: 1})
	for range 5 { // a set of 30 comes and goes
		f.Saw(dawn, 30)
		if got := f.Room(dawn); got < 30 {
			t.Fatalf("there is room for %d of 30", got)
		}
		f.Count(dawn, 30)
		f.Saw(dawn, 0)
	}
}

func TestTheFuseCountsDeletionsUntilTheyLeaveTheWindow(t *testing.T) {
	f := NewFuse(hourly())
	f.Saw(dawn, 1000)
	f.Count(dawn, 150)
	f.Count(dawn.Add(30*time.Minute), 40)
	for _, c := range []struct {
		after time.Duration
		want  int
	}{{30 * time.Minute, 10}, {59 * time.Minute, 10}, {62 * time.Minute, 160}, {92 * time.Minute, 200}} {
		if got := f.Room(dawn.Add(c.after)); got != c.want {
			t.Errorf("after %s there is room for %d, want %d", c.after, got, c.want)
		}
	}
}

func TestTheFuseRemembersTheLargestSetForAsLongAsTheWindow(t *testing.T) {
	f := NewFuse(hourly())
	f.Saw(dawn, 1000)
	f.Saw(dawn.Add(time.Minute), 100)
	if got := f.Room(dawn.Add(50 * time.Minute)); got != 200 {
		t.Errorf("within the window there is room for %d, want 200", got)
	}
	if got := f.Room(dawn.Add(63 * time.Minute)); got != 20 {
		t.Errorf("after it there is room for %d, want 20 of the 100 that are left", got)
	}
	if got := f.Room(dawn.Add(1000 * time.Hour)); got != 20 {
		t.Errorf("a source that said nothing for long has room for %d, want 20", got)
	}
}

func TestABlownFuseLetsNothingThroughUntilItIsMended(t *testing.T) {
	f := NewFuse(hourly())
	f.Saw(dawn, 1000)
	f.Blow()
	if f.Room(dawn) != 0 || f.Room(dawn.Add(100*time.Hour)) != 0 {
		t.Error("time mended it")
	}
	f.Mend()
	if f.Room(dawn) != 200 {
		t.Error("it is not mended")
	}
}

func TestTheFuseOutlivesARestart(t *testing.T) {
	f := NewFuse(hourly())
	f.Saw(dawn, 1000)
	f.Count(dawn, 150)
	f.Blow()
	g := NewFuse(hourly())
	if err := g.Recall(f.Note()); err != nil {
		t.Fatal(err)
	}
	if !g.Blown() {
		t.Error("a restart mended it")
	}
	g.Mend()
	if got := g.Room(dawn.Add(10 * time.Minute)); got != 50 {
		t.Errorf("after a restart there is room for %d, want 50", got)
	}
	if err := g.Recall([]byte("{")); err == nil {
		t.Error("a damaged note is taken")
	}
	if n := len(longNote(t)); n > 8<<10 {
		t.Errorf("a full note has %d bytes", n)
	}
}

func longNote(t *testing.T) []byte {
	t.Helper()
	f := NewFuse(FuseOptions{Window: 168 * time.Hour, Share: 0.2, AtLeast: 10})
	for i := range 10 * fuseSteps {
		now := dawn.Add(time.Duration(i) * time.Hour)
		f.Saw(now, 1_000_000_000+i)
		f.Count(now, 1_000_000)
	}
	return f.Note()
}

func TestAClockThatIsSetBackNeitherEndsNorLengthensWhatWasCounted(t *testing.T) {
	f := NewFuse(hourly())
	f.Saw(dawn.Add(1000*time.Hour), 1000)
	f.Count(dawn.Add(1000*time.Hour), 150)
	if got := f.Room(dawn); got != 50 {
		t.Errorf("after the clock was set back there is room for %d, want 50", got)
	}
	if got := f.Room(dawn.Add(62 * time.Minute)); got != 200 {
		t.Errorf("an hour later there is room for %d, want 200", got)
	}
}

// The fuse against a list of all that ever happened.
func TestTheFuseNeverAllowsMoreThanItsShareAndRefusesNothingWithoutNeed(t *testing.T) {
	r := seeded(t)
	type event struct {
		at      time.Time
		deleted int
		size    int // from at on
	}
	for range 200 {
		o := FuseOptions{Window: time.Duration(1+r.IntN(240)) * time.Minute, Share: float64(r.IntN(10)) / 10, AtLeast: r.IntN(20)}
		step := o.Window / fuseSteps
		f, now, size := NewFuse(o), dawn, 0
		var past []event
		within := func(window time.Duration) (deleted, largest int) {
			before := 0 // the size as the window begins
			for _, e := range past {
				if !e.at.After(now.Add(-window)) {
					before = e.size
					continue
				}
				deleted += e.deleted
				largest = max(largest, e.size)
			}
			return deleted, max(largest, before)
		}
		for range 300 {
			now = now.Add(time.Duration(r.Int64N(int64(o.Window) / 10)))
			if r.IntN(20) == 0 {
				now = now.Add(2 * o.Window)
			}
			if r.IntN(3) == 0 { // the source grows
				size += r.IntN(100)
				f.Saw(now, size)
				past = append(past, event{at: now, size: size})
			}
			if r.IntN(30) == 0 {
				g := NewFuse(o)
				if err := g.Recall(f.Note()); err != nil {
					t.Fatal(err)
				}
				f = g
			}
			want := r.IntN(size + 1)
			deletedLong, largestLong := within(o.Window + step)
			deleted, largest := within(o.Window)
			if want <= f.Room(now) {
				if deleted+want > max(o.AtLeast, int(o.Share*float64(largestLong))) && want > 0 {
					t.Fatalf("%+v: %d were deleted in the window and %d more are allowed, of %d", o, deleted, want, largestLong)
				}
				f.Count(now, want)
				size -= want
				f.Saw(now, size)
				past = append(past, event{at: now, deleted: want, size: size})
			} else if deletedLong+want <= max(o.AtLeast, int(o.Share*float64(largest))) {
				t.Fatalf("%+v: %d were deleted in the window and %d more are refused, of %d", o, deletedLong, want, largest)
			}
		}
	}
}
