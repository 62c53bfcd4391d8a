package engine_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/pawlsync/pawl/engine"
	"github.com/pawlsync/pawl/engine/record"
	"github.com/pawlsync/pawl/engine/sink"
)

func TestCloseLetsCallsInFlightFinishAndStartsNone(t *testing.T) {
	inBubble(t, func(o *engine.Options) { o.Sinks[0].MaxInFlight = 2 }, func(b *bench) {
		b.target.slow(5 * time.Second)
		for i := range 6 {
			b.put(fmt.Sprint("k", i), `1`)
		}
		b.after(time.Second)
		ctx, cancel := context.WithTimeout(b.t.Context(), time.Minute)
		defer cancel()
		began := time.Now()
		b.must(b.Close(ctx))
		if took := time.Since(began); took != 4*time.Second {
			t.Errorf("close took %s, the calls had 4 s to go", took)
		}
		b.target.slow(0)
		called := 0
		for i := range 6 {
			called += len(b.target.ops(fmt.Sprint("k", i)))
		}
		if called != 2 {
			t.Errorf("%d calls, two were in flight", called)
		}
		b.open()
		b.settle()
		for i := range 6 {
			b.want(fmt.Sprint("k", i), "Acked")
		}
	})
}

func TestCloseCutsOffWhatIsLeftAndRemembersIt(t *testing.T) {
	inBubble(t, nil, func(b *bench) {
		b.target.slow(time.Hour)
		b.put("a", `1`)
		b.settle()
		ctx, cancel := context.WithTimeout(b.t.Context(), 3*time.Second)
		defer cancel()
		began := time.Now()
		b.must(b.Close(ctx))
		if took := time.Since(began); took != 3*time.Second {
			t.Errorf("close took %s with a grace of 3 s", took)
		}
		b.target.slow(0)
		b.open()
		if st := b.status("a"); st.Reason != record.ReasonUnreachable || len(st.Attempted) != 1 {
			t.Errorf("%s, attempted %v", st.Reason, st.Attempted)
		}
		b.after(5 * time.Second)
		b.wantOps("a", "apply", "observe", "apply")
	})
}

func TestAClosedEngineSaysSo(t *testing.T) {
	inBubble(t, nil, func(b *bench) {
		b.put("a", `1`)
		b.settle()
		b.must(b.Close(b.t.Context()))
		ctx := b.t.Context()
		calls := map[string]func() error{
			"put":     func() error { _, err := b.Put(ctx, engine.Put{Key: web("a"), Payload: []byte(`2`)}); return err },
			"batch":   func() error { _, err := b.PutBatch(ctx, []engine.Put{{Key: web("a")}}); return err },
			"delete":  func() error { _, err := b.Delete(ctx, engine.Delete{Key: web("a")}); return err },
			"get":     func() error { _, err := b.Get(ctx, web("a")); return err },
			"list":    func() error { _, err := b.List(ctx, engine.ListOptions{}); return err },
			"retry":   func() error { return b.Retry(ctx, web("a")) },
			"forget":  func() error { return b.Forget(ctx, web("a")) },
			"suspend": func() error { return b.SuspendSink(ctx, "web") },
			"close":   func() error { return b.Close(ctx) },
		}
		for what, call := range calls {
			if err := call(); !errors.Is(err, engine.ErrClosed) {
				t.Errorf("%s: %v", what, err)
			}
		}
	})
}

func TestR62_AKilledEngineIsFollowedByOneThatLooksFirst(t *testing.T) {
	inBubble(t, nil, func(b *bench) {
		b.target.slow(time.Second)
		b.put("a", `1`)
		b.after(500 * time.Millisecond)
		b.kill()
		b.target.set("a", `1`) // it landed, and nobody noted it
		b.open()
		b.after(2 * time.Second)
		b.want("a", "Acked")
		b.wantOps("a", "apply", "observe")
	})
}

func TestP3_ACallOfAKilledEngineIsRememberedAlthoughItsContentWasAckedSince(t *testing.T) {
	inBubble(t, nil, func(b *bench) {
		b.target.slow(time.Second)
		b.put("a", `1`)
		b.after(500 * time.Millisecond)
		b.kill()
		b.open()
		b.after(3 * time.Second)
		b.want("a", "Acked")
		b.put("a", `2`)
		b.after(10 * time.Second)
		b.want("a", "Pending")
		b.target.set("a", `1`) // now it lands
		b.after(time.Minute)
		b.want("a", "Acked")
		b.wantTarget("a", `2`)
	})
}

func TestP3_ACallOfAKilledEngineIsRememberedByThePutThatReplacesItUnseen(t *testing.T) {
	inBubble(t, nil, func(b *bench) {
		b.target.slow(time.Second)
		b.put("a", `1`)
		b.after(500 * time.Millisecond)
		b.must(b.SuspendSink(b.t.Context(), "web"))
		b.kill()
		b.open()
		b.put("a", `2`)
		b.must(b.ResumeSink(b.t.Context(), "web"))
		b.after(10 * time.Second)
		b.want("a", "Pending")
		b.target.set("a", `1`) // now it lands
		b.after(time.Minute)
		b.want("a", "Acked")
		b.wantTarget("a", `2`)
	})
}

func TestP3_ACorrectionOfDriftByAKilledEngineIsRememberedByThePutThatFollows(t *testing.T) {
	inBubble(t, nil, func(b *bench) {
		b.put("a", `1`)
		b.settle()
		b.target.set("a", `9`)
		b.target.slow(time.Second)
		for len(b.target.ops("a")) < 3 { // until the correction is under way
			b.after(100 * time.Millisecond)
		}
		b.kill()
		b.target.slow(0)
		b.open()
		b.put("a", `2`)
		b.after(10 * time.Second)
		b.want("a", "Pending")
		b.target.set("a", `1`) // now it lands
		b.after(time.Minute)
		b.want("a", "Acked")
		b.wantTarget("a", `2`)
	})
}

func TestR23_ACorrectionThatWasAnsweredHoldsNothingUp(t *testing.T) {
	inBubble(t, nil, func(b *bench) {
		b.put("a", `1`)
		b.settle()
		b.target.set("a", `9`)
		b.after(12 * time.Minute)
		b.wantOps("a", "apply", "observe", "apply")
		b.put("a", `2`)
		b.settle()
		b.want("a", "Acked")
		b.wantOps("a", "apply", "observe", "apply", "apply")
	})
}

func TestARestartInPeaceKnowsTheEndOfEveryCall(t *testing.T) {
	inBubble(t, nil, func(b *bench) {
		b.must(b.SuspendSink(b.t.Context(), "web"))
		b.put("a", `1`)
		b.reopen()
		b.must(b.ResumeSink(b.t.Context(), "web"))
		b.settle()
		b.wantOps("a", "apply")
		b.put("a", `2`)
		b.settle()
		b.want("a", "Acked")
	})
}

// kill cuts the power.
func (b *bench) kill() {
	b.t.Helper()
	b.store.Crash()
	ctx, cancel := context.WithCancel(b.t.Context())
	cancel()
	_ = b.Close(ctx) // nothing of it is stored any more
}

func TestAnOpenThatIsCutShortIsAnError(t *testing.T) {
	inBubble(t, nil, func(b *bench) {
		b.put("a", `1`)
		b.must(b.Close(b.t.Context()))
		ctx, cancel := context.WithCancel(b.t.Context())
		cancel()
		if _, err := engine.Open(ctx, b.opts); !errors.Is(err, context.Canceled) {
			t.Errorf("open: %v", err)
		}
		b.open() // and the store is free
	})
}

func TestListPagesThroughEverythingOnce(t *testing.T) {
	inBubble(t, func(o *engine.Options) {
		o.Sinks = append(o.Sinks, engine.SinkOptions{Name: "other", Sink: newTarget()})
	}, func(b *bench) {
		b.target.script(func(_ string, r *sink.Request) *sink.Result {
			if r.Key.Name == "team/3" {
				return &sink.Result{Status: sink.Rejected}
			}
			return nil
		})
		for i := range 10 {
			b.put(fmt.Sprint("team/", i), `1`)
			b.put(fmt.Sprint("x", i), `1`)
			_, err := b.Put(b.t.Context(), engine.Put{Key: record.Key{Sink: "other", Name: fmt.Sprint("team/", i)}, Payload: []byte(`1`)})
			b.must(err)
		}
		b.settle()
		for name, row := range map[string]struct {
			o    engine.ListOptions
			want int
		}{
			"all":     {engine.ListOptions{}, 30},
			"a sink":  {engine.ListOptions{Sink: "web"}, 20},
			"prefix":  {engine.ListOptions{Sink: "web", Prefix: "team/"}, 10},
			"a phase": {engine.ListOptions{Phases: []record.Phase{record.Failed}}, 1},
			"phases":  {engine.ListOptions{Phases: []record.Phase{record.Failed, record.AckedPhase}}, 30},
			"none":    {engine.ListOptions{Phases: []record.Phase{record.Stalled}}, 0},
		} {
			for _, limit := range []int{1, 3, 7, 1000} {
				row.o.Limit, row.o.Page = limit, ""
				var all []record.Key
				for {
					page, err := b.List(b.t.Context(), row.o)
					b.must(err)
					if len(page.Items) > limit {
						t.Fatalf("%s: a page of %d with a limit of %d", name, len(page.Items), limit)
					}
					for _, r := range page.Items {
						if n := len(all); n > 0 && all[n-1].Compare(r.Key) >= 0 {
							t.Errorf("%s: %s after %s", name, r.Key, all[n-1])
						}
						all = append(all, r.Key)
						if r.Desired.Payload != nil {
							t.Errorf("%s: a payload that was not asked for", name)
						}
					}
					if row.o.Page = page.Next; row.o.Page == "" {
						break
					}
				}
				if len(all) != row.want {
					t.Errorf("%s, %d a page: %d items, want %d", name, limit, len(all), row.want)
				}
			}
		}
		if _, err := b.List(b.t.Context(), engine.ListOptions{Page: "rubbish!"}); !errors.Is(err, engine.ErrInvalid) {
			t.Errorf("a page token of somebody else: %v", err)
		}
	})
}

func TestCountsAreThoseOfTheList(t *testing.T) {
	inBubble(t, nil, func(b *bench) {
		order := record.Order{Source: "s", Epoch: "e", Number: 1}
		_, err := b.Put(b.t.Context(), engine.Put{Key: web("gone"), Payload: []byte(`1`), Order: order})
		b.must(err)
		b.put("a", `1`)
		b.settle()
		b.delete("gone") // its order is remembered, and counts nowhere
		b.settle()
		got := b.Sinks()[0].Counts
		if len(got) != 1 || got[record.AckedPhase] != 1 {
			t.Errorf("counts %v", got)
		}
	})
}

// TestASinkThatHangsOrIsFloodedDelaysNoOther counts in fake time: what one sink
// does to another shows as a delay of the clock.
func TestASinkThatHangsOrIsFloodedDelaysNoOther(t *testing.T) {
	if testing.Short() {
		t.Skip("a hundred thousand resources take seconds")
	}
	hung, flooded := newTarget(), newTarget()
	hung.latency, flooded.latency = time.Hour, 10*time.Millisecond
	inBubble(t, func(o *engine.Options) {
		o.Sinks = append(o.Sinks, engine.SinkOptions{Name: "hung", Sink: hung}, engine.SinkOptions{Name: "flooded", Sink: flooded, MaxInFlight: 4})
	}, func(b *bench) {
		puts := make([]engine.Put, 0, 10_000)
		for i := range 100_000 {
			name := "flooded"
			if i%100 == 0 {
				name = "hung"
			}
			puts = append(puts, engine.Put{Key: record.Key{Sink: name, Name: fmt.Sprint(i)}, Payload: []byte(`1`)})
			if len(puts) == cap(puts) {
				_, err := b.PutBatch(b.t.Context(), puts)
				b.must(err)
				puts = puts[:0]
			}
		}
		b.after(time.Second)
		b.target.slow(time.Millisecond)
		for i := range 20 {
			began := time.Now()
			gen := b.put(fmt.Sprint("k", i), `1`)
			_, err := b.Wait(b.t.Context(), web(fmt.Sprint("k", i)), gen)
			b.must(err)
			if took := time.Since(began); took > 5*time.Millisecond {
				t.Errorf("put %d took %s beside a hung and a flooded sink; its call takes 1 ms", i, took)
			}
		}
		flooded.mu.Lock()
		n := len(flooded.calls)
		flooded.mu.Unlock()
		if n < 390 {
			t.Errorf("the flooded sink got %d calls in a second, 4 at a time of 10 ms", n)
		}
		ctx, cancel := context.WithCancel(b.t.Context())
		cancel()
		b.must(b.Close(ctx))
	})
}
