package source_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawlsync/pawl/engine"
	"github.com/pawlsync/pawl/internal/source"
)

func TestR19_ASetThatLacksTooMuchIsHeldAsAWhole(t *testing.T) {
	inBubble(t, func(b *bench) {
		all := names("a", 50)
		b.full("files", all)
		b.want(all...)
		left := all[:39] // 11 of 50, and 10 may go
		for range 3 {
			b.full("files", left)
			time.Sleep(5 * time.Minute)
		}
		b.want(all...)
		s := b.status("files")
		if s.Held != 11 || s.HeldAt.IsZero() || !s.Blown || s.HeldWhy != "0 were deleted within 1h, and of 50 resources it may delete 10 in that time" {
			t.Errorf("the status is %+v", s)
		}
		if n := b.logged("level=ERROR"); n != 1 {
			t.Errorf("it is logged %d times as an error, want once", n)
		}
		if n := b.counts.of("files delete held"); n != 11 {
			t.Errorf("%d are counted as held, want 11", n)
		}
		if n := b.confirm("files"); n != 11 {
			t.Errorf("%d were deleted, want 11", n)
		}
		b.want(left...)
		if s := b.status("files"); s.Held != 0 || s.Blown || s.Deleted != 0 || !s.HeldAt.IsZero() {
			t.Errorf("after it was confirmed: %+v", s)
		}
		b.full("files", left[:33]) // 6 more, and what was confirmed does not count
		b.want(left[:33]...)
	}, "files")
}

func TestR19_SetsAndEventsAreCountedTogetherAndSingleEventsAreHeldOneByOne(t *testing.T) {
	inBubble(t, func(b *bench) {
		all := names("a", 50)
		b.full("files", all)
		b.full("files", all[:45])
		var errs []error
		b.tell("files", func(in source.Inlet) error {
			errs = in.DeleteEach(b.t.Context(), keysOf(all[38:45])) // 7 more, of which 5 may go
			return nil
		})
		for i, err := range errs {
			if want := i >= 5; errors.Is(err, source.ErrFused) != want || !want && err != nil {
				t.Errorf("deletion %d: %v", i, err)
			}
		}
		b.want(append(slices.Clone(all[:38]), all[43:45]...)...)
		h, err := b.m.Held("files", nil, 10)
		if err != nil || h.Total != 2 || h.BySink["web"] != 2 || h.Items[0] != (source.HeldItem{Key: web("a043"), Place: "a043.yaml:1"}) {
			t.Errorf("held is %+v, %v", h, err)
		}
		if !strings.HasPrefix(h.Why, "10 were deleted within 1h") {
			t.Errorf("it is held since %q, which names a number that grows", h.Why)
		}
		b.full("files", append(slices.Clone(all[:38]), all[42]))
		if h, _ := b.m.Held("files", nil, 1); h.Items[0].Place != "a043.yaml:1" {
			t.Errorf("after another full set the place is %q", h.Items[0].Place)
		}
		b.confirm("files")
		b.want(append(slices.Clone(all[:38]), all[42])...)
	}, "files")
}

func TestR19_AChangeThatDeletesTooMuchIsHeldAsAWhole(t *testing.T) {
	inBubble(t, func(b *bench) {
		all := names("a", 50)
		b.full("files", all)
		for i, err := range b.remove("files", append([]string{"nosuch"}, all[:11]...)...) { // 10 may go
			if held := i > 0; errors.Is(err, source.ErrFused) != held || !held && err != nil {
				t.Errorf("deletion %d: %v", i, err)
			}
		}
		b.want(all...)
		if s := b.status("files"); s.Held != 11 || s.Deleted != 0 {
			t.Errorf("the status is %+v", s)
		}
		b.put("files", all[:11]...)
		b.remove("files", all[:10]...) // and so many go at once
		b.want(all[10:]...)
	}, "files")
}

func TestR19_OnceSomethingIsHeldEverythingIsUntilSomebodyLooks(t *testing.T) {
	inBubble(t, func(b *bench) {
		all := names("a", 50)
		b.full("files", all)
		b.full("files", all[:20])
		time.Sleep(100 * time.Hour) // the window has long moved on
		if errs := b.remove("files", "a000"); !errors.Is(errs[0], source.ErrFused) {
			t.Errorf("a single deletion: %v, want ErrFused", errs[0])
		}
		b.full("files", all[1:19])
		b.want(all...)
		if s := b.status("files"); s.Held != 32 {
			t.Errorf("%d are held, want 32", s.Held)
		}
	}, "files")
}

func TestR19_WhatIsPutAgainIsHeldNoLonger(t *testing.T) {
	inBubble(t, func(b *bench) {
		all := names("a", 50)
		b.full("files", all)
		b.full("files", all[:30])
		b.put("files", all[30:49]...)
		if s := b.status("files"); s.Held != 1 || !s.Blown {
			t.Errorf("the status is %+v", s)
		}
		b.put("files", all[49])
		if s := b.status("files"); s.Held != 0 || s.Blown {
			t.Errorf("a fuse with nothing behind it is still blown: %+v", s)
		}
		b.full("files", all[1:])
		b.want(all[1:]...)
	}, "files")
}

func TestR19_KeptThingsAreHeldNoLonger(t *testing.T) {
	inBubble(t, func(b *bench) {
		all := names("a", 50)
		b.full("files", all)
		b.full("files", all[:30])
		kept := make([]source.Kept, 20)
		for i := range kept {
			kept[i] = source.Kept{Key: web(all[30+i]), Place: "x", Err: errors.New("bad")}
		}
		b.full("files", all[:30], kept...)
		if s := b.status("files"); s.Held != 0 || s.Kept != 20 || s.Blown {
			t.Errorf("the status is %+v", s)
		}
		b.want(all...)
	}, "files")
}

func TestR19_ARestartNeitherMendsTheFuseNorForgetsWhatWasDeleted(t *testing.T) {
	inBubble(t, func(b *bench) {
		all := names("a", 50)
		b.full("files", all)
		b.full("files", all[:41]) // 9 of 10
		b.reopen()
		b.full("files", all[:39])
		b.want(all[:41]...)
		if s := b.status("files"); s.Held != 2 || s.Deleted != 9 {
			t.Errorf("after a restart: %+v", s)
		}
		b.reopen()
		time.Sleep(10 * time.Hour) // the deletions are long out of the window
		b.full("files", all[:39])
		if s := b.status("files"); s.Held != 2 || !s.Blown || !strings.Contains(s.HeldWhy, "before the restart") {
			t.Errorf("after another restart: %+v", s)
		}
		b.full("files", all[:41])
		if s := b.status("files"); s.Held != 0 || s.Blown {
			t.Errorf("a set that lacks nothing does not mend it: %+v", s)
		}
		b.want(all[:41]...)
	}, "files")
}

func TestR19_ADeletionCountsBeforeItIsMade(t *testing.T) {
	inBubble(t, func(b *bench) {
		all := names("a", 50)
		b.full("files", all)
		b.want(all...)
		release := b.disk.HoldCommits()
		done := make(chan struct{})
		b.sources["files"].orders <- func(in source.Inlet) error {
			defer close(done)
			return in.Full(b.t.Context(), each(all[:42]), nil)
		}
		synctest.Wait() // its deletions wait for a commit
		b.store.Crash() // in the middle of the sweep
		release()
		<-done
		b.m.Close()
		_ = b.engine.Close(b.t.Context())
		b.open()
		if s := b.status("files"); s.Resources != 50 || s.Deleted != 8 {
			t.Errorf("after the crash: %+v; want all 50, and 8 counted", s)
		}
		b.full("files", all[:42])
		b.want(all...)
		if s := b.status("files"); s.Held != 8 {
			t.Errorf("%d are held, want 8", s.Held)
		}
		b.confirm("files")
		b.want(all[:42]...)
	}, "files")
}

func TestConfirmDeletesExactlyWhatWasShown(t *testing.T) {
	inBubble(t, func(b *bench) {
		all := names("a", 50)
		b.full("files", all)
		if _, err := b.m.Confirm(b.t.Context(), "files", ""); !errors.Is(err, source.ErrNothingHeld) {
			t.Errorf("with nothing held: %v", err)
		}
		b.full("files", all[:20])
		first, err := b.m.Held("files", nil, 7)
		if err != nil || first.Total != 30 || len(first.Items) != 7 || first.Next == nil || first.Items[0].Key != web("a020") {
			t.Fatalf("%+v, %v", first, err)
		}
		second, err := b.m.Held("files", first.Next, 100)
		if err != nil || len(second.Items) != 23 || second.Next != nil || second.Items[0].Key != web("a027") || second.Digest != first.Digest {
			t.Fatalf("the second page is %+v, %v", second, err)
		}
		b.full("files", append(slices.Clone(all[:19]), all[20])) // as many, and others
		if _, err := b.m.Confirm(b.t.Context(), "files", first.Digest); !errors.Is(err, source.ErrChanged) {
			t.Errorf("of another list: %v, want ErrChanged", err)
		}
		b.want(all...)
		if _, err := b.m.Confirm(b.t.Context(), "nosuch", ""); !errors.Is(err, source.ErrUnknown) {
			t.Errorf("of no source: %v", err)
		}
	}, "files")
}

func TestWhatCantBeDeletedStaysHeld(t *testing.T) {
	inBubble(t, func(b *bench) {
		all := names("a", 50)
		b.full("files", all)
		b.full("files", all[:20])
		b.disk.FailCommits(-1, errors.New("bad sector"))
		h, _ := b.m.Held("files", nil, 1)
		if n, err := b.m.Confirm(b.t.Context(), "files", h.Digest); err == nil || n != 0 || !strings.Contains(err.Error(), "30 of 30") || !strings.Contains(err.Error(), "bad sector") {
			t.Errorf("%d, %v", n, err)
		}
		b.disk.FailCommits(0, nil)
		if s := b.status("files"); s.Held != 30 || !s.Blown {
			t.Errorf("the status is %+v", s)
		}
		b.confirm("files")
		b.want(all[:20]...)
	}, "files")
}

func TestASweepThatFailsIsNoDeletionAndIsMadeUpFor(t *testing.T) {
	inBubble(t, func(b *bench) {
		all := names("a", 50)
		b.full("files", all)
		b.want(all...)
		b.tell("files", func(in source.Inlet) error {
			return in.Full(b.t.Context(), func(yield func(source.Item, error) bool) {
				for _, n := range all[:45] {
					if !yield(item(n), nil) {
						return
					}
				}
				b.disk.FailCommits(-1, errors.New("bad sector")) // puts of what is there need none
			}, nil)
		})
		b.want(all...)
		if s := b.status("files"); s.Deleted != 0 || !strings.Contains(s.Trouble, "5 resources that it lacks") {
			t.Errorf("the status is %+v", s)
		}
		b.disk.FailCommits(0, nil)
		time.Sleep(5 * time.Second)
		if b.sources["files"].rescans.Load() == 0 {
			t.Error("the source is not asked again")
		}
		b.full("files", all[:45])
		b.want(all[:45]...)
	}, "files")
}

func TestDeletingWhatIsGoneOrNotItsOwnIsNoError(t *testing.T) {
	inBubble(t, func(b *bench) {
		b.full("files", []string{"a", "b", "d"})
		b.full("others", []string{"c"})
		if _, err := b.engine.Delete(b.t.Context(), engine.Delete{Key: web("b"), TakeOver: true}); err != nil {
			t.Fatal(err)
		}
		for i, err := range b.remove("files", "nosuch", "c", "b", "a") {
			if err != nil {
				t.Errorf("deletion %d: %v", i, err)
			}
		}
		b.want("c", "d")
		if s := b.status("files"); s.Resources != 1 || s.Deleted != 1 {
			t.Errorf("the status is %+v", s)
		}
	}, "files", "others")
}
