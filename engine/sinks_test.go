package engine_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/pawlsync/pawl/engine"
	"github.com/pawlsync/pawl/engine/record"
	"github.com/pawlsync/pawl/engine/sink"
)

// remove takes the bench's sink out and waits for its end.
func (b *bench) remove() {
	b.t.Helper()
	retired, err := b.RemoveSink("web")
	b.must(err)
	b.must(<-retired)
}

// add adds a sink called web.
func (b *bench) add(s sink.Sink, tweak func(*engine.SinkOptions)) {
	b.t.Helper()
	o := engine.SinkOptions{Name: "web", Sink: s}
	if tweak != nil {
		tweak(&o)
	}
	b.must(b.AddSink(b.t.Context(), o))
}

func TestR12_WhatASinkLeavesIsOrphanedAndGoesOnWhenItReturns(t *testing.T) {
	var old *version
	inBubble(t, func(o *engine.Options) { old = versioned(o, nil) }, func(b *bench) {
		b.put("done", `1`)
		b.settle()
		b.target.always(sink.Result{Status: sink.Retry})
		b.put("owed", `1`)
		b.put("doomed", `1`)
		b.delete("doomed")
		b.settle()
		b.remove()
		if old.closed.Load() != 1 {
			t.Errorf("the sink was closed %d times", old.closed.Load())
		}
		b.target.script(nil)
		b.target.forgetCalls()
		b.after(time.Hour)
		for _, name := range []string{"done", "owed", "doomed"} {
			b.want(name, "Orphaned")
			b.wantOps(name)
		}
		if s := b.Sinks()[0]; s.Configured || s.Counts[record.Orphaned] != 3 {
			t.Errorf("status: %+v", s)
		}
		if _, err := b.Put(b.t.Context(), engine.Put{Key: web("more"), Payload: []byte(`1`)}); !errors.Is(err, engine.ErrUnknownSink) {
			t.Errorf("a put for a sink that left: %v", err)
		}
		b.add(next(b.target, nil), nil)
		b.after(5 * time.Minute)
		b.want("done", "Acked")
		b.want("owed", "Acked")
		b.want("doomed", "gone")
		b.wantOps("done", "observe") // R34: looked at, as after a start
		if s := b.Sinks()[0]; !s.Configured || s.Counts[record.Orphaned] != 0 {
			t.Errorf("status: %+v", s)
		}
	})
}

func TestASinkIsAddedToARunningEngine(t *testing.T) {
	inBubble(t, nil, func(b *bench) {
		other := newTarget()
		b.must(b.AddSink(b.t.Context(), engine.SinkOptions{Name: "other", Sink: other}))
		_, err := b.Put(b.t.Context(), engine.Put{Key: record.Key{Sink: "other", Name: "a"}, Payload: []byte(`1`)})
		b.must(err)
		b.settle()
		if got := other.get("a"); got != `1` {
			t.Errorf("the target holds %q", got)
		}
		for what, o := range map[string]engine.SinkOptions{
			"taken":    {Name: "other", Sink: other},
			"no sink":  {Name: "third"},
			"no name":  {Sink: other},
			"inbound":  {Name: "third", Sink: other, Direction: record.Inbound}, // which reports no content
			"negative": {Name: "third", Sink: other, Timeout: -1},
		} {
			if err := b.AddSink(b.t.Context(), o); !errors.Is(err, engine.ErrInvalid) {
				t.Errorf("%s: %v", what, err)
			}
			if err := o.Check(); (err == nil) != (what == "taken") {
				t.Errorf("%s, checked beforehand: %v", what, err)
			}
		}
		if n := len(b.Sinks()); n != 2 {
			t.Errorf("%d sinks", n)
		}
	})
}

func TestP3_ADeliveryOutlivesItsSinkAndItsSuccessorWaitsForIt(t *testing.T) {
	var old *version
	inBubble(t, func(o *engine.Options) { old = versioned(o, nil) }, func(b *bench) {
		b.target.slow(10 * time.Second)
		b.put("a", `1`)
		b.after(time.Second)
		retired, err := b.RemoveSink("web")
		b.must(err)
		b.add(next(b.target, nil), nil)
		b.put("a", `2`)
		b.after(5 * time.Second)
		if old.closed.Load() != 0 {
			t.Error("the old sink was closed in the middle of a delivery")
		}
		b.wantOps("a", "apply")
		b.after(time.Minute)
		b.must(<-retired)
		b.want("a", "Acked")
		b.wantTarget("a", `2`)
		if old.closed.Load() != 1 || old.late.Load() != 0 {
			t.Errorf("closed %d times, %d calls after that", old.closed.Load(), old.late.Load())
		}
	})
}

func TestARemovedSinkIsNeitherReplacedNorChanged(t *testing.T) {
	inBubble(t, nil, func(b *bench) {
		b.remove()
		v := next(b.target, nil)
		if _, err := b.ReplaceSink("web", v); !errors.Is(err, engine.ErrUnknownSink) {
			t.Errorf("replaced: %v", err)
		}
		if _, err := b.ChangeSink(engine.SinkOptions{Name: "web", Sink: v}); !errors.Is(err, engine.ErrUnknownSink) {
			t.Errorf("changed: %v", err)
		}
		if _, err := b.RemoveSink("web"); !errors.Is(err, engine.ErrUnknownSink) {
			t.Errorf("removed again: %v", err)
		}
		if v.closed.Load() != 0 {
			t.Error("a sink that was not taken over was closed")
		}
		if n := len(b.Sinks()); n != 0 {
			t.Errorf("%d sinks are shown", n)
		}
	})
}

func TestAnOperatorsSuspensionOutlivesTheSink(t *testing.T) {
	inBubble(t, nil, func(b *bench) {
		b.must(b.SuspendSink(b.t.Context(), "web"))
		b.put("a", `1`)
		b.remove()
		b.add(b.target, nil)
		b.after(time.Minute)
		b.wantOps("a")
		b.must(b.ResumeSink(b.t.Context(), "web"))
		b.settle()
		b.want("a", "Acked")
	})
}

func TestChangedOptionsHoldForWhatBeginsFromThenOn(t *testing.T) {
	inBubble(t, func(o *engine.Options) { o.Sinks[0].MaxInFlight = 1 }, func(b *bench) {
		b.target.slow(10 * time.Second)
		for i := range 6 {
			b.put(fmt.Sprint("k", i), `1`)
		}
		b.after(time.Second)
		if n := b.called(6); n != 1 {
			t.Fatalf("%d calls at once, want 1", n)
		}
		retired, err := b.ChangeSink(engine.SinkOptions{Name: "web", MaxInFlight: 4, Timeout: 2 * time.Second})
		b.must(err)
		b.must(<-retired)
		b.after(time.Second)
		if n := b.called(6); n != 4 {
			t.Errorf("%d calls at once, want 4", n)
		}
		b.after(8500 * time.Millisecond)
		b.want("k0", "Acked") // it began with 30 s
		if st := b.status("k1"); st.Reason != record.ReasonUnreachable {
			t.Errorf("k1 was not cut off after 2 s: %+v", st)
		}
	})
}

func TestChecksAreMadeByTheNewInterval(t *testing.T) {
	inBubble(t, func(o *engine.Options) { o.Sinks[0].DriftInterval = 100 * time.Hour }, func(b *bench) {
		b.put("a", `1`)
		b.after(time.Hour)
		b.wantOps("a", "apply")
		_, err := b.ChangeSink(engine.SinkOptions{Name: "web", DriftInterval: time.Minute})
		b.must(err)
		b.after(90 * time.Second)
		b.wantOps("a", "apply", "observe")
		_, err = b.ChangeSink(engine.SinkOptions{Name: "web", DriftInterval: -1})
		b.must(err)
		b.after(200 * time.Hour)
		b.wantOps("a", "apply", "observe")
	})
}

func TestANewConflictPolicyJudgesDriftThatIsKnown(t *testing.T) {
	inBubble(t, func(o *engine.Options) { o.Sinks[0].Conflict = record.ReportOnly }, func(b *bench) {
		b.put("a", `1`)
		b.settle()
		b.target.set("a", `9`)
		b.after(15 * time.Minute)
		b.want("a", "Drifted")
		_, err := b.ChangeSink(engine.SinkOptions{Name: "web", Conflict: record.SourceWins})
		b.must(err)
		b.after(10 * time.Second)
		b.want("a", "Acked")
		b.wantTarget("a", `1`)
	})
}

func TestASinkThatIsSharedByTwoChangesIsClosedOnce(t *testing.T) {
	var old *version
	inBubble(t, func(o *engine.Options) { old = versioned(o, nil) }, func(b *bench) {
		b.target.slow(10 * time.Second)
		b.put("a", `1`)
		b.after(time.Second)
		_, err := b.ChangeSink(engine.SinkOptions{Name: "web", MaxInFlight: 7})
		b.must(err)
		b.settle()
		if old.closed.Load() != 0 {
			t.Error("a change of options closed the sink")
		}
		b.replace(next(b.target, nil)) // waits for the delivery that began two fittings ago
		if old.closed.Load() != 1 || old.late.Load() != 0 {
			t.Errorf("closed %d times, %d calls after that", old.closed.Load(), old.late.Load())
		}
		b.want("a", "Acked")
	})
}

func TestInFlightOverAllSinksIsBoundedAnew(t *testing.T) {
	inBubble(t, nil, func(b *bench) {
		b.SetMaxInFlight(2)
		b.target.slow(time.Minute)
		for i := range 9 {
			b.put(fmt.Sprint("k", i), `1`)
		}
		b.after(time.Second)
		if n := b.called(9); n != 2 {
			t.Errorf("%d calls in flight, want 2", n)
		}
		b.SetMaxInFlight(5)
		b.after(time.Second)
		if n := b.called(9); n != 5 {
			t.Errorf("%d calls in flight, want 5", n)
		}
	})
}

func TestR67_ASinkOfARestoredStoreIsHeldWhenItIsAddedLater(t *testing.T) {
	inBubble(t, nil, func(b *bench) {
		b.put("a", `1`)
		b.settle()
		b.must(b.Close(b.t.Context()))
		b.disk.SetEpoch("after-restore", true)
		sinks := b.opts.Sinks
		b.opts.Sinks = nil
		b.open()
		b.target.forgetCalls()
		b.must(b.AddSink(b.t.Context(), sinks[0]))
		b.must(b.AddSink(b.t.Context(), engine.SinkOptions{Name: "fresh", Sink: newTarget()}))
		b.after(time.Hour)
		b.wantOps("a")
		for _, s := range b.Sinks() {
			if want := map[string]record.Reason{"web": record.ReasonRestored, "fresh": record.ReasonNone}[s.Name]; s.SuspendReason != want {
				t.Errorf("%s is suspended: %q, want %q", s.Name, s.SuspendReason, want)
			}
		}
		b.must(b.ResumeSink(b.t.Context(), "web"))
		b.after(time.Minute)
		if n := len(b.target.ops("a")); n == 0 {
			t.Error("a sink that was let go makes no call")
		}
	})
}

func TestCloseWaitsForASinkThatIsRemoved(t *testing.T) {
	var old *version
	inBubble(t, func(o *engine.Options) { old = versioned(o, nil) }, func(b *bench) {
		b.target.slow(10 * time.Second)
		b.put("a", `1`)
		b.settle()
		retired, err := b.RemoveSink("web")
		b.must(err)
		b.must(b.Close(b.t.Context()))
		b.must(<-retired)
		if old.closed.Load() != 1 || old.late.Load() != 0 {
			t.Errorf("closed %d times, %d calls after that", old.closed.Load(), old.late.Load())
		}
		if err := b.AddSink(b.t.Context(), engine.SinkOptions{Name: "x", Sink: newTarget()}); !errors.Is(err, engine.ErrClosed) {
			t.Errorf("after Close: %v", err)
		}
	})
}
