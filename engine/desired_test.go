package engine_test

import (
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pawlsync/pawl/engine"
	"github.com/pawlsync/pawl/engine/outbox"
	"github.com/pawlsync/pawl/engine/outbox/memory"
	"github.com/pawlsync/pawl/engine/record"
	"github.com/pawlsync/pawl/engine/sink"
)

func TestR01_PutIsDurableBeforeItReturns(t *testing.T) {
	inBubble(t, nil, func(b *bench) {
		release := b.disk.HoldCommits()
		var returned atomic.Bool
		go func() {
			b.put("a", `1`)
			returned.Store(true)
		}()
		b.settle()
		if returned.Load() {
			t.Error("Put returned before its commit")
		}
		if got := b.state("a"); got != "gone" {
			t.Errorf("a reader sees %s before the commit", got)
		}
		release()
		b.settle()
		if !returned.Load() {
			t.Error("Put did not return after its commit")
		}
	})
}

func TestR01_TheAnswerSaysWhetherOlderWorkWasReplaced(t *testing.T) {
	inBubble(t, nil, func(b *bench) {
		b.target.always(sink.Result{Status: sink.Retry})
		for i, want := range []bool{false, true} {
			res, err := b.Put(b.t.Context(), engine.Put{Key: web("a"), Payload: fmt.Append(nil, i)})
			if err != nil || res.Replaced != want || !res.Changed {
				t.Errorf("put %d: %+v, %v; want Replaced %t", i, res, err, want)
			}
			b.settle()
		}
	})
}

func TestR03_EqualContentIsANoOpAndKeepsPhaseAndSchedule(t *testing.T) {
	inBubble(t, nil, func(b *bench) {
		gen := b.put("a", `{"x":1,"y":2}`)
		b.settle()
		res, err := b.Put(b.t.Context(), engine.Put{Key: web("a"), Payload: []byte(`{ "y":2, "x":1 }`)})
		if err != nil || res.Changed || res.Generation != gen {
			t.Errorf("%+v, %v; want the generation %d unchanged", res, err, gen)
		}
		b.settle()
		b.want("a", "Acked")
		b.wantOps("a", "apply")
	})
}

func TestR03_ANoOpWaitsUntilWhatItSawIsDurable(t *testing.T) {
	inBubble(t, nil, func(b *bench) {
		release := b.disk.HoldCommits()
		done := make(chan string, 2)
		go func() { b.put("a", `1`); done <- "first" }()
		b.settle()
		go func() { b.put("a", `1`); done <- "second" }()
		b.settle()
		if len(done) > 0 {
			t.Errorf("the %s Put returned before the commit", <-done)
		}
		release()
		b.settle()
		if len(done) != 2 {
			t.Errorf("%d of 2 Puts returned", len(done))
		}
	})
}

func TestR01_AFailedCommitFailsAllThatReliedOnIt(t *testing.T) {
	inBubble(t, nil, func(b *bench) {
		boom := errors.New("disk on fire")
		release := b.disk.HoldCommits()
		errs := make(chan error, 3)
		put := func(payload string) {
			_, err := b.Put(b.t.Context(), engine.Put{Key: web("a"), Payload: []byte(payload)})
			errs <- err
		}
		b.disk.FailCommits(1, boom)
		for _, p := range []string{`1`, `1`, `2`} {
			go put(p)
			b.settle()
		}
		release()
		b.settle()
		for range 3 {
			if err := <-errs; !errors.Is(err, boom) {
				t.Errorf("a Put that relied on a failed commit got %v", err)
			}
		}
		b.want("a", "gone")
		b.put("a", `3`)
		b.settle()
		b.want("a", "Acked")
	})
}

func TestR04_PutDuringADeliveryLetsItFinishAndGoesNext(t *testing.T) {
	inBubble(t, nil, func(b *bench) {
		b.target.latency = time.Second
		first := b.put("a", `1`)
		b.settle()
		b.want("a", "Delivering")
		b.put("a", `2`)
		b.put("a", `3`)
		b.after(time.Second)
		if a := b.status("a").Acked; a == nil || a.Generation != first {
			t.Errorf("the finished delivery left %+v, want an ack of %d", a, first)
		}
		b.after(2 * time.Second)
		b.want("a", "Acked")
		b.wantOps("a", "apply", "apply")
		if got := b.target.get("a"); got != "3" {
			t.Errorf("the target holds %s", got)
		}
	})
}

func TestR05_DeleteOfAnUnknownKeyIsNotFound(t *testing.T) {
	inBubble(t, nil, func(b *bench) {
		_, err := b.Delete(b.t.Context(), engine.Delete{Key: web("nobody")})
		if !errors.Is(err, engine.ErrNotFound) {
			t.Errorf("got %v", err)
		}
	})
}

func TestR05_TheCallsDeletionPolicyComesFirst(t *testing.T) {
	inBubble(t, nil, func(b *bench) {
		b.put("a", `1`)
		b.settle()
		if _, err := b.Delete(b.t.Context(), engine.Delete{Key: web("a"), Deletion: record.Retain}); err != nil {
			t.Fatal(err)
		}
		b.settle()
		b.want("a", "gone")
		if got := b.target.get("a"); got != "1" {
			t.Errorf("retain left %q at the target", got)
		}
	})
}

func TestR06_PutAfterDeleteSendsNoDelete(t *testing.T) {
	inBubble(t, nil, func(b *bench) {
		b.put("a", `1`)
		b.settle()
		if err := b.SuspendSink(b.t.Context(), "web"); err != nil {
			t.Fatal(err)
		}
		b.delete("a")
		b.put("a", `2`)
		if err := b.ResumeSink(b.t.Context(), "web"); err != nil {
			t.Fatal(err)
		}
		b.settle()
		b.wantOps("a", "apply", "apply")
		b.want("a", "Acked")
	})
}

func TestR07_DeleteDuringADeliveryGoesNext(t *testing.T) {
	inBubble(t, nil, func(b *bench) {
		b.target.latency = time.Second
		b.put("a", `1`)
		b.settle()
		b.delete("a")
		b.after(3 * time.Second)
		b.want("a", "gone")
		b.wantOps("a", "apply", "delete")
	})
}

func TestR08_AStaleOrderIsRefusedAlsoAfterTheRecordWent(t *testing.T) {
	inBubble(t, nil, func(b *bench) {
		put := func(n uint64) error {
			_, err := b.Put(b.t.Context(), engine.Put{Key: web("a"), Payload: fmt.Append(nil, n), Order: record.Order{Source: "git", Epoch: "e", Number: n}})
			return err
		}
		if err := put(5); err != nil {
			t.Fatal(err)
		}
		b.settle()
		if _, err := b.Delete(b.t.Context(), engine.Delete{Key: web("a"), Order: record.Order{Source: "git", Epoch: "e", Number: 6}}); err != nil {
			t.Fatal(err)
		}
		b.settle()
		b.want("a", "gone")
		b.reopen()
		if err := put(5); !errors.Is(err, engine.ErrStale) {
			t.Errorf("a late Put was not stale: %v", err)
		}
		b.after(25 * time.Hour)
		if n := b.Stats().Resources; n != 0 {
			t.Errorf("%d records left after the order's retention", n)
		}
		if err := put(5); err != nil {
			t.Errorf("after the retention: %v", err)
		}
	})
}

func TestR09_AConditionIsCheckedAgainstWhatIsPending(t *testing.T) {
	inBubble(t, nil, func(b *bench) {
		zero := uint64(0)
		release := b.disk.HoldCommits()
		errs := make(chan error, 2)
		for i := range 2 {
			go func() {
				_, err := b.Put(b.t.Context(), engine.Put{Key: web("a"), Payload: fmt.Append(nil, i), IfGeneration: &zero})
				errs <- err
			}()
		}
		b.settle()
		release()
		b.settle()
		first, second := <-errs, <-errs
		if first != nil {
			first, second = second, first
		}
		var typed *engine.Error
		if first != nil || !errors.Is(second, engine.ErrConflict) || !errors.As(second, &typed) || typed.Generation == 0 {
			t.Errorf("two creators got %v and %v; want one winner and a conflict with the generation", first, second)
		}
	})
}

func TestR10_LimitsAreNamed(t *testing.T) {
	inBubble(t, func(o *engine.Options) { o.BatchMax = 2 }, func(b *bench) {
		for what, put := range map[string]engine.Put{
			"1024":   {Key: web(strings.Repeat("k", 1025))},
			"524288": {Key: web("a"), Payload: make([]byte, 512<<10+1)},
		} {
			_, err := b.Put(b.t.Context(), put)
			if err == nil || !strings.Contains(err.Error(), what) {
				t.Errorf("over the limit of %s: %v", what, err)
			}
		}
		if _, err := b.PutBatch(b.t.Context(), make([]engine.Put, 3)); !errors.Is(err, engine.ErrTooLarge) {
			t.Errorf("a batch over the limit: %v", err)
		}
	})
}

func TestR11_OneItemsErrorSpoilsNoOther(t *testing.T) {
	inBubble(t, nil, func(b *bench) {
		items, err := b.PutBatch(b.t.Context(), []engine.Put{
			{Key: web("a"), Payload: []byte(`1`)}, {Key: record.Key{Sink: "nowhere", Name: "x"}}, {Key: web("b\n")}, {Key: web("c"), Payload: []byte(`3`)},
		})
		if err != nil {
			t.Fatal(err)
		}
		for i, want := range []error{nil, engine.ErrUnknownSink, engine.ErrInvalid, nil} {
			if !errors.Is(items[i].Err, want) {
				t.Errorf("item %d: %v, want %v", i, items[i].Err, want)
			}
		}
		b.settle()
		b.want("a", "Acked")
		b.want("c", "Acked")
	})
}

func TestR12_ResourcesOfASinkThatLeftAreOrphanedAndComeBack(t *testing.T) {
	inBubble(t, nil, func(b *bench) {
		b.put("a", `1`)
		b.put("b", `1`)
		b.put("c", `1`)
		b.settle()
		sinks := b.opts.Sinks
		b.opts.Sinks = nil
		b.reopen()
		b.want("a", "Orphaned")
		if _, err := b.Put(b.t.Context(), engine.Put{Key: web("a"), Payload: []byte(`2`)}); !errors.Is(err, engine.ErrUnknownSink) {
			t.Errorf("a Put to a sink that left: %v", err)
		}
		page, err := b.List(b.t.Context(), engine.ListOptions{Phases: []record.Phase{record.Orphaned}})
		if err != nil || len(page.Items) != 3 {
			t.Errorf("%d orphans listed, %v", len(page.Items), err)
		}
		b.delete("b")
		if err := b.Forget(b.t.Context(), web("c")); err != nil {
			t.Errorf("forget: %v", err)
		}
		b.opts.Sinks = sinks
		b.reopen()
		b.after(time.Second)
		b.want("a", "Acked")
		b.want("b", "gone")
		b.want("c", "gone")
		if got := b.target.get("b"); got != "" {
			t.Errorf("the deletion that waited for its sink left %q", got)
		}
	})
}

func TestR13_AnotherTargetIsLookedAtAsIfNeverAcked(t *testing.T) {
	inBubble(t, nil, func(b *bench) {
		b.put("a", `1`)
		b.put("b", `1`)
		b.settle()
		if err := b.SuspendSink(b.t.Context(), "web"); err != nil {
			t.Fatal(err)
		}
		b.delete("b")
		if err := b.Close(b.t.Context()); err != nil {
			t.Fatal(err)
		}
		old := b.target
		b.target = newTarget()
		b.target.manifest.Target = "t2"
		b.opts.Sinks[0].Sink = b.target
		b.open()
		if err := b.ResumeSink(b.t.Context(), "web"); err != nil {
			t.Fatal(err)
		}
		b.after(time.Second)
		b.wantOps("a", "observe", "apply")
		b.want("b", "Orphaned")
		if reason := b.status("b").Reason; reason != record.ReasonTargetChanged {
			t.Errorf("reason %s", reason)
		}
		b.wantOps("b")
		if err := b.Close(b.t.Context()); err != nil {
			t.Fatal(err)
		}
		b.target = old
		b.opts.Sinks[0].Sink = old
		b.open()
		b.after(time.Second)
		b.want("b", "gone")
	})
}

func TestR67_ARestoredStoreHoldsItsSinksUntilConfirmed(t *testing.T) {
	inBubble(t, nil, func(b *bench) {
		b.put("a", `1`)
		b.settle()
		if err := b.Close(b.t.Context()); err != nil {
			t.Fatal(err)
		}
		b.disk.SetEpoch("after-restore", true)
		b.open()
		b.put("a", `2`)
		b.after(time.Hour)
		b.wantOps("a", "apply")
		if s := b.Sinks()[0]; !s.Suspended || s.SuspendReason != record.ReasonRestored {
			t.Errorf("the sink is %+v", s)
		}
		if err := b.ResumeSink(b.t.Context(), "web"); err != nil {
			t.Fatal(err)
		}
		b.after(time.Second)
		b.wantOps("a", "apply", "observe", "apply")
		b.reopen()
		if s := b.Sinks()[0]; s.Suspended {
			t.Error("a confirmed sink is suspended again after a restart")
		}
	})
}

func TestR67_ASinkIsReleasedFromARestoreAloneNotFromAnOperator(t *testing.T) {
	inBubble(t, nil, func(b *bench) {
		b.put("a", `1`)
		b.settle()
		if err := b.Close(b.t.Context()); err != nil {
			t.Fatal(err)
		}
		b.disk.SetEpoch("after-restore", true)
		b.open()
		if released, err := b.ReleaseRestored("web"); err != nil || !released {
			t.Errorf("released: %v, %v", released, err)
		}
		b.reopen()
		if s := b.Sinks()[0]; s.Suspended {
			t.Error("a released sink is suspended again after a restart")
		}
		if err := b.SuspendSink(b.t.Context(), "web"); err != nil {
			t.Fatal(err)
		}
		if released, err := b.ReleaseRestored("web"); err != nil || released || b.Sinks()[0].SuspendReason != record.ReasonOperator {
			t.Errorf("what an operator suspended goes on: %v, %v", released, err)
		}
		if _, err := b.ReleaseRestored("nosuch"); !errors.Is(err, engine.ErrUnknownSink) {
			t.Errorf("of a sink that is not there: %v", err)
		}
	})
}

func TestR68_LostDataRefusesTheStart(t *testing.T) {
	inBubble(t, nil, func(b *bench) {
		for i := range 20 {
			b.put(fmt.Sprint("k", i), `1`)
		}
		b.settle()
		if err := b.Close(b.t.Context()); err != nil {
			t.Fatal(err)
		}
		b.disk.LoseTail(3)
		if _, err := engine.Open(b.t.Context(), b.opts); !errors.Is(err, outbox.ErrLost) {
			t.Errorf("open over a loss: %v", err)
		}
		b.opts.Store = func(o outbox.Observer) (outbox.Store, error) {
			return memory.Open(b.disk, memory.Options{Observer: o, AcceptLoss: true})
		}
		b.open()
		if s := b.Sinks()[0]; s.SuspendReason != record.ReasonRestored {
			t.Errorf("after an accepted loss the sink is suspended for %q, want Restored", s.SuspendReason)
		}
	})
}

func TestPutIsRefusedWhileTheDiskIsFullAndDeliveriesGoOn(t *testing.T) {
	inBubble(t, nil, func(b *bench) {
		b.target.latency = time.Second
		b.put("a", `1`)
		b.settle()
		b.disk.SetFull(true)
		_, err := b.Put(b.t.Context(), engine.Put{Key: web("b"), Payload: []byte(`1`)})
		if !errors.Is(err, engine.ErrNoSpace) {
			t.Errorf("a Put on a full disk: %v", err)
		}
		b.after(time.Second)
		b.want("a", "Acked")
		b.delete("a")
		b.after(time.Second)
		b.want("a", "gone")
		b.disk.SetFull(false)
		b.put("b", `1`)
	})
}

func TestR67_ASinkThatWasAwayAtALossIsHeldWhenItReturns(t *testing.T) {
	other := newTarget()
	inBubble(t, func(o *engine.Options) {
		o.Sinks = append(o.Sinks, engine.SinkOptions{Name: "away", Sink: other})
	}, func(b *bench) {
		if _, err := b.Put(b.t.Context(), engine.Put{Key: record.Key{Sink: "away", Name: "a"}, Payload: []byte(`1`)}); err != nil {
			t.Fatal(err)
		}
		b.settle()
		if err := b.Close(b.t.Context()); err != nil {
			t.Fatal(err)
		}
		all := b.opts.Sinks
		b.disk.SetEpoch("after-restore", true)
		b.opts.Sinks = all[:1]
		b.open()
		if s := b.Sinks(); s[1].Suspended { // web has no resource, so there is nothing to hold
			t.Errorf("an empty sink is held: %+v", s)
		}
		b.opts.Sinks = all
		b.reopen()
		if s := b.Sinks()[0]; s.Name != "away" || s.SuspendReason != record.ReasonRestored {
			t.Errorf("the sink that was away is %+v", s)
		}
		if err := b.ResumeSink(b.t.Context(), "away"); err != nil {
			t.Fatal(err)
		}
		b.reopen()
		if s := b.Sinks()[0]; s.Suspended {
			t.Error("a confirmed sink is held again")
		}
	})
}

func TestP8_ADamagedRecordIsListedAndCanBeForgotten(t *testing.T) {
	inBubble(t, nil, func(b *bench) {
		for _, name := range []string{"a", "b", "c"} {
			b.put(name, `1`)
		}
		b.settle()
		b.reopen()
		b.disk.Damage(web("b"))
		page, err := b.List(b.t.Context(), engine.ListOptions{})
		if err != nil || len(page.Items) != 3 {
			t.Fatalf("%d items listed, %v", len(page.Items), err)
		}
		if st := page.Items[1].Status; st.Reason != record.ReasonDamaged || page.Items[2].Status.Phase != record.AckedPhase {
			t.Errorf("the damaged one is %s, its neighbour %s", st.Reason, page.Items[2].Status.Phase)
		}
		if err := b.Forget(b.t.Context(), web("b")); err != nil {
			t.Errorf("forget: %v", err)
		}
		b.want("b", "gone")
		b.put("b", `2`)
		b.settle()
		b.want("b", "Acked")
	})
}
