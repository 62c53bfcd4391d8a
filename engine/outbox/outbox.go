// Package outbox is the contract between the engine and what stores its
// resources. It is shaped as the outbox needs it, not as a general key-value
// store: no operation spans two resources, so that it also fits a replicated
// store that offers compare-and-set and watch on single keys.
//
// A store keeps for each resource a Record in two halves that change at
// different times: what is desired (per Put) and what is known (per delivery).
// Every committed change takes a number from one revision counter, which is
// never set back and never reused, restarts included.
package outbox

import (
	"context"
	"errors"
	"time"

	"github.com/pawlsync/pawl/engine/record"
)

// Errors that callers test with errors.Is.
var (
	ErrClosed      = errors.New("the store is closed")
	ErrNoSpace     = errors.New("the disk is nearly full")
	ErrLocked      = errors.New("the store is in use by another process")
	ErrDamaged     = errors.New("the store is damaged")
	ErrLost        = errors.New("the store lost acknowledged data")
	ErrFormat      = errors.New("the store has a format that this program can't read")
	ErrUnavailable = errors.New("the store can't be read at the moment")
)

// Record is all that is stored of one resource. The zero Record is that of an
// unknown one.
type Record struct {
	Desired record.Desired
	Status  record.Status
}

// Change is what one update makes of a record. The zero Change changes nothing.
type Change struct {
	Desired *record.Desired // nil: stays
	Status  *record.Status  // nil: stays
	// NewGeneration: the store sets Desired.Generation to the revision of this change.
	NewGeneration bool
	// Settled, with NewGeneration: Status speaks of the new generation already, and so
	// do its Acked, conditions and newest line of history; the store numbers them too.
	Settled bool
	Remove  bool // both halves go; Desired and Status are ignored
}

// Empty reports whether c changes nothing.
func (c Change) Empty() bool { return c.Desired == nil && c.Status == nil && !c.Remove }

// Decide looks at a resource's newest state, changes still waiting for their
// commit included, and says what to make of it. It is called exactly once, in
// the order in which changes of that key take effect, and must not block, nor
// call the store. cur's slices and pointers are shared: read only.
type Decide func(cur Record) (Change, error)

// Committed is one resource's new state after a commit.
type Committed struct {
	Key      record.Key
	Revision uint64  // of the last change that went into it
	Record   *Record // zero when it was removed; shared: read only
	// DesiredChanged tells a Put or Delete from a mere status.
	DesiredChanged bool
	Removed        bool
}

// Head is what a schedule needs of one resource; it is cheap to read in bulk. One
// of a record that can't be read has a status of phase Failed and reason Damaged.
type Head struct {
	Key        record.Key
	Generation uint64 // of what is desired; 0: nothing is
	Tombstone  bool
	Suspend    bool // the source's flag
	Gone       bool
	GoneUntil  time.Time // of a gone one
	// WaitingSince is Desired.WaitingSince; zero where the store can't tell
	// without reading the payload.
	WaitingSince time.Time
	Status       record.Status // Status.Acked.Payload and Attempted payloads may be left out
}

// HeadOf returns r's head.
func HeadOf(key record.Key, r *Record) Head {
	d := &r.Desired
	return Head{Key: key, Generation: d.Generation, Tombstone: d.Tombstone, Suspend: d.Suspend, Gone: d.Gone,
		GoneUntil: d.GoneUntil, WaitingSince: d.WaitingSince, Status: r.Status}
}

// Span selects resources in key order.
type Span struct {
	Sink   string      // "": every sink
	Prefix string      // of the name
	After  *record.Key // exclusive; nil: from the first
}

// Info describes an open store.
type Info struct {
	Epoch      string // random id of this store's life; new after restore, import and accepted loss
	Revision   uint64 // newest durable one
	Lossy      bool   // restored or imported, or opened over a loss that was accepted (R68): behave as R67 says
	Directory  string // "" for memory
	FormatFrom int    // the format version found at Open; equal to the current one unless migrated
}

// Stats are a store's figures, for metrics. Counters grow from Open on.
type Stats struct {
	Commits        uint64        // transactions
	Changes        uint64        // updates that changed something, before coalescing
	Records        uint64        // halves of records written, after coalescing
	BytesWritten   uint64        // payload bytes handed to the store
	Waiting        int           // changes that wait for their commit
	LastCommit     time.Duration // how long the newest commit took
	DiskBytes      int64         // size of the directory
	FreeBytes      int64         // free on the file system; -1: unknown
	ReserveBytes   int64         // Puts are refused below it
	RefusingPuts   bool
	GarbageBytes   int64 // estimate of what compaction could free; -1: unknown
	CompactionRuns uint64
	BackedUpAt     time.Time // when the newest backup ended; zero: there is none that the store knows of
}

// Observer is told what a store does. Its methods must return quickly.
type Observer interface {
	// Committed is called after a group of changes is durable and before those
	// who wait for it are woken: in commit order, from one goroutine.
	Committed(changes []Committed)
	// CommitDone reports one transaction: how many changes shared it, how many
	// halves of records were written and how long it took.
	CommitDone(changes, records int, took time.Duration, err error)
}

// Store keeps records. All methods may be called from many goroutines.
type Store interface {
	// Update queues what decide makes of key's record. It returns before the
	// change is durable; Ticket.Wait tells. Where decide returns an error, or an
	// empty Change, the ticket still waits for whatever decide saw.
	//
	// A change that sets a Desired which is no tombstone and not Gone is refused with
	// ErrNoSpace while the disk is nearly full; all others go through.
	Update(key record.Key, decide Decide) Ticket

	// Get returns the newest state of key, changes still waiting for their
	// commit left out. The zero Record means that there is none. A damaged
	// record is an error that wraps ErrDamaged, never an empty one.
	Get(key record.Key) (Record, error)

	// Heads calls fn with the head of every resource of span, in key order,
	// until fn returns false. Payloads are not read, for which damage to one may not
	// show. Damage to one record keeps no other from being listed.
	Heads(ctx context.Context, span Span, fn func(Head) bool) error

	// Meta returns the small document of that name (at most 64 KiB), nil if
	// there is none. SetMeta replaces it durably; nil removes it.
	Meta(name string) ([]byte, error)
	SetMeta(name string, value []byte) error

	// Info describes the store; Stats its figures.
	Info() Info
	Stats() Stats

	// Close waits for what is queued and closes the store.
	Close() error
}

// Discarder is a Store that can remove a record that it can't read.
type Discarder interface {
	// Discard queues the removal of key's record, whatever it holds.
	Discard(key record.Key) Ticket
}

// Ticket is the promise of a commit.
type Ticket struct {
	// Revision is the change's own; 0 when nothing changed. After it was
	// coalesced with a newer one of the same key, the newer one's is stored.
	Revision uint64
	// Err is what Decide returned, or why the change was not queued.
	Err error

	group *Group // nil: nothing to wait for
}

// NewTicket returns a ticket for a change, or a look, that is durable with group.
func NewTicket(revision uint64, group *Group, err error) Ticket {
	return Ticket{Revision: revision, Err: err, group: group}
}

// Wait blocks until the change, or the state that Decide relied on, is durable.
// A failed commit comes before Err. When ctx ends first the change may still
// become durable.
func (t Ticket) Wait(ctx context.Context) error {
	if t.group != nil {
		select {
		case <-t.group.done:
			if t.group.err != nil {
				return t.group.err
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return t.Err
}

// Group is a set of changes that become durable together. One closed channel
// wakes all who wait.
type Group struct {
	done chan struct{}
	err  error
}

// NewGroup returns an open group.
func NewGroup() *Group { return &Group{done: make(chan struct{})} }

// Finish wakes all who wait for g; err is why its commit failed, or nil. It is
// called once.
func (g *Group) Finish(err error) {
	g.err = err
	close(g.done)
}
