package sink

import (
	"context"

	"github.com/pawlsync/pawl/engine/record"
)

// Poller is a Sink whose target tells what changed there since a cursor, so that
// resources of direction inbound and both need not be observed one by one. It is used
// where Manifest.Polls.
type Poller interface {
	Sink
	// Poll tells what changed after cursor; "" is the beginning, where everything
	// counts as changed. It may return some of it: More then says that there is more.
	Poll(ctx context.Context, cursor string) (Changes, Result)
}

// Changes are what a Poll tells.
type Changes struct {
	Seen   []Seen
	Cursor string // to go on from; kept by the engine, durably, once Seen is
	More   bool
	// Reset: the target no longer knows the cursor that it was asked from. Everything
	// is to be observed again; Seen is then the beginning of the whole.
	Reset bool
}

// Seen is the state of one object at the target.
type Seen struct {
	Key         record.Key
	Observation Observation // Exists false: it is gone there
}
