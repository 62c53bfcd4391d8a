package memory

import (
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/pawlsync/pawl/engine/outbox"
	"github.com/pawlsync/pawl/engine/outbox/internal/queue"
	"github.com/pawlsync/pawl/engine/record"
)

// undoLength is how many groups LoseTail can take back.
const undoLength = 64

// Disk is what survives a crash. Its methods inject faults and may be called
// while a store is open.
type Disk struct {
	mu        sync.Mutex
	records   map[record.Key]outbox.Record
	damaged   map[record.Key]bool
	meta      map[string][]byte
	epoch     string
	lossy     bool
	open      bool
	revision  uint64 // newest committed
	highWater uint64 // newest that was ever acknowledged
	reserved  uint64
	written   uint64 // payload bytes
	undo      []undo // oldest first

	failures int // commits that fail; below 0: all
	failWith error
	held     chan struct{} // closed to release; nil: commits are not held
	reached  chan struct{} // closed once a commit is held
	full     bool
	crashed  bool
}

// undo takes one group back.
type undo struct {
	revision uint64 // before the group
	records  map[record.Key]outbox.Record
}

// NewDisk returns an empty disk.
func NewDisk() *Disk {
	return &Disk{
		records: make(map[record.Key]outbox.Record),
		damaged: make(map[record.Key]bool),
		meta:    make(map[string][]byte),
		epoch:   newEpoch(),
	}
}

// FailCommits makes the next n commits fail with err; n below 0: all, until it
// is called with 0.
func (d *Disk) FailCommits(n int, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.failures, d.failWith = n, err
}

// HoldCommits keeps every commit waiting until release is called.
func (d *Disk) HoldCommits() (release func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	held := make(chan struct{})
	d.held, d.reached = held, make(chan struct{})
	return func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		if d.held == held {
			d.held = nil
			close(held)
		}
	}
}

// CommitHeld returns a channel that is closed once HoldCommits holds a commit.
func (d *Disk) CommitHeld() <-chan struct{} {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.reached
}

// SetFull makes the disk full, or not: Puts are refused with
// outbox.ErrNoSpace.
func (d *Disk) SetFull(full bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.full = full
}

// Damage makes key's record unreadable until it is written again or removed.
func (d *Disk) Damage(key record.Key) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.damaged[key] = true
}

// LoseTail takes back the newest groups (at most 64 are remembered), as a disk
// does that drops what it had acknowledged. Call it between Close or Crash and
// Open, which will then say so.
func (d *Disk) LoseTail(groups int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for range min(groups, len(d.undo)) {
		last := d.undo[len(d.undo)-1]
		d.undo = d.undo[:len(d.undo)-1]
		d.revision = last.revision
		for key, rec := range last.records {
			d.set(key, rec)
		}
	}
}

// SetEpoch replaces the epoch, as a restored backup does.
func (d *Disk) SetEpoch(epoch string, lossy bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.epoch, d.lossy = epoch, lossy
}

// Load implements queue.Backend.
func (d *Disk) Load(key record.Key) (outbox.Record, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.damaged[key] {
		return outbox.Record{}, fmt.Errorf("read %s: %w", key, outbox.ErrDamaged)
	}
	return d.records[key], nil
}

// Commit implements queue.Backend.
func (d *Disk) Commit(changes []*queue.Change) error {
	d.mu.Lock()
	held := d.held
	if held != nil {
		closeOnce(d.reached)
	}
	d.mu.Unlock()
	if held != nil {
		<-held
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case d.crashed:
		return ErrCrashed
	case d.failures != 0:
		if d.failures > 0 {
			d.failures--
		}
		return d.failWith
	}
	before := undo{revision: d.revision, records: make(map[record.Key]outbox.Record)}
	for _, c := range changes {
		before.records[c.Key] = d.records[c.Key]
		d.set(c.Key, c.Record)
		delete(d.damaged, c.Key)
		if c.Desired == queue.Set {
			d.written += uint64(len(c.Record.Desired.Payload))
		}
	}
	d.undo = append(d.undo, before)
	if len(d.undo) > undoLength {
		d.undo = slices.Delete(d.undo, 0, 1)
	}
	d.revision = changes[len(changes)-1].Revision
	d.highWater = d.revision
	return nil
}

// set keeps no record where there is nothing to keep.
func (d *Disk) set(key record.Key, rec outbox.Record) {
	if rec.Desired.Generation == 0 && len(record.AppendStatus(nil, &rec.Status)) == 0 {
		delete(d.records, key)
		return
	}
	d.records[key] = rec
}

// reserve claims revisions; see queue.Options.
func (d *Disk) reserve(from uint64) (uint64, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.reserved = from + reserveStep - 1
	return d.reserved, nil
}

func (d *Disk) admit(_, _ int64) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.full {
		return fmt.Errorf("%w: free some space; it goes on by itself", outbox.ErrNoSpace)
	}
	return nil
}

// heads returns span's heads in key order.
func (d *Disk) heads(span outbox.Span) []outbox.Head {
	d.mu.Lock()
	defer d.mu.Unlock()
	var list []outbox.Head
	for key, rec := range d.records {
		if !within(span, key) {
			continue
		}
		list = append(list, outbox.HeadOf(key, &rec))
	}
	slices.SortFunc(list, func(a, b outbox.Head) int { return a.Key.Compare(b.Key) })
	return list
}

func within(span outbox.Span, key record.Key) bool {
	return (span.Sink == "" || span.Sink == key.Sink) &&
		strings.HasPrefix(key.Name, span.Prefix) &&
		(span.After == nil || key.Compare(*span.After) > 0)
}

// closeOnce is called under the disk's lock.
func closeOnce(c chan struct{}) {
	select {
	case <-c:
	default:
		close(c)
	}
}
