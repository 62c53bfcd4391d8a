package server

import (
	"context"
	"iter"

	"github.com/pawlsync/pawl/engine"
	"github.com/pawlsync/pawl/engine/record"
)

// Engine is what the API needs of *engine.Engine.
type Engine interface {
	Put(context.Context, engine.Put) (engine.PutResult, error)
	PutBatch(context.Context, []engine.Put) ([]engine.BatchItem, error)
	Delete(context.Context, engine.Delete) (engine.PutResult, error)
	Get(context.Context, record.Key) (engine.Resource, error)
	List(context.Context, engine.ListOptions) (engine.Page, error)
	Watch(context.Context, engine.WatchOptions) iter.Seq2[engine.Event, error]
	Wait(context.Context, record.Key, uint64) (engine.WaitResult, error)
	Preview(context.Context, engine.Question) (engine.Preview, error)
	Operator
	HeldBy(record.Key) string
	Sinks() []engine.SinkStatus
	Stats() engine.Stats
}

// Operator is what an operator may order.
type Operator interface {
	Retry(context.Context, record.Key) error
	Suspend(context.Context, record.Key) error
	Resume(context.Context, record.Key) error
	Accept(context.Context, record.Key) error
	ApplyForce(context.Context, record.Key) error
	Forget(context.Context, record.Key) error
	SuspendSink(context.Context, string) error
	ResumeSink(context.Context, string) error
}
