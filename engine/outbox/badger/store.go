// Package badger keeps the outbox on disk, in a journal and in Badger.
//
// A group of changes is durable once it is in the journal: one write, one
// fdatasync. From there Badger gets the newest state of each key, many groups
// at once, and the journal is cut behind it. So a Put waits for one flush
// instead of the two that a transaction of Badger costs, and a key that changes
// a hundred times a second is written to Badger a few times.
//
//	Update ─▶ queue ─▶ journal (durable) ─▶ overlay ─▶ Badger
//	                                  Get ─▶ overlay, else Badger
//
// The layout on disk is in docs/store-format.md.
package badger

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dgraph-io/badger/v4"

	"github.com/pawlsync/pawl/engine/outbox"
	"github.com/pawlsync/pawl/engine/outbox/internal/queue"
	"github.com/pawlsync/pawl/engine/record"
)

// Names within the directory.
const (
	dataName    = "data"
	journalName = "journal"
	asideName   = "aside" // see setAside
)

// claimStep is how many revisions are claimed at once.
const claimStep = 1 << 16

// Store implements outbox.Store.
type Store struct {
	opts     Options
	log      *slog.Logger
	lock     *os.File
	info     outbox.Info
	restored time.Time // when it was made of a backup or an export; zero: it was not
	master   *Key      // seals what is written; nil: nothing is sealed
	mark     *mark
	journal  *journal
	overlay  *overlay
	known    *known
	space    *space
	queue    *queue.Queue
	ring     ring // guarded by applyMu

	uses    atomic.Uint64 // of db, see restLoop
	dbMu    sync.RWMutex  // held for writing while Compact reopens Badger
	db      *badger.DB    // nil after Close, and after a reopen that failed
	down    error         // why that failed
	ended   bool          // closed for good
	applyMu sync.Mutex    // one writer to Badger at a time; taken before dbMu

	life       context.Context // ends as Close begins
	endLife    context.CancelFunc
	stop       chan struct{} // closed once nothing is committed any more
	background sync.WaitGroup
	closeOnce  sync.Once
	closeErr   error

	// drops: tombstones may stand in upper levels, of this run or the last.
	drops       atomic.Bool
	written     atomic.Uint64
	committed   atomic.Uint64 // newest durable revision
	compactMu   sync.Mutex
	backedUp    atomic.Pointer[time.Time] // when the newest backup ended; nil: never
	pinned      atomic.Bool               // a cut is being read; see dropOverwritten
	compactions atomic.Uint64
	garbage     atomic.Int64 // estimate in bytes; -1: unknown
}

var _ outbox.Store = (*Store)(nil)

// Opener returns a function that opens a store with the given observer.
func Opener(opts Options) func(outbox.Observer) (outbox.Store, error) {
	return func(observer outbox.Observer) (outbox.Store, error) {
		opts.Observer = observer
		s, err := Open(opts)
		if err != nil {
			return nil, err
		}
		return s, nil
	}
}

func (s *Store) dataDir() string { return filepath.Join(s.opts.Dir, dataName) }

func (s *Store) journalDir() string { return filepath.Join(s.opts.Dir, journalName) }

func (s *Store) asideDir() string { return filepath.Join(s.opts.Dir, asideName) }

// Update implements outbox.Store.
func (s *Store) Update(key record.Key, decide outbox.Decide) outbox.Ticket {
	return s.queue.Update(key, decide)
}

// Discard removes key's record without reading it: the way on where it is
// damaged and there is no copy. Whatever the target holds stays there.
func (s *Store) Discard(key record.Key) outbox.Ticket { return s.queue.Discard(key) }

// Commit implements queue.Backend.
func (s *Store) Commit(changes []*queue.Change) error {
	if h := s.opts.hooks.commit; h != nil {
		if err := h(); err != nil {
			return err
		}
	}
	s.space.measure()
	if err := s.overlay.waitRoom(); err != nil {
		return err
	}
	keys := make([]record.Key, len(changes))
	entries := make([]*entry, len(changes))
	for i, c := range changes {
		keys[i], entries[i] = c.Key, newEntry(c)
	}
	n, err := s.journal.append(keys, entries)
	if err != nil {
		return explainFull(err)
	}
	last := changes[len(changes)-1].Revision
	s.written.Add(uint64(n))
	if err := s.mark.commit(last); err != nil {
		// The group is durable. What is missed is the proof, should it get lost.
		s.log.Warn("the high-water mark could not be written", "error", err)
	}
	for i, key := range keys {
		s.known.add(key, entries[i].status == queue.Set)
	}
	s.overlay.add(keys, entries)
	// Whoever lists after a look at the revision is to see all up to it.
	s.committed.Store(last)
	return nil
}

// claim implements queue.Options.Reserve.
func (s *Store) claim(from uint64) (uint64, error) {
	last := from + claimStep - 1
	return last, s.mark.claim(last)
}

// Get implements outbox.Store.
func (s *Store) Get(key record.Key) (outbox.Record, error) { return s.Load(key) }

// Load implements queue.Backend. A reader of Badger sees the newest of
// everything, not one moment: where a newer layer was taken to Badger meanwhile,
// the halves may be of different ages, and it looks again.
func (s *Store) Load(key record.Key) (rec outbox.Record, err error) {
	if s.known.isNew(key) && !s.isClosed() {
		return outbox.Record{}, nil
	}
	for {
		layer := s.overlay.layer.Load()
		if rec, ok := s.overlay.lookup(key); ok && !s.isClosed() {
			return rec, nil
		}
		// Asked after the overlay: a status that is committed from here on reaches
		// Badger with a layer that is taken meanwhile.
		status := s.known.mayHaveStatus(key)
		err = s.view(func(txn *badger.Txn) (err error) {
			rec, err = readRecord(txn, key, status)
			return err
		})
		if err != nil {
			return outbox.Record{}, fmt.Errorf("read %s: %w", key, err)
		}
		if s.overlay.layer.Load() == layer {
			return rec, nil
		}
	}
}

func (s *Store) isClosed() bool {
	select {
	case <-s.queue.Done():
		return true
	default:
		return false
	}
}

// view runs fn on a snapshot of Badger. Where fn meets damage it is run again:
// the collector may take a value log file away between the look at its pointer
// and the read, and a second look finds where the value went.
func (s *Store) view(fn func(*badger.Txn) error) (err error) {
	for range 3 {
		err = s.withDB(func(db *badger.DB) error {
			if s.isClosed() {
				return outbox.ErrClosed
			}
			return db.View(fn)
		})
		if !errors.Is(err, outbox.ErrDamaged) {
			break
		}
	}
	return err
}

// withDB runs fn while Badger is not reopened. fn must not call it again.
func (s *Store) withDB(fn func(*badger.DB) error) error {
	s.uses.Add(1)
	s.dbMu.RLock()
	defer s.dbMu.RUnlock()
	switch {
	case s.ended:
		return outbox.ErrClosed
	case s.db == nil:
		// The cause is not wrapped: it says nothing of what was asked for.
		return fmt.Errorf("%w: Badger did not open again: %v; it is tried every second", outbox.ErrUnavailable, s.down)
	}
	return fn(s.db)
}

// readRecord reads key's record, without its status where that is known to be missing.
func readRecord(txn *badger.Txn, key record.Key, status bool) (rec outbox.Record, err error) {
	b := appendKey(make([]byte, 0, keySize(key)), kindDesired, key)
	found, err := readAt(txn, b, func(value []byte) (err error) {
		rec.Desired, err = openDesired(b, value)
		return err
	})
	if err == nil && found && status { // no status without a desired half; see newEntry
		b[0] = kindStatus
		_, err = readAt(txn, b, func(value []byte) (err error) {
			rec.Status, err = openStatus(b, value)
			return err
		})
	}
	if err != nil {
		return outbox.Record{}, err
	}
	return rec, nil
}

// readAt hands the value that stands at key to fn, where there is one. It is Badger's
// own memory: fn keeps nothing of it.
func readAt(txn *badger.Txn, key []byte, fn func([]byte) error) (found bool, err error) {
	item, err := txn.Get(key)
	switch {
	case errors.Is(err, badger.ErrKeyNotFound):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("%w: %w", outbox.ErrDamaged, err)
	}
	return true, readValue(item, fn)
}

// getValue returns a copy, nil where there is none.
func getValue(txn *badger.Txn, key []byte) (value []byte, err error) {
	_, err = readAt(txn, key, func(v []byte) error {
		value = append([]byte{}, v...)
		return nil
	})
	return value, err
}

// Info implements outbox.Store.
func (s *Store) Info() outbox.Info {
	info := s.info
	info.Revision = s.committed.Load()
	return info
}

// Stats implements outbox.Store.
func (s *Store) Stats() outbox.Stats {
	q := s.queue.Stats()
	return outbox.Stats{
		Commits:        q.Commits,
		Changes:        q.Changes,
		Records:        q.Records,
		BytesWritten:   s.written.Load(),
		Waiting:        q.Waiting,
		LastCommit:     q.LastCommit,
		DiskBytes:      usedBytes(s.opts.Dir, ""),
		RefusingPuts:   s.space.isRefusing(),
		FreeBytes:      s.space.measured.Load(),
		ReserveBytes:   max(s.opts.ReserveBytes, 0),
		GarbageBytes:   s.garbage.Load(),
		CompactionRuns: s.compactions.Load(),
		BackedUpAt:     s.backedUpAt(),
	}
}

// Close implements outbox.Store.
func (s *Store) Close() error {
	s.closeOnce.Do(func() {
		s.endLife()
		last := s.queue.Close()
		close(s.stop)
		s.background.Wait()
		s.closeErr = s.shutDown(last)
	})
	return s.closeErr
}

// shutDown hands all to Badger, so that the next Open finds an empty journal.
// Where that fails, it replays the journal.
func (s *Store) shutDown(last uint64) error {
	s.compactMu.Lock() // a Compact that is under way ends first, soon
	defer s.compactMu.Unlock()
	behind := s.handOver()
	err := s.journal.close()
	s.dbMu.Lock()
	defer s.dbMu.Unlock()
	s.ended = true
	err = errors.Join(err, s.closeDB(), s.mark.close(last, s.committed.Load()))
	if s.db == nil {
		err = errors.Join(err, unlock(s.lock)) // else it ends with the process
	}
	if s.db == nil && errors.Is(behind, outbox.ErrNoSpace) {
		s.log.Info("the disk is nearly full; the journal keeps what the next start hands on")
	} else {
		err = errors.Join(behind, err)
	}
	if err != nil {
		return fmt.Errorf("close the store: %w", err)
	}
	return nil
}

// closeDB closes Badger where it is open. Closing writes the memory table out,
// which on a full disk kills the process: there Badger is left as it is. The
// caller holds dbMu, or is alone.
func (s *Store) closeDB() error {
	if s.db == nil {
		return nil
	}
	if err := s.space.closing(); err != nil {
		return err
	}
	err := s.db.Close()
	s.db = nil
	return err
}

// Meta implements outbox.Store.
func (s *Store) Meta(name string) ([]byte, error) {
	key := append([]byte(docUser), name...)
	var body []byte
	err := s.view(func(txn *badger.Txn) error {
		value, err := getValue(txn, key)
		if err == nil && value != nil {
			_, body, err = open(key, value)
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read document %q: %w", name, err)
	}
	return body, nil
}

// SetMeta implements outbox.Store.
func (s *Store) SetMeta(name string, value []byte) error {
	const maxBytes = 64 << 10
	if len(value) > maxBytes {
		return fmt.Errorf("document %q has %d bytes, more than the %d allowed", name, len(value), maxBytes)
	}
	if s.isClosed() {
		return outbox.ErrClosed
	}
	s.applyMu.Lock()
	defer s.applyMu.Unlock()
	err := s.space.floor()
	if err == nil {
		err = s.withDB(func(db *badger.DB) error {
			defer s.dropOverwritten(db)
			return setDoc(db, append([]byte(docUser), name...), value)
		})
	}
	if err != nil {
		return fmt.Errorf("write document %q: %w", name, err)
	}
	return nil
}

func setDoc(db *badger.DB, key, value []byte) error {
	txn := newTransaction(db)
	defer txn.Discard()
	var err error
	if value == nil {
		err = txn.Delete(key)
	} else {
		err = txn.Set(key, seal(nil, key, 0, func(b []byte) []byte { return append(b, value...) }))
	}
	if err != nil {
		return err
	}
	return commitTransaction(db, txn)
}
