// Package bubble begins the bubbles of testing/synctest in which tests run in
// time of their own.
//
// It stands between the tests and synctest.Test because of a fault of the Go
// runtime up to 1.26 at least: all timers of a bubble share one context of the
// race detector, and a channel timer that nobody waited for is run by whoever
// asks for it next. Two processors that do so at once ruin that context's stack,
// and the test binary dies of SIGSEGV or of a CHECK of ThreadSanitizer, seldom
// and far from the cause. One processor at a time can't: goroutines still take
// turns at any place, and races are still found, since the detector looks at
// what orders two accesses, not at when they come.
package bubble

import (
	"runtime"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/pawlsync/pawl/internal/race"
)

// Test is synctest.Test; with the race detector, the whole process keeps to one
// processor until the last bubble has ended.
func Test(t *testing.T, f func(t *testing.T)) {
	t.Helper()
	if race.Enabled {
		enter()
		defer leave()
	}
	synctest.Test(t, f)
}

var open struct {
	sync.Mutex
	bubbles    int
	processors int
}

func enter() {
	open.Lock()
	defer open.Unlock()
	if open.bubbles++; open.bubbles == 1 {
		open.processors = runtime.GOMAXPROCS(1)
	}
}

func leave() {
	open.Lock()
	defer open.Unlock()
	if open.bubbles--; open.bubbles == 0 {
		runtime.GOMAXPROCS(open.processors)
	}
}
