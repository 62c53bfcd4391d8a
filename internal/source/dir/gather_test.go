package dir

import (
	"testing"
	"time"
)

func TestChangesAreGatheredUntilItIsQuietButNotForEver(t *testing.T) {
	g := gather{quiet: 200 * time.Millisecond, most: 2 * time.Second}
	at := func(ms int) time.Time { return time.UnixMilli(int64(ms)) }
	if _, ok := g.wait(at(0)); ok {
		t.Error("something is due, though nothing changed")
	}
	for _, c := range []struct {
		now  int
		path string
		due  int
	}{{0, "a", 200}, {150, "b", 350}, {300, "a", 500}, {1900, "c", 2000}, {1950, "", 2000}} {
		g.note(at(c.now), c.path)
		if d, ok := g.wait(at(c.now)); !ok || d != at(c.due).Sub(at(c.now)) {
			t.Errorf("at %d: due in %v, want at %d", c.now, d, c.due)
		}
	}
	if paths, whole := g.take(); len(paths) != 3 || !whole {
		t.Errorf("took %v, %v", paths, whole)
	}
	if _, ok := g.wait(at(2000)); ok {
		t.Error("something is due, though it was taken")
	}
	g.note(at(5000), "a")
	if d, _ := g.wait(at(5000)); d != g.quiet {
		t.Errorf("after a take it is due in %v", d)
	}
}
