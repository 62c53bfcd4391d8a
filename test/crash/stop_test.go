package crash

import (
	"fmt"
	"net"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/pawlsync/pawl/internal/client"
)

// TestASecondDaemonIsRefusedAndNamesTheFirst checks that the first one goes on
// as if nothing had been.
func TestASecondDaemonIsRefusedAndNamesTheFirst(t *testing.T) {
	target := newTarget(t, 1)
	s := newSite(t, folder(t), target)
	first := s.open()
	second := s.start()
	target.alive(first.run)
	if err := second.end(); err == nil {
		t.Error("a second daemon on the same store ended well")
	}
	for _, part := range []string{fmt.Sprintf("process %d", first.cmd.Process.Pid), s.store, "stop it first"} {
		if !strings.Contains(second.log.String(), part) {
			t.Errorf("the second daemon does not mention %q:\n%s", part, second.log)
		}
	}
	c := &worker{load: &load{d: first, books: target.books, returned: make(chan string)}, rng: random(t)}
	must(t, c.put("a"))
	converge(t, first, target)
	must(t, first.terminate())
	// The lock went with its holder.
	must(t, s.open().terminate())
}

// TestSIGTERMUnderLoadLeavesNothingInDoubt checks that a daemon that is told to
// stop ends with exit status 0, after it answered or refused every client, and
// after its target answered every call.
func TestSIGTERMUnderLoadLeavesNothingInDoubt(t *testing.T) {
	rng := random(t)
	target := newTarget(t, rng.Uint64())
	target.set(slow)
	defer target.books.histories()
	c := &crashes{site: newSite(t, folder(t), target), t: t, rng: rng, books: target.books}
	for range many(4, 2) {
		d := c.openChecked()
		for r, err := range d.All(t.Context(), client.ListOptions{Limit: 1000}) {
			must(t, err)
			if len(r.Status.Attempted) > 0 {
				c.books.failf(r.Key, "a call was left in doubt: %+v", r.Status.Attempted)
			}
		}
		l := startLoad(d, target.books, rng, true)
		c.instant(d, 1500*time.Millisecond)
		if err := d.terminate(); err != nil {
			t.Errorf("SIGTERM ended the daemon with %v\n%s", err, d.log)
		}
		l.end()
		target.alive(0)
		if !strings.Contains(d.log.String(), `"msg":"stopped"`) {
			t.Errorf("the daemon did not say that it stopped:\n%s", d.log)
		}
		refuses(t, d)
	}
	c.calm()
}

// refuses checks that nobody listens any more.
func refuses(t *testing.T, d *daemon) {
	t.Helper()
	u, err := url.Parse(d.address)
	must(t, err)
	if conn, err := net.Dial("tcp", u.Host); err == nil {
		conn.Close()
		t.Error("somebody still listens")
	}
}
