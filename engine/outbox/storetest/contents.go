package storetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pawlsync/pawl/engine/outbox"
	"github.com/pawlsync/pawl/engine/record"
)

func unknownKey(t *testing.T, f *fixture) {
	if got := get(t, f.open(), key("unknown")); !reflect.DeepEqual(got, outbox.Record{}) {
		t.Errorf("got %+v", got)
	}
}

// sizes are payloads that stores keep in different ways.
var sizes = []int{0, 1, 300, 1 << 10, 64 << 10, 512 << 10}

func roundTrip(t *testing.T, f *fixture) {
	s := f.open()
	at := time.Unix(1_700_000_000, 42).UTC()
	want := map[record.Key]outbox.Record{}
	for _, size := range sizes {
		k := key(fmt.Sprint("of ", size))
		d := desired(strings.Repeat("p", size))
		if size == 0 {
			d.Payload = nil
		}
		status := record.Status{
			Phase: record.AckedPhase, UpdatedAt: at,
			Acked:   &record.Acked{Generation: 3, Ref: "ref", At: at, Adapter: bytes.Repeat([]byte{7}, size/8+1)},
			History: []record.Transition{{At: at, Phase: record.Pending, Took: time.Second}},
		}
		ticket := s.Update(k, func(outbox.Record) (outbox.Change, error) {
			return outbox.Change{Desired: d, Status: &status, NewGeneration: true}, nil
		})
		mustWait(t, ticket)
		rec := outbox.Record{Desired: *d, Status: status}
		rec.Desired.Generation = ticket.Revision
		want[k] = rec
	}
	check := func(when string, s outbox.Store) {
		for k, rec := range want {
			if got := get(t, s, k); !reflect.DeepEqual(got, rec) {
				t.Errorf("%s, %s differs from what was put", when, k)
			}
		}
	}
	check("before closing", s)
	check("after reopening", f.reopen())
	check("after a crash", f.crash())
}

func halves(t *testing.T, f *fixture) {
	s := f.open()
	mustWait(t, put(s, key("a"), "x"))
	mustWait(t, setStatus(s, key("a"), record.Status{Phase: record.Failed}))
	check := func() {
		rec := get(t, s, key("a"))
		if string(rec.Desired.Payload) != "x" || rec.Status.Phase != record.Failed {
			t.Errorf("got %q and %q", rec.Desired.Payload, rec.Status.Phase)
		}
	}
	check()
	s = f.reopen()
	check()
	mustWait(t, put(s, key("a"), "y"))
	if rec := get(t, s, key("a")); string(rec.Desired.Payload) != "y" || rec.Status.Phase != record.Failed {
		t.Errorf("after a put: %q and %q", rec.Desired.Payload, rec.Status.Phase)
	}
}

func remove(t *testing.T, f *fixture) {
	s := f.open()
	mustWait(t, put(s, key("a"), "x"))
	mustWait(t, put(s, key("b"), "x"))
	mustWait(t, setStatus(s, key("a"), record.Status{Attempts: 3}))
	s = f.reopen()
	mustWait(t, removeKey(s, key("a")))
	for _, when := range []string{"at once", "after reopening"} {
		if got := get(t, s, key("a")); !reflect.DeepEqual(got, outbox.Record{}) {
			t.Errorf("%s: got %+v", when, got)
		}
		if got := names(t, s, outbox.Span{}); !slices.Equal(got, []string{"demo/b"}) {
			t.Errorf("%s: heads %v", when, got)
		}
		s = f.reopen()
	}
}

func removeFresh(t *testing.T, f *fixture) {
	s := f.open()
	mustWait(t, put(s, key("a"), "x"))
	mustWait(t, setStatus(s, key("a"), record.Status{Attempts: 3}))
	mustWait(t, removeKey(s, key("a")))
	for _, when := range []string{"at once", "after a crash"} {
		if got := get(t, s, key("a")); !reflect.DeepEqual(got, outbox.Record{}) {
			t.Errorf("%s: got %+v", when, got)
		}
		s = f.crash()
	}
}

func removeThenPutLater(t *testing.T, f *fixture) {
	s := f.open()
	mustWait(t, put(s, key("a"), "old"))
	mustWait(t, setStatus(s, key("a"), record.Status{Attempts: 3}))
	mustWait(t, removeKey(s, key("a")))
	mustWait(t, put(s, key("a"), "new"))
	for _, when := range []string{"at once", "after a crash", "after another"} {
		if rec := get(t, s, key("a")); string(rec.Desired.Payload) != "new" || rec.Status.Attempts != 0 {
			t.Errorf("%s: got %q with %d attempts", when, rec.Desired.Payload, rec.Status.Attempts)
		}
		s = f.crash()
	}
}

func removeThenPut(t *testing.T, f *fixture) {
	s := f.open()
	mustWait(t, put(s, key("a"), "old"))
	mustWait(t, setStatus(s, key("a"), record.Status{Attempts: 3}))
	s = f.reopen()
	var last outbox.Ticket
	gather(t, f, func() {
		removeKey(s, key("a"))
		last = put(s, key("a"), "new")
	})
	mustWait(t, last)
	s = f.reopen()
	if rec := get(t, s, key("a")); string(rec.Desired.Payload) != "new" || rec.Status.Attempts != 0 {
		t.Errorf("got %q with %d attempts", rec.Desired.Payload, rec.Status.Attempts)
	}
}

func revisionsGrow(t *testing.T, f *fixture) {
	s := f.open()
	var last uint64
	next := func(when string) {
		t.Helper()
		for range 3 {
			revision := mustWait(t, put(s, key("a"), when))
			if revision <= last {
				t.Errorf("%s: revision %d came after %d", when, revision, last)
			}
			last = revision
		}
		if got := s.Info().Revision; got != last {
			t.Errorf("%s: the store says that it is at %d, want %d", when, got, last)
		}
	}
	next("fresh")
	s = f.reopen()
	next("reopened")
	for range 3 {
		// Given out, perhaps seen, and lost.
		release := f.disk.HoldCommits()
		for range 10 {
			last = max(last, setStatus(s, key("b"), record.Status{Attempts: 1}).Revision)
		}
		s = f.crash()
		release()
		next("after a crash")
	}
}

func crash(t *testing.T, f *fixture) {
	s := f.open()
	for i := range 50 {
		mustWait(t, put(s, key(fmt.Sprint(i)), "kept"))
	}
	mustWait(t, setStatus(s, key("0"), record.Status{Attempts: 7}))
	release := f.disk.HoldCommits()
	ticket := put(s, key("1"), "lost")
	s = f.crash()
	release()
	if err := wait(t, ticket); err == nil {
		t.Error("a change that was lost was acknowledged")
	}
	for i := range 50 {
		wantPayload(t, s, key(fmt.Sprint(i)), "kept")
	}
	if got := get(t, s, key("0")).Status.Attempts; got != 7 {
		t.Errorf("%d attempts, want 7", got)
	}
	if s.Info().Lossy {
		t.Error("a crash was taken for a loss")
	}
}

func names(t testing.TB, s outbox.Store, span outbox.Span) []string {
	t.Helper()
	var list []string
	err := s.Heads(context.Background(), span, func(h outbox.Head) bool {
		list = append(list, h.Key.String())
		return true
	})
	if err != nil {
		t.Errorf("heads: %v", err)
	}
	return list
}

func heads(t *testing.T, f *fixture) {
	s := f.open()
	for _, k := range []record.Key{
		{Sink: "b", Name: "x"}, {Sink: "a", Name: "y"}, {Sink: "a", Name: "x"}, {Sink: "a", Name: "x/1"},
		{Sink: "a-b", Name: "x"}, {Sink: "a", Name: "x/2"}, {Sink: "a", Name: "é"},
	} {
		mustWait(t, put(s, k, strings.Repeat("p", 2000)))
	}
	mustWait(t, setStatus(s, record.Key{Sink: "a", Name: "only status"}, record.Status{Attempts: 1}))
	all := []string{"a/only status", "a/x", "a/x/1", "a/x/2", "a/y", "a/é", "a-b/x", "b/x"}
	for _, when := range []string{"at once", "after reopening"} {
		for _, test := range []struct {
			span outbox.Span
			want []string
		}{
			{outbox.Span{}, all},
			{outbox.Span{Sink: "a"}, all[:6]},
			{outbox.Span{Sink: "a", Prefix: "x"}, all[1:4]},
			{outbox.Span{Prefix: "x"}, []string{"a/x", "a/x/1", "a/x/2", "a-b/x", "b/x"}},
			{outbox.Span{Sink: "a", Prefix: "x", After: &record.Key{Sink: "a", Name: "x/1"}}, all[3:4]},
			{outbox.Span{After: &record.Key{Sink: "a", Name: "y"}}, all[5:]},
			{outbox.Span{After: &record.Key{Sink: "a", Name: "x/11"}}, all[3:]},
			{outbox.Span{Sink: "b", After: &record.Key{Sink: "a", Name: "y"}}, all[7:]},
			{outbox.Span{Sink: "a", After: &record.Key{Sink: "b", Name: "a"}}, nil},
			{outbox.Span{Sink: "none"}, nil},
		} {
			if got := names(t, s, test.span); !slices.Equal(got, test.want) {
				t.Errorf("%s: heads of %+v: %q, want %q", when, test.span, got, test.want)
			}
		}
		s = f.reopen()
	}
}

func headFlags(t *testing.T, f *fixture) {
	s := f.open()
	want := map[string]outbox.Head{}
	for name, d := range map[string]record.Desired{
		"plain":     {Payload: []byte("x")},
		"large":     {Payload: bytes.Repeat([]byte("x"), 5000)},
		"tombstone": {Tombstone: true},
		"suspended": {Payload: bytes.Repeat([]byte("x"), 5000), Suspend: true},
		"gone":      {Gone: true, GoneUntil: time.Unix(2_000_000_000, 0).UTC()},
	} {
		ticket := s.Update(key(name), func(outbox.Record) (outbox.Change, error) {
			status := record.Status{Phase: record.Pending, Message: name}
			return outbox.Change{Desired: &d, Status: &status, NewGeneration: true}, nil
		})
		mustWait(t, ticket)
		d.Generation = ticket.Revision
		want[name] = outbox.HeadOf(key(name), &outbox.Record{
			Desired: d, Status: record.Status{Phase: record.Pending, Message: name},
		})
	}
	for _, when := range []string{"at once", "after reopening"} {
		seen := 0
		err := s.Heads(context.Background(), outbox.Span{}, func(h outbox.Head) bool {
			seen++
			if !reflect.DeepEqual(h, want[h.Key.Name]) {
				t.Errorf("%s: head %+v, want %+v", when, h, want[h.Key.Name])
			}
			return true
		})
		if err != nil || seen != len(want) {
			t.Errorf("%s: %d heads, %v", when, seen, err)
		}
		s = f.reopen()
	}
}

func headsStop(t *testing.T, f *fixture) {
	s := f.open()
	for i := range 10 {
		mustWait(t, put(s, key(fmt.Sprint(i)), "x"))
	}
	seen := 0
	err := s.Heads(context.Background(), outbox.Span{}, func(outbox.Head) bool {
		seen++
		return seen < 3
	})
	if err != nil || seen != 3 {
		t.Errorf("%d heads, %v; want 3", seen, err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	err = s.Heads(ctx, outbox.Span{}, func(outbox.Head) bool { return true })
	if !errors.Is(err, context.Canceled) {
		t.Errorf("heads = %v, want canceled", err)
	}
}

func meta(t *testing.T, f *fixture) {
	s := f.open()
	check := func(name string, want []byte) {
		t.Helper()
		if got, err := s.Meta(name); err != nil || !bytes.Equal(got, want) || (got == nil) != (want == nil) {
			t.Errorf("document %q is %d bytes, %v; want %d", name, len(got), err, len(want))
		}
	}
	set := func(name string, value []byte) {
		t.Helper()
		if err := s.SetMeta(name, value); err != nil {
			t.Errorf("set %q: %v", name, err)
		}
	}
	check("a", nil)
	set("a", []byte("1"))
	set("b", []byte{})
	set("large", bytes.Repeat([]byte("x"), 64<<10))
	check("a", []byte("1"))
	set("a", []byte("2"))
	s = f.crash()
	check("a", []byte("2"))
	check("b", []byte{})
	check("large", bytes.Repeat([]byte("x"), 64<<10))
	set("a", nil)
	s = f.reopen()
	check("a", nil)
	if err := s.SetMeta("huge", make([]byte, 64<<10+1)); err == nil {
		t.Error("a document above 64 KiB was taken")
	}
	if got := names(t, s, outbox.Span{}); got != nil {
		t.Errorf("documents show up as resources: %q", got)
	}
}

func full(t *testing.T, f *fixture) {
	s := f.open()
	mustWait(t, put(s, key("a"), "old"))
	f.disk.SetFull(true)
	ticket := put(s, key("a"), "new")
	if err := wait(t, ticket); !errors.Is(err, outbox.ErrNoSpace) || !errors.Is(ticket.Err, outbox.ErrNoSpace) {
		t.Fatalf("wait = %v, want ErrNoSpace", err)
	}
	if !s.Stats().RefusingPuts {
		t.Error("the figures don't say that puts are refused")
	}
	mustWait(t, setStatus(s, key("a"), record.Status{Attempts: 1}))
	mustWait(t, s.Update(key("a"), func(outbox.Record) (outbox.Change, error) {
		return outbox.Change{Desired: &record.Desired{Tombstone: true}, NewGeneration: true}, nil
	}))
	mustWait(t, removeKey(s, key("a")))
	f.disk.SetFull(false)
	mustWait(t, put(s, key("a"), "newer"))
	wantPayload(t, s, key("a"), "newer")
	if s.Stats().RefusingPuts {
		t.Error("the figures say that puts are refused still")
	}
}

func damaged(t *testing.T, f *fixture) {
	s := f.open()
	mustWait(t, put(s, key("a"), strings.Repeat("marker ", 500)))
	mustWait(t, put(s, key("b"), "whole"))
	f.close()
	f.disk.Damage(t, key("a"))
	s = f.open()
	if rec, err := s.Get(key("a")); !errors.Is(err, outbox.ErrDamaged) {
		t.Errorf("get = %d bytes, %v; want ErrDamaged", len(rec.Desired.Payload), err)
	}
	called := false
	err := wait(t, s.Update(key("a"), func(outbox.Record) (outbox.Change, error) {
		called = true
		return outbox.Change{Remove: true}, nil
	}))
	if !errors.Is(err, outbox.ErrDamaged) || called {
		t.Errorf("update = %v, decide called: %t; want ErrDamaged and no call", err, called)
	}
	wantPayload(t, s, key("b"), "whole")
}

func lostTail(t *testing.T, f *fixture) {
	s := f.open()
	var last uint64
	for i := range 20 {
		last = mustWait(t, put(s, key(fmt.Sprint(i)), "x"))
	}
	epoch := s.Info().Epoch
	f.close()
	f.disk.LoseTail(t)
	if s, err := f.disk.Open(nil, false); !errors.Is(err, outbox.ErrLost) {
		t.Errorf("open = %v, want ErrLost", err)
		if err == nil {
			s.Close()
		}
	}
	s, err := f.disk.Open(nil, true)
	if err != nil {
		t.Fatalf("open, accepting the loss: %v", err)
	}
	f.store = s
	for _, when := range []string{"accepted", "reopened"} {
		info := s.Info()
		if !info.Lossy || info.Epoch == epoch || info.Epoch == "" {
			t.Errorf("%s: %+v, want lossy and another epoch than %q", when, info, epoch)
		}
		next := mustWait(t, put(s, key("next"), when))
		if next <= last {
			t.Errorf("%s: revision %d came after %d", when, next, last)
		}
		last = next
		s = f.reopen()
	}
}

func locked(t *testing.T, f *fixture) {
	f.open()
	if s, err := f.disk.Open(nil, false); !errors.Is(err, outbox.ErrLocked) {
		t.Errorf("open = %v, want ErrLocked", err)
		if err == nil {
			s.Close()
		}
	}
}

func closed(t *testing.T, f *fixture) {
	s := f.open()
	ticket := put(s, key("a"), "x")
	f.close()
	if err := wait(t, ticket); err != nil {
		t.Errorf("close did not wait for what was queued: %v", err)
	}
	for name, got := range map[string]error{
		"update":   put(s, key("a"), "y").Err,
		"get":      second(s.Get(key("a"))),
		"heads":    s.Heads(context.Background(), outbox.Span{}, func(outbox.Head) bool { return true }),
		"meta":     second(s.Meta("a")),
		"set meta": s.SetMeta("a", nil),
	} {
		if !errors.Is(got, outbox.ErrClosed) {
			t.Errorf("%s = %v, want ErrClosed", name, got)
		}
	}
	if err := s.Close(); err != nil {
		t.Errorf("closing twice: %v", err)
	}
}

func second[T any](_ T, err error) error { return err }
