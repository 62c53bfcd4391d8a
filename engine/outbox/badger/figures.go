package badger

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/dgraph-io/badger/v4"

	"github.com/pawlsync/pawl/engine/outbox"
)

// Figures are what a store holds and where, in bytes.
type Figures struct {
	outbox.Info
	Format   int
	Restored time.Time // when it was made of a backup or an export; zero: it was not
	BackedUp time.Time // when the newest backup ended; zero: there is none that it knows of
	Key      string    // fingerprint of the key that it is sealed with; "": it is not sealed

	Tombstones int
	Statuses   int
	Sinks      []SinkFigures // by name

	Tables, ValueLog, Logs, Journal, Aside int64 // on disk

	Free, Reserve int64 // of the file system; see outbox.Stats
	Garbage       int64 // estimate of what compaction could free; -1: unknown
}

// SinkFigures are one sink's.
type SinkFigures struct {
	Name      string
	Resources int   // desired states, tombstones included
	Bytes     int64 // of desired states and statuses, as they are kept
}

// Resources counts desired states, tombstones included.
func (f *Figures) Resources() (n int) {
	for _, s := range f.Sinks {
		n += s.Resources
	}
	return n
}

// Figures looks at every key and at no payload; it takes about a second for a million.
func (s *Store) Figures(ctx context.Context) (Figures, error) {
	st := s.Stats()
	f := Figures{
		Info: s.Info(), Format: formatNumber, Restored: s.restored, BackedUp: st.BackedUpAt, Free: st.FreeBytes, Reserve: st.ReserveBytes, Garbage: st.GarbageBytes,
		Tables: usedBytes(s.dataDir(), ".sst"), ValueLog: s.valueLogBytes(), Logs: usedBytes(s.dataDir(), ".mem"),
		Journal: usedBytes(s.journalDir(), ""), Aside: usedBytes(s.asideDir(), ""),
	}
	if s.opts.Key != nil {
		f.Key = s.opts.Key.String()
	}
	if err := s.apply(); err != nil {
		return f, fmt.Errorf("count what the store holds: %w", err)
	}
	sinks := map[string]SinkFigures{}
	err := s.view(func(txn *badger.Txn) error {
		clear(sinks)
		f.Statuses, f.Tombstones = 0, 0
		opts := badger.DefaultIteratorOptions
		opts.PrefetchValues = false
		it := txn.NewIterator(opts)
		defer it.Close()
		for it.Seek([]byte{kindMeta + 1}); it.Valid() && s.interrupted(ctx) == nil; it.Next() {
			f.count(it.Item(), sinks)
		}
		return s.interrupted(ctx)
	})
	if err != nil {
		return f, fmt.Errorf("count what the store holds: %w", err)
	}
	f.Sinks = slices.SortedFunc(maps.Values(sinks), func(a, b SinkFigures) int { return cmp.Compare(a.Name, b.Name) })
	return f, nil
}

// count adds one half of a record.
func (f *Figures) count(it *badger.Item, sinks map[string]SinkFigures) {
	key, err := parseKey(it.Key())
	if err != nil {
		return // Check says so
	}
	x := sinks[key.Sink]
	x.Name = key.Sink
	x.Bytes += it.ValueSize()
	if it.Key()[0] == kindStatus {
		f.Statuses++
	} else if it.UserMeta()&flagGone == 0 && it.ExpiresAt() > neverExpires {
		x.Resources++
		if it.UserMeta()&flagTombstone != 0 {
			f.Tombstones++
		}
	}
	sinks[key.Sink] = x
}
