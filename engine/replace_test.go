package engine_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pawlsync/pawl/engine"
	"github.com/pawlsync/pawl/engine/outbox"
	"github.com/pawlsync/pawl/engine/outbox/memory"
	"github.com/pawlsync/pawl/engine/record"
	"github.com/pawlsync/pawl/engine/sink"
)

// version is one version of a sink: all share a target, each notes what it was
// called for and whether it was closed.
type version struct {
	*fakeTarget
	own    sink.Manifest
	calls  atomic.Int64
	closed atomic.Int64
	late   atomic.Int64  // calls after it was closed: must stay 0
	used   chan struct{} // closed at its first call
}

func (v *version) count() {
	if v.calls.Add(1) == 1 {
		close(v.used)
	}
	if v.closed.Load() > 0 {
		v.late.Add(1)
	}
}

func (v *version) Manifest() sink.Manifest     { return v.own }
func (v *version) Close(context.Context) error { v.closed.Add(1); return nil }
func (v *version) Observe(ctx context.Context, r *sink.Request) sink.Result {
	v.count()
	return v.fakeTarget.Observe(ctx, r)
}
func (v *version) Apply(ctx context.Context, r *sink.Request) sink.Result {
	v.count()
	return v.fakeTarget.Apply(ctx, r)
}
func (v *version) Delete(ctx context.Context, r *sink.Request) sink.Result {
	v.count()
	return v.fakeTarget.Delete(ctx, r)
}

// versioned makes the bench's sink a version, and returns it.
func versioned(o *engine.Options, tweak func(m *sink.Manifest)) *version {
	v := next(o.Sinks[0].Sink.(*fakeTarget), tweak)
	o.Sinks[0].Sink = v
	return v
}

// next is another version at the same target.
func next(target *fakeTarget, tweak func(m *sink.Manifest)) *version {
	v := &version{fakeTarget: target, own: target.manifest, used: make(chan struct{})}
	if tweak != nil {
		tweak(&v.own)
	}
	return v
}

func notReady(m *sink.Manifest) { m.Target, m.NotReady = "", "unreachable: connection refused" }

func TestR15_DeliveriesEndWithTheSinkThatTheyBeganWith(t *testing.T) {
	var old *version
	inBubble(t, func(o *engine.Options) { old = versioned(o, func(m *sink.Manifest) { m.ApplyConfirms = false }) }, func(b *bench) {
		b.target.slow(5 * time.Second)
		b.put("a", `1`)
		b.put("b", `1`)
		b.after(time.Second)
		v := next(b.target, func(m *sink.Manifest) { m.Version = "2" })
		retired, err := b.ReplaceSink("web", v)
		b.must(err)
		b.put("c", `1`)
		b.after(time.Second)
		if got := v.calls.Load(); got != 1 {
			t.Errorf("%d calls of the new sink, want the one for what was put since", got)
		}
		if s := b.Sinks()[0]; s.Plugin != "fake 2" {
			t.Errorf("status names %q", s.Plugin)
		}
		b.after(time.Second)
		if old.closed.Load() != 0 {
			t.Error("the old sink was closed in the middle of a delivery")
		}
		b.after(time.Minute)
		select {
		case err := <-retired:
			b.must(err)
		default:
			t.Fatal("the old sink is not retired though it has no delivery left")
		}
		if old.closed.Load() != 1 || old.late.Load() != 0 {
			t.Errorf("the old sink was closed %d times, called %d times after that", old.closed.Load(), old.late.Load())
		}
		for _, name := range []string{"a", "b", "c"} {
			b.want(name, "Acked")
		}
		b.wantOps("a", "observe", "apply", "observe") // the old one's Apply proves nothing, and its own Observe was asked
		b.wantOps("c", "apply")
		if got := old.calls.Load(); got != 6 {
			t.Errorf("%d calls of the old sink, want 6", got)
		}
	})
}

func TestR14_ASinkThatIsNotReadyHoldsItsResourcesAndNoOthers(t *testing.T) {
	var waiting *version
	other := newTarget()
	inBubble(t, func(o *engine.Options) {
		waiting = versioned(o, notReady)
		o.Sinks = append(o.Sinks, engine.SinkOptions{Name: "other", Sink: other})
	}, func(b *bench) {
		b.put("a", `1`)
		b.put("b", `1`)
		b.delete("b")
		if _, err := b.Put(b.t.Context(), engine.Put{Key: record.Key{Sink: "other", Name: "a"}, Payload: []byte(`1`)}); err != nil {
			t.Fatal(err)
		}
		b.after(time.Hour)
		b.want("a", "Pending")
		if len(other.ops("a")) == 0 {
			t.Error("another sink waits too")
		}
		if s := b.Sinks()[1]; s.Name != "web" || s.NotReady != "unreachable: connection refused" || s.Suspended {
			t.Errorf("status: %+v", s)
		}
		if n := waiting.calls.Load(); n != 0 {
			t.Errorf("%d calls of a sink that is not ready", n)
		}
		b.replace(next(b.target, notReady)) // still not
		b.after(time.Hour)
		b.want("a", "Pending")
		b.replace(next(b.target, nil))
		b.settle()
		b.want("a", "Acked")
		b.want("b", "gone")
		if s := b.Sinks()[1]; s.NotReady != "" || s.Target != "t1" {
			t.Errorf("status: %+v", s)
		}
		if waiting.closed.Load() != 1 {
			t.Errorf("what stood in was closed %d times", waiting.closed.Load())
		}
	})
}

func TestR30_ASinkThatIsSuspendedStaysSoWhenItIsReplaced(t *testing.T) {
	inBubble(t, func(o *engine.Options) { versioned(o, notReady) }, func(b *bench) {
		b.must(b.SuspendSink(b.t.Context(), "web"))
		b.put("a", `1`)
		b.replace(next(b.target, nil))
		b.after(time.Minute)
		b.wantOps("a")
		b.replace(next(b.target, notReady))
		b.must(b.ResumeSink(b.t.Context(), "web"))
		b.after(time.Minute)
		b.wantOps("a") // resumed, and still not ready
		b.replace(next(b.target, nil))
		b.settle()
		b.want("a", "Acked")
	})
}

// acknowledged opens a bench with n acknowledged resources and one deletion that is
// owed to target t1, then opens it again with the sink that tweak makes.
func acknowledged(t *testing.T, n int, tweak func(m *sink.Manifest), test func(b *bench)) {
	inBubble(t, func(o *engine.Options) { o.Sinks[0].StartupRate = 1 }, func(b *bench) {
		for i := range n {
			b.put(fmt.Sprint("k", i), `1`)
		}
		b.put("doomed", `1`)
		b.settle()
		b.must(b.SuspendSink(b.t.Context(), "web"))
		b.delete("doomed")
		b.must(b.Close(b.t.Context()))
		b.opts.Sinks[0].Sink = next(b.target, tweak)
		b.target.forgetCalls()
		b.open()
		b.must(b.ResumeSink(b.t.Context(), "web"))
		test(b)
	})
}

// replace puts v in the place of the bench's sink, and waits for the old one's end.
func (b *bench) replace(v *version) {
	b.t.Helper()
	retired, err := b.ReplaceSink("web", v)
	b.must(err)
	b.must(<-retired)
}

// forgetCalls empties the list of calls.
func (f *fakeTarget) forgetCalls() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calls = nil
}

// called counts the resources k0 to k(n-1) that were called about.
func (b *bench) called(n int) (called int) {
	for i := range n {
		if len(b.target.ops(fmt.Sprint("k", i))) > 0 {
			called++
		}
	}
	return called
}

func TestR14_WhileTheTargetIsNotKnownNothingIsTakenForAnother(t *testing.T) {
	acknowledged(t, 5, notReady, func(b *bench) {
		b.after(time.Hour)
		b.want("k0", "Acked")
		b.want("doomed", "Pending")
		if n := b.called(5); n != 0 {
			t.Errorf("%d resources were called about", n)
		}
		b.replace(next(b.target, nil))
		b.after(2500 * time.Millisecond)
		b.want("doomed", "gone")
		if n := b.called(5); n != 3 {
			t.Errorf("%d looks after 2.5 s, want 3: one a second (R34)", n)
		}
		b.wantOps("k0", "observe")
	})
}

func TestR13_ATargetThatTurnsOutToBeAnotherIsLookedAtAsIfNeverAcked(t *testing.T) {
	acknowledged(t, 5, notReady, func(b *bench) {
		b.after(time.Hour)
		b.target = newTarget()
		b.replace(next(b.target, func(m *sink.Manifest) { m.Target = "t2" }))
		b.after(time.Second)
		b.wantOps("k0", "observe", "apply")
		b.wantOps("k4", "observe", "apply")
		b.want("doomed", "Orphaned")
		b.wantOps("doomed")
	})
}

func TestDriftChecksBeginWithASinkThatCanObserve(t *testing.T) {
	inBubble(t, func(o *engine.Options) { versioned(o, func(m *sink.Manifest) { m.Observes = false }) }, func(b *bench) {
		b.put("a", `1`)
		b.after(time.Hour)
		b.wantOps("a", "apply")
		b.replace(next(b.target, nil))
		b.after(12 * time.Minute)
		b.wantOps("a", "apply", "observe")
		b.replace(next(b.target, func(m *sink.Manifest) { m.Observes = false }))
		b.after(time.Hour)
		b.wantOps("a", "apply", "observe")
		b.want("a", "Acked")
	})
}

func TestCloseEndsAReplacementAndClosesBothSinks(t *testing.T) {
	var old *version
	inBubble(t, func(o *engine.Options) { old = versioned(o, nil) }, func(b *bench) {
		b.target.slow(time.Hour)
		b.put("a", `1`)
		b.settle()
		v := next(b.target, nil)
		retired, err := b.ReplaceSink("web", v)
		b.must(err)
		ctx, cancel := context.WithTimeout(b.t.Context(), time.Second)
		defer cancel()
		b.must(b.Close(ctx))
		b.must(<-retired)
		if old.closed.Load() != 1 || v.closed.Load() != 1 || old.late.Load() != 0 {
			t.Errorf("closed: the old %d times, the new %d times; %d late calls", old.closed.Load(), v.closed.Load(), old.late.Load())
		}
		late := next(b.target, nil)
		if _, err := b.ReplaceSink("web", late); !errors.Is(err, engine.ErrClosed) || late.closed.Load() != 0 {
			t.Errorf("after Close: %v, and it was closed %d times", err, late.closed.Load())
		}
	})
}

func TestAnUnknownSinkIsNotReplaced(t *testing.T) {
	inBubble(t, nil, func(b *bench) {
		v := next(b.target, nil)
		if _, err := b.ReplaceSink("wep", v); !errors.Is(err, engine.ErrUnknownSink) {
			t.Errorf("got %v", err)
		}
	})
}

// Under load, with the race detector: every generation is applied once, by a sink
// that was open, however often the sink is replaced.
func TestR15_ReplacingASinkUnderLoadLosesAndRepeatsNothing(t *testing.T) {
	const keys, versions = 300, 40
	disk, target := memory.NewDisk(), newTarget()
	target.latency = time.Millisecond
	first := next(target, nil)
	e, err := engine.Open(t.Context(), engine.Options{
		Sinks: []engine.SinkOptions{{Name: "web", Sink: first, MaxInFlight: 200}},
		Store: func(o outbox.Observer) (outbox.Store, error) { return memory.Open(disk, memory.Options{Observer: o}) },
	})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close(context.Background())
	all := []*version{first}
	stop := make(chan struct{})
	var puts sync.WaitGroup
	newest := make([]uint64, keys)
	for w := range 4 {
		puts.Go(func() {
			for n := 0; ; n++ {
				for k := w; k < keys; k += 4 {
					select {
					case <-stop:
						return
					default:
					}
					res, err := e.Put(t.Context(), engine.Put{Key: web(fmt.Sprint("k", k)), Payload: fmt.Appendf(nil, `%d`, n)})
					if err != nil {
						t.Error(err)
						return
					}
					newest[k] = res.Generation
				}
			}
		})
	}
	for i := range versions {
		<-all[i].used
		v := next(target, func(m *sink.Manifest) { m.ApplyConfirms = i%2 == 0 })
		all = append(all, v)
		retired, err := e.ReplaceSink("web", v)
		if err != nil {
			t.Fatal(err)
		}
		if err := <-retired; err != nil {
			t.Fatal(err)
		}
	}
	close(stop)
	puts.Wait()
	for k := range keys {
		if res, err := e.Wait(t.Context(), web(fmt.Sprint("k", k)), newest[k]); err != nil || !res.Done {
			t.Fatalf("k%d: %+v, %v", k, res, err)
		}
	}
	if err := e.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	for i, v := range all {
		if v.closed.Load() != 1 || v.late.Load() != 0 {
			t.Errorf("version %d: closed %d times, %d calls after that", i, v.closed.Load(), v.late.Load())
		}
	}
	applied := map[string]int{}
	for _, c := range target.calls {
		if c.op == "apply" {
			applied[fmt.Sprint(c.key, "/", c.generation)]++
		}
	}
	for g, n := range applied {
		if n != 1 {
			t.Errorf("%s was applied %d times", g, n)
		}
	}
	if len(target.overlap) > 0 {
		t.Errorf("two calls at once about %v", target.overlap)
	}
}
