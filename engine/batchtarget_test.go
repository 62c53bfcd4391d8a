package engine_test

import (
	"context"

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
