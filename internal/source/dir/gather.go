package dir

import "time"

// gather collects what changed until it has been quiet for a moment. Time is an
// argument.
type gather struct {
	quiet, most time.Duration // since the last change, and since the first

	paths       map[string]struct{}
	whole       bool // anything may have changed
	first, last time.Time
}

// note adds a path; "" is the whole tree.
func (g *gather) note(now time.Time, p string) {
	if !g.any() {
		g.first = now
		g.paths = map[string]struct{}{}
	}
	g.last = now
	if p == "" {
		g.whole = true
	} else {
		g.paths[p] = struct{}{}
	}
}

func (g *gather) any() bool { return g.whole || len(g.paths) > 0 }

// wait is how long to wait before take; ok is false where there is nothing.
func (g *gather) wait(now time.Time) (d time.Duration, ok bool) {
	if !g.any() {
		return 0, false
	}
	due := g.last.Add(g.quiet)
	if latest := g.first.Add(g.most); latest.Before(due) {
		due = latest
	}
	return due.Sub(now), true
}

// take returns what was collected, and begins anew.
func (g *gather) take() (paths map[string]struct{}, whole bool) {
	paths, whole = g.paths, g.whole
	g.paths, g.whole = nil, false
	return paths, whole
}
