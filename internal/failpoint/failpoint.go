// Package failpoint makes a running daemon die, fail or pause at named points, so
// that tests can see what becomes of what was under way there. Without a
// specification it costs nothing.
package failpoint

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"sync/atomic"
	"syscall"
	"time"
)

// Env is the environment variable that `pawl run` takes a specification from.
const Env = "PAWL_FAILPOINTS"

// ErrInjected is the error of a point that fails.
var ErrInjected = errors.New("injected by a failpoint")

// action is what happens at a point.
type action struct {
	kind  string
	pause time.Duration
	skip  atomic.Int64 // how often it is passed before
	once  bool
	done  atomic.Bool
}

// Parse reads a specification: "POINT=ACTION; POINT=ACTION…", where an action is
// "kill" (SIGKILL to this process), "error" or "sleep:DURATION", and may be
// followed by "@N": only the Nth time that the point is reached, and then once.
// The points are those of saga.Options.Failpoint. Of an empty one it returns nil.
func Parse(spec string) (func(point string) error, error) {
	if strings.TrimSpace(spec) == "" {
		return nil, nil
	}
	actions := map[string]*action{}
	for part := range strings.SplitSeq(spec, ";") {
		point, what, ok := strings.Cut(part, "=")
		point, what = strings.TrimSpace(point), strings.TrimSpace(what)
		if !ok || point == "" {
			return nil, fmt.Errorf("failpoint %q: write POINT=ACTION", part)
		}
		a, err := parseAction(what)
		if err != nil {
			return nil, fmt.Errorf("failpoint %q: %w", part, err)
		}
		actions[point] = a
	}
	return func(point string) error {
		if a := actions[point]; a != nil {
			return a.strike()
		}
		return nil
	}, nil
}

func parseAction(what string) (*action, error) {
	a := &action{}
	what, nth, limited := strings.Cut(what, "@")
	if limited {
		var n int64
		if _, err := fmt.Sscanf(nth, "%d", &n); err != nil || n < 1 {
			return nil, fmt.Errorf("%q after @ is no count from 1", nth)
		}
		a.once = true
		a.skip.Store(n - 1)
	}
	kind, arg, _ := strings.Cut(what, ":")
	a.kind = kind
	switch kind {
	case "kill", "error":
		if arg != "" {
			return nil, fmt.Errorf("%s takes no argument", kind)
		}
	case "sleep":
		d, err := time.ParseDuration(arg)
		if err != nil || d < 0 {
			return nil, fmt.Errorf("%q is no duration, as 500ms is", arg)
		}
		a.pause = d
	default:
		return nil, fmt.Errorf("unknown action %q; use kill, error or sleep:DURATION", kind)
	}
	return a, nil
}

func (a *action) strike() error {
	if a.skip.Add(-1) >= 0 || a.once && a.done.Swap(true) {
		return nil
	}
	switch a.kind {
	case "kill":
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {} // it comes at once
	case "sleep":
		time.Sleep(a.pause)
		return nil
	}
	return ErrInjected
}
