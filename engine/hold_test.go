package engine_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawlsync/pawl/engine"
	"github.com/pawlsync/pawl/engine/outbox"
	"github.com/pawlsync/pawl/engine/record"
	"github.com/pawlsync/pawl/engine/sink"
)

func hold(t *testing.T, b *bench, key record.Key) uint64 {
	t.Helper()
	gens, err := b.Hold(b.t.Context(), engine.Hold{Holder: "s", Keys: []record.Key{key}})
	if err != nil {
		t.Fatal(err)
	}
	return gens[0].Generation
}

func TestR70AHeldResourceIsNotTouchedUntilItIsLetGo(t *testing.T) {
	inBubble(t, nil, func(b *bench) {
		b.put("a", `1`)
		b.settle()
		if gen := hold(t, b, web("a")); gen == 0 {
			t.Error("a known resource has a generation")
		}
		b.put("a", `2`)
		b.after(24 * time.Hour) // with many drift checks
		b.must(b.Retry(b.t.Context(), web("a")))
		b.after(time.Hour)
		b.wantOps("a", "apply")
		b.LetGo([]record.Key{web("a")})
		b.settle()
		b.want("a", "Acked")
		b.wantOps("a", "apply", "apply")
	})
}

func TestR69AHoldWaitsForTheDeliveryUnderWay(t *testing.T) {
	inBubble(t, nil, func(b *bench) {
		b.target.slow(5 * time.Second)
		b.put("a", `1`)
		b.settle()
		began := time.Now()
		hold(t, b, web("a"))
		if waited := time.Since(began); waited != 5*time.Second {
			t.Errorf("it waited %v", waited)
		}
		b.wantOps("a", "apply")
	})
}

func TestR69AHoldThatIsRefusedHoldsNothing(t *testing.T) {
	inBubble(t, nil, func(b *bench) {
		b.target.answer = func(string, *sink.Request) *sink.Result { return &sink.Result{Status: sink.Retry} }
		b.put("busy", `1`)
		b.settle()
		_, err := b.Hold(b.t.Context(), engine.Hold{Holder: "s", Keys: []record.Key{web("free"), web("busy")}})
		if !errors.Is(err, engine.ErrBusy) {
			t.Errorf("got %v", err)
		}
		hold(t, b, web("free"))
		if _, err := b.Hold(b.t.Context(), engine.Hold{Holder: "other", Keys: []record.Key{web("third"), web("free")}}); !errors.Is(err, engine.ErrHeld) {
			t.Errorf("got %v", err)
		}
		hold(t, b, web("third"))
	})
}

// Between the end of a saga and the release of its hold somebody may have put
// something newer: that stands.
func TestR71AnAdoptionStandsBackForWhatIsNewer(t *testing.T) {
	inBubble(t, nil, func(b *bench) {
		gen := hold(t, b, web("a"))
		adopt := func(payload string) {
			b.must(b.Adopt(b.t.Context(), []engine.Adoption{{Key: web("a"), Generation: gen, Payload: []byte(payload)}}))
		}
		adopt(`1`)
		adopt(`1`) // as after a crash
		b.put("a", `2`)
		adopt(`1`)
		b.LetGo([]record.Key{web("a")})
		b.settle()
		if r, err := b.Get(b.t.Context(), web("a")); err != nil || string(r.Desired.Payload) != `2` {
			t.Errorf("%s, %v", r.Desired.Payload, err)
		}
		b.want("a", "Acked")
	})
}

func TestCloseWaitsForCallsOfSagasAndCutsThemOff(t *testing.T) {
	inBubble(t, nil, func(b *bench) {
		ended := make(chan sink.Result, 1)
		go func() {
			ended <- b.Call(web("a"), "saga-write", time.Now().Add(time.Hour), func(ctx context.Context, s sink.Sink) sink.Result {
				<-ctx.Done()
				return sink.Result{Status: sink.Unreachable}
			})
		}()
		synctest.Wait()
		ctx, cancel := context.WithTimeout(b.t.Context(), 3*time.Second)
		defer cancel()
		began := time.Now()
		b.must(b.Close(ctx))
		if took := time.Since(began); took != 3*time.Second {
			t.Errorf("close took %v with a grace of 3 s", took)
		}
		<-ended
		if r := b.Call(web("a"), "saga-write", time.Time{}, func(context.Context, sink.Sink) sink.Result {
			t.Error("a call to a closed sink")
			return sink.Result{Status: sink.OK}
		}); r.Status != sink.Unreachable || !r.NotSent {
			t.Errorf("%+v", r)
		}
		b.open()
	})
}

func TestACallWhoseTimeIsUpIsNotMade(t *testing.T) {
	inBubble(t, func(o *engine.Options) { o.Sinks[0].MaxInFlight = 1 }, func(b *bench) {
		b.target.slow(5 * time.Second)
		b.put("a", `1`)
		b.settle()
		r := b.Call(web("b"), "saga-write", time.Now().Add(3*time.Second), func(context.Context, sink.Sink) sink.Result {
			t.Error("made after its deadline")
			return sink.Result{Status: sink.OK}
		})
		if r.Status != sink.Unreachable || !r.NotSent {
			t.Errorf("%+v", r)
		}
	})
}

func TestTheJournalOfSagasIsNoResource(t *testing.T) {
	inBubble(t, nil, func(b *bench) {
		b.put("a", `1`)
		b.settle()
		j := b.Journal()
		b.must(j.Update("s", func(cur outbox.Record) (outbox.Change, error) {
			return outbox.Change{Desired: &record.Desired{Payload: []byte("spec")}, NewGeneration: true}, nil
		}).Wait(b.t.Context()))
		for range 2 {
			page, err := b.List(b.t.Context(), engine.ListOptions{})
			if err != nil || len(page.Items) != 1 {
				t.Errorf("%d resources, %v", len(page.Items), err)
			}
			if st := b.Stats(); st.Resources != 1 || len(b.Sinks()) != 1 {
				t.Errorf("%d resources, sinks %+v", st.Resources, b.Sinks())
			}
			b.must(b.Close(b.t.Context()))
			b.open()
		}
		rec, err := b.Journal().Get("s")
		if err != nil || string(rec.Desired.Payload) != "spec" {
			t.Errorf("%q, %v", rec.Desired.Payload, err)
		}
	})
}

// A saga that is refused again and again is no reason to try a failing target sooner.
func TestAHoldThatIsRefusedLeavesTheScheduleAsItIs(t *testing.T) {
	inBubble(t, nil, func(b *bench) {
		b.target.answer = func(string, *sink.Request) *sink.Result { return &sink.Result{Status: sink.Rejected} }
		b.put("a", `1`)
		b.settle()
		tries := len(b.target.ops("a"))
		for range 10 {
			if _, err := b.Hold(b.t.Context(), engine.Hold{Holder: "s", Keys: []record.Key{web("a")}}); !errors.Is(err, engine.ErrBusy) {
				t.Fatalf("got %v", err)
			}
			b.settle()
		}
		if now := len(b.target.ops("a")); now != tries {
			t.Errorf("%d tries, after %d", now, tries)
		}
	})
}

// A Put that waits for its commit came before the hold.
func TestAPutThatWaitsForItsCommitIsWaitingWork(t *testing.T) {
	inBubble(t, nil, func(b *bench) {
		b.put("a", `1`)
		b.settle()
		release := b.disk.HoldCommits()
		go func() { _, _ = b.Put(b.t.Context(), engine.Put{Key: web("a"), Payload: []byte(`2`)}) }()
		synctest.Wait()
		refused := make(chan error)
		go func() {
			_, err := b.Hold(b.t.Context(), engine.Hold{Holder: "s", Keys: []record.Key{web("a")}, RefusePuts: true})
			refused <- err
		}()
		synctest.Wait()
		release()
		if err := <-refused; !errors.Is(err, engine.ErrBusy) {
			t.Errorf("got %v", err)
		}
	})
}

// Many calls of sagas may wait for their turn at a target that hangs.
func TestACallThatWaitsForItsTurnGoesToTheNewSink(t *testing.T) {
	inBubble(t, func(o *engine.Options) { o.Sinks[0].MaxInFlight = 1 }, func(b *bench) {
		release, by := make(chan struct{}), make(chan sink.Sink, 2)
		for range 2 {
			go b.Call(web("a"), "saga-look", time.Time{}, func(_ context.Context, s sink.Sink) sink.Result {
				<-release
				by <- s
				return sink.Result{Status: sink.OK}
			})
		}
		synctest.Wait()
		next := newTarget()
		retired, err := b.ReplaceSink("web", next)
		b.must(err)
		release <- struct{}{}
		if old := <-by; old != sink.Sink(b.target) {
			t.Error("the call under way ends with the old sink")
		}
		b.must(<-retired)
		release <- struct{}{}
		if s := <-by; s != sink.Sink(next) {
			t.Error("the call that waited went to the old sink")
		}
	})
}

// A target that bears so many calls at once bears no more when its plugin is replaced.
func TestCallsOfTheOldSinkCountWhereTheNewOneIsCalled(t *testing.T) {
	inBubble(t, func(o *engine.Options) { o.Sinks[0].MaxInFlight = 1 }, func(b *bench) {
		release, entered := make(chan struct{}), 0
		call := func() {
			b.Call(web("a"), "saga-look", time.Time{}, func(context.Context, sink.Sink) sink.Result {
				entered++
				<-release
				return sink.Result{Status: sink.OK}
			})
		}
		go call()
		synctest.Wait()
		_, err := b.ReplaceSink("web", newTarget())
		b.must(err)
		go call()
		synctest.Wait()
		if entered != 1 {
			t.Errorf("%d calls at once", entered)
		}
		close(release)
		synctest.Wait()
		if entered != 2 {
			t.Errorf("%d calls were made", entered)
		}
	})
}
