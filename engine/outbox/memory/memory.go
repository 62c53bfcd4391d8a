// Package memory is a store for tests. It keeps records in a Disk, a value that
// outlives the store and can be opened again, and it can be told to fail in the
// ways in which a real disk does.
//
// It works within testing/synctest bubbles: its one goroutine blocks on
// channels and ends at Close or Crash.
package memory

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"

	"github.com/pawlsync/pawl/engine/outbox"
	"github.com/pawlsync/pawl/engine/outbox/internal/queue"
	"github.com/pawlsync/pawl/engine/record"
)

// ErrCrashed is why changes that waited for their commit failed in Crash.
var ErrCrashed = errors.New("the power was cut")

// maxMetaBytes is the contract's limit on a document.
const maxMetaBytes = 64 << 10

// reserveStep is how many revisions are claimed at once.
const reserveStep = 1000

// Options of Open. The zero value works.
type Options struct {
	Observer   outbox.Observer // nil: nobody is told
	AcceptLoss bool            // open over a lost tail, with a new epoch
}

// Store is an open Disk. It implements outbox.Store.
type Store struct {
	disk  *Disk
	queue *queue.Queue
	once  sync.Once
}

var _ outbox.Store = (*Store)(nil)

// New opens a fresh disk.
func New(opts Options) *Store {
	s, err := Open(NewDisk(), opts)
	if err != nil {
		panic(err) // a fresh disk is neither in use nor damaged
	}
	return s
}

// Open opens disk. Errors wrap outbox.ErrLocked while it is open elsewhere and
// outbox.ErrLost when it lost what was acknowledged.
func Open(disk *Disk, opts Options) (*Store, error) {
	disk.mu.Lock()
	defer disk.mu.Unlock()
	if disk.open {
		return nil, fmt.Errorf("open the disk: %w: close the other store first", outbox.ErrLocked)
	}
	if lost := disk.highWater - disk.revision; lost > 0 {
		if !opts.AcceptLoss {
			return nil, fmt.Errorf("open the disk: %w: up to %d changes, revisions %d to %d; accept the loss to go on",
				outbox.ErrLost, lost, disk.revision+1, disk.highWater)
		}
		disk.epoch, disk.lossy, disk.revision = newEpoch(), true, disk.highWater
	}
	disk.open = true
	s := &Store{disk: disk}
	s.queue = queue.New(queue.Options{
		Backend:  disk,
		Observer: opts.Observer,
		Revision: max(disk.reserved, disk.revision),
		Reserve:  disk.reserve,
		Admit:    disk.admit,
	})
	return s, nil
}

func newEpoch() string { return fmt.Sprintf("%016x", rand.Uint64()) }

// Disk returns what s keeps its records in.
func (s *Store) Disk() *Disk { return s.disk }

// Update implements outbox.Store.
func (s *Store) Update(key record.Key, decide outbox.Decide) outbox.Ticket {
	return s.queue.Update(key, decide)
}

// Discard implements outbox.Discarder.
func (s *Store) Discard(key record.Key) outbox.Ticket { return s.queue.Discard(key) }

// Get implements outbox.Store.
func (s *Store) Get(key record.Key) (outbox.Record, error) {
	if s.closed() {
		return outbox.Record{}, outbox.ErrClosed
	}
	return s.disk.Load(key)
}

func (s *Store) closed() bool {
	select {
	case <-s.queue.Done():
		return true
	default:
		return false
	}
}

// Heads implements outbox.Store.
func (s *Store) Heads(ctx context.Context, span outbox.Span, fn func(outbox.Head) bool) error {
	if s.closed() {
		return outbox.ErrClosed
	}
	for _, head := range s.disk.heads(span) {
		if err := ctx.Err(); err != nil {
			return err
		}
		if !fn(head) {
			return nil
		}
	}
	return nil
}

// Meta implements outbox.Store.
func (s *Store) Meta(name string) ([]byte, error) {
	if s.closed() {
		return nil, outbox.ErrClosed
	}
	s.disk.mu.Lock()
	defer s.disk.mu.Unlock()
	return slices.Clone(s.disk.meta[name]), nil
}

// SetMeta implements outbox.Store.
func (s *Store) SetMeta(name string, value []byte) error {
	switch {
	case s.closed():
		return outbox.ErrClosed
	case len(value) > maxMetaBytes:
		return fmt.Errorf("document %q has %d bytes, more than the %d allowed", name, len(value), maxMetaBytes)
	}
	s.disk.mu.Lock()
	defer s.disk.mu.Unlock()
	if value == nil {
		delete(s.disk.meta, name)
		return nil
	}
	s.disk.meta[name] = append([]byte{}, value...)
	return nil
}

// Info implements outbox.Store.
func (s *Store) Info() outbox.Info {
	s.disk.mu.Lock()
	defer s.disk.mu.Unlock()
	return outbox.Info{
		Epoch:      s.disk.epoch,
		Revision:   s.disk.revision,
		Lossy:      s.disk.lossy,
		FormatFrom: 1,
	}
}

// Stats implements outbox.Store.
func (s *Store) Stats() outbox.Stats {
	q := s.queue.Stats()
	s.disk.mu.Lock()
	defer s.disk.mu.Unlock()
	return outbox.Stats{
		Commits:      q.Commits,
		Changes:      q.Changes,
		Records:      q.Records,
		BytesWritten: s.disk.written,
		Waiting:      q.Waiting,
		LastCommit:   q.LastCommit,
		FreeBytes:    -1,
		RefusingPuts: s.disk.full,
		GarbageBytes: -1,
	}
}

// Close implements outbox.Store. A held commit must be released before.
func (s *Store) Close() error {
	s.once.Do(func() {
		last := s.queue.Close()
		s.disk.mu.Lock()
		defer s.disk.mu.Unlock()
		s.disk.reserved, s.disk.open = last, false
	})
	return nil
}

// Crash cuts the power: what is not committed is gone, those who wait for it
// get ErrCrashed, and the disk can be opened again.
func (s *Store) Crash() {
	s.once.Do(func() {
		s.disk.mu.Lock()
		s.disk.crashed = true
		held := s.disk.held
		s.disk.held = nil
		s.disk.mu.Unlock()
		s.queue.Abort(ErrCrashed)
		if held != nil {
			close(held)
		}
		<-s.queue.Done()
		s.disk.mu.Lock()
		defer s.disk.mu.Unlock()
		s.disk.crashed, s.disk.open = false, false
	})
}
