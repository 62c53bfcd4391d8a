package ops

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/pawlsync/pawl/engine"
	"github.com/pawlsync/pawl/engine/outbox"
	"github.com/pawlsync/pawl/engine/outbox/memory"
	"github.com/pawlsync/pawl/engine/record"
	"github.com/pawlsync/pawl/engine/sink"
	"github.com/pawlsync/pawl/internal/bubble"
	"github.com/pawlsync/pawl/test/ops/kit"
)

// absent is a target within the process that is away at first. A call to it takes 10 ms.
type absent struct {
	mu      sync.Mutex
	back    bool
	knocks  int // calls while it was away
	applied map[string]uint64
}

func (a *absent) Close(context.Context) error { return nil }
func (a *absent) Manifest() sink.Manifest {
	return sink.Manifest{Name: "absent", Observes: true, Deletes: true, ApplyConfirms: true, ApplyIdempotent: true}
}

func (a *absent) Observe(_ context.Context, r *sink.Request) sink.Result {
	time.Sleep(10 * time.Millisecond)
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case !a.back:
		a.knocks++
		return sink.Result{Status: sink.Unreachable}
	case a.applied[r.Key.Name] == 0:
		return sink.Result{Status: sink.NotFound}
	}
	return sink.Result{Status: sink.OK, Observation: &sink.Observation{Exists: true, MatchDesired: sink.TriOf(a.applied[r.Key.Name] == r.Generation)}}
}

func (a *absent) Apply(_ context.Context, r *sink.Request) sink.Result {
	time.Sleep(10 * time.Millisecond)
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.back {
		a.knocks++
		return sink.Result{Status: sink.Unreachable}
	}
	if a.applied[r.Key.Name] != 0 {
		return sink.Result{Status: sink.Rejected, Message: "it came twice"}
	}
	a.applied[r.Key.Name] = r.Generation
	return sink.Result{Status: sink.OK}
}

func (a *absent) Delete(context.Context, *sink.Request) sink.Result {
	return sink.Result{Status: sink.Rejected, Message: "nothing is to be deleted"}
}

// TestATargetThatIsAwayForAnHourIsProbedAndNotStormed lets an hour pass, in simulated
// time, in which a target is away and many changes wait: it hears a probe a minute, no
// change uses up its attempts, and when it is back each arrives once.
func TestATargetThatIsAwayForAnHourIsProbedAndNotStormed(t *testing.T) {
	n := kit.Many(100_000, 5_000)
	bubble.Test(t, func(t *testing.T) {
		target := &absent{applied: map[string]uint64{}}
		e, err := engine.Open(t.Context(), engine.Options{
			Store: func(o outbox.Observer) (outbox.Store, error) { return memory.New(memory.Options{Observer: o}), nil },
			Sinks: []engine.SinkOptions{{Name: "web", Sink: target, DriftInterval: -1}},
			Seed:  1,
		})
		kit.Must(t, err)
		defer e.Close(context.Background())
		putMany(t, e, n)
		time.Sleep(time.Hour)
		s := e.Sinks()[0]
		t.Logf("after an hour: %d calls were tried, %v, breaker %v, oldest change %v old", target.knocks, s.Counts, s.Breaker, time.Since(s.OldestUnacked).Round(time.Second))
		if s.Counts[record.Pending] != n || target.knocks > 64+70 {
			t.Errorf("of %d changes %v; %d calls went to a target that is away, want what was under way at the start and a probe a minute", n, s.Counts, target.knocks)
		}
		one, err := e.Get(t.Context(), web(fmt.Sprint(n/2)))
		kit.Must(t, err)
		if one.Status.Attempts != 0 {
			t.Errorf("a change that waited has used up %d attempts", one.Status.Attempts)
		}

		began := time.Now()
		target.mu.Lock()
		target.back = true
		target.mu.Unlock()
		for e.Sinks()[0].Counts[record.AckedPhase] < n {
			if time.Since(began) > 30*time.Minute {
				t.Fatalf("half an hour after the target is back: %v", e.Sinks()[0].Counts)
			}
			time.Sleep(time.Second)
		}
		t.Logf("all %d arrived within %v of the target's return", n, time.Since(began))
	})
}

func putMany(t *testing.T, e *engine.Engine, n int) {
	t.Helper()
	puts := make([]engine.Put, 0, 5000)
	for i := range n {
		if puts = append(puts, engine.Put{Key: web(fmt.Sprint(i)), Payload: []byte(`{"n":1}`)}); len(puts) < cap(puts) && i < n-1 {
			continue
		}
		if _, err := e.PutBatch(t.Context(), puts); err != nil {
			t.Fatal(err)
		}
		puts = puts[:0]
	}
}
