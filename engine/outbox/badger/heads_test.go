package badger

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/dgraph-io/badger/v4"

	"github.com/pawlsync/pawl/engine/outbox"
	"github.com/pawlsync/pawl/engine/record"
)

// A list shows what Badger has not got yet just as it shows it later, over
// several portions, for every span.
func TestAListNeedsNotWaitForBadger(t *testing.T) {
	t.Logf("-seed %d", *seed)
	r := rand.New(rand.NewPCG(*seed, 4))
	s := mustOpen(t, testOptions(t, t.TempDir()))
	defer s.Close()
	const keys = headsPortion + 500
	for i := range keys {
		putNumber(s, sinkKey(i), uint64(i)+1)
	}
	if err := s.apply(); err != nil {
		t.Fatal(err)
	}
	s.applyMu.Lock() // as a rewrite of the value log holds it
	changeSome(t, s, r, keys+100, 600)
	s.overlay.take() // some stand in the layer that is under way
	changeSome(t, s, r, keys+100, 600)
	last := sinkKey(r.IntN(keys))
	spans := []outbox.Span{{}, {Sink: "b"}, {Prefix: "key 1"}, {Sink: "a", Prefix: "key 40"}, {After: &last},
		{Sink: last.Sink, After: &last}, {Sink: "nobody"}}
	before := make([][]string, len(spans))
	for i, span := range spans {
		before[i] = listed(t, s, span)
	}
	s.applyMu.Unlock()
	if err := s.handOver(); err != nil {
		t.Fatal(err)
	}
	if err := s.apply(); err != nil {
		t.Fatal(err)
	}
	for i, span := range spans {
		if after := listed(t, s, span); !slices.Equal(before[i], after) {
			t.Errorf("%+v: %d listed before, %d after; first difference: %s", span, len(before[i]), len(after), difference(before[i], after))
		}
	}
	if len(before[0]) <= headsPortion || len(before[1]) == 0 || len(before[6]) > 0 {
		t.Errorf("%d, %d and %d are listed", len(before[0]), len(before[1]), len(before[6]))
	}
}

func sinkKey(i int) record.Key {
	return record.Key{Sink: string(rune('a' + i%3)), Name: fmt.Sprint("key ", i)}
}

func changeSome(t *testing.T, s *Store, r *rand.Rand, keys, changes int) {
	t.Helper()
	var last outbox.Ticket
	for range changes {
		key := sinkKey(r.IntN(keys))
		if r.IntN(3) == 0 {
			last = s.Update(key, func(outbox.Record) (outbox.Change, error) { return outbox.Change{Remove: true}, nil })
		} else {
			last = putNumber(s, key, r.Uint64N(1000))
		}
	}
	if err := last.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func listed(t *testing.T, s *Store, span outbox.Span) (list []string) {
	t.Helper()
	err := s.Heads(t.Context(), span, func(h outbox.Head) bool {
		list = append(list, fmt.Sprint(h.Key, h.Generation, h.Tombstone, h.Status.Attempts))
		return true
	})
	if err != nil {
		t.Fatal(err)
	}
	return list
}

func difference(a, b []string) string {
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			return a[i] + " and " + b[i]
		}
	}
	return "the length"
}

// Nor does a list need space on the disk.
func TestAListGoesOnWhileTheDiskIsFull(t *testing.T) {
	opts := testOptions(t, t.TempDir())
	var free atomic.Int64
	free.Store(1 << 40)
	opts.hooks.free = func(string) (int64, error) { return free.Load(), nil }
	s := mustOpen(t, opts)
	defer s.Close()
	if err := putNumber(s, keyOf(1), 7).Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	free.Store(0)
	defer free.Store(1 << 40)
	ack := s.Update(keyOf(1), func(outbox.Record) (outbox.Change, error) {
		return outbox.Change{Status: &record.Status{Attempts: 99}}, nil
	})
	if err := ack.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	if list := listed(t, s, outbox.Span{}); len(list) != 1 {
		t.Errorf("listed: %q", list)
	}
}

// A status that can't be read is told with its resource, and keeps no other from
// being listed; the store opens.
func TestADamagedStatusKeepsNoOtherFromGoingOn(t *testing.T) {
	opts := filled(t)
	s := mustOpen(t, opts)
	st := record.Status{Generation: 1, Phase: record.AckedPhase, Message: strings.Repeat("marker ", 500)}
	err := s.Update(keyOf(7), func(outbox.Record) (outbox.Change, error) { return outbox.Change{Status: &st}, nil }).Wait(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	mustClose(t, s)
	(&disk{t: t, dir: opts.Dir}).Damage(t, keyOf(7))
	s = mustOpen(t, opts)
	defer s.Close()
	for range 2 { // the first list makes the keys known
		whole := 0
		err = s.Heads(t.Context(), outbox.Span{}, func(h outbox.Head) bool {
			damaged := h.Status.Phase == record.Failed && h.Status.Reason == record.ReasonDamaged && h.Status.Generation == h.Generation
			if (h.Key == keyOf(7)) != damaged || h.Generation == 0 {
				t.Errorf("%s: %+v", h.Key, h)
			}
			if !damaged {
				whole++
			}
			return true
		})
		if err != nil || whole != 19 {
			t.Errorf("%d whole ones are listed, %v; want 19", whole, err)
		}
	}
	if err := s.Discard(keyOf(7)).Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := len(listed(t, s, outbox.Span{})); n != 19 {
		t.Errorf("%d are listed after it was discarded", n)
	}
}

// A list ends with its context, also where the names it goes along don't match.
func TestAListLooksAtItsContext(t *testing.T) {
	s := mustOpen(t, testOptions(t, t.TempDir()))
	defer s.Close()
	var last outbox.Ticket
	for i := range 2000 {
		last = putNumber(s, keyOf(i), 1)
	}
	if err := last.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := s.apply(); err != nil {
		t.Fatal(err)
	}
	ctx := &countedContext{Context: t.Context()}
	err := s.view(func(txn *badger.Txn) error {
		part, err := readHeads(ctx, txn, outbox.Span{Prefix: "key 1000"}, headsPortion, nil)
		if len(part.heads) != 1 {
			t.Errorf("%d match", len(part.heads))
		}
		return err
	})
	if err != nil || ctx.looks < 2000/256 {
		t.Errorf("%v; it was looked at %d times", err, ctx.looks)
	}
}

type countedContext struct {
	context.Context
	looks int
}

func (c *countedContext) Err() error {
	c.looks++
	return c.Context.Err()
}
