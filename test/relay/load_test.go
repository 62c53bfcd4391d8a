package relay

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"
)

func TestAHotKeyThatChangedTenThousandTimesWhileTheLinkWasDownIsDeliveredOnce(t *testing.T) {
	const changes = 10_000
	x := newTarget(t)
	p := newPawl(t, principalConfig(x, noFuse))
	p.start()
	l := newLink(t, p)
	e := newPawl(t, agentConfig(l.url(), "edge-1", "persisted"))
	e.start()
	l.befall(fault{down: true})
	var wg sync.WaitGroup
	var mu sync.Mutex
	n := 0
	for range 32 { // each number is put before the next is taken, by whoever takes it
		wg.Go(func() {
			for {
				mu.Lock()
				if n == changes || t.Failed() {
					mu.Unlock()
					return
				}
				n++
				err := e.put(t.Context(), "up", "hot", payload(n))
				mu.Unlock()
				if err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	l.mend()
	eventually(t, "the newest state arrives", func(context.Context) error {
		return x.holds(map[string]string{"edge-1/hot": payload(changes)})
	})
	eventually(t, "it is acknowledged", e.quiet("up", 1))
	if got := x.history()["edge-1/hot"]; len(got) != 1 {
		t.Errorf("the target was told %d times", len(got))
	}
}

// With a target of 100 ms, a key that changes all the time keeps 500 others no longer
// waiting than a few times what they wait without it.
func TestAHotKeyKeepsColdOnesWaitingNoLongerThanTheTargetDoes(t *testing.T) {
	x := newTarget(t)
	p := newPawl(t, principalConfig(x, noFuse))
	p.start()
	e := newPawl(t, agentConfig(p.url(), "edge-1", "processed"))
	e.start()
	x.set(100 * time.Millisecond)
	round := func(n int) time.Duration {
		cold := map[string]string{}
		for i := range 500 {
			cold[fmt.Sprint("cold", i)] = payload(n)
		}
		began := time.Now()
		must(t, e.putAll(t.Context(), "up", cold))
		eventually(t, "the cold ones arrive", func(context.Context) error {
			for key := range cold {
				if h := x.history()["edge-1/"+key]; len(h) < n {
					return fmt.Errorf("%s is on its way", key)
				}
			}
			return nil
		})
		var took []time.Duration
		for key := range cold {
			h := x.history()["edge-1/"+key]
			took = append(took, h[len(h)-1].at.Sub(began))
		}
		slices.Sort(took)
		return took[len(took)*99/100]
	}
	round(1) // whatever is slow the first time
	alone := round(2)
	ctx, stop := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() {
		for n := 1; ctx.Err() == nil; n++ {
			if err := e.put(ctx, "up", "hot", payload(n)); err != nil && ctx.Err() == nil {
				t.Error(err)
				return
			}
		}
	})
	beside := round(3)
	stop()
	wg.Wait()
	t.Logf("99th percentile of 500 cold keys: %v alone, %v beside a hot one: %.2f times", alone.Round(time.Millisecond), beside.Round(time.Millisecond), float64(beside)/float64(alone))
	if beside > 4*alone {
		t.Errorf("cold keys take %v beside a hot one, and %v without", beside, alone)
	}
}

func TestAResourceThatThePrincipalsTargetRefusesKeepsNoOtherWaiting(t *testing.T) {
	for _, ack := range []string{"persisted", "processed"} {
		t.Run(ack, func(t *testing.T) {
			x := newTarget(t)
			x.refuse = "edge-1/poisoned"
			p := newPawl(t, principalConfig(x, noFuse))
			p.start()
			e := newPawl(t, agentConfig(p.url(), "edge-1", ack))
			e.start()
			good := map[string]string{}
			for i := range 200 {
				good[fmt.Sprint(i)] = payload(1)
			}
			must(t, e.putAll(t.Context(), "up", both(good, map[string]string{"poisoned": payload(1)})))
			eventually(t, "the others arrive", func(context.Context) error { return x.holds(under("edge-1/", good)) })
			eventually(t, "they are acknowledged", func(ctx context.Context) error {
				counts, err := e.phases(ctx, "up")
				if want := map[string]int{"persisted": 201, "processed": 200}[ack]; err == nil && counts["Acked"] != want {
					return fmt.Errorf("%v, want %d acknowledged", counts, want)
				}
				return err
			})
		})
	}
}
