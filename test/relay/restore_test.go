package relay

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// An agent's store is an older copy of itself: from then on it lives another life. Its
// older state is what the principal shall hold, and none of it is refused as stale. What
// the copy does not know is deleted at the principal, as far as the fuse lets it.
func TestARestoredAgentExchangesEverythingUnderTheFuse(t *testing.T) {
	x := newTarget(t)
	p := newPawl(t, principalConfig(x, "share: 0.2, at_least: 10"))
	p.start()
	e := newPawl(t, agentConfig(p.url(), "edge-1", "processed"))
	e.start()
	old := map[string]string{}
	for i := range 30 {
		old[fmt.Sprint("k", i)] = payload(1)
	}
	must(t, e.putAll(t.Context(), "up", old))
	eventually(t, "the first state", e.quiet("up", 30))
	e.stop()
	copyStore(t, e.store(), filepath.Join(e.dir, "copy"))

	e.start()
	newer := map[string]string{}
	for i := range 5 {
		newer[fmt.Sprint("k", i)] = payload(2)
	}
	for i := range 20 {
		newer[fmt.Sprint("m", i)] = payload(1)
	}
	must(t, e.putAll(t.Context(), "up", newer))
	eventually(t, "the newer state", e.quiet("up", 50))
	e.kill()
	mark, err := os.ReadFile(filepath.Join(e.store(), "mark"))
	must(t, err)
	copyStore(t, filepath.Join(e.dir, "copy"), e.store())
	must(t, os.WriteFile(filepath.Join(e.store(), "mark"), mark, 0o600)) // which tells that there was more

	e.start("--accept-loss")
	must(t, e.ResumeSink(t.Context(), "up"))
	eventually(t, "the older state wins, and the fuse holds what goes beyond it", func(context.Context) error {
		x.mu.Lock()
		defer x.mu.Unlock()
		for key, payload := range under("edge-1/", old) {
			if x.objects[key] != payload {
				return fmt.Errorf("%s is %q", key, x.objects[key])
			}
		}
		if n := len(x.objects); n != 40 {
			return fmt.Errorf("the target holds %d objects, want 40: 30, and 10 whose deletion is held", n)
		}
		return nil
	})
	program, _ := program(t)
	out, err := exec.Command(program, "source", "confirm", "edge-1", "--yes", "--address", p.url()).CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	eventually(t, "what is confirmed goes", func(context.Context) error { return x.holds(under("edge-1/", old)) })

	e.goesOn(t, p, x)
}

// goesOn restarts both, and sees that what changes is told once, and nothing else.
func (e *pawl) goesOn(t *testing.T, p *pawl, x *target) {
	t.Helper()
	before := len(x.history()["edge-1/k9"])
	e.kill()
	p.kill()
	p.start()
	e.start()
	eventually(t, "all is acknowledged again", e.quiet("up", 30))
	must(t, e.put(t.Context(), "up", "k9", payload(3)))
	eventually(t, "the new life goes on", func(context.Context) error {
		if h := x.history()["edge-1/k9"]; len(h) != before+1 {
			return fmt.Errorf("k9 was told %d times, want %d", len(h), before+1)
		}
		return nil
	})
}
