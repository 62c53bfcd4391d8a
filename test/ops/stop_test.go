package ops

import (
	"testing"
	"time"

	"github.com/pawlsync/pawl/internal/api"
	"github.com/pawlsync/pawl/internal/client"
	"github.com/pawlsync/pawl/test/ops/kit"
)

// TestSIGTERMUnderLoadEndsWithinTheGraceWithNothingInDoubt stops a daemon whose clients
// put and whose target dawdles: it ends by itself, no call is left without an answer,
// and what was answered is there afterwards, and arrives.
func TestSIGTERMUnderLoadEndsWithinTheGraceWithNothingInDoubt(t *testing.T) {
	const grace = 20 * time.Second
	target := kit.NewTarget(t)
	target.Dawdle(200 * time.Millisecond)
	d := kit.New(t, target.Config(""))
	d.Server = ", shutdown_grace: " + grace.String()
	d.Start()
	load := kit.StartLoad(d, 8, 50)
	load.Busy(500)
	took := d.Stop()
	t.Logf("SIGTERM: ended after %v of a grace of %v, with %d Puts answered", took.Round(time.Millisecond), grace, load.Puts())
	if took > grace {
		t.Errorf("it took %v, and the grace is %v", took, grace)
	}
	for _, err := range load.End() {
		if api.CodeOf(err) != api.CodeClosed {
			t.Errorf("a client was told %v while the daemon stopped", err)
		}
	}
	d.Logged(`"msg":"stopping: calls in flight may finish"`)
	d.Logged(`"msg":"stopped"`)

	target.Leave() // so that nothing is cleared up before it is looked at
	d.Start()
	for r, err := range d.All(t.Context(), client.ListOptions{Limit: 1000}) {
		kit.Must(t, err)
		if len(r.Status.Attempted) > 0 {
			t.Errorf("a call for %s was left in doubt: %+v", r.Key, r.Status.Attempted)
		}
	}
	target.Dawdle(0)
	target.Return()
	d.Show("wait --all web --timeout 0")
	arrived(t, target, load)
}

// arrived checks that the target has the newest state of each key that was answered, or
// what was asked for after it and never answered.
func arrived(t *testing.T, target *kit.Target, load *kit.Load) {
	t.Helper()
	objects, unanswered := target.Objects(), load.Unanswered()
	granted := load.Granted()
	if len(granted) == 0 {
		t.Error("no Put was answered: this shows nothing")
	}
	for key, want := range granted {
		if got := objects[key]; got != want && got.Body != unanswered[key] {
			t.Errorf("the target has %+v of %s, want %+v", got, key, want)
		}
	}
}
