package badger

import (
	"context"
	"fmt"
	"testing"

	"github.com/pawlsync/pawl/engine/outbox"
	"github.com/pawlsync/pawl/engine/record"
)

func TestAKnownKeyIsNeverTakenForNew(t *testing.T) {
	k := newKnown()
	key := func(i int) record.Key { return record.Key{Sink: "s", Name: fmt.Sprint("key-", i)} }
	const n = 200_000
	for i := range n {
		k.add(key(i))
	}
	if k.isNew(key(n)) {
		t.Error("an incomplete filter calls a key new")
	}
	k.complete.Store(true)
	wrong := 0
	for i := range n {
		if k.isNew(key(i)) {
			t.Fatalf("%v is known, and called new", key(i))
		}
		if !k.isNew(key(n + i)) {
			wrong++
		}
	}
	if wrong > n/50 {
		t.Errorf("%d of %d new keys are taken for known", wrong, n)
	}
}

func TestWhatWasStoredBeforeOpenIsKnown(t *testing.T) {
	dir := t.TempDir()
	open := func() *Store {
		s, err := Open(Options{Dir: dir})
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Heads(context.Background(), outbox.Span{}, func(outbox.Head) bool { return true }); err != nil {
			t.Fatal(err)
		}
		return s
	}
	s := open()
	if !s.known.complete.Load() {
		t.Error("after everything was listed the filter is not complete")
	}
	key := record.Key{Sink: "s", Name: "a"}
	put := func(s *Store, payload string) {
		t.Helper()
		ticket := s.Update(key, func(cur outbox.Record) (outbox.Change, error) {
			return outbox.Change{Desired: &record.Desired{Payload: []byte(payload), Hash: record.HashOf([]byte(payload))}, NewGeneration: true}, nil
		})
		if err := ticket.Wait(context.Background()); err != nil {
			t.Fatal(err)
		}
	}
	read := func(s *Store) string {
		t.Helper()
		rec, err := s.Get(key)
		if err != nil {
			t.Fatal(err)
		}
		return string(rec.Desired.Payload)
	}
	put(s, "1")
	if got := read(s); got != "1" {
		t.Errorf("read %q after a Put of a key that was new", got)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = open()
	defer s.Close()
	if got := read(s); got != "1" {
		t.Errorf("read %q after a restart", got)
	}
}
