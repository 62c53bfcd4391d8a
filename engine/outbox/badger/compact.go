package badger

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/dgraph-io/badger/v4"

	"github.com/pawlsync/pawl/engine/outbox"
)

const (
	// collectEvery is how often the value log is looked at.
	collectEvery = 15 * time.Second
	// collectSlack is how much garbage is nobody's concern.
	collectSlack = 256 << 20
	// collectRatio is the share of garbage from which on a file is rewritten.
	collectRatio = 0.5
	// compactRatio is the same for Compact, which is asked to be thorough.
	compactRatio = 0.1
)

// collectLoop keeps the value log from growing for ever. Badger rewrites files
// only when told to, and knows of garbage only as far as compaction has found
// it. So the loop measures: the log may have twice the size of what is alive in
// it, and some slack. Beyond it first rewrites what Badger knows of, and where
// that does not help, makes it find out.
func (s *Store) collectLoop() {
	limit := int64(collectSlack)
	for {
		select {
		case <-time.After(collectEvery):
		case <-s.life.Done():
			return
		}
		next, err := s.collect(s.life, limit)
		if s.life.Err() != nil {
			return
		}
		if err != nil {
			s.log.Error("the value log could not be collected", "error", err, "hint", "it tries again; the disk fills meanwhile")
			continue
		}
		limit = next
	}
}

// collect brings the value log below limit and returns the limit for the next
// time.
func (s *Store) collect(ctx context.Context, limit int64) (int64, error) {
	s.compactMu.Lock()
	defer s.compactMu.Unlock()
	if s.valueLogBytes() <= limit {
		return limit, nil
	}
	if err := s.rewrite(ctx, collectRatio); err != nil {
		return limit, err
	}
	live, err := s.liveBytes(ctx)
	if err != nil {
		return limit, err
	}
	limit = 2*live + collectSlack
	if s.valueLogBytes() > limit {
		err = s.compact(ctx, collectRatio)
	}
	if err != nil {
		return limit, err
	}
	s.compactions.Add(1)
	s.garbage.Store(max(s.valueLogBytes()-live, 0))
	return limit, nil
}

func (s *Store) valueLogBytes() int64 { return usedBytes(s.dataDir(), ".vlog") }

// Compact frees what can be freed: it hands everything to Badger, cuts the
// journal, drops what was overwritten or removed and rewrites the value log.
// Reads and writes go on, but wait for the moment in which Badger is reopened.
// Close ends it with outbox.ErrClosed.
func (s *Store) Compact(ctx context.Context) error {
	s.compactMu.Lock()
	defer s.compactMu.Unlock()
	if s.isClosed() {
		return outbox.ErrClosed
	}
	if err := s.compact(ctx, compactRatio); err != nil {
		return fmt.Errorf("compact the store: %w", err)
	}
	live, err := s.liveBytes(ctx)
	if err != nil {
		return fmt.Errorf("compact the store: %w", err)
	}
	s.compactions.Add(1)
	s.garbage.Store(max(s.valueLogBytes()-live, 0))
	return nil
}

// compact makes Badger find the garbage and then rewrites. The order matters:
// versions in the memory table are hidden from compaction, which only reopening
// writes out; compaction then counts what it drops; and the rewrite goes by
// these counts.
func (s *Store) compact(ctx context.Context, ratio float64) error {
	if err := s.space.floor(); err != nil {
		return err
	}
	for _, step := range []func() error{
		s.handOver,
		func() error { return s.reopen(ctx) },
		func() error { return s.withDB(func(db *badger.DB) error { return db.Flatten(1) }) },
		func() error { return s.rewrite(ctx, ratio) },
		// The last rewrite left its pointers in the memory table, and its files
		// with their full size.
		func() error { return s.reopen(ctx) },
	} {
		if err := s.interrupted(ctx); err != nil {
			return err
		}
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// interrupted says why a compaction is to end early.
func (s *Store) interrupted(ctx context.Context) error {
	if s.life.Err() != nil {
		return outbox.ErrClosed
	}
	return ctx.Err()
}

// rewrite lets Badger rewrite the files of which it knows that they hold at
// least that share of garbage.
func (s *Store) rewrite(ctx context.Context, ratio float64) error {
	for s.interrupted(ctx) == nil {
		if err := s.space.floor(); err != nil {
			return err
		}
		err := s.rewriteOne(ratio)
		if errors.Is(err, badger.ErrNoRewrite) {
			return nil
		}
		if err != nil {
			return err
		}
	}
	return s.interrupted(ctx)
}

// rewriteOne keeps other writers out: Badger's collector reads what they change
// without a lock. It takes some tenths of a second, in which commits go on.
func (s *Store) rewriteOne(ratio float64) error {
	s.applyMu.Lock()
	defer s.applyMu.Unlock()
	// Badger's rewrite copies the newest value that it finds above itself, and does
	// not see a tombstone for what it is: once that has met the old value in the last
	// level and both are gone, the copy is alive again. So tombstones go there first.
	if s.drops.Load() {
		if err := s.reopen(s.life); err != nil {
			return err
		}
		if err := s.withDB(func(db *badger.DB) error { return db.Flatten(1) }); err != nil {
			return err
		}
		s.drops.Store(false)
	}
	return s.withDB(func(db *badger.DB) error { return db.RunValueLogGC(ratio) })
}

// reopen closes Badger and opens it again, which writes the memory table out.
// Where that fails, whatever needs Badger fails with outbox.ErrUnavailable, while updates of
// what the overlay holds go on; applyLoop tries again.
func (s *Store) reopen(ctx context.Context) error {
	s.dbMu.Lock()
	defer s.dbMu.Unlock()
	err := s.closeAndOpen(false)
	if err != nil || s.interrupted(ctx) != nil || !onlyLevel0(s.db) {
		return err
	}
	// A store so small that all of it is in level 0 is never compacted there,
	// save on closing.
	return errors.Join(s.closeAndOpen(true), s.closeAndOpen(false))
}

// closeAndOpen leaves Badger open where it is known before that it could not
// be opened again, and db nil where it fails. The caller holds dbMu.
func (s *Store) closeAndOpen(compactOnClose bool) error {
	if s.ended {
		return outbox.ErrClosed
	}
	if err := s.space.floor(); err != nil {
		return err
	}
	err := s.closeDB()
	if s.db != nil {
		return err
	}
	err = errors.Join(err, s.openDB(compactOnClose))
	if s.db == nil {
		s.down = err
		signal(s.overlay.some) // applyLoop is to try again
	}
	return err
}

// revive opens Badger after a reopen that failed.
func (s *Store) revive() error {
	if err := s.withDB(func(*badger.DB) error { return nil }); !errors.Is(err, outbox.ErrUnavailable) {
		return err
	}
	s.dbMu.Lock()
	defer s.dbMu.Unlock()
	if s.db != nil {
		return nil
	}
	return s.closeAndOpen(false)
}

func onlyLevel0(db *badger.DB) bool {
	for _, t := range db.Tables() {
		if t.Level > 0 {
			return false
		}
	}
	return true
}

// liveBytes counts what the keys point to in the value log.
func (s *Store) liveBytes(ctx context.Context) (int64, error) {
	var live int64
	err := s.view(func(txn *badger.Txn) error {
		opts := badger.DefaultIteratorOptions
		opts.PrefetchValues = false
		it := txn.NewIterator(opts)
		defer it.Close()
		for it.Rewind(); it.Valid() && s.interrupted(ctx) == nil; it.Next() {
			if n := it.Item().ValueSize(); n >= valueThreshold {
				live += n + it.Item().KeySize()
			}
		}
		return s.interrupted(ctx)
	})
	return live, err
}
