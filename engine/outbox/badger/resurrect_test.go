package badger

import (
	"bytes"
	"testing"

	"github.com/dgraph-io/badger/v4"

	"github.com/pawlsync/pawl/engine/outbox"
	"github.com/pawlsync/pawl/engine/record"
)

// TestWhatWasRemovedStaysRemovedWhenItsGarbageIsCollected brings about what Badger
// does to a deleted key whose value is rewritten: the value lies in the last level
// and the value log, its tombstone above, and a compaction takes both away while the
// rewritten copy is in the memory table.
func TestWhatWasRemovedStaysRemovedWhenItsGarbageIsCollected(t *testing.T) {
	opts := testOptions(t, t.TempDir())
	s := mustOpen(t, opts)
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	put := func(names ...string) {
		t.Helper()
		for _, name := range names {
			must(s.Update(record.Key{Sink: "demo", Name: name}, func(outbox.Record) (outbox.Change, error) {
				return outbox.Change{Desired: &record.Desired{Payload: bytes.Repeat([]byte(name), 4000)}, NewGeneration: true}, nil
			}).Wait(t.Context()))
		}
		must(s.handOver())
	}
	compact := func() { must(s.withDB(func(db *badger.DB) error { return db.Flatten(1) })) }
	table := func() { // writes the memory table out
		s.dbMu.Lock()
		defer s.dbMu.Unlock()
		must(s.closeAndOpen(false))
	}
	others := []string{"a", "b", "c", "d", "e", "f"}
	victim := record.Key{Sink: "demo", Name: "v"}
	put("v")
	for range 3 {
		put(others...)
	}
	must(s.reopen(t.Context())) // all is in the last level
	for range 2 {
		put(others...)
	}
	must(s.reopen(t.Context()))
	compact() // tells that most of the first value log file is garbage

	must(s.Update(victim, func(outbox.Record) (outbox.Change, error) { return outbox.Change{Remove: true}, nil }).Wait(t.Context()))
	must(s.handOver())
	table()
	for range 3 {
		put("a")
		table()
	}
	rewritten := 0
	for s.rewriteOne(collectRatio) == nil {
		rewritten++
	}
	if rewritten == 0 {
		t.Fatal("nothing was rewritten; the test shows nothing")
	}
	compact()
	check := func(when string) {
		t.Helper()
		if rec, err := s.Get(victim); err != nil || rec.Desired.Exists() {
			t.Errorf("%s: the removed resource is back at generation %d (%v)", when, rec.Desired.Generation, err)
		}
	}
	check("after the compaction")
	mustClose(t, s)
	s = mustOpen(t, opts)
	defer s.Close()
	check("after a restart")
}
