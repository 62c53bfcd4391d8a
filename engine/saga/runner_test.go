package saga_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawlsync/pawl/engine"
	"github.com/pawlsync/pawl/engine/outbox"
	"github.com/pawlsync/pawl/engine/outbox/memory"
	"github.com/pawlsync/pawl/engine/record"
	"github.com/pawlsync/pawl/engine/saga"
	"github.com/pawlsync/pawl/engine/sink"
	"github.com/pawlsync/pawl/internal/bubble"
)

// rig is an engine with two targets and sagas over them. Its store outlives it.
type rig struct {
	t      *testing.T
	disk   *memory.Disk
	store  *memory.Store
	a, b   *target
	as     func(*target) sink.Sink // what the engine gets for a target; nil: itself
	engine *engine.Engine
	sagas  *saga.Manager
}

func newRig(t *testing.T, o saga.Options) *rig {
	t.Helper()
	r := &rig{t: t, disk: memory.NewDisk(), a: newTarget("alpha"), b: newTarget("beta")}
	r.open(o)
	return r
}

func (r *rig) open(o saga.Options) {
	r.t.Helper()
	r.sagas = saga.New(o)
	as := r.as
	if as == nil {
		as = func(t *target) sink.Sink { return t }
	}
	e, err := engine.Open(r.t.Context(), engine.Options{
		Store: func(obs outbox.Observer) (outbox.Store, error) {
			var err error
			r.store, err = memory.Open(r.disk, memory.Options{Observer: obs})
			return r.store, err
		},
		Prepare: r.sagas.Prepare,
		Sinks:   []engine.SinkOptions{{Name: "a", Sink: as(r.a), DriftInterval: -1, Timeout: 10 * time.Second}, {Name: "b", Sink: as(r.b), DriftInterval: -1, Timeout: 10 * time.Second}},
		Seed:    1,
	})
	if err != nil {
		r.t.Fatal(err)
	}
	r.engine = e
}

func (r *rig) close() {
	r.t.Helper()
	if err := errors.Join(r.sagas.Close(r.t.Context()), r.engine.Close(r.t.Context())); err != nil {
		r.t.Fatal(err)
	}
}

func pair(id string, mode saga.Mode) saga.Spec {
	return saga.Spec{ID: id, Mode: mode, Timeout: time.Minute, Steps: []saga.Step{
		{Key: record.Key{Sink: "a", Name: "grant"}, Verb: saga.Create, Payload: []byte("u1 owns foo")},
		{Key: record.Key{Sink: "b", Name: "foo"}, Verb: saga.Create, Payload: []byte("namespace foo")},
	}}
}

func (r *rig) run(spec saga.Spec) saga.View {
	r.t.Helper()
	v, err := r.sagas.Run(r.t.Context(), spec)
	if err != nil {
		r.t.Fatal(err)
	}
	return v
}

var modes = []saga.Mode{saga.Pessimistic, saga.Optimistic}

func inBubbles(t *testing.T, test func(t *testing.T, mode saga.Mode)) {
	for _, mode := range modes {
		t.Run(string(mode), func(t *testing.T) { bubble.Test(t, func(t *testing.T) { test(t, mode) }) })
	}
}

func TestBothAreWrittenAndBecomeOrdinaryResources(t *testing.T) {
	inBubbles(t, func(t *testing.T, mode saga.Mode) {
		r := newRig(t, saga.Options{})
		defer r.close()
		v := r.run(pair("s", mode))
		if v.State.Outcome != saga.Committed || v.Unresolved {
			t.Fatalf("%+v", v.State)
		}
		if r.a.content("grant") != "u1 owns foo" || r.b.content("foo") != "namespace foo" {
			t.Errorf("a has %q, b has %q", r.a.content("grant"), r.b.content("foo"))
		}
		for _, key := range []record.Key{{Sink: "a", Name: "grant"}, {Sink: "b", Name: "foo"}} {
			w, err := r.engine.Wait(t.Context(), key, 0)
			if err != nil || !w.Done {
				t.Errorf("%s: %+v, %v", key, w, err)
			}
		}
		synctest.Wait()
		if r.a.locked()+r.b.locked() > 0 {
			t.Errorf("locks left: %v %v", r.a.locks, r.b.locks)
		}
		if v, err := r.sagas.Get("s"); err != nil || v.State.Phase != saga.Ended {
			t.Errorf("%+v, %v", v.State, err)
		}
	})
}

func TestARefusalOfTheSecondLeavesNothingOfTheFirst(t *testing.T) {
	for _, status := range []sink.Status{sink.Rejected, sink.Unauthorized, sink.Conflict, sink.AlreadyExists} {
		t.Run(status.String(), func(t *testing.T) {
			inBubbles(t, func(t *testing.T, mode saga.Mode) {
				r := newRig(t, saga.Options{})
				defer r.close()
				r.b.fault = func(op string, _ *sink.Request) (bool, *sink.Result) {
					if op == "apply" {
						return false, &sink.Result{Status: status, Message: "no, says beta"}
					}
					return true, nil
				}
				v := r.run(pair("s", mode))
				if v.State.Outcome != saga.RolledBack || v.State.FailedStep != 2 || !strings.Contains(v.State.Cause, "says beta") {
					t.Fatalf("%+v", v.State)
				}
				synctest.Wait()
				if r.a.content("grant") != "" || r.b.content("foo") != "" || r.a.locked()+r.b.locked() > 0 {
					t.Errorf("left: %v %v %v %v", r.a.objects, r.b.objects, r.a.locks, r.b.locks)
				}
			})
		})
	}
}

// Whatever dies, and wherever: the next process ends it in both or neither.
func TestEveryDeathIsSurvived(t *testing.T) {
	var points []string
	bubble.Test(t, func(t *testing.T) {
		r := newRig(t, saga.Options{Failpoint: func(p string) error { points = append(points, p); return nil }})
		r.run(pair("s", saga.Pessimistic))
		synctest.Wait()
		r.close()
	})
	if len(points) < 15 {
		t.Fatalf("few points: %q", points)
	}
	for _, point := range points {
		for _, refuse := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, refused %v", point, refuse), func(t *testing.T) {
				inBubbles(t, func(t *testing.T, mode saga.Mode) { dieAt(t, mode, point, refuse) })
			})
		}
	}
}

func dieAt(t *testing.T, mode saga.Mode, point string, refuse bool) {
	reached := make(chan struct{})
	var once sync.Once
	forever := make(chan struct{})
	r := newRig(t, saga.Options{Failpoint: func(p string) error {
		if p == point {
			once.Do(func() { close(reached) })
			<-forever
			return errors.New("dead")
		}
		return nil
	}})
	if refuse {
		r.b.fault = func(op string, _ *sink.Request) (bool, *sink.Result) {
			if op == "apply" {
				return false, &sink.Result{Status: sink.Rejected}
			}
			return true, nil
		}
	}
	told := make(chan saga.View, 1)
	go func() {
		if v, err := r.sagas.Run(context.Background(), pair("s", mode)); err == nil {
			told <- v
		}
	}()
	synctest.Wait()
	select {
	case <-reached:
	default: // this saga does not come there
		close(forever)
		r.close()
		return
	}
	// The process is dead: what it stored is taken up by another one.
	dead, deadSagas := r.engine, r.sagas
	r.store.Crash()
	r.open(saga.Options{})
	v, err := r.sagas.Wait(t.Context(), "s")
	if errors.Is(err, saga.ErrNotFound) {
		v.State.Outcome = saga.RolledBack // it died before anything was written; the caller heard nothing
	} else if err != nil {
		t.Fatal(err)
	}
	time.Sleep(time.Minute) // locks are kept until nothing can land late
	synctest.Wait()
	a, b := r.a.content("grant"), r.b.content("foo")
	switch v.State.Outcome {
	case saga.Committed:
		if a == "" || b == "" {
			t.Errorf("committed: a %q, b %q", a, b)
		}
	case saga.RolledBack:
		if a != "" || b != "" {
			t.Errorf("rolled back: a %q, b %q", a, b)
		}
	default:
		t.Errorf("%+v", v.State)
	}
	if r.a.locked()+r.b.locked() > 0 {
		t.Errorf("locks left: %v %v", r.a.locks, r.b.locks)
	}
	select {
	case was := <-told:
		if was.State.Outcome != "" && was.State.Outcome != v.State.Outcome {
			t.Errorf("the caller was told %s, and it ended as %s", was.State.Outcome, v.State.Outcome)
		}
	default:
	}
	r.close()
	r.a.fault = func(string, *sink.Request) (bool, *sink.Result) {
		return false, &sink.Result{Status: sink.Unreachable, NotSent: true}
	}
	r.b.fault = r.a.fault
	close(forever)
	_ = deadSagas.Close(context.Background())
	_ = dead.Close(context.Background())
}

func contextWithTimeout(t *testing.T, d time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeout(t.Context(), d)
}
