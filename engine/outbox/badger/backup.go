package badger

import (
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"time"

	"github.com/dgraph-io/badger/v4"

	"github.com/pawlsync/pawl/engine/outbox"
)

// Since says what an increment goes on from: an earlier backup of the same store.
// The zero Since asks for a full one.
type Since struct {
	Epoch    string // of that backup; "": the store's own
	Revision uint64 // of that backup
	Version  uint64 // of that backup; 0: not known, and every value is read to tell
}

// SinceOf is what goes on from the backup with that head.
func SinceOf(head BackupHead) Since {
	return Since{Epoch: head.Epoch, Revision: head.Revision, Version: head.Version}
}

// Backup writes to w what the store holds at one revision: all that was confirmed
// before Backup was called, and of what is committed meanwhile nothing. Reads and
// writes go on, and it yields to them (see pace): beside writers it takes about four
// times as long as without. Compaction, and another backup, wait for its end. A record that can't
// be read is told in BackupEnd.Damaged, and keeps no other from being written.
//
// # Errors
//
// They come from w and ctx, wrap outbox.ErrClosed where the store is closed
// meanwhile, or say that since is of another store or of the future.
func (s *Store) Backup(ctx context.Context, w io.Writer, since Since) (BackupEnd, error) {
	began := time.Now()
	end, err := s.backup(ctx, w, since)
	if err != nil {
		return end, fmt.Errorf("back up the store: %w", err)
	}
	s.log.Info("the store is backed up", "records", end.Records, "kept", end.Items-end.Records-end.Damaged, "damaged", end.Damaged,
		"bytes", end.Bytes, "took", time.Since(began).Round(time.Millisecond))
	if err := s.noteBackup(time.Now()); err != nil {
		s.log.Warn("the time of the backup could not be noted; the backup is whole", "error", err)
	}
	return end, nil
}

// backupMark is the document that says when the newest backup ended.
const backupMark = "backup"

func (s *Store) noteBackup(at time.Time) error {
	at = at.UTC().Truncate(time.Second)
	s.backedUp.Store(&at)
	return s.SetMeta(backupMark, []byte(at.Format(time.RFC3339)))
}

// readBackupMark reads what noteBackup wrote. It is told to people alone, so that one
// that can't be read is as none.
func (s *Store) readBackupMark(db *badger.DB) {
	_ = db.View(func(txn *badger.Txn) error {
		key := append([]byte(docUser), backupMark...)
		value, err := getValue(txn, key)
		if err != nil || value == nil {
			return err
		}
		_, body, err := open(key, value)
		if at, perr := time.Parse(time.RFC3339, string(body)); err == nil && perr == nil {
			s.backedUp.Store(&at)
		}
		return err
	})
}

func (s *Store) backedUpAt() time.Time {
	if at := s.backedUp.Load(); at != nil {
		return *at
	}
	return time.Time{}
}

func (s *Store) backup(ctx context.Context, w io.Writer, since Since) (BackupEnd, error) {
	c, err := s.cut()
	if err != nil {
		return BackupEnd{}, err
	}
	defer c.release()
	if err := s.follows(since, c); err != nil {
		return BackupEnd{}, err
	}
	head := BackupHead{
		Format: backupFormat, StoreFormat: formatNumber, ID: rand.Text(), Epoch: s.info.Epoch, Revision: c.revision,
		Version: c.version, Since: since.Revision, Increment: since != (Since{}), Made: time.Now().UTC().Truncate(time.Second),
	}
	var sealed *box
	if k := s.opts.Key; k != nil {
		head.Key = k.String()
		if sealed, err = k.backupBox(&head); err != nil {
			return BackupEnd{}, err
		}
	}
	out, err := newBackupWriter(w, head, sealed)
	if err != nil {
		return BackupEnd{}, err
	}
	err = s.withDB(func(db *badger.DB) error {
		return s.eachItem(ctx, db, c, since, out.item)
	})
	if err != nil {
		return out.end, err
	}
	return out.finish()
}

func (s *Store) follows(since Since, c *cut) error {
	switch {
	case since == (Since{}):
		return nil
	case since.Epoch != "" && since.Epoch != s.info.Epoch:
		return fmt.Errorf("%w: it is of another store, or of this one before it was restored; make a full one", ErrBackup)
	case since.Revision > c.revision:
		return fmt.Errorf("%w: it goes on from revision %d, and the store is at %d; make a full one", ErrBackup, since.Revision, c.revision)
	}
	return nil
}

// cut is a moment of the store that stays readable until it is released.
type cut struct {
	revision uint64 // Badger has all up to it, and nothing above
	version  uint64 // in its own numbers
	release  func()
}

// cut hands all that is committed to Badger, and keeps compaction and collection
// from dropping what is newest at this moment when it is overwritten.
func (s *Store) cut() (*cut, error) {
	s.compactMu.Lock()
	if s.isClosed() {
		s.compactMu.Unlock()
		return nil, outbox.ErrClosed
	}
	if err := s.apply(); err != nil {
		s.compactMu.Unlock()
		return nil, err
	}
	s.applyMu.Lock()
	defer s.applyMu.Unlock()
	c := &cut{revision: s.ring.last, release: func() {
		s.pinned.Store(false)
		s.compactMu.Unlock()
	}}
	err := s.withDB(func(db *badger.DB) error {
		c.version = db.MaxVersion()
		return nil
	})
	if err != nil {
		s.compactMu.Unlock()
		return nil, err
	}
	s.pinned.Store(true)
	return c, nil
}

// dropOverwritten lets compaction drop all but the newest versions, unless a cut needs
// older ones. It is called after what was newest has been overwritten.
func (s *Store) dropOverwritten(db *badger.DB) {
	if !s.pinned.Load() {
		db.SetDiscardTs(db.MaxVersion())
	}
}

// eachItem calls fn for every key of the cut, by key. What did not change since is
// kept; documents, of which there are few, are always there.
func (s *Store) eachItem(ctx context.Context, db *badger.DB, c *cut, since Since, fn func(*item) error) error {
	txn := db.NewTransactionAt(c.version, false)
	defer txn.Discard()
	opts := badger.DefaultIteratorOptions
	opts.PrefetchValues = false
	it := txn.NewIterator(opts)
	defer it.Close()
	var value []byte // used again and again
	var p pace
	n := 0
	for it.Rewind(); it.Valid(); it.Next() {
		if n++; n%paceItems == 0 {
			if err := s.yield(ctx, &p); err != nil {
				return err
			}
		}
		b := it.Item()
		if !isContent(b.Key()) {
			continue // of this store's life, or damage that Check tells of
		}
		out := item{key: b.Key(), meta: b.UserMeta(), expires: b.ExpiresAt()}
		value = out.read(b, since, value[:0])
		if err := fn(&out); err != nil {
			return err
		}
	}
	return s.interrupted(ctx)
}

// read reads the value that stands below b into buf, and returns that.
func (it *item) read(b *badger.Item, since Since, buf []byte) []byte {
	mayKeep := since.Revision > 0 && it.key[0] != kindMeta
	if mayKeep && since.Version > 0 && b.Version() <= since.Version {
		it.what = itemKept
		return buf
	}
	value, err := b.ValueCopy(buf)
	if err != nil {
		it.what = itemDamaged
		return buf
	}
	revision, _, err := open(it.key, value)
	switch {
	case err != nil:
		it.what = itemDamaged
	case mayKeep && revision <= since.Revision:
		it.what = itemKept
	default:
		it.value = value
	}
	return value
}
