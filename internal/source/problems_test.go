package source_test

import (
	"errors"
	"iter"
	"strings"
	"testing"

	"github.com/pawlsync/pawl/internal/source"
)

func TestOfOneKeyAtManyPlacesEachPlaceIsTold(t *testing.T) {
	inBubble(t, func(b *bench) {
		places := func(all ...string) iter.Seq2[source.Item, error] {
			return func(yield func(source.Item, error) bool) {
				for _, at := range all {
					it := item("a")
					if it.Place = at; !yield(it, nil) {
						return
					}
				}
			}
		}
		says := func(what string, want ...string) {
			b.t.Helper()
			s := b.status("files")
			if len(s.Problems) != 1 || s.Problems[0].Place != want[0] {
				b.t.Fatalf("%s: %+v, want one problem, at %s", what, s.Problems, want[0])
			}
			for _, w := range want[1:] {
				if !strings.Contains(s.Problems[0].Message, w) {
					b.t.Errorf("%s: it says %q, and not %q", what, s.Problems[0].Message, w)
				}
			}
		}
		for range 2 { // and no more of them the next time
			b.tell("files", func(in source.Inlet) error {
				return in.Full(b.t.Context(), places("a.yaml:1", "b.yaml:1", "c.yaml:1"), nil)
			})
			says("two that are too many", "b.yaml:1", "web/a is at a.yaml:1 already", "; c.yaml:1: web/a is at a.yaml:1 already")
		}
		if n := b.logged("can't be taken"); n != 1 {
			b.t.Errorf("logged %d times, want once:\n%s", n, b.log.String())
		}
		kept := func() []source.Kept {
			return []source.Kept{{Key: web("a"), Place: "c.yaml:1", Err: errors.New("it is bad")}}
		}
		b.tell("files", func(in source.Inlet) error { return in.Full(b.t.Context(), places("a.yaml:1", "b.yaml:1"), kept) })
		says("one too many, and a bad one", "b.yaml:1", "web/a is at a.yaml:1 already", "; c.yaml:1: it is bad")
		b.tell("files", func(in source.Inlet) error { return in.Full(b.t.Context(), places("a.yaml:1"), nil) })
		if s := b.status("files"); len(s.Problems) != 0 {
			b.t.Errorf("there is one place, and told is %+v", s.Problems)
		}
	}, "files")
}
