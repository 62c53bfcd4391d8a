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
		k.add(key(i), i%2 == 0)
	}
	if k.isNew(key(n)) || !k.mayHaveStatus(key(n)) {
		t.Error("an incomplete filter calls a key new, or without a status")
	}
	k.complete.Store(true)
	wrong, wrongStatus := 0, 0
	for i := range n {
		if i%2 == 0 && !k.mayHaveStatus(key(i)) {
			t.Fatalf("%v has a status, and is said to have none", key(i))
		}
		if i%2 == 1 && k.mayHaveStatus(key(i)) {
			wrongStatus++
		}
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
	if wrongStatus > n/50 {
		t.Errorf("%d of %d keys without a status are said to have one", wrongStatus, n/2)
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

// What was put before the listing hides from it what Badger has of the same key.
func TestAStatusOfBeforeOpenIsFoundBehindANewPut(t *testing.T) {
	dir := t.TempDir()
	open := func() *Store {
		s, err := Open(Options{Dir: dir})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	key := record.Key{Sink: "s", Name: "a"}
	update := func(s *Store, change outbox.Change) {
		t.Helper()
		ticket := s.Update(key, func(outbox.Record) (outbox.Change, error) { return change, nil })
		if err := ticket.Wait(context.Background()); err != nil {
			t.Fatal(err)
		}
	}
	put := outbox.Change{Desired: &record.Desired{Payload: []byte("1"), Hash: record.HashOf([]byte("1"))}, NewGeneration: true}
	s := open()
	update(s, put)
	update(s, outbox.Change{Status: &record.Status{Phase: record.AckedPhase}})
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = open()
	defer s.Close()
	update(s, put)
	if err := s.Heads(context.Background(), outbox.Span{}, func(outbox.Head) bool { return true }); err != nil {
		t.Fatal(err)
	}
	if err := s.apply(); err != nil { // out of the overlay, so that Badger is read
		t.Fatal(err)
	}
	rec, err := s.Get(key)
	if err != nil {
		t.Fatal(err)
	}
	if rec.Status.Phase != record.AckedPhase {
		t.Errorf("the status reads as %v", rec.Status)
	}
}
