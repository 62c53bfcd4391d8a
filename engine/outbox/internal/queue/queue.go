// Package queue is the waiting list that the stores share: it orders and
// coalesces updates, hands them to a Backend in groups, and wakes those who
// wait.
//
// There is one writer and no timer: while a group is being committed the next
// one gathers, so that a slow disk makes larger groups. An update is decided in
// its caller's goroutine, under a lock of its key alone; the order of the queue
// is the order of the revisions.
package queue

import (
	"hash/maphash"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/pawlsync/pawl/engine/outbox"
	"github.com/pawlsync/pawl/engine/record"
)

// Op says what a change does to one half of a record.
type Op uint8

// The operations.
const (
	Keep Op = iota
	Set
	Drop
)

// Change is all that one group does to one key.
type Change struct {
	Key      record.Key
	Revision uint64        // of the last update that went into it
	Record   outbox.Record // as it is afterwards, both halves
	Desired  Op
	Status   Op
}

// Halves returns how many halves of the record the change writes.
func (c *Change) Halves() int {
	n := 0
	if c.Desired != Keep {
		n++
	}
	if c.Status != Keep {
		n++
	}
	return n
}

// merge puts a later update on top of c.
func (c *Change) merge(u outbox.Change, revision uint64) {
	c.Revision = revision
	if u.Remove {
		c.Record, c.Desired, c.Status = outbox.Record{}, Drop, Drop
		return
	}
	if u.Desired != nil {
		c.Record.Desired, c.Desired = *u.Desired, Set
		if u.NewGeneration {
			c.Record.Desired.Generation = revision
		}
	}
	if u.Status != nil {
		c.Record.Status, c.Status = *u.Status, Set
		if u.NewGeneration && u.Settled {
			c.Record.Status = outbox.Numbered(c.Record.Status, revision)
		}
	}
}

// Backend keeps what is committed.
type Backend interface {
	// Load returns key's committed record. It is called by many goroutines.
	Load(key record.Key) (outbox.Record, error)
	// Commit makes changes, sorted by revision and each key once, durable and
	// visible to Load, or returns an error and leaves no trace of them. It is
	// called by one goroutine.
	Commit(changes []*Change) error
}

// Options are what a queue needs. Backend and Reserve must be set.
type Options struct {
	Backend  Backend
	Observer outbox.Observer // nil: nobody is told
	Revision uint64          // the first update gets the next one
	// Reserve durably claims revisions from the given one on and returns the
	// last claimed. After a crash none of them may be given out again, for they
	// may have been seen. It is called rarely, and by one goroutine at a time.
	Reserve func(from uint64) (last uint64, err error)
	// Admit refuses updates that need space: size bytes, while queued bytes wait
	// for their commit. nil: all are admitted.
	Admit func(size, queued int64) error
}

// Queue orders updates and commits them in groups.
type Queue struct {
	opts    Options
	seed    maphash.Seed
	stripes [256]stripe // serialize the updates of one key; taken before mu
	wake    chan struct{}
	done    chan struct{}

	mu         sync.Mutex
	waiting    *batch
	committing *batch // nil while the writer idles
	revision   uint64 // last given out
	reserved   uint64
	closed     error // why no update is taken any more
	stats      Stats
}

// Stats are the queue's figures; counters grow.
type Stats struct {
	Commits    uint64
	Changes    uint64 // updates that changed something
	Records    uint64 // halves of records, after coalescing
	Waiting    int
	LastCommit time.Duration
}

// batch is a group of changes on its way to the backend.
type batch struct {
	group   *outbox.Group
	changes map[record.Key]*Change
	updates int
	bytes   int64 // payload bytes
	failed  bool
}

// newBatch starts a batch that is about as large as the one before, whose size is
// given: its map need not grow step by step.
func newBatch(before int) *batch {
	const most = 4096 // so that after a giant the next one is not large for nothing
	return &batch{group: outbox.NewGroup(), changes: make(map[record.Key]*Change, min(before, most))}
}

// New starts a queue. Close or Abort ends its goroutine.
func New(opts Options) *Queue {
	q := &Queue{
		opts:     opts,
		seed:     maphash.MakeSeed(),
		wake:     make(chan struct{}, 1),
		done:     make(chan struct{}),
		waiting:  newBatch(0),
		revision: opts.Revision,
		reserved: opts.Revision,
	}
	go q.write()
	return q
}

// Update implements outbox.Store.
func (q *Queue) Update(key record.Key, decide outbox.Decide) outbox.Ticket {
	s := q.stripe(key)
	s.Lock()
	defer s.Unlock()

	cur, saw, err := q.newest(s, key)
	if err != nil {
		return outbox.NewTicket(0, nil, err)
	}
	change, err := decide(cur)
	if err != nil || change.Empty() {
		return outbox.NewTicket(0, saw.groupOrNil(), err)
	}
	return q.enqueue(s, key, cur, saw, change)
}

func (q *Queue) stripe(key record.Key) *stripe {
	return &q.stripes[maphash.Comparable(q.seed, key)%uint64(len(q.stripes))]
}

// Discard queues the removal of key's record, whatever it holds, without
// reading it.
func (q *Queue) Discard(key record.Key) outbox.Ticket {
	s := q.stripe(key)
	s.Lock()
	defer s.Unlock()
	return q.enqueue(s, key, outbox.Record{}, nil, outbox.Change{Remove: true})
}

// newest returns key's newest state and the batch that it waits in, nil where
// it is committed. The caller holds key's stripe, so that no newer one comes.
func (q *Queue) newest(s *stripe, key record.Key) (outbox.Record, *batch, error) {
	rec := s.read[key] // of what waits nothing is remembered
	q.mu.Lock()
	if q.closed != nil {
		defer q.mu.Unlock()
		return outbox.Record{}, nil, q.closed
	}
	if rec != nil {
		q.mu.Unlock()
		return *rec, nil, nil
	}
	for _, b := range []*batch{q.waiting, q.committing} {
		if b == nil {
			continue
		}
		if c := b.changes[key]; c != nil {
			rec := c.Record
			q.mu.Unlock()
			return rec, b, nil
		}
	}
	q.mu.Unlock()
	loaded, err := q.opts.Backend.Load(key)
	if err == nil && (loaded.Desired.Exists() || loaded.Desired.Gone) { // of a new key the Put follows at once
		kept := loaded
		s.keep(key, &kept)
	}
	return loaded, nil, err
}

func (b *batch) groupOrNil() *outbox.Group {
	if b == nil {
		return nil
	}
	return b.group
}

func (q *Queue) enqueue(s *stripe, key record.Key, cur outbox.Record, saw *batch, u outbox.Change) outbox.Ticket {
	q.mu.Lock()
	defer q.mu.Unlock()
	switch {
	case q.closed != nil:
		return outbox.NewTicket(0, nil, q.closed)
	case saw != nil && saw.failed:
		// decide relied on a state that never came to be.
		return outbox.NewTicket(0, saw.group, nil)
	}
	size := int64(0)
	if d := u.Desired; d != nil && !u.Remove && !d.Tombstone && !d.Gone {
		size = int64(len(d.Payload))
		if q.opts.Admit != nil {
			if err := q.opts.Admit(size, q.queuedBytes()); err != nil {
				return outbox.NewTicket(0, saw.groupOrNil(), err)
			}
		}
	}
	if q.revision == q.reserved {
		last, err := q.opts.Reserve(q.revision + 1)
		if err != nil {
			return outbox.NewTicket(0, saw.groupOrNil(), err)
		}
		q.reserved = last
	}
	q.revision++
	s.drop(key)
	c := q.waiting.changes[key]
	if c == nil {
		c = &Change{Key: key, Record: cur}
		q.waiting.changes[key] = c
	}
	c.merge(u, q.revision)
	q.waiting.updates++
	q.waiting.bytes += size
	q.stats.Changes++
	q.signal()
	return outbox.NewTicket(q.revision, q.waiting.group, nil)
}

func (q *Queue) queuedBytes() int64 {
	n := q.waiting.bytes
	if q.committing != nil {
		n += q.committing.bytes
	}
	return n
}

func (q *Queue) signal() {
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

// write is the one writer.
func (q *Queue) write() {
	defer close(q.done)
	for range q.wake {
		for q.commitNext() {
		}
		q.mu.Lock()
		closed := q.closed != nil
		q.mu.Unlock()
		if closed {
			return
		}
	}
}

// commitNext commits what waits and reports whether there was anything.
func (q *Queue) commitNext() bool {
	// Whom the last group woke and who has something new shall share the next one.
	runtime.Gosched()
	q.mu.Lock()
	b := q.waiting
	if len(b.changes) == 0 {
		q.mu.Unlock()
		return false
	}
	q.waiting, q.committing = newBatch(len(b.changes)), b
	q.mu.Unlock()

	changes, halves := b.sorted()
	start := time.Now()
	err := q.opts.Backend.Commit(changes)
	took := time.Since(start)

	failed := q.settle(b, halves, took, err)
	if err == nil {
		q.remember(changes)
	}
	if o := q.opts.Observer; o != nil {
		o.CommitDone(b.updates, halves, took, err)
		if err == nil {
			o.Committed(committed(changes))
		}
	}
	for _, b := range failed {
		b.group.Finish(err)
	}
	if err == nil {
		b.group.Finish(nil)
	}
	return true
}

// settle takes b off the list and returns the batches that failed: those that
// wait behind a failed one go with it, since they may have been decided on
// what was in it.
func (q *Queue) settle(b *batch, halves int, took time.Duration, err error) []*batch {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.committing = nil
	q.stats.LastCommit = took
	if err == nil {
		q.stats.Commits++
		q.stats.Records += uint64(halves)
		return nil
	}
	failed := []*batch{b, q.waiting}
	q.waiting = newBatch(0)
	for _, b := range failed {
		b.failed = true
	}
	return failed
}

// remember keeps what is freshly desired for the delivery that follows, unless
// somebody is at its stripe just now or has changed it again.
func (q *Queue) remember(changes []*Change) {
	for _, c := range changes {
		if c.Desired != Set {
			continue
		}
		s := q.stripe(c.Key)
		if !s.TryLock() {
			continue
		}
		q.mu.Lock()
		_, newer := q.waiting.changes[c.Key]
		q.mu.Unlock()
		if !newer {
			s.keep(c.Key, &c.Record)
		}
		s.Unlock()
	}
}

func (b *batch) sorted() (changes []*Change, halves int) {
	changes = make([]*Change, 0, len(b.changes))
	for _, c := range b.changes {
		changes = append(changes, c)
		halves += c.Halves()
	}
	slices.SortFunc(changes, func(a, b *Change) int {
		if a.Revision < b.Revision {
			return -1
		}
		return 1 // revisions differ
	})
	return changes, halves
}

func committed(changes []*Change) []outbox.Committed {
	list := make([]outbox.Committed, len(changes))
	for i, c := range changes {
		list[i] = outbox.Committed{
			Key:            c.Key,
			Revision:       c.Revision,
			Record:         &c.Record,
			DesiredChanged: c.Desired != Keep,
			Removed:        c.Desired == Drop && c.Status == Drop,
		}
	}
	return list
}

// Stats returns the figures.
func (q *Queue) Stats() Stats {
	q.mu.Lock()
	defer q.mu.Unlock()
	s := q.stats
	s.Waiting = q.waiting.updates
	if q.committing != nil {
		s.Waiting += q.committing.updates
	}
	return s
}

// Close refuses updates from now on with outbox.ErrClosed, commits what waits
// and returns the last revision that was given out.
func (q *Queue) Close() uint64 {
	q.end(outbox.ErrClosed, nil)
	<-q.done
	return q.revision
}

// Abort fails what waits with err and refuses updates from now on. A commit
// that is under way goes on; Done tells when it ended.
func (q *Queue) Abort(err error) {
	if b := q.end(err, newBatch(0)); b != nil {
		b.group.Finish(err)
	}
}

// Done is closed once the writer has ended.
func (q *Queue) Done() <-chan struct{} { return q.done }

// end closes the list. With a replacement for what waits, it returns that.
func (q *Queue) end(why error, replacement *batch) *batch {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed == nil {
		q.closed = why
	}
	q.signal()
	if replacement == nil {
		return nil
	}
	b := q.waiting
	q.waiting, b.failed = replacement, true
	return b
}
