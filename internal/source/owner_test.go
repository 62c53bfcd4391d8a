package source_test

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawlsync/pawl/engine"
	"github.com/pawlsync/pawl/engine/record"
	"github.com/pawlsync/pawl/internal/source"
)

func TestR15_ResourcesAreHandedOverFromOneSourceToAnother(t *testing.T) {
	inBubble(t, func(b *bench) {
		all := names("a", 20)
		b.full("old", all)
		b.want(all...)
		applied := len(b.target.objects)
		b.full("new", all) // they are the old one's still
		if s := b.status("new"); s.Kept != 20 || s.Resources != 0 {
			t.Errorf("before the handover: %+v", s)
		}
		n, err := b.m.HandOver(b.t.Context(), "old", "new", "web", "a00")
		if err != nil || n != 10 {
			t.Fatalf("%d were handed over, %v; want 10", n, err)
		}
		if b.owner("a000") != "new" || b.owner("a010") != "old" {
			t.Errorf("the owners are %q and %q", b.owner("a000"), b.owner("a010"))
		}
		if o, n := b.status("old"), b.status("new"); o.Resources != 10 || n.Resources != 10 {
			t.Errorf("they own %d and %d, want 10 each", o.Resources, n.Resources)
		}
		b.full("new", all)
		b.full("old", all[10:])
		b.want(all...)
		if s := b.status("new"); s.Kept != 10 {
			t.Errorf("the new one is refused %d, want the 10 that are the old one's", s.Kept)
		}
		if len(b.target.deletes) > 0 || applied != 20 {
			t.Errorf("a handover deleted %v", b.target.deletes)
		}
		b.full("new", all[2:]) // two less, and they are its own to delete
		b.want(all[2:]...)
	}, "old", "new")
}

func TestR15_HeldDeletionsGoWithTheirOwner(t *testing.T) {
	inBubble(t, func(b *bench) {
		all := names("a", 20)
		b.full("old", all)
		b.full("old", all[:10])
		if n, err := b.m.HandOver(b.t.Context(), "old", "", "", ""); err != nil || n != 20 {
			t.Fatalf("%d, %v", n, err)
		}
		if s := b.status("old"); s.Held != 0 || s.Blown || s.Resources != 0 {
			t.Errorf("the status is %+v", s)
		}
		b.full("old", []string{"b"})
		b.want(append(all, "b")...)
		if b.owner("a000") != "" {
			t.Errorf("a000 belongs to %q, want nobody", b.owner("a000"))
		}
	}, "old")
}

func TestASourceThatLeftTheConfigurationIsListedWithWhatItOwns(t *testing.T) {
	inBubble(t, func(b *bench) {
		b.full("files", names("a", 5))
		b.full("others", names("b", 3))
		b.close()
		b.configure("files")
		b.open()
		list, err := b.m.List(b.t.Context())
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, s := range list {
			got = append(got, s.Name)
		}
		if strings.Join(got, " ") != "edges files others" || list[2].Configured || list[2].Resources != 3 || list[1].Resources != 5 {
			t.Fatalf("the list is %+v", list)
		}
		if s := b.status("others"); s.Configured || s.Resources != 3 {
			t.Errorf("its status is %+v", s)
		}
		b.want(append(names("a", 5), names("b", 3)...)...) // they stay
		if n, err := b.m.HandOver(b.t.Context(), "others", "files", "", "b00"); err != nil || n != 3 {
			t.Fatalf("%d, %v", n, err)
		}
		if list, err = b.m.List(b.t.Context()); err != nil || len(list) != 2 || list[1].Resources != 8 {
			t.Errorf("after the handover the list is %+v, %v", list, err)
		}
		for _, names := range [][2]string{{"files", "nosuch"}, {"nosuch", "files"}} {
			if _, err := b.m.HandOver(b.t.Context(), names[0], names[1], "", ""); !errors.Is(err, source.ErrUnknown) || !strings.Contains(err.Error(), "nosuch") {
				t.Errorf("from %s to %s: %v", names[0], names[1], err)
			}
		}
	}, "files", "others")
}

func TestWithoutSourcesTheOwnersAreCountedWhenSomebodyAsks(t *testing.T) {
	inBubble(t, func(b *bench) {
		b.full("files", names("a", 5))
		b.close()
		b.opts.Sources = nil
		b.open()
		list, err := b.m.List(b.t.Context())
		if err != nil || len(list) != 1 || list[0].Name != "files" || list[0].Resources != 5 || list[0].Configured {
			t.Errorf("the list is %+v, %v", list, err)
		}
	}, "files")
}

func sender(b *bench, name string) *source.Sender {
	b.t.Helper()
	s, err := b.m.Sender(b.t.Context(), name)
	if err != nil {
		b.t.Fatal(err)
	}
	return s
}

func send(b *bench, s *source.Sender, items ...string) []engine.BatchItem {
	b.t.Helper()
	var puts []engine.Put
	for _, n := range items {
		puts = append(puts, engine.Put{Key: web(n), Payload: []byte(`"` + n + `"`)})
	}
	results, err := s.PutBatch(b.t.Context(), puts)
	if err != nil {
		b.t.Fatal(err)
	}
	return results
}

func TestASenderIsASourceOfItsOwn(t *testing.T) {
	inBubble(t, func(b *bench) {
		one, two := sender(b, "edge-1"), sender(b, "edge-2")
		all := names("a", 20)
		for _, r := range send(b, one, all...) {
			if r.Err != nil {
				t.Fatal(r.Err)
			}
		}
		if r := send(b, two, "a000", "b"); !errors.Is(r[0].Err, engine.ErrOwned) || r[1].Err != nil {
			t.Errorf("another one's resource: %v, its own: %v", r[0].Err, r[1].Err)
		}
		if s := b.status("edge-2"); s.Resources != 1 || s.Kept != 1 || s.Group != "edges" || s.Kind != "pawl" || !s.Up {
			t.Errorf("the status is %+v", s)
		}
		if got := one.Sinks(); len(got) != 1 || got[0] != "web" {
			t.Errorf("its sinks are %v", got)
		}
		for i, name := range all[:5] { // 4 of 20 may go
			_, err := one.Delete(b.t.Context(), engine.Delete{Key: web(name)})
			if held := i == 4; errors.Is(err, source.ErrFused) != held || !held && err != nil {
				t.Errorf("deletion %d: %v", i, err)
			}
		}
		b.want(append(all[4:], "b")...)
		if !one.Held(web("a004")) || one.Held(web("a005")) || b.status("edge-2").Blown {
			t.Error("the wrong things are held")
		}
		if _, err := two.Delete(b.t.Context(), engine.Delete{Key: web("a010")}); !errors.Is(err, engine.ErrOwned) {
			t.Errorf("another one's resource is deleted: %v", err)
		}
		send(b, one, "a004")
		if one.Held(web("a004")) || b.status("edge-1").Blown {
			t.Error("what is put again is still held")
		}
	})
}

func TestSendersAreKnownAgainAfterARestart(t *testing.T) {
	inBubble(t, func(b *bench) {
		all := names("a", 20)
		one := sender(b, "edge-1")
		send(b, one, all...)
		for _, name := range all[:5] {
			_, _ = one.Delete(b.t.Context(), engine.Delete{Key: web(name)})
		}
		b.reopen()
		if s := b.status("edge-1"); s.Resources != 16 || s.Deleted != 4 || !s.Blown {
			t.Errorf("the status is %+v", s)
		}
		time.Sleep(10 * time.Hour) // the deletions are long out of the window
		one = sender(b, "edge-1")
		send(b, one, "a007")
		if _, err := one.Delete(b.t.Context(), engine.Delete{Key: web("a006")}); !errors.Is(err, source.ErrFused) {
			t.Errorf("a restart mended the fuse: %v", err)
		}
		send(b, one, "a006")
		b.confirmNone("edge-1")
	})
}

func TestAFuseThatARestartFoundBlownIsMendedByConfirmingNothing(t *testing.T) {
	inBubble(t, func(b *bench) {
		one := sender(b, "edge-1")
		send(b, one, names("a", 20)...)
		for _, name := range names("a", 5) {
			_, _ = one.Delete(b.t.Context(), engine.Delete{Key: web(name)})
		}
		b.reopen()
		if n := b.confirm("edge-1"); n != 0 || b.status("edge-1").Blown {
			t.Errorf("%d were deleted, and the fuse is blown still", n)
		}
		b.reopen()
		if b.status("edge-1").Blown {
			t.Error("a restart undoes the confirmation")
		}
	})
}

// confirmNone wants that nothing is held and nothing blown.
func (b *bench) confirmNone(name string) {
	b.t.Helper()
	if _, err := b.m.Confirm(b.t.Context(), name, ""); !errors.Is(err, source.ErrNothingHeld) {
		b.t.Errorf("something is held: %v", err)
	}
}

func TestWhatNobodyDeclaredIsNoSender(t *testing.T) {
	inBubble(t, func(b *bench) {
		for _, name := range []string{"nosuch", "edge", "files", "hub2", "edges"} {
			if _, err := b.m.Sender(b.t.Context(), name); !errors.Is(err, source.ErrUndeclared) || !strings.Contains(err.Error(), name) {
				t.Errorf("%s: %v, want ErrUndeclared", name, err)
			}
		}
		sender(b, "hub")
	}, "files")
}

func restore(b *bench) {
	b.close()
	b.disk.SetEpoch("after-restore", true)
	b.open()
}

func suspendedFor(b *bench) record.Reason { return b.engine.Sinks()[0].SuspendReason }

func TestR67_ASinkGoesOnWhenEverySourceThatOwnsThereHasToldAll(t *testing.T) {
	inBubble(t, func(b *bench) {
		b.full("files", []string{"a"})
		b.full("others", []string{"b"})
		send(b, sender(b, "edge-1"), "c")
		b.want("a", "b", "c")
		restore(b)
		b.put("files", "new")
		if suspendedFor(b) != record.ReasonRestored {
			t.Fatal("the sink is not held after the restore")
		}
		b.tell("files", func(in source.Inlet) error {
			return in.Full(b.t.Context(), func(yield func(source.Item, error) bool) { yield(source.Item{}, errors.New("away")) }, nil)
		})
		b.full("files", []string{"a"}, source.Kept{Key: web("a"), Err: errors.New("bad")})
		b.full("others", []string{"b"})
		sender(b, "edge-1").Complete()
		if suspendedFor(b) != record.ReasonRestored {
			t.Fatal("a set that is cut off, or lacks what can't be read, counts for all")
		}
		b.full("files", []string{"a", "new"})
		if r := suspendedFor(b); r != record.ReasonNone {
			t.Fatalf("everything is told, and the sink is suspended for %q", r)
		}
		b.want("a", "b", "c", "new")
		b.reopen()
		if r := suspendedFor(b); r != record.ReasonNone {
			t.Errorf("after a restart it is suspended for %q", r)
		}
	}, "files", "others")
}

func TestR67_WhatNoSourceTellsWaitsForAnOperator(t *testing.T) {
	for _, owner := range []string{"", "long-gone"} {
		inBubble(t, func(b *bench) {
			b.full("files", []string{"a"})
			if _, err := b.engine.Put(b.t.Context(), engine.Put{Key: web("b"), Payload: []byte(`1`), Owner: owner}); err != nil {
				t.Fatal(err)
			}
			restore(b)
			b.full("files", []string{"a"})
			if suspendedFor(b) != record.ReasonRestored {
				t.Errorf("with a resource of %q the sink goes on", owner)
			}
			if b.logged("pawl resume --sink web") != 1 {
				t.Error("nobody is told what to do")
			}
		}, "files")
	}
}

func TestSourcesEndBeforeTheEngine(t *testing.T) {
	inBubble(t, func(b *bench) {
		b.full("files", names("a", 3))
		release := b.disk.HoldCommits()
		done := make(chan error, 1)
		b.sources["files"].orders <- func(in source.Inlet) error {
			err := in.Full(b.t.Context(), each(names("b", 30)), nil)
			done <- err
			return err
		}
		synctest.Wait()
		go func() {
			time.Sleep(time.Second)
			release()
		}()
		b.reopen()
		if err := <-done; err != nil {
			t.Errorf("what was under way ended with %v", err)
		}
	}, "files")
}
