package engine

import (
	"context"
	"testing"

	"github.com/pawlsync/pawl/engine/outbox"
	"github.com/pawlsync/pawl/engine/record"
	"github.com/pawlsync/pawl/engine/sink"
)

// What every Put and delivery does for a tracer, where there is none.
func TestWithoutATracerNothingIsAllocatedToFollow(t *testing.T) {
	e, w := &Engine{}, &delivery{}
	ctx, key := context.Background(), record.Key{Sink: "web", Name: "a"}
	rec := &outbox.Record{Desired: record.Desired{Generation: 2}}
	batch, results := []*delivery{w, w}, make([]sink.Result, 2)
	n := testing.AllocsPerRun(100, func() {
		taken(e.putBegan(ctx, key, "put"), &outbox.Change{NewGeneration: true}, nil)
		e.follow(w, rec)
		_, end := w.step(ctx, "apply")
		end("ok")
		_, endBatch := e.batchStep(ctx, batch)
		endBatch(results)
		_, end = w.step(ctx, "commit")
		_ = commit(end, nil)
		w.followed("acked", settledBy(&outbox.Change{}, *rec))
	})
	if n > 0 {
		t.Errorf("%v allocations", n)
	}
}
