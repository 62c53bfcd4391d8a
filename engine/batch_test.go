package engine_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/pawlsync/pawl/engine"
	"github.com/pawlsync/pawl/engine/sink"
)

// bulkTarget takes batches, each of which takes a second, and counts.
type bulkTarget struct {
	*fakeTarget

	count sync.Mutex
	sizes []int // of calls that apply, in order
	busy  int   // calls under way
	most  int   // of those, ever
}

func newBulk(batchMax int) *bulkTarget {
	f := &bulkTarget{fakeTarget: newTarget()}
	f.manifest.BatchMax = batchMax
	return f
}

// begin counts a call that applies n resources, and lets a second pass.
func (f *bulkTarget) begin(n int) (end func()) {
	f.count.Lock()
	if n > 0 {
		f.sizes = append(f.sizes, n)
	}
	f.busy++
	f.most = max(f.most, f.busy)
	f.count.Unlock()
	time.Sleep(time.Second)
	return func() {
		f.count.Lock()
		f.busy--
		f.count.Unlock()
	}
}

func (f *bulkTarget) ApplyBatch(ctx context.Context, rs []*sink.Request) ([]sink.Result, bool) {
	defer f.begin(len(rs))()
	out := make([]sink.Result, len(rs))
	for i, r := range rs {
		out[i] = f.fakeTarget.Apply(ctx, r)
	}
	return out, false
}

func (f *bulkTarget) Apply(ctx context.Context, r *sink.Request) sink.Result {
	defer f.begin(1)()
	return f.fakeTarget.Apply(ctx, r)
}

func (f *bulkTarget) Delete(ctx context.Context, r *sink.Request) sink.Result {
	defer f.begin(0)()
	return f.fakeTarget.Delete(ctx, r)
}

// wantSizes compares the sizes of all calls that applied something so far.
func (f *bulkTarget) wantSizes(t *testing.T, want ...int) {
	t.Helper()
	f.count.Lock()
	defer f.count.Unlock()
	if !slices.Equal(f.sizes, want) {
		t.Errorf("calls for %v resources, want %v", f.sizes, want)
	}
}

// flood puts n resources that become due at once.
func (b *bench) flood(prefix string, n int) {
	b.t.Helper()
	b.must(b.SuspendSink(b.t.Context(), "web"))
	for i := range n {
		b.put(fmt.Sprint(prefix, i), `1`)
	}
	b.must(b.ResumeSink(b.t.Context(), "web"))
	b.settle()
}

func TestR57_UnderLoadBatchesAreFullWhateverMaxInFlight(t *testing.T) {
	for _, maxInFlight := range []int{1, 2, 0} {
		bulk := newBulk(100)
		inBubble(t, func(o *engine.Options) { o.Sinks[0].Sink, o.Sinks[0].MaxInFlight = bulk, maxInFlight }, func(b *bench) {
			b.flood("k", 1000)
			b.after(time.Minute)
			bulk.wantSizes(t, slices.Repeat([]int{100}, 10)...)
			if maxInFlight > 0 && bulk.most != maxInFlight {
				t.Errorf("%d calls at a time, want %d", bulk.most, maxInFlight)
			}
		})
	}
}

func TestR57_WhatComesBesideALargeBatchWaitsForCompanyOrItsEnd(t *testing.T) {
	bulk := newBulk(100)
	inBubble(t, func(o *engine.Options) { o.Sinks[0].Sink = bulk }, func(b *bench) {
		b.put("lone", `1`)
		b.settle()
		bulk.wantSizes(t, 1)
		b.flood("k", 80)
		for i := range 15 {
			b.put(fmt.Sprint("x", i), `1`)
			b.settle()
		}
		bulk.wantSizes(t, 1, 80)
		b.after(2 * time.Second)
		bulk.wantSizes(t, 1, 80, 15)
		b.want("x14", "Acked")
	})
}

func TestR57_ResourcesThatComeOneByOneWaitForNothing(t *testing.T) {
	bulk := newBulk(100)
	inBubble(t, func(o *engine.Options) { o.Sinks[0].Sink = bulk }, func(b *bench) {
		for i := range 12 {
			b.put(fmt.Sprint("k", i), `1`)
			b.settle()
			if got := len(bulk.sizes); got != i+1 {
				t.Fatalf("%d calls after %d resources", got, i+1)
			}
			b.after(300 * time.Millisecond) // three more may be under way
		}
	})
}

func TestR57_WhatOfABatchGoesAloneKeepsToMaxInFlight(t *testing.T) {
	bulk := newBulk(50)
	inBubble(t, func(o *engine.Options) { o.Sinks[0].Sink, o.Sinks[0].MaxInFlight = bulk, 3 }, func(b *bench) {
		b.flood("k", 200)
		b.after(time.Minute)
		b.must(b.SuspendSink(b.t.Context(), "web"))
		for i := range 200 {
			b.delete(fmt.Sprint("k", i))
		}
		b.must(b.ResumeSink(b.t.Context(), "web"))
		b.after(10 * time.Minute)
		if bulk.most != 3 {
			t.Errorf("%d calls at a time", bulk.most)
		}
		for i := range 200 {
			b.want(fmt.Sprint("k", i), "gone")
		}
	})
}

func TestR57_AReplacedSinkBringsItsOwnBatchMax(t *testing.T) {
	small, large := newBulk(10), newBulk(40)
	inBubble(t, func(o *engine.Options) { o.Sinks[0].Sink = small }, func(b *bench) {
		b.flood("k", 40)
		b.after(time.Minute)
		small.wantSizes(t, 10, 10, 10, 10)
		if _, err := b.ReplaceSink("web", large); err != nil {
			t.Fatal(err)
		}
		b.flood("x", 40)
		b.after(time.Minute)
		large.wantSizes(t, 40)
	})
}
