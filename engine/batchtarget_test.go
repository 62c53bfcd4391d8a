package engine_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/pawlsync/pawl/engine"
	"github.com/pawlsync/pawl/engine/sink"
)

// batchTarget takes batches, and refuses each one that holds its poison as a
// whole.
type batchTarget struct {
	*fakeTarget
	poison  string
	largest int
}

func (f *batchTarget) ApplyBatch(ctx context.Context, rs []*sink.Request) ([]sink.Result, bool) {
	f.largest = max(f.largest, len(rs))
	for _, r := range rs {
		if r.Key.Name == f.poison {
			return []sink.Result{{Status: sink.Rejected, Message: "one of them is bad"}}, true
		}
	}
	out := make([]sink.Result, len(rs))
	for i, r := range rs {
		out[i] = f.fakeTarget.Apply(ctx, r)
	}
	return out, false
}

func (f *batchTarget) Apply(ctx context.Context, r *sink.Request) sink.Result {
	if r.Key.Name == f.poison {
		return sink.Result{Status: sink.Rejected, Message: "bad"}
	}
	return f.fakeTarget.Apply(ctx, r)
}

// faultyBatch has a plugin that traps on every batch.
type faultyBatch struct{ *fakeTarget }

func (faultyBatch) ApplyBatch(context.Context, []*sink.Request) ([]sink.Result, bool) {
	return []sink.Result{{Status: sink.Fault, Message: "trap"}}, true
}

func TestR57_R47_TheItemsOfABatchThatFaultsGoOnAloneUncharged(t *testing.T) {
	batch := faultyBatch{newTarget()}
	batch.manifest.BatchMax = 8
	inBubble(t, func(o *engine.Options) { o.Sinks[0].Sink = batch; o.Sinks[0].MaxAttempts = 1 }, func(b *bench) {
		b.must(b.SuspendSink(b.t.Context(), "web"))
		for i := range 4 { // fewer than open the breaker
			b.put(fmt.Sprint("k", i), `1`)
		}
		b.must(b.ResumeSink(b.t.Context(), "web"))
		b.settle()
		for i := range 4 {
			b.want(fmt.Sprint("k", i), "Acked")
		}
	})
}
