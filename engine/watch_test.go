package engine_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pawlsync/pawl/engine"
	"github.com/pawlsync/pawl/engine/record"
	"github.com/pawlsync/pawl/engine/sink"
)

func TestR60_AnAckOfAnOlderGenerationLeavesNewerWork(t *testing.T) {
	inBubble(t, nil, func(b *bench) {
		b.target.slow(time.Second)
		first := b.put("a", `1`)
		b.settle()
		second := b.put("a", `2`)
		b.after(1500 * time.Millisecond) // the first is answered, the second under way
		r, err := b.Get(b.t.Context(), web("a"))
		b.must(err)
		if r.Status.Acked == nil || r.Status.Acked.Generation != first || r.Desired.Generation != second || r.Status.Phase != record.Delivering {
			t.Errorf("acked %+v, desired %d, %s", r.Status.Acked, r.Desired.Generation, r.Status.Phase)
		}
		b.after(time.Second)
		b.want("a", "Acked")
		b.wantTarget("a", `2`)
	})
}

func TestR62_AnApplyWhoseAckWasLostIsFoundDone(t *testing.T) {
	inBubble(t, nil, func(b *bench) {
		b.target.slow(time.Second)
		b.put("a", `1`)
		b.settle()
		b.disk.FailCommits(-1, errors.New("disk on fire")) // the outcome can't be stored
		b.after(2 * time.Second)
		b.wantTarget("a", `1`)
		b.want("a", "Pending")
		b.disk.FailCommits(0, nil)
		b.reopen()
		b.after(10 * time.Minute)
		b.want("a", "Acked")
		b.wantOps("a", "apply", "observe")
	})
}

func TestP3_AnOutcomeThatCouldNotBeStoredIsRememberedByThePutThatFollows(t *testing.T) {
	inBubble(t, nil, func(b *bench) {
		b.target.always(sink.Result{Status: sink.Unreachable})
		b.put("a", `0`)
		b.settle()
		b.target.slow(time.Second)
		b.put("a", `1`)
		b.after(2500 * time.Millisecond) // its call is under way
		b.disk.FailCommits(1, errors.New("disk on fire"))
		b.after(time.Second)
		b.target.script(nil)
		gen := b.put("a", `2`)
		b.after(10 * time.Second)
		if st := b.status("a"); st.Phase == record.AckedPhase {
			t.Errorf("generation %d is acked although an older request may still land: %v", gen, b.target.ops("a"))
		}
		b.after(time.Minute)
		b.want("a", "Acked")
	})
}

// waiting runs Wait and returns where its result goes.
func (b *bench) waiting(ctx context.Context, name string, generation uint64) func() (engine.WaitResult, error, bool) {
	var res engine.WaitResult
	var err error
	done := make(chan struct{})
	go func() {
		defer close(done)
		res, err = b.Wait(ctx, web(name), generation)
	}()
	return func() (engine.WaitResult, error, bool) {
		b.settle()
		select {
		case <-done:
			return res, err, true
		default:
			return engine.WaitResult{}, nil, false
		}
	}
}

func TestR63_AWaitEndsInEachOfItsWays(t *testing.T) {
	for name, row := range map[string]struct {
		policy record.ConflictPolicy
		then   func(b *bench) // what ends the wait for generation 1
		want   engine.WaitResult
	}{
		"acked": {then: func(b *bench) { b.target.script(nil); b.after(time.Minute) }, want: engine.WaitResult{Done: true, Phase: record.AckedPhase}},
		"a newer generation is acked": {then: func(b *bench) { b.put("a", `2`); b.target.script(nil); b.after(time.Minute) },
			want: engine.WaitResult{Done: true, Phase: record.AckedPhase}},
		"gone":      {then: func(b *bench) { b.delete("a"); b.target.script(nil); b.after(time.Minute) }, want: engine.WaitResult{Done: true, Gone: true}},
		"forgotten": {then: func(b *bench) { b.must(b.Forget(b.t.Context(), web("a"))) }, want: engine.WaitResult{Done: true, Gone: true}},
		"failed": {then: func(b *bench) {
			b.target.always(sink.Result{Status: sink.Rejected, Message: "no"})
			b.after(time.Minute)
		},
			want: engine.WaitResult{Phase: record.Failed, Reason: record.ReasonRejected, Message: "no"}},
		"a newer generation failed": {then: func(b *bench) {
			b.put("a", `2`)
			b.target.always(sink.Result{Status: sink.Rejected, Message: "no"})
			b.after(time.Minute)
		}, want: engine.WaitResult{Phase: record.Failed, Reason: record.ReasonRejected, Message: "no"}},
		"obsolete": {then: func(b *bench) { b.target.always(sink.Result{Status: sink.Obsolete}); b.after(time.Minute) },
			want: engine.WaitResult{Phase: record.Obsolete, Reason: record.ReasonObsolete}},
		"drifted": {policy: record.ReportOnly, then: func(b *bench) { b.target.set("a", `9`); b.target.script(nil); b.after(time.Minute) },
			want: engine.WaitResult{Phase: record.Drifted, Reason: record.ReasonDrift, Message: "the target differs from what was acknowledged"}},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, conflict(row.policy), func(b *bench) {
				b.target.always(sink.Result{Status: sink.Unreachable, NotSent: true})
				ended := b.waiting(b.t.Context(), "a", b.put("a", `1`))
				if res, err, done := ended(); done {
					t.Fatalf("it ended at once: %+v, %v", res, err)
				}
				row.then(b)
				res, err, done := ended()
				if !done || err != nil {
					t.Fatalf("ended %t, %v", done, err)
				}
				res.Generation = 0
				if res != row.want {
					t.Errorf("got %+v, want %+v", res, row.want)
				}
				if n := b.Stats().Waiters; n != 0 {
					t.Errorf("%d waiters are left", n)
				}
			})
		})
	}
}

func TestR63_AWaitEndsWithItsContextAndWithTheEngine(t *testing.T) {
	inBubble(t, nil, func(b *bench) {
		b.target.always(sink.Result{Status: sink.Retry, Message: "busy"})
		gen := b.put("a", `1`)
		ctx, cancel := context.WithTimeout(b.t.Context(), time.Second)
		defer cancel()
		short, long := b.waiting(ctx, "a", gen), b.waiting(b.t.Context(), "a", gen)
		b.after(2 * time.Second)
		if res, err, done := short(); !done || !errors.Is(err, context.DeadlineExceeded) || res.Phase != record.Pending || res.Message != "busy" {
			t.Errorf("ended %t with %+v, %v", done, res, err)
		}
		b.must(b.Close(b.t.Context()))
		if _, err, done := long(); !done || !errors.Is(err, engine.ErrClosed) {
			t.Errorf("ended %t with %v", done, err)
		}
		if _, err := b.Wait(b.t.Context(), web("a"), gen); !errors.Is(err, engine.ErrClosed) {
			t.Errorf("a wait on a closed engine: %v", err)
		}
		b.open()
		if _, err := b.Wait(b.t.Context(), web("nobody"), 0); !errors.Is(err, engine.ErrNotFound) {
			t.Errorf("a wait for nobody: %v", err)
		}
	})
}

func TestR63_AFailureOfAnOlderGenerationReadsAsPending(t *testing.T) {
	inBubble(t, nil, func(b *bench) {
		b.target.always(sink.Result{Status: sink.Rejected, Message: "no"})
		b.put("a", `1`)
		b.settle()
		b.must(b.SuspendSink(b.t.Context(), "web"))
		gen := b.put("a", `2`)
		ended := b.waiting(b.t.Context(), "a", gen)
		if res, _, done := ended(); done {
			t.Errorf("the wait for the newer generation ended with the older one's failure: %+v", res)
		}
		if st := b.status("a"); st.Phase != record.Pending || st.Message != "" || st.Attempts != 0 {
			t.Errorf("it reads as %s %q", st.Phase, st.Message)
		}
		b.must(b.Forget(b.t.Context(), web("a")))
		ended()
	})
}

// watch collects events in the background until the context of the bubble, or cancel.
type watch struct {
	events []engine.Event
	err    error
	ended  bool
	cancel context.CancelFunc
}

func (b *bench) watch(o engine.WatchOptions) *watch {
	ctx, cancel := context.WithCancel(b.t.Context())
	w := &watch{cancel: cancel}
	go func() {
		for ev, err := range b.Watch(ctx, o) {
			if err != nil {
				w.err = err
				break
			}
			w.events = append(w.events, ev)
		}
		w.ended = true
	}()
	b.settle()
	return w
}

func TestR64_AWatchResumesFromAnyOfItsTokens(t *testing.T) {
	inBubble(t, nil, func(b *bench) {
		w := b.watch(engine.WatchOptions{})
		for i := range 5 {
			b.put(fmt.Sprint("k", i), `1`)
			b.settle()
		}
		b.delete("k2")
		b.settle()
		last := map[record.Key]bool{}
		for _, ev := range w.events {
			last[ev.Resource.Key] = ev.Removed
		}
		if len(last) != 5 || !last[web("k2")] {
			t.Fatalf("the watch saw %v", last)
		}
		for i, ev := range w.events { // whoever comes back with a token sees the newest of all that changed since
			again := b.watch(engine.WatchOptions{From: ev.Token})
			want := map[record.Key]bool{}
			for _, later := range w.events[i+1:] {
				want[later.Resource.Key] = later.Removed
			}
			got := map[record.Key]bool{}
			for _, e := range again.events {
				if _, twice := got[e.Resource.Key]; twice {
					t.Errorf("from event %d: %s came twice", i, e.Resource.Key)
				}
				got[e.Resource.Key] = e.Removed
			}
			if !maps.Equal(got, want) {
				t.Errorf("from event %d: got %v, want %v", i, got, want)
			}
			again.cancel()
		}
		w.cancel()
		b.settle()
		if n := b.Stats().Watchers; n != 0 || !w.ended {
			t.Errorf("%d watchers are left", n)
		}
	})
}

func TestR64_ASlowWatcherGetsTheNewestAlone(t *testing.T) {
	inBubble(t, nil, func(b *bench) {
		b.must(b.SuspendSink(b.t.Context(), "web"))
		next := make(chan struct{})
		var seen []engine.Event
		go func() {
			for ev, err := range b.Watch(b.t.Context(), engine.WatchOptions{}) {
				if err != nil {
					return
				}
				seen = append(seen, ev)
				<-next
			}
		}()
		b.settle()
		b.put("first", `1`)
		b.settle()
		var gen uint64
		for i := range 100 {
			gen = b.put("hot", fmt.Sprint(i))
			b.put(fmt.Sprint("cold", i%2), fmt.Sprint(i))
		}
		close(next)
		b.settle()
		var keys []string
		for _, ev := range seen {
			keys = append(keys, ev.Resource.Key.Name)
			if ev.Resource.Key.Name == "hot" && ev.Resource.Desired.Generation != gen {
				t.Errorf("an old state of hot: generation %d, not %d", ev.Resource.Desired.Generation, gen)
			}
		}
		if want := []string{"first", "cold0", "hot", "cold1"}; !slices.Equal(keys, want) {
			t.Errorf("seen %v, want %v: each once, in the order of the commits", keys, want)
		}
		b.must(b.Close(b.t.Context()))
	})
}

func TestR64_WhatCannotBeServedWithoutAGapIsExpired(t *testing.T) {
	inBubble(t, func(o *engine.Options) { o.WatchBuffer = 8 }, func(b *bench) {
		first := b.watch(engine.WatchOptions{})
		b.put("a", `0`)
		b.settle()
		old := first.events[0].Token
		for i := range 20 {
			b.put(fmt.Sprint("k", i), `1`)
		}
		b.settle()
		page, err := b.List(b.t.Context(), engine.ListOptions{})
		b.must(err)
		epoch, newest, _ := strings.Cut(page.Token, ".")
		for what, token := range map[string]string{
			"too old": old, "foreign": "0123456789abcdef." + newest, "future": epoch + ".9999999", "no token": "rubbish", "no number": epoch + ".x",
		} {
			w := b.watch(engine.WatchOptions{From: token})
			if !w.ended || !errors.Is(w.err, engine.ErrWatchExpired) || !strings.Contains(fmt.Sprint(w.err), "list again") {
				t.Errorf("a token that is %s: ended %t, %v", what, w.ended, w.err)
			}
			w.cancel()
		}
		w := b.watch(engine.WatchOptions{From: page.Token})
		if w.ended || len(w.events) > 0 {
			t.Errorf("from the list: %d events, %v", len(w.events), w.err)
		}
		w.cancel()
		first.cancel()
	})
}

func TestR64_AWatcherThatFallsTooFarBehindIsTold(t *testing.T) {
	inBubble(t, func(o *engine.Options) { o.WatchBuffer = 8 }, func(b *bench) {
		b.must(b.SuspendSink(b.t.Context(), "web"))
		next := make(chan struct{})
		var end error
		go func() {
			for _, err := range b.Watch(b.t.Context(), engine.WatchOptions{}) {
				end = err
				<-next
			}
		}()
		b.settle()
		for i := range 20 {
			b.put(fmt.Sprint("k", i), `1`)
		}
		close(next)
		b.settle()
		if !errors.Is(end, engine.ErrWatchExpired) {
			t.Errorf("it ended with %v", end)
		}
	})
}

func TestR64_AWatchEndsWithItsEngineAndItsTokenOutlivesIt(t *testing.T) {
	inBubble(t, nil, func(b *bench) {
		w := b.watch(engine.WatchOptions{})
		b.put("a", `1`)
		b.settle()
		b.must(b.Close(b.t.Context()))
		b.settle()
		if !w.ended || !errors.Is(w.err, engine.ErrClosed) {
			t.Errorf("ended %t, %v", w.ended, w.err)
		}
		b.open()
		again := b.watch(engine.WatchOptions{From: w.events[len(w.events)-1].Token})
		b.put("b", `1`)
		b.settle()
		saw := slices.ContainsFunc(again.events, func(ev engine.Event) bool { return ev.Resource.Key == web("b") })
		if again.err != nil || !saw {
			t.Errorf("over a restart: %v, %v", again.events, again.err)
		}
		again.cancel()
	})
}

func TestR64_AWatchSeesItsSinkAndPrefixAlone(t *testing.T) {
	inBubble(t, func(o *engine.Options) {
		o.Sinks = append(o.Sinks, engine.SinkOptions{Name: "other", Sink: newTarget()})
	}, func(b *bench) {
		w := b.watch(engine.WatchOptions{Sink: "web", Prefix: "team/"})
		for _, key := range []record.Key{web("team/a"), web("x"), {Sink: "other", Name: "team/b"}} {
			_, err := b.Put(b.t.Context(), engine.Put{Key: key, Payload: []byte(`1`)})
			b.must(err)
		}
		b.settle()
		for _, ev := range w.events {
			if ev.Resource.Key != web("team/a") || ev.Resource.Desired.Payload != nil {
				t.Errorf("an event of %s with payload %q", ev.Resource.Key, ev.Resource.Desired.Payload)
			}
		}
		if len(w.events) == 0 {
			t.Error("no event")
		}
		w.cancel()
	})
}

func TestR65_TheLastTwentyTransitionsAreKept(t *testing.T) {
	inBubble(t, nil, func(b *bench) {
		for i := range 30 {
			b.put("a", fmt.Sprint(i))
			b.after(time.Minute)
		}
		b.must(b.Suspend(b.t.Context(), web("a")))
		h := b.status("a").History
		if len(h) != record.HistoryLength || !strings.Contains(h[len(h)-1].Message, "suspended") {
			t.Fatalf("%d lines, the last %+v", len(h), h[len(h)-1])
		}
		for i := 1; i < len(h); i++ {
			if h[i].At.Before(h[i-1].At) {
				t.Errorf("line %d is older than the one before", i)
			}
		}
	})
}

func TestR66_WhatAnOperatorOrdersIsDurable(t *testing.T) {
	for name, row := range map[string]struct {
		policy record.ConflictPolicy
		drift  bool
		order  func(b *bench) error
		check  func(b *bench)
	}{
		"suspend": {order: func(b *bench) error { return b.Suspend(b.t.Context(), web("a")) },
			check: func(b *bench) { b.put("a", `2`); b.after(time.Hour); b.wantTarget("a", `1`) }},
		"force": {policy: record.ReportOnly, drift: true, order: func(b *bench) error { return b.ApplyForce(b.t.Context(), web("a")) },
			check: func(b *bench) { b.wantTarget("a", `1`) }},
		"accept": {policy: record.ReportOnly, drift: true, order: func(b *bench) error { return b.Accept(b.t.Context(), web("a")) },
			check: func(b *bench) { b.want("a", "Acked"); b.wantTarget("a", `9`) }},
		"forget": {order: func(b *bench) error { return b.Forget(b.t.Context(), web("a")) }, check: func(b *bench) { b.want("a", "gone") }},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, conflict(row.policy), func(b *bench) {
				b.put("a", `1`)
				b.settle()
				if row.drift {
					b.target.set("a", `9`)
					b.after(12 * time.Minute)
					b.want("a", "Drifted")
				}
				release := b.disk.HoldCommits()
				var err error
				returned := false
				go func() { err = row.order(b); returned = true }()
				b.settle()
				if returned {
					t.Error("it returned before it was durable")
				}
				release()
				b.settle()
				b.must(err)
				b.reopen()
				b.after(time.Second)
				row.check(b)
			})
		})
	}
}

func TestR66_AnOrderThatDoesNotApplyIsRefused(t *testing.T) {
	inBubble(t, nil, func(b *bench) {
		ctx := b.t.Context()
		for what, err := range map[string]error{"retry": b.Retry(ctx, web("x")), "suspend": b.Suspend(ctx, web("x")), "force": b.ApplyForce(ctx, web("x"))} {
			if !errors.Is(err, engine.ErrNotFound) {
				t.Errorf("%s of nobody: %v", what, err)
			}
		}
		b.put("a", `1`)
		b.settle()
		if err := b.Accept(ctx, web("a")); !errors.Is(err, engine.ErrNothingToDo) {
			t.Errorf("accept of what is acked: %v", err)
		}
		if err := b.SuspendSink(ctx, "nowhere"); !errors.Is(err, engine.ErrUnknownSink) {
			t.Errorf("suspend of an unknown sink: %v", err)
		}
	})
}
