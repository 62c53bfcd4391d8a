package source_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/pawlsync/pawl/internal/source"
)

func TestAHandoverAsksForAFullSetAndForgetsWhatWasRefusedForTheOldOwner(t *testing.T) {
	inBubble(t, func(b *bench) {
		for _, name := range []string{"old", "new", "third"} {
			b.full(name, []string{"a", "b"})
		}
		if s := b.status("third"); s.Kept != 2 || b.status("new").Kept != 2 {
			t.Fatalf("the status is %+v", s)
		}
		if n, err := b.m.HandOver(b.t.Context(), "old", "new", "web", "a"); n != 1 || err != nil {
			t.Fatalf("%d, %v", n, err)
		}
		for _, name := range []string{"new", "third"} {
			if s := b.status(name); s.Kept != 1 || b.sources[name].rescans.Load() != 1 {
				t.Errorf("of %s %d are refused still, and it was asked %d times", name, s.Kept, b.sources[name].rescans.Load())
			}
		}
		if n := b.sources["old"].rescans.Load(); n != 0 {
			t.Errorf("the old owner was asked %d times", n)
		}
	}, "old", "new", "third")
}

func TestAHandoverToTheSameNameIsRefused(t *testing.T) {
	inBubble(t, func(b *bench) {
		all := names("a", 50)
		b.full("files", all)
		b.full("files", all[:20])
		if _, err := b.m.HandOver(b.t.Context(), "files", "files", "", ""); !errors.Is(err, source.ErrSame) {
			t.Errorf("got %v", err)
		}
		if s := b.status("files"); s.Held != 30 || !s.Blown {
			t.Errorf("the status is %+v", s)
		}
	}, "files")
}

func TestNamesThatAreNoSourceSayWhatTheyAre(t *testing.T) {
	inBubble(t, func(b *bench) {
		b.full("files", []string{"a"})
		b.close()
		b.opts.Sources = b.opts.Sources[1:] // files left the configuration
		b.open()
		for name, want := range map[string]error{"files": source.ErrNotConfigured, "edges": source.ErrDeclares, "nosuch": source.ErrUnknown} {
			_, err := b.m.Confirm(b.t.Context(), name, "")
			if rescan := b.m.Rescan(name); !errors.Is(err, want) || !errors.Is(rescan, want) {
				t.Errorf("%s: %v and %v, want %v", name, err, rescan, want)
			}
			if name == "edges" && !strings.Contains(err.Error(), "edges declares senders edge-*, hub") {
				t.Errorf("%v does not say who may send", err)
			}
		}
	}, "files")
}

func TestASenderStartsUntilItIsHeardOf(t *testing.T) {
	inBubble(t, func(b *bench) {
		one := sender(b, "edge-1")
		send(b, one, "a")
		b.reopen()
		if s := b.status("edge-1"); !s.Starting || !s.ContactAt.IsZero() {
			t.Errorf("before it was heard of: %+v", s)
		}
		time.Sleep(time.Hour)
		sender(b, "edge-1").Heard()
		if s := b.status("edge-1"); s.Starting || !s.ContactAt.Equal(time.Now()) {
			t.Errorf("when it was heard of: %+v", s)
		}
	})
}

func TestASetThatIsNotSweptNamesThePlace(t *testing.T) {
	inBubble(t, func(b *bench) {
		b.full("files", []string{"a", "b"})
		b.full("files", []string{"a"}, source.Kept{Place: "cut.json:2", Err: errors.New("cut off")})
		b.want("a", "b")
		if s := b.status("files"); s.Unswept != "cut.json:2" {
			t.Errorf("the status is %+v", s)
		}
		b.full("files", []string{"a"})
		b.want("a")
		if s := b.status("files"); s.Unswept != "" {
			t.Errorf("the status is %+v", s)
		}
	}, "files")
}
