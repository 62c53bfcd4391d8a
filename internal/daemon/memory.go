package daemon

import (
	"os"
	"runtime/debug"
)

// collectOften makes the collector run at half of its usual distance: a daemon with
// a million resources holds their schedule for good, and would let as much garbage
// gather. GOGC overrules it.
func collectOften() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(50)
	}
}
