package saga_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawlsync/pawl/engine"
	"github.com/pawlsync/pawl/engine/outbox"
	"github.com/pawlsync/pawl/engine/record"
	"github.com/pawlsync/pawl/engine/saga"
	"github.com/pawlsync/pawl/engine/sink"
	"github.com/pawlsync/pawl/internal/bubble"
)

// What operators, disks and clocks do to sagas.

// other is a target whose manifest says something else.
type other struct {
	*target
	says func(*sink.Manifest)
}

func (o other) Manifest() sink.Manifest {
	m := o.target.Manifest()
	o.says(&m)
	return m
}

// leftOpen is a rig that was closed while saga "s" had its first step written and the
// second one's target down. The target is back.
func leftOpen(t *testing.T, mode saga.Mode) *rig {
	t.Helper()
	r := newRig(t, saga.Options{})
	r.b.fault = func(string, *sink.Request) (bool, *sink.Result) {
		return false, &sink.Result{Status: sink.Unreachable, NotSent: true}
	}
	if _, err := r.sagas.Start(t.Context(), pair("s", mode)); err != nil {
		t.Fatal(err)
	}
	synctest.Wait()
	if r.a.content("grant") == "" {
		t.Fatal("the first step is not written")
	}
	r.close()
	r.b.fault = nil
	return r
}

// ends waits for saga "s" and until nothing of it can land any more.
func (r *rig) ends(want saga.Outcome) {
	r.t.Helper()
	v, err := r.sagas.Wait(r.t.Context(), "s")
	if err != nil || v.State.Outcome != want {
		r.t.Fatalf("%+v, %v; want %s", v.State, err, want)
	}
	time.Sleep(time.Minute)
	synctest.Wait()
	if v, _ := r.sagas.Get("s"); v.State.Phase != saga.Ended {
		r.t.Errorf("it does not end: %+v", v.State)
	}
	if r.a.locked()+r.b.locked() > 0 {
		r.t.Errorf("locks left: %v %v", r.a.locks, r.b.locks)
	}
}

func TestASagaWhoseRecordIsDamagedStopsNothingElse(t *testing.T) {
	inBubbles(t, func(t *testing.T, mode saga.Mode) {
		r := leftOpen(t, mode)
		r.disk.Damage(record.Key{Sink: "SAGA", Name: "s"})
		r.open(saga.Options{})
		defer r.close()
		two := pair("t", mode)
		two.Steps[0].Key.Name, two.Steps[1].Key.Name = "grant2", "foo2"
		if v := r.run(two); v.State.Outcome != saga.Committed {
			t.Errorf("another saga: %+v", v.State)
		}
		views, _, err := r.sagas.List(t.Context(), saga.ListOptions{})
		if err != nil || len(views) != 2 || !views[0].Unresolved || views[0].State.Stuck == "" || views[1].State.Outcome != saga.Committed {
			t.Errorf("%+v, %v", views, err)
		}
		if st := r.sagas.Stats(); st.Unresolved != 1 {
			t.Errorf("%+v", st)
		}
		if _, err := r.sagas.Run(t.Context(), pair("s", mode)); !errors.Is(err, outbox.ErrDamaged) {
			t.Errorf("nobody knows whether it is the same: %v", err)
		}
		if v, err := r.sagas.Resolve(t.Context(), "s", saga.TakeRolledBack); err != nil || v.State.Outcome != saga.RolledBack {
			t.Errorf("%+v, %v", v, err)
		}
		if _, err := r.sagas.Get("s"); !errors.Is(err, saga.ErrNotFound) || r.sagas.Stats().Unresolved != 0 {
			t.Errorf("it is not forgotten: %v", err)
		}
	})
}

func TestAnEndedSagaWhoseRecordIsDamagedKeepsNoOtherFromBeingForgotten(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		r := newRig(t, saga.Options{})
		defer r.close()
		r.run(pair("s", saga.Optimistic))
		two := pair("t", saga.Optimistic)
		two.Steps[0].Key.Name, two.Steps[1].Key.Name = "grant2", "foo2"
		r.run(two)
		synctest.Wait()
		r.disk.Damage(record.Key{Sink: "SAGA", Name: "s"})
		if views, _, err := r.sagas.List(t.Context(), saga.ListOptions{}); err != nil || len(views) != 2 {
			t.Errorf("%+v, %v", views, err)
		}
		time.Sleep(8 * 24 * time.Hour)
		synctest.Wait()
		if _, err := r.sagas.Get("t"); !errors.Is(err, saga.ErrNotFound) {
			t.Errorf("after a week: %v", err)
		}
	})
}

func TestASagaOfADamagedResourceWaitsForAnOperator(t *testing.T) {
	inBubbles(t, func(t *testing.T, mode saga.Mode) {
		r := newRig(t, saga.Options{})
		r.put(grant, "before")
		r.close()
		r.open(saga.Options{})
		r.b.fault = func(string, *sink.Request) (bool, *sink.Result) {
			return false, &sink.Result{Status: sink.Unreachable, NotSent: true}
		}
		spec := pair("s", mode)
		spec.Steps[0].Verb = saga.Upsert
		if _, err := r.sagas.Start(t.Context(), spec); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		r.close()
		r.b.fault = nil
		r.disk.Damage(grant)
		r.open(saga.Options{})
		defer r.close()
		synctest.Wait()
		v, err := r.sagas.Get("s")
		if err != nil || v.State.Stuck == "" || !v.Unresolved || r.engine.HeldBy(grant) != "s" {
			t.Fatalf("%+v, %v", v, err)
		}
		if _, err := r.sagas.Resolve(t.Context(), "s", saga.TryAgain); err != nil {
			t.Fatal(err)
		}
		r.ends(saga.Committed)
		if r.engine.HeldBy(grant) != "" || r.b.content("foo") == "" {
			t.Errorf("held by %q; b has %q", r.engine.HeldBy(grant), r.b.content("foo"))
		}
	})
}

func TestASinkThatIsNotReadyAtTheStartMakesASagaForgetNothing(t *testing.T) {
	inBubbles(t, func(t *testing.T, mode saga.Mode) {
		r := leftOpen(t, mode)
		r.as = func(t *target) sink.Sink {
			return other{t, func(m *sink.Manifest) { *m = sink.Manifest{Name: m.Name, NotReady: "it is being fetched"} }}
		}
		r.open(saga.Options{})
		defer r.close()
		time.Sleep(30 * time.Second)
		for name, s := range map[string]sink.Sink{"a": r.a, "b": r.b} {
			if _, err := r.engine.ReplaceSink(name, s); err != nil {
				t.Fatal(err)
			}
		}
		r.ends(saga.Committed)
	})
}

func TestASagaIsNotGoneOnWithAtAnotherTarget(t *testing.T) {
	inBubbles(t, func(t *testing.T, mode saga.Mode) {
		r := leftOpen(t, mode)
		moved := func(t *target) sink.Sink { return other{t, func(m *sink.Manifest) { m.Target = "elsewhere" }} }
		r.as = moved
		writes := r.a.writes
		r.open(saga.Options{})
		time.Sleep(30 * time.Second)
		v, err := r.sagas.Get("s")
		if err != nil || v.State.Outcome != "" || !strings.Contains(v.State.Steps[0].Last.Message, "elsewhere") {
			t.Errorf("%+v, %v", v.State, err)
		}
		if r.a.writes != writes || r.b.writes != 0 {
			t.Error("something was written there")
		}
		r.close()
		r.as = nil
		r.open(saga.Options{})
		r.ends(saga.Committed)
		r.close()
	})
}

// Of a saga whose outcome stands nothing but locks is left, and nobody can reach them.
func TestASinkThatIsGoneDoesNotHoldTheOthersForEver(t *testing.T) {
	inBubbles(t, func(t *testing.T, mode saga.Mode) {
		r := leftOpen(t, mode)
		r.as = func(t *target) sink.Sink { return other{t, func(m *sink.Manifest) { m.Target = "elsewhere" }} }
		r.open(saga.Options{})
		defer r.close()
		synctest.Wait()
		if _, err := r.sagas.Resolve(t.Context(), "s", saga.TakeCommitted); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if v, err := r.sagas.Get("s"); err != nil || v.State.Phase != saga.Ended || r.engine.HeldBy(foo) != "" {
			t.Errorf("%+v, %v", v.State, err)
		}
	})
}

// R67: what the copy of a store holds may be long past.
func TestASagaOfARestoredStoreWaitsUntilItsSinksAreResumed(t *testing.T) {
	inBubbles(t, func(t *testing.T, mode saga.Mode) {
		r := leftOpen(t, mode)
		calls := atomic.Int64{}
		count := func(string, *sink.Request) (bool, *sink.Result) { calls.Add(1); return true, nil }
		r.a.fault, r.b.fault = count, count
		r.disk.SetEpoch("restored", true)
		r.open(saga.Options{})
		defer r.close()
		time.Sleep(30 * time.Second)
		if n := calls.Load(); n > 0 {
			t.Errorf("%d calls before an operator let them go on", n)
		}
		for _, name := range []string{"a", "b"} {
			if err := r.engine.ResumeSink(t.Context(), name); err != nil {
				t.Fatal(err)
			}
		}
		r.ends(saga.Committed)
	})
}

// Who was told that the saga goes on finds it go on.
func TestAnAcceptedSagaIsNotDroppedWhenTheJournalFails(t *testing.T) {
	inBubbles(t, func(t *testing.T, mode saga.Mode) {
		var fails atomic.Bool
		r := newRig(t, saga.Options{Failpoint: func(p string) error {
			if strings.HasPrefix(p, "before-journal") && fails.Load() {
				return errors.New("input/output error")
			}
			return nil
		}})
		defer r.close()
		release := blockAt(r.a, "observe")
		if _, err := r.sagas.Start(t.Context(), pair("s", mode)); err != nil {
			t.Fatal(err)
		}
		fails.Store(true)
		close(release)
		time.Sleep(time.Second)
		fails.Store(false)
		r.ends(saga.Committed)
	})
}

// A clock that was set back while nobody ran.
func TestAClockThatWasSetBackMakesNobodyWaitForDays(t *testing.T) {
	r := leftOpenADayAhead(t)
	bubble.Test(t, func(t *testing.T) {
		r.t = t
		r.open(saga.Options{})
		defer r.close()
		began := time.Now()
		if v, err := r.sagas.Get("s"); err != nil || v.State.Deadline.After(began.Add(v.Spec.Timeout)) {
			t.Errorf("%+v, %v", v.State, err)
		}
		r.ends(saga.RolledBack)
		if took := time.Since(began); took > 5*time.Minute {
			t.Errorf("it took %v", took)
		}
	})
}

// leftOpenADayAhead leaves a saga behind whose second write had no answer, a day after
// the beginning of time.
func leftOpenADayAhead(t *testing.T) (r *rig) {
	bubble.Test(t, func(t *testing.T) {
		time.Sleep(24 * time.Hour)
		r = newRig(t, saga.Options{})
		r.b.fault = func(op string, _ *sink.Request) (bool, *sink.Result) {
			if op == "apply" {
				return false, &sink.Result{Status: sink.Unreachable}
			}
			return true, nil
		}
		if _, err := r.sagas.Start(t.Context(), pair("s", saga.Optimistic)); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		r.close()
	})
	return r
}

func TestASagaLeavesOwnerAndPoliciesOfAResource(t *testing.T) {
	inBubbles(t, func(t *testing.T, mode saga.Mode) {
		r := newRig(t, saga.Options{})
		defer r.close()
		put := engine.Put{Key: grant, Payload: []byte("before"), Owner: "team", Deletion: record.Retain, Conflict: record.TargetWins}
		if _, err := r.engine.Put(t.Context(), put); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		spec := pair("s", mode)
		spec.Steps[0].Verb = saga.Upsert
		r.run(spec)
		got, err := r.engine.Get(t.Context(), grant)
		if d := got.Desired; err != nil || string(d.Payload) != "u1 owns foo" || d.Owner != "team" || d.Deletion != record.Retain || d.Conflict != record.TargetWins {
			t.Errorf("%+v, %v", d, err)
		}
	})
}

func TestWhatIsSuspendedIsNotTaken(t *testing.T) {
	inBubbles(t, func(t *testing.T, mode saga.Mode) {
		r := newRig(t, saga.Options{})
		defer r.close()
		r.put(grant, "before")
		if err := r.engine.Suspend(t.Context(), grant); err != nil {
			t.Fatal(err)
		}
		spec := pair("s", mode)
		spec.Steps[0].Verb = saga.Upsert
		if v, err := r.sagas.Run(t.Context(), spec); !errors.Is(err, engine.ErrSuspended) {
			t.Errorf("%+v, %v", v.State, err)
		}
	})
}

// Of two callers for one saga the first may have less patience.
func TestACallersPatienceIsNotAnothers(t *testing.T) {
	inBubbles(t, func(t *testing.T, mode saga.Mode) {
		r := newRig(t, saga.Options{})
		defer r.close()
		release := blockAt(r.a, "apply")
		if _, err := r.engine.Put(t.Context(), engine.Put{Key: grant, Payload: []byte("x")}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		spec := pair("s", mode)
		spec.Steps[0].Verb = saga.Upsert
		first, giveUp := context.WithCancel(t.Context())
		go func() { _, _ = r.sagas.Run(first, spec) }()
		synctest.Wait()
		told := make(chan error)
		go func() {
			v, err := r.sagas.Run(t.Context(), spec)
			if err == nil && v.State.Outcome != saga.Committed {
				err = errors.New(string(v.State.Outcome))
			}
			told <- err
		}()
		synctest.Wait()
		giveUp()
		synctest.Wait()
		close(release)
		if err := <-told; err != nil {
			t.Error(err)
		}
	})
}

func TestTwoStepsOfOneObjectAreRefused(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		r := newRig(t, saga.Options{})
		r.close()
		r.b.name = r.a.name
		r.open(saga.Options{})
		defer r.close()
		spec := pair("s", saga.Optimistic)
		spec.Steps[1].Key.Name = "grant"
		if _, err := r.sagas.Run(t.Context(), spec); !errors.Is(err, saga.ErrInvalid) || !strings.Contains(err.Error(), "one object") {
			t.Errorf("got %v", err)
		}
		spec.Steps[1].Key.Name = "foo"
		if v := r.run(spec); v.State.Outcome != saga.Committed || !slices.Equal(v.Spec.Steps[1].Payload, spec.Steps[1].Payload) {
			t.Errorf("%+v", v.State)
		}
	})
}

func TestWhatATargetHeldBeforeIsNotKeptOnceTheSagaHasEnded(t *testing.T) {
	inBubbles(t, func(t *testing.T, mode saga.Mode) {
		r := newRig(t, saga.Options{})
		defer r.close()
		r.a.set("grant", "hush", "")
		spec := pair("s", mode)
		spec.Steps[0].Verb = saga.Upsert
		r.run(spec)
		synctest.Wait()
		v, err := r.sagas.Get("s")
		if err != nil || v.State.Phase != saga.Ended || v.State.Steps[0].Before != nil {
			t.Errorf("%+v, %v", v.State, err)
		}
	})
}

// A target that is down has as many sagas as there were callers, over a restart, too.
func TestThousandsOfSagasOutliveATargetThatIsDown(t *testing.T) {
	const many = 2000
	bubble.Test(t, func(t *testing.T) {
		r := newRig(t, saga.Options{})
		var down atomic.Bool
		down.Store(true)
		r.b.fault = func(op string, req *sink.Request) (bool, *sink.Result) {
			switch {
			case !down.Load() || op == "observe" && req.Run != nil && req.Run.Before == nil:
				return true, nil
			case op == "observe":
				time.Sleep(time.Second) // it hangs
			}
			return false, &sink.Result{Status: sink.Unreachable}
		}
		for i := range many {
			spec := pair(fmt.Sprint("s", i), saga.Pessimistic)
			spec.Steps[0].Key.Name, spec.Steps[1].Key.Name = fmt.Sprint("grant", i), fmt.Sprint("foo", i)
			if _, err := r.sagas.Start(t.Context(), spec); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(2 * time.Minute)
		r.close()
		r.open(saga.Options{})
		time.Sleep(2 * time.Minute)
		if st := r.sagas.Stats(); st.Running != many || st.Unresolved != many {
			t.Fatalf("%+v", st)
		}
		down.Store(false)
		// An ordinary resource of that target has its turn among them.
		if _, err := r.engine.Put(t.Context(), engine.Put{Key: record.Key{Sink: "b", Name: "plain"}, Payload: []byte("x")}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(3 * time.Minute)
		if st := r.sagas.Stats(); st.Running != 0 || r.b.content("plain") != "x" {
			t.Errorf("%+v; the plain one is %q", st, r.b.content("plain"))
		}
		if r.a.locked()+r.b.locked() > 0 || len(r.a.objects) != 0 {
			t.Errorf("left: %d locks, %d objects", r.a.locked()+r.b.locked(), len(r.a.objects))
		}
		r.close()
	})
}
