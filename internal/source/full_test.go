package source_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawlsync/pawl/engine"
	"github.com/pawlsync/pawl/engine/record"
	"github.com/pawlsync/pawl/internal/source"
)

func TestR16_WhatTheFullSetLacksIsDeleted(t *testing.T) {
	inBubble(t, func(b *bench) {
		all := names("a", 50)
		b.full("files", all)
		b.want(all...)
		if s := b.status("files"); s.Resources != 50 || s.FullItems != 50 || s.FullAt.IsZero() || !s.Up || s.Starting {
			t.Errorf("after the first set: %+v", s)
		}
		left := without(all, "a003", "a017", "a049")
		b.full("files", left)
		b.want(left...)
		if s := b.status("files"); s.Resources != 47 || s.Deleted != 3 || s.Held != 0 {
			t.Errorf("after the second set: %+v", s)
		}
		if b.counts.of("files put changed") != 50 || b.counts.of("files put unchanged") != 47 || b.counts.of("files delete changed") != 3 {
			t.Errorf("the counts are %v", b.counts.n)
		}
	}, "files")
}

func TestR16_WhatWentWhileTheDaemonWasDownIsDeleted(t *testing.T) {
	inBubble(t, func(b *bench) {
		all := names("a", 50)
		b.full("files", all)
		b.reopen()
		left := without(all, "a000", "a001")
		b.full("files", left)
		b.want(left...)
	}, "files")
}

func TestR16_WhatOthersOwnIsNoneOfASourcesBusiness(t *testing.T) {
	inBubble(t, func(b *bench) {
		if _, err := b.engine.Put(b.t.Context(), engine.Put{Key: web("nobodys"), Payload: []byte(`1`)}); err != nil {
			t.Fatal(err)
		}
		b.full("files", []string{"a"})
		b.full("others", []string{"b"})
		b.full("files", []string{"c"})
		b.want("b", "c", "nobodys")
	}, "files", "others")
}

func TestR17_ASetThatIsCutOffDeletesNothing(t *testing.T) {
	inBubble(t, func(b *bench) {
		all := names("a", 20)
		b.full("files", all)
		b.tell("files", func(in source.Inlet) error {
			return in.Full(b.t.Context(), func(yield func(source.Item, error) bool) {
				for _, n := range []string{"a000", "new"} {
					if !yield(item(n), nil) {
						return
					}
				}
				yield(source.Item{}, errors.New("the disk went away"))
			}, nil)
		})
		b.want(append(all, "new")...)
		s := b.status("files")
		if !strings.Contains(s.Trouble, "cut off after 2") || !strings.Contains(s.Trouble, "the disk went away") || s.Up || s.Held != 0 {
			t.Errorf("the status is %+v", s)
		}
		b.full("files", all)
		if s := b.status("files"); s.Trouble != "" || !s.Up {
			t.Errorf("a whole set does not end the trouble: %+v", s)
		}
		b.want(all...)
	}, "files")
}

func TestR17_AnEmptySetDeletesNothingUntilItIsConfirmed(t *testing.T) {
	inBubble(t, func(b *bench) {
		b.full("files", []string{"a", "b"}) // as many as may always go
		b.full("files", nil)
		b.want("a", "b")
		if s := b.status("files"); s.Held != 2 || !strings.Contains(s.HeldWhy, "empty") {
			t.Errorf("the status is %+v", s)
		}
		b.confirm("files")
		b.want()
	}, "files")
}

func TestR17_ASourceThatFailsDeletesNothingAndIsBegunAgain(t *testing.T) {
	inBubble(t, func(b *bench) {
		b.full("files", []string{"a", "b"})
		b.tell("files", func(source.Inlet) error { return errors.New("no such directory") })
		b.want("a", "b")
		if s := b.status("files"); !strings.Contains(s.Trouble, "no such directory") || s.Up {
			t.Errorf("the status is %+v", s)
		}
		time.Sleep(10 * time.Second)
		if n := b.sources["files"].began.Load(); n != 2 {
			t.Fatalf("it was begun %d times, want 2", n)
		}
		b.tell("files", func(source.Inlet) error { panic("a mistake") })
		time.Sleep(10 * time.Second)
		if n := b.sources["files"].began.Load(); n != 3 || b.logged("a mistake") != 1 {
			t.Fatalf("after a panic it was begun %d times, want 3", n)
		}
		b.full("files", []string{"a", "b"})
		if s := b.status("files"); s.Trouble != "" || !s.Up {
			t.Errorf("a full set does not end the trouble: %+v", s)
		}
	}, "files")
}

func TestR17_WhatCantBeReadIsKept(t *testing.T) {
	inBubble(t, func(b *bench) {
		all := names("a", 20)
		b.full("files", all)
		bad := source.Kept{Key: web("a000"), Place: "a000.yaml:7", Err: errors.New("line 7: not YAML")}
		b.full("files", without(all, "a000", "a001"), bad)
		b.want(without(all, "a001")...)
		s := b.status("files")
		if s.Kept != 1 || len(s.Problems) != 1 || s.Problems[0] != (source.Problem{Key: web("a000"), Place: "a000.yaml:7", Message: "line 7: not YAML"}) {
			t.Errorf("the problems are %+v", s.Problems)
		}
		b.put("files", "a000")
		if s := b.status("files"); s.Kept != 0 {
			t.Errorf("a problem that is over is still told: %+v", s.Problems)
		}
	}, "files")
}

func TestR17_NothingIsDeletedWhileEvenAKeyCantBeRead(t *testing.T) {
	inBubble(t, func(b *bench) {
		all := names("a", 20)
		b.full("files", all)
		b.full("files", without(all, "a000"), source.Kept{Place: "x.yaml", Err: errors.New("it is all zeros")})
		b.want(all...)
		if s := b.status("files"); s.Held != 0 || s.Kept != 1 {
			t.Errorf("the status is %+v", s)
		}
		b.full("files", without(all, "a000"))
		b.want(without(all, "a000")...)
	}, "files")
}

func TestR18_OfTwoPlacesOfOneKeyTheFirstIsTakenAndBothAreNamed(t *testing.T) {
	inBubble(t, func(b *bench) {
		var answers []error
		answer := func(err error) { answers = append(answers, err) }
		b.tell("files", func(in source.Inlet) error {
			first, second := item("a"), item("a")
			first.Answer, second.Answer = answer, answer
			second.Place, second.Payload = "copy.yaml:9", []byte(`"other"`)
			return in.Full(b.t.Context(), func(yield func(source.Item, error) bool) { _ = yield(first, nil) && yield(second, nil) }, nil)
		})
		b.want("a")
		if got := b.target.objects["a"]; got != `"a"` {
			t.Errorf("the target has %s, want what came first", got)
		}
		s := b.status("files")
		if s.Kept != 1 || s.Problems[0].Place != "copy.yaml:9" || !strings.Contains(s.Problems[0].Message, "a.yaml:1") {
			t.Errorf("the problems are %+v", s.Problems)
		}
		if len(answers) != 2 || answers[0] == nil == (answers[1] == nil) {
			t.Errorf("the answers are %v, want one error", answers)
		}
	}, "files")
}

func TestR18_WhatTheEngineRefusesIsToldAndTheRestGoesOn(t *testing.T) {
	inBubble(t, func(b *bench) {
		b.full("others", []string{"theirs"})
		var answer error
		b.tell("files", func(in source.Inlet) error {
			theirs, lost := item("theirs"), item("lost")
			theirs.Payload = []byte(`"mine"`)
			theirs.Answer = func(err error) { answer = err }
			lost.Key.Sink = "nosuch"
			return in.Full(b.t.Context(), func(yield func(source.Item, error) bool) {
				_ = yield(theirs, nil) && yield(lost, nil) && yield(item("mine"), nil)
			}, nil)
		})
		b.want("mine", "theirs")
		s := b.status("files")
		if s.Kept != 2 || s.Resources != 1 || !s.Problems[0].Refused {
			t.Fatalf("the status is %+v", s)
		}
		if m := s.Problems[1].Message; !strings.Contains(m, `"files"`) || !strings.Contains(m, `"others"`) {
			t.Errorf("%s; want both sources named", m)
		}
		if !errors.Is(answer, engine.ErrOwned) {
			t.Errorf("the item was answered %v, want ErrOwned", answer)
		}
		if m := s.Problems[0].Message; !strings.Contains(m, `"nosuch"`) || !strings.Contains(m, "web") {
			t.Errorf("%s; want the sink, and those that there are", m)
		}
	}, "files", "others")
}

func TestR18_ARefusedChangeLeavesItsResourceAsItIs(t *testing.T) {
	inBubble(t, func(b *bench) {
		b.tweak = func(o *engine.Options) { o.PayloadMaxBytes = 100 }
		b.reopen()
		b.full("files", []string{"a", "b"})
		b.tell("files", func(in source.Inlet) error {
			long := item("a")
			long.Payload = []byte(`"` + strings.Repeat("x", 200) + `"`)
			return in.Full(b.t.Context(), func(yield func(source.Item, error) bool) { _ = yield(long, nil) && yield(item("b"), nil) }, nil)
		})
		b.want("a", "b")
		if s := b.status("files"); s.Kept != 1 || s.Resources != 2 {
			t.Errorf("the status is %+v", s)
		}
	}, "files")
}

func TestOnAFullDiskASourceIsAskedAgainAndNothingIsLost(t *testing.T) {
	inBubble(t, func(b *bench) {
		b.full("files", []string{"a"})
		b.disk.SetFull(true)
		if errs := b.put("files", "b"); !errors.Is(errs[0], engine.ErrNoSpace) {
			t.Errorf("the error is %v, want ErrNoSpace", errs[0])
		}
		if s := b.status("files"); !strings.Contains(s.Trouble, "disk") || s.Kept != 0 {
			t.Errorf("the status is %+v", s)
		}
		time.Sleep(5 * time.Second)
		synctest.Wait()
		if n := b.sources["files"].rescans.Load(); n != 1 {
			t.Errorf("it was asked %d times for a full set, want 1", n)
		}
		b.full("files", []string{"a", "b"})
		time.Sleep(time.Minute)
		if n := b.sources["files"].rescans.Load(); n != 2 {
			t.Errorf("after a set that could not be stored it was asked %d times in all, want 2", n)
		}
		b.disk.SetFull(false)
		b.full("files", []string{"a", "b"})
		b.want("a", "b")
		if s := b.status("files"); s.Trouble != "" {
			t.Errorf("the trouble stands: %s", s.Trouble)
		}
		time.Sleep(time.Hour)
		if n := b.sources["files"].rescans.Load(); n != 2 {
			t.Error("a source without trouble is asked again")
		}
	}, "files")
}

func TestTroubleIsToldOnceAndEnds(t *testing.T) {
	inBubble(t, func(b *bench) {
		b.full("files", []string{"a"})
		for range 3 {
			b.tell("files", func(in source.Inlet) error { in.Trouble(errors.New("connection refused")); return nil })
		}
		if s := b.status("files"); s.Trouble != "connection refused" || s.Up || s.TroubleAt.IsZero() {
			t.Errorf("the status is %+v", s)
		}
		if n := b.logged("connection refused"); n != 1 {
			t.Errorf("it is logged %d times, want once", n)
		}
		b.tell("files", func(in source.Inlet) error { in.Trouble(nil); return nil })
		if s := b.status("files"); s.Trouble != "" || !s.Up {
			t.Errorf("the status is %+v", s)
		}
	}, "files")
}

func TestWhatIsKeptIsToldUntilItIsTakenBack(t *testing.T) {
	inBubble(t, func(b *bench) {
		b.full("files", []string{"a"})
		keep := func(k source.Kept) {
			b.tell("files", func(in source.Inlet) error { in.Keep([]source.Kept{k}); return nil })
		}
		keep(source.Kept{Key: web("a"), Place: "a.yaml:1", Err: errors.New("bad")})
		keep(source.Kept{Place: "b.yaml", Err: errors.New("worse")})
		if s := b.status("files"); s.Kept != 2 || s.Problems[0].Place != "a.yaml:1" || s.Problems[1].Message != "worse" {
			t.Errorf("the problems are %+v", s.Problems)
		}
		keep(source.Kept{Key: web("a")})
		keep(source.Kept{Place: "b.yaml"})
		if s := b.status("files"); s.Kept != 0 {
			t.Errorf("the problems are %+v", s.Problems)
		}
	}, "files")
}

func TestAPolicyOfTheSourceStandsBehindTheItems(t *testing.T) {
	inBubble(t, func(b *bench) {
		b.m.Close()
		b.opts.Sources[0].Deletion = record.Retain
		b.m = source.New(b.opts)
		b.m.Start()
		b.tell("files", func(in source.Inlet) error {
			own := item("own")
			own.Deletion = record.DeleteTarget
			return in.Full(b.t.Context(), func(yield func(source.Item, error) bool) { _ = yield(own, nil) && yield(item("plain"), nil) }, nil)
		})
		b.want("own", "plain")
		b.remove("files", "own", "plain")
		b.want("plain") // which is retained
		if b.owner("plain") != "gone" || b.owner("own") != "gone" {
			t.Error("they are not deleted")
		}
	}, "files")
}

func TestRescanAsksTheSourceThatRuns(t *testing.T) {
	inBubble(t, func(b *bench) {
		if err := b.m.Rescan("files"); err != nil || b.sources["files"].rescans.Load() != 1 {
			t.Errorf("%v, asked %d times", err, b.sources["files"].rescans.Load())
		}
		for name, want := range map[string]error{"nosuch": source.ErrUnknown, "edges": source.ErrDeclares} {
			if err := b.m.Rescan(name); !errors.Is(err, want) {
				t.Errorf("of %s: %v, want %v", name, err, want)
			}
		}
		b.tell("files", func(source.Inlet) error { return errors.New("broken") })
		if err := b.m.Rescan("files"); !errors.Is(err, source.ErrNotRunning) {
			t.Errorf("of a source that is between two runs: %v", err)
		}
	}, "files")
}

func TestASetThatTheEnginesEndCutsShortIsAnError(t *testing.T) {
	inBubble(t, func(b *bench) {
		b.full("files", names("a", 3))
		var err error
		b.tell("files", func(in source.Inlet) error {
			ctx, cancel := context.WithCancel(b.t.Context())
			cancel()
			err = in.Full(ctx, each([]string{"a000"}), nil)
			return nil
		})
		if !errors.Is(err, context.Canceled) {
			t.Errorf("%v, want the error of ctx", err)
		}
		b.want(names("a", 3)...)
	}, "files")
}
