package kit

import (
	"flag"
	"testing"
)

var full = flag.Bool("full", false, "run drills at their full size, and those that take long")

// Full reports whether drills run at their full size (make drills).
func Full() bool { return *full }

// Many returns n in a full run, else fewer.
func Many(n, fewer int) int {
	if *full {
		return n
	}
	return fewer
}

// OnlyFull skips a drill that takes long, but for a full run.
func OnlyFull(t testing.TB) {
	t.Helper()
	if !*full {
		t.Skip("takes long; make drills runs it")
	}
}
