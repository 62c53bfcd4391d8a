package engine

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/pawlsync/pawl/engine/outbox"
	"github.com/pawlsync/pawl/engine/outbox/memory"
	"github.com/pawlsync/pawl/engine/record"
	"github.com/pawlsync/pawl/engine/schedule"
	"github.com/pawlsync/pawl/engine/sink"
)

// idleSink is a sink that is never called.
type idleSink struct{ sink.Sink }

func (idleSink) Manifest() sink.Manifest     { return sink.Manifest{Name: "idle", Target: "t"} }
func (idleSink) Close(context.Context) error { return nil }

// An operator's order that found a sink just before it was removed is refused: the one
// of its name that is there by now has read what was stored before.
func TestAnOrderThatFoundARemovedSinkChangesNothingOfItsSuccessor(t *testing.T) {
	disk := memory.NewDisk()
	e, err := Open(t.Context(), Options{
		Sinks: []SinkOptions{{Name: "web", Sink: idleSink{}}},
		Store: func(o outbox.Observer) (outbox.Store, error) { return memory.Open(disk, memory.Options{Observer: o}) },
	})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close(context.Background())
	found := e.targets.of("web")
	if _, err := e.RemoveSink("web"); err != nil {
		t.Fatal(err)
	}
	if err := e.AddSink(t.Context(), SinkOptions{Name: "web", Sink: idleSink{}}); err != nil {
		t.Fatal(err)
	}
	if err := e.setHold(found, record.ReasonOperator); !errors.Is(err, ErrUnknownSink) {
		t.Errorf("the order: %v", err)
	}
	raw, err := e.store.Meta(holdName("web"))
	if err != nil || raw != nil {
		t.Errorf("stored: %s, %v", raw, err)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if block, _ := e.sched.Visit("web", time.Now()); block != schedule.Open {
		t.Errorf("calls of the one that is there now are kept back: %v", block)
	}
}
