package engine_test

import (
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pawlsync/pawl/engine"
	"github.com/pawlsync/pawl/engine/record"
	"github.com/pawlsync/pawl/engine/schedule"
	"github.com/pawlsync/pawl/engine/sink"
)

func TestR40_RetriesBackOffAndSurviveARestart(t *testing.T) {
	inBubble(t, nil, func(b *bench) {
		b.target.always(sink.Result{Status: sink.Retry, Message: "busy"})
		b.put("a", `1`)
		b.after(4 * time.Second) // the second attempt came 1 to 2 s after the first
		calls := b.target.callsAbout("a")
		if len(calls) != 2 {
			t.Fatalf("%d calls within 4 s, want 2", len(calls))
		}
		if gap := calls[1].at.Sub(calls[0].at); gap < time.Second || gap > 2*time.Second {
			t.Errorf("the first pause was %s, want 1 s to 2 s", gap)
		}
		b.reopen()
		b.settle()
		if n := len(b.target.callsAbout("a")); n != 2 {
			t.Errorf("a restart shortened the pause: %d calls", n)
		}
		if st := b.status("a"); st.Attempts != 2 {
			t.Errorf("a restart left %d attempts", st.Attempts)
		}
	})
}

func TestR41_AttemptsRunOutAndRetryStartsAtOnce(t *testing.T) {
	inBubble(t, nil, func(b *bench) {
		b.target.always(sink.Result{Status: sink.Retry, Message: "busy"})
		b.put("a", `1`)
		b.after(2 * time.Minute)
		b.want("a", "Stalled")
		if n := len(b.target.callsAbout("a")); n != 5 {
			t.Errorf("%d calls, want 5", n)
		}
		b.target.script(nil)
		if err := b.Retry(b.t.Context(), web("a")); err != nil {
			t.Fatal(err)
		}
		b.settle()
		b.want("a", "Acked")
	})
}

func TestR41_AStalledResourceIsTriedAgain(t *testing.T) {
	inBubble(t, nil, func(b *bench) {
		b.target.always(sink.Result{Status: sink.Retry})
		b.put("a", `1`)
		b.after(2 * time.Minute)
		b.target.script(nil)
		b.after(5 * time.Minute)
		b.want("a", "Acked")
	})
}

func TestR42_RetryAfterForTheTargetPausesTheSink(t *testing.T) {
	inBubble(t, nil, func(b *bench) {
		b.target.always(sink.Result{Status: sink.Retry, RetryAfter: 30 * time.Second, RetryAfterTarget: true})
		b.put("a", `1`)
		b.settle()
		b.target.script(nil)
		b.put("b", `1`)
		b.after(29 * time.Second)
		b.wantOps("b")
		b.after(2 * time.Second)
		b.want("a", "Acked")
		b.want("b", "Acked")
	})
}

func TestR42_RetryAfterForAnObjectPausesItAlone(t *testing.T) {
	inBubble(t, nil, func(b *bench) {
		b.target.always(sink.Result{Status: sink.Retry, RetryAfter: 30 * time.Second})
		b.put("a", `1`)
		b.settle()
		b.target.script(nil)
		b.put("b", `1`)
		b.settle()
		b.want("b", "Acked")
		b.want("a", "Pending")
		if st := b.status("a"); st.Attempts != 0 || st.Reason != record.ReasonPaused {
			t.Errorf("attempts %d, reason %s", st.Attempts, st.Reason)
		}
	})
}

func TestR43_ADeadTargetParksItsSinkBurnsNothingAndIsProbed(t *testing.T) {
	inBubble(t, nil, func(b *bench) {
		b.target.always(sink.Result{Status: sink.Unreachable, Message: "connection refused", NotSent: true})
		for i := range 200 {
			b.put(fmt.Sprint("k", i), `1`)
		}
		b.after(10 * time.Minute)
		if s := b.Sinks()[0]; s.Breaker == schedule.BreakerClosed {
			t.Error("the breaker is closed")
		}
		total := 0
		for i := range 200 {
			name := fmt.Sprint("k", i)
			total += len(b.target.callsAbout(name))
			if st := b.status(name); st.Attempts != 0 || st.Phase != record.Pending {
				t.Fatalf("%s is %s with %d attempts", name, st.Phase, st.Attempts)
			}
		}
		if total > 200 {
			t.Errorf("%d calls in ten minutes to a dead target", total)
		}
		b.target.script(nil)
		b.after(3 * time.Minute)
		for i := range 200 {
			b.want(fmt.Sprint("k", i), "Acked")
		}
	})
}

func TestR43_OneUnreachableAmongAnsweredBurnsItsAttempts(t *testing.T) {
	inBubble(t, nil, func(b *bench) {
		b.target.script(func(op string, r *sink.Request) *sink.Result {
			if r.Key.Name == "bad" {
				return &sink.Result{Status: sink.Unreachable, NotSent: true}
			}
			return nil
		})
		b.put("bad", `1`)
		for i := range 300 {
			b.put(fmt.Sprint("good", i), `1`)
			b.after(time.Second)
		}
		if st := b.status("bad"); st.Phase != record.Stalled && st.Attempts == 0 {
			t.Errorf("bad is %s with %d attempts", st.Phase, st.Attempts)
		}
		b.want("good299", "Acked")
	})
}

func TestR44_RefusedCredentialsAreHeldLikeADeadTarget(t *testing.T) {
	inBubble(t, nil, func(b *bench) {
		b.target.always(sink.Result{Status: sink.Unauthorized, Message: "token expired"})
		for i := range 10 {
			b.put(fmt.Sprint("k", i), `1`)
		}
		b.after(time.Minute)
		st := b.status("k0")
		if st.Reason != record.ReasonUnauthorized || st.Attempts != 0 {
			t.Errorf("reason %s, attempts %d", st.Reason, st.Attempts)
		}
		if s := b.Sinks()[0]; s.LastErrorStatus != sink.Unauthorized {
			t.Errorf("the sink's last error is %v", s.LastErrorStatus)
		}
		b.target.script(nil)
		b.after(3 * time.Minute)
		b.want("k9", "Acked")
	})
}

func TestR45_RejectedRestsUntilANewGeneration(t *testing.T) {
	inBubble(t, nil, func(b *bench) {
		b.target.always(sink.Result{Status: sink.Rejected, Message: "no such field"})
		b.put("a", `1`)
		b.after(time.Hour)
		b.want("a", "Failed")
		b.wantOps("a", "apply")
		b.target.script(nil)
		b.put("a", `2`)
		b.settle()
		b.want("a", "Acked")
	})
}

func TestR46_ObsoleteIsTerminal(t *testing.T) {
	inBubble(t, nil, func(b *bench) {
		b.target.always(sink.Result{Status: sink.Obsolete})
		b.put("a", `1`)
		b.after(time.Hour)
		b.want("a", "Obsolete")
		b.wantOps("a", "apply")
	})
}

func TestR47_APanicInASinkIsAFaultOfItsCall(t *testing.T) {
	inBubble(t, nil, func(b *bench) {
		b.target.script(func(string, *sink.Request) *sink.Result { panic("oops") })
		b.put("a", `1`)
		b.settle()
		if st := b.status("a"); st.Reason != record.ReasonPluginFault || st.Attempts != 1 {
			t.Errorf("reason %s, attempts %d", st.Reason, st.Attempts)
		}
		b.target.mu.Lock()
		clear(b.target.busy)
		b.target.mu.Unlock()
		b.target.script(nil)
		b.after(5 * time.Second)
		b.want("a", "Acked")
	})
}

func TestR47_APluginThatKeepsFaultingOpensItsBreakerAndASuspectDoesNot(t *testing.T) {
	for _, suspect := range []bool{false, true} {
		inBubble(t, nil, func(b *bench) {
			b.target.always(sink.Result{Status: sink.Fault, NotSent: true, Suspect: suspect, Message: "trap"})
			for _, name := range []string{"a", "b", "c", "d", "e", "f"} {
				b.put(name, `1`)
				b.settle()
			}
			if open := b.Sinks()[0].Breaker != schedule.BreakerClosed; open == suspect {
				t.Errorf("suspect %v: the breaker is %v", suspect, b.Sinks()[0].Breaker)
			}
			b.target.script(nil)
			b.after(time.Hour)
			b.want("a", "Acked")
		})
	}
}

func TestR48_AnEqualPutDuringBackoffChangesNothing(t *testing.T) {
	inBubble(t, nil, func(b *bench) {
		b.target.always(sink.Result{Status: sink.Retry})
		b.put("a", `1`)
		b.settle()
		before := b.status("a").NextAt
		b.put("a", `1`)
		b.settle()
		if after := b.status("a").NextAt; !after.Equal(before) {
			t.Errorf("due moved from %s to %s", before, after)
		}
		b.wantOps("a", "apply")
	})
}

func TestR49_ACallIsCutOffAndNothingNewerIsAckedBeforeItsDeadline(t *testing.T) {
	inBubble(t, nil, func(b *bench) {
		b.target.mu.Lock()
		b.target.latency = time.Hour
		b.target.mu.Unlock()
		b.put("a", `1`)
		b.after(31 * time.Second)
		if st := b.status("a"); st.Reason != record.ReasonUnreachable || len(st.Attempted) != 1 {
			t.Fatalf("reason %s, attempted %v", st.Reason, st.Attempted)
		}
		b.target.mu.Lock()
		b.target.latency = 0
		b.target.mu.Unlock()
		b.put("a", `2`)
		b.after(4 * time.Second)
		if st := b.status("a"); st.Reason != record.ReasonSettling {
			t.Errorf("%s %s although the first request may still land", st.Phase, st.Reason)
		}
		b.target.set("a", `1`) // it lands late
		b.after(time.Minute)
		b.want("a", "Acked")
		if got := b.target.get("a"); got != "2" {
			t.Errorf("the target holds %s", got)
		}
	})
}

func TestP3_ACallThatAKilledEngineLeftIsRememberedByThePutThatReplacesIt(t *testing.T) {
	inBubble(t, nil, func(b *bench) {
		b.target.mu.Lock()
		b.target.latency = time.Hour
		b.target.mu.Unlock()
		b.put("a", `1`)
		b.settle()
		if b.state("a") != "Delivering" {
			t.Fatal("the first state is not under way")
		}
		b.put("a", `2`)
		if n := len(b.status("a").Attempted); n != 1 {
			t.Errorf("%d attempts remembered with the Put that replaced a state under way, want 1", n)
		}
	})
}

func TestR54_AFailingDeleteStaysUntilForgotten(t *testing.T) {
	inBubble(t, nil, func(b *bench) {
		b.put("a", `1`)
		b.settle()
		b.target.always(sink.Result{Status: sink.Rejected, Message: "protected"})
		b.delete("a")
		b.after(24 * time.Hour)
		if got := b.state("a"); got != "Stalled" && got != "Pending" {
			t.Errorf("the tombstone is %s", got)
		}
		if n := len(b.target.callsAbout("a")); n < 100 {
			t.Errorf("only %d calls in a day", n)
		}
		if err := b.Forget(b.t.Context(), web("a")); err != nil {
			t.Fatal(err)
		}
		b.want("a", "gone")
		if err := b.Forget(b.t.Context(), web("a")); !errors.Is(err, engine.ErrNotFound) {
			t.Errorf("forget of what is gone: %v", err)
		}
	})
}

func TestR54_ForgetWaitsForACallInFlight(t *testing.T) {
	inBubble(t, nil, func(b *bench) {
		b.target.latency = 10 * time.Second
		b.put("a", `1`)
		b.settle()
		var forgotten atomic.Bool
		go func() {
			if err := b.Forget(b.t.Context(), web("a")); err != nil {
				t.Error(err)
			}
			forgotten.Store(true)
		}()
		b.settle()
		if forgotten.Load() {
			t.Error("forget did not wait")
		}
		b.after(11 * time.Second)
		if !forgotten.Load() {
			t.Error("forget did not end")
		}
		b.want("a", "gone")
	})
}

func TestR57_ABatchIsHalvedUntilItsItemsAnswer(t *testing.T) {
	batch := &batchTarget{fakeTarget: newTarget(), poison: "k3"}
	batch.manifest.BatchMax = 8
	inBubble(t, func(o *engine.Options) {
		o.Sinks[0].Sink = batch
		o.Sinks[0].Suspended = false
	}, func(b *bench) {
		if err := b.SuspendSink(b.t.Context(), "web"); err != nil {
			t.Fatal(err)
		}
		for i := range 8 {
			b.put(fmt.Sprint("k", i), `1`)
		}
		if err := b.ResumeSink(b.t.Context(), "web"); err != nil {
			t.Fatal(err)
		}
		b.settle()
		for i := range 8 {
			want := "Acked"
			if i == 3 {
				want = "Failed"
			}
			b.want(fmt.Sprint("k", i), want)
		}
		if batch.largest != 8 {
			t.Errorf("the largest batch had %d items", batch.largest)
		}
		if st := b.status("k0"); st.Attempts != 0 {
			t.Errorf("halving burnt %d attempts", st.Attempts)
		}
	})
}

func TestR42_ThePauseBeginsBeforeTheOutcomeIsStored(t *testing.T) {
	inBubble(t, nil, func(b *bench) {
		b.put("b", `1`)
		b.settle()
		var release func()
		b.target.script(func(op string, r *sink.Request) *sink.Result {
			if r.Key.Name == "a" {
				release = b.disk.HoldCommits()
			}
			return &sink.Result{Status: sink.Retry, RetryAfter: time.Minute, RetryAfterTarget: true}
		})
		b.put("a", `1`)
		b.settle()
		if s := b.Sinks()[0]; s.PausedUntil.IsZero() {
			t.Error("calls go on to a target that asked for a pause, until its answer is stored")
		}
		release()
	})
}
