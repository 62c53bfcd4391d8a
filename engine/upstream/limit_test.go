package upstream

import (
	"context"
	"errors"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pawlsync/pawl/internal/bubble"
)

func TestNoMoreRequestsThanAllowedAreUnderWay(t *testing.T) {
	entered, release := make(chan struct{}), make(chan struct{})
	var now, most atomic.Int32
	u := open(t, serve(t, func(http.ResponseWriter, *http.Request) {
		most.Store(max(most.Load(), now.Add(1)))
		entered <- struct{}{}
		<-release
		now.Add(-1)
	}), func(c *Config) { c.MaxConcurrent = 2 })
	done := make(chan *Failure)
	for range 6 {
		go func() { _, f := u.Do(context.Background(), get("/")); done <- f }()
	}
	<-entered
	<-entered
	r := put("/", "x")
	r.Timeout = 20 * time.Millisecond
	mustFail(t, u, r, FailTimeout, false)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, f := u.Do(ctx, r); f == nil || f.Kind != FailCancelled || f.MaybeSent {
		t.Errorf("cancelled while waiting: %v", f)
	}
	close(release)
	for range 4 {
		<-entered
	}
	for range 6 {
		if f := <-done; f != nil {
			t.Error(f)
		}
	}
	if most.Load() != 2 {
		t.Errorf("%d requests were under way at once", most.Load())
	}
}

func TestTheRateIsKeptWithBurstsOfASecond(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		r := newRate(10)
		start := time.Now()
		for range 35 {
			if err := r.wait(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		// Ten at once, then one every 100 ms.
		if took := time.Since(start); took != 2500*time.Millisecond {
			t.Errorf("35 turns took %v", took)
		}
		time.Sleep(time.Minute)
		start = time.Now()
		for range 11 {
			_ = r.wait(t.Context())
		}
		if took := time.Since(start); took != 100*time.Millisecond {
			t.Errorf("after a pause, 11 turns took %v", took)
		}
	})
}

func TestWhoeverGetsNoTurnHoldsNoSlot(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		g := newGate(Config{MaxConcurrent: 1, RatePerSecond: 1})
		if err := g.enter(t.Context()); err != nil {
			t.Fatal(err)
		}
		g.leave()
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		if err := g.enter(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("enter: %v", err)
		}
		if err := g.enter(t.Context()); err != nil {
			t.Fatal(err)
		}
		g.leave()
	})
}

func TestATurnBeyondTheDeadlineIsNotTaken(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		r := newRate(0.1)
		start := time.Now()
		_ = r.wait(t.Context())
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		for range 3 {
			if err := r.wait(ctx); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("wait: %v", err)
			}
		}
		if time.Since(start) != 0 {
			t.Error("it waited for a turn that comes too late")
		}
		_ = r.wait(t.Context())
		if took := time.Since(start); took != 10*time.Second {
			t.Errorf("the next turn came after %v", took)
		}
		ctx, stop := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, stop)
		if err := r.wait(ctx); !errors.Is(err, context.Canceled) {
			t.Errorf("cancelled: %v", err)
		}
	})
}
