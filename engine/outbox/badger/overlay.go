package badger

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dgraph-io/badger/v4"

	"github.com/pawlsync/pawl/engine/outbox"
	"github.com/pawlsync/pawl/engine/outbox/internal/queue"
	"github.com/pawlsync/pawl/engine/record"
)

const (
	// applyAfter and applyBytes say when Badger gets what the journal holds:
	// what comes first.
	applyAfter = 200 * time.Millisecond
	applyBytes = 8 << 20
	// maxOverlayBytes is where commits wait for Badger.
	maxOverlayBytes = 32 << 20
	// maxLayerHint bounds what is set aside for entries that may not come.
	maxLayerHint = 8192
	// applyRetry is waited for after Badger failed.
	applyRetry = time.Second
)

// overlay holds what is in the journal and not yet in Badger, newest state per
// key. Reads look here first.
type overlay struct {
	mu       sync.Mutex
	room     sync.Cond // signalled when an apply ends
	dirty    *layer
	applying *layer        // nil: nothing is under way
	err      error         // of the last apply
	layer    atomic.Uint64 // number of the last one that was taken

	some chan struct{} // there is something to apply
	much chan struct{} // there is enough of it
}

type layer struct {
	entries map[record.Key]*entry
	bytes   int64
	last    uint64 // last revision in it
}

// newLayer starts a layer that gets about as many entries as the one before.
func newLayer(before int) *layer {
	return &layer{entries: make(map[record.Key]*entry, min(before, maxLayerHint))}
}

func newOverlay() *overlay {
	o := &overlay{dirty: newLayer(0), some: make(chan struct{}, 1), much: make(chan struct{}, 1)}
	o.room.L = &o.mu
	return o
}

func (o *overlay) lookup(key record.Key) (outbox.Record, bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, l := range []*layer{o.dirty, o.applying} {
		if l == nil {
			continue
		}
		if e := l.entries[key]; e != nil {
			return *e.record, true
		}
	}
	return outbox.Record{}, false
}

func (o *overlay) add(keys []record.Key, entries []*entry) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for i, e := range entries {
		if old := o.dirty.entries[keys[i]]; old != nil {
			o.dirty.bytes -= old.size()
			e = old.merged(e)
		}
		o.dirty.entries[keys[i]] = e
		o.dirty.bytes += e.size()
		o.dirty.last = e.revision
	}
	signal(o.some)
	if o.dirty.bytes >= applyBytes {
		signal(o.much)
	}
}

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// waitRoom waits until there is room for more. It fails when Badger does.
func (o *overlay) waitRoom() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	for o.dirty.bytes >= maxOverlayBytes {
		if o.err != nil {
			return o.err
		}
		o.room.Wait()
	}
	return nil
}

// take returns what is to be applied next, nil: nothing.
func (o *overlay) take() *layer {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.applying == nil && len(o.dirty.entries) > 0 {
		o.applying, o.dirty = o.dirty, newLayer(len(o.dirty.entries))
		o.layer.Add(1)
	}
	return o.applying
}

// done ends an apply. After an error the layer, if there was one, is kept, and
// taken again.
func (o *overlay) done(err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if err == nil {
		o.applying = nil
	}
	o.err = err
	o.room.Broadcast()
}

func (o *overlay) bytes() int64 {
	o.mu.Lock()
	defer o.mu.Unlock()
	n := o.dirty.bytes
	if o.applying != nil {
		n += o.applying.bytes
	}
	return n
}

// applyLoop hands the overlay to Badger until stop is closed.
func (s *Store) applyLoop() {
	for {
		select {
		case <-s.overlay.some:
		case <-s.stop:
			return
		}
		select {
		case <-s.overlay.much:
		case <-time.After(applyAfter):
		case <-s.stop:
			return
		}
		if err := s.apply(); err != nil {
			s.log.Error("the store is behind its journal", "error", err, "hint", "it tries again; nothing is lost")
			select {
			case <-time.After(applyRetry):
			case <-s.stop:
				return
			}
			signal(s.overlay.some)
		}
	}
}

// apply writes what the overlay holds at this moment to Badger and cuts the
// journal behind it. Before, it opens Badger where a reopen failed.
func (s *Store) apply() error {
	s.applyMu.Lock()
	defer s.applyMu.Unlock()
	if err := s.revive(); err != nil {
		s.overlay.done(err)
		return err
	}
	for {
		l := s.overlay.take()
		if l == nil {
			s.overlay.done(nil)
			return nil
		}
		retried := s.overlay.failed()
		err := s.space.floor()
		if err == nil {
			err = s.writeLayer(l)
		}
		s.overlay.done(err)
		if err != nil {
			return err
		}
		if err := s.journal.cut(l.last, false); err != nil {
			return fmt.Errorf("cut the journal: %w", err)
		}
		if !retried {
			return nil
		}
	}
}

// handOver gives Badger what was committed until now and cuts the journal behind
// it. What is committed meanwhile is in the journal alone, and stays there.
func (s *Store) handOver() error {
	if err := s.apply(); err != nil {
		return err
	}
	s.applyMu.Lock()
	defer s.applyMu.Unlock()
	return s.journal.cut(s.ring.last, true)
}

// failed tells that the layer at hand was tried before, so that there is a
// newer one behind it.
func (o *overlay) failed() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.err != nil
}

func (s *Store) writeLayer(l *layer) error {
	return s.withDB(func(db *badger.DB) error {
		b := newBatch(db)
		defer b.discard()
		defer s.dropOverwritten(db)
		// In the order of their keys: Badger finds each one's place beside the last one's.
		for _, key := range slices.SortedFunc(maps.Keys(l.entries), record.Key.Compare) {
			e := l.entries[key]
			if e.desired == queue.Drop {
				s.drops.Store(true)
			}
			if err := b.entry(key, e); err != nil {
				return fmt.Errorf("write %s: %w", key, err)
			}
		}
		return s.ring.finish(b, l.last)
	})
}

// batch is one or several transactions, committed in order.
type batch struct {
	db  *badger.DB
	txn *badger.Txn
}

func newBatch(db *badger.DB) *batch { return &batch{db: db, txn: newTransaction(db)} }

// newTransaction begins a write. Badger is in managed mode: a reader sees the newest
// of everything and waits for nobody. Otherwise each reader would wait until all
// commits under way are on disk, which is when the overlay is handed over.
func newTransaction(db *badger.DB) *badger.Txn { return db.NewTransactionAt(math.MaxUint64, true) }

// commitTransaction makes a write durable. There is one writer at a time, so that
// the next version is the newest one's successor; nobody reads older ones.
func commitTransaction(db *badger.DB, txn *badger.Txn) error {
	return txn.CommitAt(db.MaxVersion()+1, nil)
}

func (b *batch) discard() { b.txn.Discard() }

func (b *batch) commit() error {
	err := commitTransaction(b.db, b.txn)
	b.txn = newTransaction(b.db)
	return err
}

// do runs a write, in the next transaction if it does not fit into this one.
func (b *batch) do(write func(*badger.Txn) error) error {
	err := write(b.txn)
	if errors.Is(err, badger.ErrTxnTooBig) {
		if err := b.commit(); err != nil {
			return err
		}
		err = write(b.txn)
	}
	return err
}

func (b *batch) entry(key record.Key, e *entry) error {
	return errors.Join(
		b.half(e.desired, kindDesired, key, badger.Entry{Value: e.desiredVal, UserMeta: e.flags, ExpiresAt: neverExpires + e.generation}),
		b.half(e.status, kindStatus, key, badger.Entry{Value: e.statusVal}))
}

// half writes one half of key's record; e has all but its key.
func (b *batch) half(op queue.Op, kind byte, key record.Key, e badger.Entry) error {
	if op == queue.Keep {
		return nil
	}
	e.Key = appendKey(make([]byte, 0, keySize(key)), kind, key)
	if op == queue.Drop {
		return b.do(func(txn *badger.Txn) error { return txn.Delete(e.Key) })
	}
	return b.do(func(txn *badger.Txn) error { return txn.SetEntry(&e) })
}
