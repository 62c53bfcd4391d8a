package saga_test

import (
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawlsync/pawl/engine"
	"github.com/pawlsync/pawl/engine/record"
	"github.com/pawlsync/pawl/engine/saga"
	"github.com/pawlsync/pawl/engine/sink"
	"github.com/pawlsync/pawl/internal/bubble"
)

// Sagas beside ordinary deliveries of the same resources.

var grant, foo = record.Key{Sink: "a", Name: "grant"}, record.Key{Sink: "b", Name: "foo"}

func (r *rig) put(key record.Key, payload string) {
	r.t.Helper()
	res, err := r.engine.Put(r.t.Context(), engine.Put{Key: key, Payload: []byte(payload)})
	if err != nil {
		r.t.Fatal(err)
	}
	if w, err := r.engine.Wait(r.t.Context(), key, res.Generation); err != nil || !w.Done {
		r.t.Fatalf("%+v, %v", w, err)
	}
}

// blockAt makes a target's calls of that op wait until release is closed.
func blockAt(t *target, op string) (release chan struct{}) {
	release = make(chan struct{})
	t.fault = func(o string, _ *sink.Request) (bool, *sink.Result) {
		if o == op {
			<-release
		}
		return true, nil
	}
	return release
}

func TestR70APutDuringASagaIsDeliveredAfterwards(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		r := newRig(t, saga.Options{})
		defer r.close()
		release := blockAt(r.b, "apply")
		if _, err := r.sagas.Start(t.Context(), pair("s", saga.Pessimistic)); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		res, err := r.engine.Put(t.Context(), engine.Put{Key: grant, Payload: []byte("u2 owns foo")})
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		time.Sleep(time.Second)
		if got := r.a.content("grant"); got != "u1 owns foo" {
			t.Errorf("it was delivered under the saga's feet: %q", got)
		}
		close(release)
		if v, err := r.sagas.Wait(t.Context(), "s"); err != nil || v.State.Outcome != saga.Committed {
			t.Fatalf("%+v, %v", v.State, err)
		}
		if w, err := r.engine.Wait(t.Context(), grant, res.Generation); err != nil || !w.Done {
			t.Errorf("%+v, %v", w, err)
		}
		if got := r.a.content("grant"); got != "u2 owns foo" {
			t.Errorf("the newer state is lost: %q", got)
		}
	})
}

func TestR70APutDuringASagaIsRefusedWhereItAsksForThat(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		r := newRig(t, saga.Options{})
		defer r.close()
		release := blockAt(r.b, "apply")
		spec := pair("s", saga.Pessimistic)
		spec.RefusePuts = true
		if _, err := r.sagas.Start(t.Context(), spec); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if _, err := r.engine.Put(t.Context(), engine.Put{Key: grant, Payload: []byte("x")}); !errors.Is(err, engine.ErrHeld) {
			t.Errorf("put: %v", err)
		}
		if _, err := r.engine.Delete(t.Context(), engine.Delete{Key: foo}); !errors.Is(err, engine.ErrHeld) {
			t.Errorf("delete: %v", err)
		}
		close(release)
		r.run(spec)
		synctest.Wait()
		r.put(grant, "x")
	})
}

func TestR69OnlyOneSagaHasAResource(t *testing.T) {
	inBubbles(t, func(t *testing.T, mode saga.Mode) {
		r := newRig(t, saga.Options{})
		defer r.close()
		release := blockAt(r.b, "apply")
		if _, err := r.sagas.Start(t.Context(), pair("one", mode)); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if _, err := r.sagas.Run(t.Context(), pair("two", mode)); !errors.Is(err, engine.ErrHeld) {
			t.Errorf("got %v", err)
		}
		close(release)
		if v := r.run(pair("one", mode)); v.State.Outcome != saga.Committed {
			t.Errorf("%+v", v.State)
		}
		synctest.Wait()
		if v := r.run(pair("two", mode)); v.State.Outcome != saga.RolledBack || r.a.content("grant") != "u1 owns foo" {
			t.Errorf("%+v; the grant: %q", v.State, r.a.content("grant"))
		}
	})
}

func TestR69AResourceWithWaitingWorkIsNotTaken(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		r := newRig(t, saga.Options{})
		defer r.close()
		r.b.fault = func(op string, _ *sink.Request) (bool, *sink.Result) {
			return false, &sink.Result{Status: sink.Retry, Message: "later"}
		}
		if _, err := r.engine.Put(t.Context(), engine.Put{Key: foo, Payload: []byte("x")}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if _, err := r.sagas.Run(t.Context(), pair("s", saga.Pessimistic)); !errors.Is(err, engine.ErrBusy) {
			t.Errorf("got %v", err)
		}
		if r.a.writes > 0 || r.a.locked() > 0 {
			t.Errorf("written: %v %v", r.a.objects, r.a.locks)
		}
		if err := r.engine.SuspendSink(t.Context(), "a"); err != nil {
			t.Fatal(err)
		}
		if _, err := r.sagas.Run(t.Context(), pair("s", saga.Pessimistic)); !errors.Is(err, engine.ErrSuspended) {
			t.Errorf("got %v", err)
		}
	})
}

func TestTheSameIDIsTheSameSaga(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		r := newRig(t, saga.Options{})
		first := r.run(pair("s", saga.Pessimistic))
		for range 2 {
			if again := r.run(pair("s", saga.Pessimistic)); again.State.Run != first.State.Run {
				t.Errorf("it was run again: %s, then %s", first.State.Run, again.State.Run)
			}
			other := pair("s", saga.Pessimistic)
			other.Steps[0].Payload = []byte("u2 owns foo")
			if _, err := r.sagas.Run(t.Context(), other); !errors.Is(err, saga.ErrOther) {
				t.Errorf("got %v", err)
			}
			synctest.Wait()
			r.close()
			r.open(saga.Options{})
		}
		time.Sleep(8 * 24 * time.Hour)
		synctest.Wait()
		if _, err := r.sagas.Get("s"); !errors.Is(err, saga.ErrNotFound) {
			t.Errorf("after a week: %v", err)
		}
		r.close()
	})
}

func TestATargetThatIsDownMakesItUnresolvedUntilItIsBack(t *testing.T) {
	for _, landed := range []bool{false, true} {
		inBubbles(t, func(t *testing.T, mode saga.Mode) {
			r := newRig(t, saga.Options{})
			defer r.close()
			var down atomic.Bool
			r.b.fault = func(op string, _ *sink.Request) (bool, *sink.Result) {
				if op == "apply" {
					down.Store(true)
				}
				if down.Load() {
					return op == "apply" && landed, &sink.Result{Status: sink.Unreachable, Message: "gone"}
				}
				return true, nil
			}
			ctx, cancel := contextWithTimeout(t, 2*time.Minute)
			defer cancel()
			v, err := r.sagas.Run(ctx, pair("s", mode))
			if err != nil || v.State.Outcome != "" || !v.Unresolved {
				t.Fatalf("told %+v, %v", v, err)
			}
			if st := r.sagas.Stats(); st.Unresolved != 1 || st.Running != 1 {
				t.Errorf("%+v", st)
			}
			r.close() // and over a restart
			down.Store(false)
			r.b.fault = nil
			r.open(saga.Options{})
			v, err = r.sagas.Wait(t.Context(), "s")
			want := saga.RolledBack
			if landed {
				want = saga.Committed
			}
			if err != nil || v.State.Outcome != want {
				t.Errorf("landed %v: %+v, %v", landed, v.State, err)
			}
			time.Sleep(time.Minute) // locks are kept until nothing can land late
			synctest.Wait()
			if (r.a.content("grant") != "") != landed || (r.b.content("foo") != "") != landed || r.a.locked()+r.b.locked() > 0 {
				t.Errorf("left: %v %v %v %v", r.a.objects, r.b.objects, r.a.locks, r.b.locks)
			}
		})
	}
}

// Who changed what a saga wrote is not undone: an operator has to look.
func TestAnUndoThatMeetsAnotherHandIsStuckUntilResolved(t *testing.T) {
	inBubbles(t, func(t *testing.T, mode saga.Mode) {
		r := newRig(t, saga.Options{})
		defer r.close()
		r.b.fault = func(op string, _ *sink.Request) (bool, *sink.Result) {
			if op == "apply" {
				r.a.mu.Lock()
				r.a.set("grant", "somebody's", "")
				r.a.mu.Unlock()
				return false, &sink.Result{Status: sink.Rejected, Message: "no"}
			}
			return true, nil
		}
		if _, err := r.sagas.Start(t.Context(), pair("s", mode)); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		v, err := r.sagas.Get("s")
		if err != nil || v.State.Stuck == "" || !v.Unresolved {
			t.Fatalf("%+v, %v", v.State, err)
		}
		if got := r.a.content("grant"); got != "somebody's" {
			t.Errorf("it was undone: %q", got)
		}
		if _, err := r.sagas.Resolve(t.Context(), "s", saga.TakeRolledBack); err != nil {
			t.Fatal(err)
		}
		if v, err := r.sagas.Wait(t.Context(), "s"); err != nil || v.State.Outcome != saga.RolledBack {
			t.Errorf("%+v, %v", v.State, err)
		}
		synctest.Wait()
		if _, err := r.sagas.Resolve(t.Context(), "s", saga.TryAgain); !errors.Is(err, saga.ErrNothingToDo) {
			t.Errorf("got %v", err)
		}
		if r.a.locked() > 0 {
			t.Errorf("locks left: %v", r.a.locks)
		}
	})
}

func TestR71DeletionsAndForgetting(t *testing.T) {
	inBubbles(t, func(t *testing.T, mode saga.Mode) {
		r := newRig(t, saga.Options{})
		defer r.close()
		r.put(grant, "u1 owns foo")
		r.put(foo, "namespace foo")
		var acked, unknown int // deletions by whether the adapter was told what it had acknowledged
		r.a.fault = func(op string, req *sink.Request) (bool, *sink.Result) {
			if op == "delete" && req.Acked != nil && req.Acked.Hash == record.HashOf([]byte("u1 owns foo")) {
				acked++
			} else if op == "delete" {
				unknown++
			}
			return true, nil
		}
		away := pair("s", mode)
		for i := range away.Steps {
			away.Steps[i].Verb, away.Steps[i].Payload = saga.Delete, nil
		}
		if v := r.run(away); v.State.Outcome != saga.Committed {
			t.Fatalf("%+v", v.State)
		}
		synctest.Wait()
		if r.a.content("grant")+r.b.content("foo") != "" {
			t.Errorf("left: %v %v", r.a.objects, r.b.objects)
		}
		if acked != 1 || unknown != 0 {
			t.Errorf("%d deletions with what was acknowledged, %d without", acked, unknown)
		}
		for _, key := range []record.Key{grant, foo} {
			if res, err := r.engine.Get(t.Context(), key); !errors.Is(err, engine.ErrNotFound) {
				t.Errorf("%s is still desired: %+v, %v", key, res.Status, err)
			}
		}
		spec := pair("again", mode)
		spec.Steps[0].After = saga.Forget
		r.run(spec)
		synctest.Wait()
		if _, err := r.engine.Get(t.Context(), grant); !errors.Is(err, engine.ErrNotFound) {
			t.Errorf("it was not forgotten: %v", err)
		}
		if r.a.content("grant") != "u1 owns foo" {
			t.Errorf("forgetting touched the target: %v", r.a.objects)
		}
	})
}

// A delete whose partner is refused brings back exactly what was there.
func TestAnUndoneDeletionBringsBackWhatWasThere(t *testing.T) {
	inBubbles(t, func(t *testing.T, mode saga.Mode) {
		r := newRig(t, saga.Options{})
		defer r.close()
		r.put(grant, "u1 owns foo")
		r.b.fault = func(op string, _ *sink.Request) (bool, *sink.Result) {
			return op != "apply", map[bool]*sink.Result{true: {Status: sink.Rejected}}[op == "apply"]
		}
		spec := pair("s", mode)
		spec.Steps[0].Verb, spec.Steps[0].Payload = saga.Delete, nil
		if v := r.run(spec); v.State.Outcome != saga.RolledBack {
			t.Fatalf("%+v", v.State)
		}
		synctest.Wait()
		if got := r.a.content("grant"); got != "u1 owns foo" {
			t.Errorf("brought back: %q", got)
		}
		if res, err := r.engine.Get(t.Context(), grant); err != nil || string(res.Desired.Payload) != "u1 owns foo" || res.Status.Phase != record.AckedPhase {
			t.Errorf("the resource: %+v, %v", res, err)
		}
	})
}
