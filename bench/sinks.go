package main

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/pawlsync/pawl/engine/sink"
	"github.com/pawlsync/pawl/engine/wasmhost"
)

// null is a sink that does nothing and answers at once.
type null struct{ applied atomic.Int64 }

func (*null) Manifest() sink.Manifest {
	return sink.Manifest{Name: "null", Target: "null", Deletes: true, ApplyConfirms: true, ApplyIdempotent: true}
}

func (*null) Observe(context.Context, *sink.Request) sink.Result {
	return sink.Result{Status: sink.NotFound}
}

func (n *null) Apply(context.Context, *sink.Request) sink.Result {
	n.applied.Add(1)
	return sink.Result{Status: sink.OK}
}

func (*null) Delete(context.Context, *sink.Request) sink.Result { return sink.Result{Status: sink.OK} }
func (*null) Close(context.Context) error                       { return nil }

// firstCall is null, and notes how long after began it was first called.
type firstCall struct {
	*null
	at    *atomic.Int64
	began time.Time
}

func (f *firstCall) Apply(ctx context.Context, r *sink.Request) sink.Result {
	f.at.CompareAndSwap(0, int64(time.Since(f.began)))
	return f.null.Apply(ctx, r)
}

// looked counts the looks at a sink.
type looked struct {
	*wasmhost.Sink
	n atomic.Int64
}

func (l *looked) Observe(ctx context.Context, r *sink.Request) sink.Result {
	defer l.n.Add(1)
	return l.Sink.Observe(ctx, r)
}
