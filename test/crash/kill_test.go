package crash

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/pawlsync/pawl/engine/record"
	"github.com/pawlsync/pawl/internal/client"
)

// TestPromisesHoldThroughKills kills the daemon at random instants, under load
// and while its target misbehaves, and holds what it then has against what
// clients were answered:
//
//	P1  every change that was answered is there, or a newer one of its key
//	P2  in the end the target holds what is desired
//	P3  requests of a key come one at a time, in the order of their generations
//	P4  what is called acked was taken by the target, in that generation
//	P5  a generation keeps its idempotency key, and no object is left over
func TestPromisesHoldThroughKills(t *testing.T) {
	kills := *killsFlag
	if kills == 0 {
		kills = many(50, 5)
	}
	rng := random(t)
	target := newTarget(t, rng.Uint64())
	target.set(stormy)
	c := &crashes{site: newSite(t, folder(t), target), t: t, rng: rng, books: target.books}
	defer c.books.histories()
	for i := range kills {
		if rng.IntN(5) == 0 {
			c.killEarly()
		} else {
			c.killUnderLoad()
		}
		if t.Failed() {
			return
		}
		if i%10 == 9 {
			c.calm()
		}
	}
	c.calm()
	t.Logf("%d kills, %d changes answered, %d states taken by the target", kills, c.answered, target.writes())
}

// TestWhatIsDeliveredStaysDelivered ends storms in which requests are cut and land
// late: a daemon that calls everything delivered has waited for them.
func TestWhatIsDeliveredStaysDelivered(t *testing.T) {
	rng := random(t)
	target := newTarget(t, rng.Uint64())
	target.set(stormy)
	c := &crashes{site: newSite(t, folder(t), target), t: t, rng: rng, books: target.books}
	defer c.books.histories()
	for range many(5, 1) {
		if c.calm(); t.Failed() {
			return
		}
	}
}

// crashes is a daemon that is killed again and again.
type crashes struct {
	*site
	t        *testing.T
	rng      *rand.Rand
	books    *ledger
	started  time.Duration // how long the last start took
	answered int64
}

// killEarly kills a daemon that is starting.
func (c *crashes) killEarly() {
	d := c.start()
	c.instant(d, c.started)
	c.kill(d)
}

func (c *crashes) killUnderLoad() {
	d := c.openChecked()
	l := startLoad(d, c.books, c.rng, false)
	c.instant(d, 1200*time.Millisecond)
	c.kill(d)
	l.end()
	c.answered += l.answered.Load()
}

// instant lets a random time pass.
func (c *crashes) instant(d *daemon, most time.Duration) {
	select {
	case <-time.After(time.Duration(c.rng.Float64() * float64(most))):
	case <-d.ended:
		c.t.Errorf("the daemon ended by itself: %v\n%s", d.err, d.log)
	}
}

func (c *crashes) kill(d *daemon) {
	c.target.alive(0)
	d.kill()
}

// openChecked starts a daemon, and checks what it knows before anybody asks for more.
func (c *crashes) openChecked() *daemon {
	began := time.Now()
	d := c.open()
	c.started = time.Since(began)
	c.check(d)
	return d
}

// check holds what is stored against the ledger (P1), and what is called acked
// against the target (P4).
func (c *crashes) check(d *daemon) {
	c.t.Helper()
	stored := map[string]state{}
	for r, err := range d.All(c.t.Context(), client.ListOptions{Sink: "web", Payloads: true, Limit: 1000}) {
		must(c.t, err)
		s := state{generation: r.Generation, body: string(r.Payload)}
		if r.Tombstone {
			s.body = ""
		} else if s.body == "" {
			c.books.failf(r.Key, "P1: an empty state is stored as generation %d", r.Generation)
		}
		stored[r.Key] = s
		a := r.Status.Acked
		if a == nil {
			continue
		}
		body, took := c.target.took(r.Key, a.Generation)
		if !took || a.Generation > r.Generation || a.Generation == r.Generation && body != s.body {
			c.books.failf(r.Key, "P4: generation %d is acked and %d, %s, is desired; the target took it: %t, as %s",
				a.Generation, r.Generation, orDeletion(s.body), took, orDeletion(body))
		}
		if r.Status.Phase == record.AckedPhase && a.Generation != r.Generation {
			c.books.failf(r.Key, "P4: it counts as acked in generation %d, and %d is desired", a.Generation, r.Generation)
		}
	}
	c.books.settle(stored)
}

// calm starts a daemon and ends all trouble: everything must come to rest, with
// the target as it is desired (P2); and again after a last storm, whatever of it
// is still under way to the target (P3).
func (c *crashes) calm() {
	c.t.Helper()
	d := c.openChecked()
	c.target.set(fair)
	converge(c.t, d, c.target)
	c.target.set(stormy)
	l := startLoad(d, c.books, c.rng, true)
	c.instant(d, 1200*time.Millisecond)
	l.end()
	c.answered += l.answered.Load()
	c.target.set(fair)
	converge(c.t, d, c.target)
	c.check(d)
	if err := d.terminate(); err != nil {
		c.t.Errorf("SIGTERM ended the daemon with %v\n%s", err, d.log)
	}
	c.target.alive(0)
	c.target.set(stormy)
}

// converge waits until the daemon says that everything is delivered, and then
// holds the target against what is desired.
func converge(t *testing.T, d *daemon, target *target) {
	t.Helper()
	settled(t, d)
	target.landing.Wait() // a daemon that says so has waited for what may land late
	left := target.holds()
	for r, err := range d.All(t.Context(), client.ListOptions{Payloads: true, Limit: 1000}) {
		must(t, err)
		if got, ok := left[r.Key]; !ok || got != string(r.Payload) {
			target.books.failf(r.Key, "P2: generation %d, %s, is acked, and the target holds %s", r.Generation, short(string(r.Payload)), orDeletion(got))
		}
		delete(left, r.Key)
	}
	for key, body := range left {
		target.books.failf(key, "P5: the target holds %s, and nothing is desired", short(body))
	}
}

// settled waits until everything is acked.
func settled(t *testing.T, d *daemon) {
	t.Helper()
	eventually(t, "everything comes to rest", func(ctx context.Context) error { return rest(ctx, d) })
}

// rest returns nil when all is acked.
func rest(ctx context.Context, d *daemon) error {
	var left []string
	for r, err := range d.All(ctx, client.ListOptions{Limit: 1000}) {
		if err != nil {
			return err
		}
		if r.Tombstone || r.Status.Phase != record.AckedPhase || r.Status.Generation != r.Generation {
			left = append(left, fmt.Sprintf("%s: %s %s %s", r.Key, r.Status.Phase, r.Status.Reason, r.Status.Message))
		}
	}
	if len(left) > 0 {
		return errors.Join(errors.New(left[0]), fmt.Errorf("%d more", len(left)-1))
	}
	return nil
}
