package source_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawlsync/pawl/engine"
	"github.com/pawlsync/pawl/internal/source"
)

// change makes the manager end some sources and begin others.
func (b *bench) change(end []string, begin ...source.Spec) {
	b.t.Helper()
	if err := b.m.Change(b.t.Context(), end, begin); err != nil {
		b.t.Fatal(err)
	}
	synctest.Wait()
}

// fresh is a source of that name that the test can tell what to do.
func (b *bench) fresh(name string) source.Spec {
	b.sources[name] = newScripted()
	return source.Spec{Name: name, Kind: "dir", Source: b.sources[name], Fuse: usual}
}

// has tells a full set.
func (b *bench) has(name string, keys ...string) {
	b.t.Helper()
	b.tell(name, func(in source.Inlet) error {
		return in.Full(b.t.Context(), func(yield func(source.Item, error) bool) {
			for _, k := range keys {
				if !yield(item(k), nil) {
					return
				}
			}
		}, nil)
	})
}

func TestASourceIsAddedWhileOthersGoOn(t *testing.T) {
	inBubble(t, func(b *bench) {
		b.has("files", "a")
		b.change(nil, b.fresh("more"))
		b.has("more", "b", "c")
		b.has("files", "a", "d")
		if got := b.target.names(); !slices.Equal(got, []string{"a", "b", "c", "d"}) {
			t.Errorf("the target has %q", got)
		}
		if n := b.sources["files"].began.Load(); n != 1 {
			t.Errorf("the other source was begun %d times", n)
		}
	}, "files")
}

func TestWhatAnEndedSourceOwnsStaysAndIsNobodysToDelete(t *testing.T) {
	inBubble(t, func(b *bench) {
		b.has("files", "a", "b")
		b.change([]string{"files"})
		time.Sleep(time.Hour)
		synctest.Wait()
		if got := b.target.names(); !slices.Equal(got, []string{"a", "b"}) {
			t.Errorf("the target has %q", got)
		}
		if n := b.sources["files"].began.Load(); n != 1 {
			t.Errorf("it was begun %d times", n)
		}
		list, err := b.m.List(b.t.Context())
		if i := slices.IndexFunc(list, func(s source.Status) bool { return s.Name == "files" }); err != nil || i < 0 || list[i].Configured || list[i].Resources != 2 {
			t.Errorf("listed as %+v, %v", list, err)
		}
	}, "files")
}

func TestASourceWithOtherSettingsSweepsWhatItOwned(t *testing.T) {
	inBubble(t, func(b *bench) {
		b.has("files", "a", "b", "c")
		b.change([]string{"files"}, b.fresh("files"))
		b.has("files", "a", "b")
		if got := b.target.names(); !slices.Equal(got, []string{"a", "b"}) {
			t.Errorf("the target has %q: what the set lacked is not known as the source's", got)
		}
		b.change([]string{"files"}, b.fresh("files"))
		b.has("files")
		if s, err := b.m.Status(b.t.Context(), "files", 0); err != nil || s.Held == 0 {
			t.Errorf("the fuse let an empty set go: %+v, %v", s, err)
		}
	}, "files")
}

func TestSendersFollowTheirSource(t *testing.T) {
	inBubble(t, func(b *bench) {
		old, err := b.m.Sender(b.t.Context(), "edge-1")
		b.must(err)
		put := func(s *source.Sender, name string) error {
			_, err := s.PutBatch(b.t.Context(), []engine.Put{{Key: web(name), Payload: []byte(`1`)}})
			return err
		}
		b.must(put(old, "a"))
		edges := source.Spec{Name: "edges", Kind: "pawl", Senders: []string{"edge-*"}, Sinks: []string{"other"}, Fuse: usual}
		b.change([]string{"edges"}, edges)
		if err := put(old, "b"); !errors.Is(err, engine.ErrClosed) {
			t.Errorf("a request that found the source as it was: %v", err)
		}
		if res := old.DeleteBatch(b.t.Context(), []engine.Delete{{Key: web("a")}}); !errors.Is(res[0].Err, engine.ErrClosed) {
			t.Errorf("and its deletion: %v", res[0].Err)
		}
		again, err := b.m.Sender(b.t.Context(), "edge-1")
		b.must(err)
		if got := again.Sinks(); !slices.Equal(got, []string{"other"}) {
			t.Errorf("it may send to %q", got)
		}
		if s, err := b.m.Status(b.t.Context(), "edge-1", 0); err != nil || s.Resources != 1 {
			t.Errorf("it owns %+v, %v", s, err)
		}
		if _, err := b.m.Sender(b.t.Context(), "hub"); !errors.Is(err, source.ErrUndeclared) {
			t.Errorf("a sender that is declared no more: %v", err)
		}
		b.change([]string{"edges"})
		if _, err := b.m.Sender(b.t.Context(), "edge-1"); !errors.Is(err, source.ErrUndeclared) {
			t.Errorf("a sender of no source: %v", err)
		}
	})
}

func TestAChangeWaitsUntilTheBooksAreRead(t *testing.T) {
	inBubble(t, func(b *bench) {
		m := source.New(b.opts) // never started
		ctx, cancel := context.WithTimeout(b.t.Context(), time.Minute)
		defer cancel()
		if err := m.Change(ctx, nil, []source.Spec{b.fresh("x")}); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v", err)
		}
		m.Close()
		if err := m.Change(b.t.Context(), nil, nil); !errors.Is(err, engine.ErrClosed) {
			t.Errorf("once closed: %v", err)
		}
	})
}

func TestAClosedManagerBeginsNothing(t *testing.T) {
	inBubble(t, func(b *bench) {
		b.has("files", "a")
		b.m.Close()
		for range 20 {
			if err := b.m.Change(b.t.Context(), []string{"files"}, nil); !errors.Is(err, engine.ErrClosed) {
				t.Errorf("a change that ends one: %v", err)
			}
		}
		if err := b.m.Change(b.t.Context(), nil, []source.Spec{b.fresh("late")}); !errors.Is(err, engine.ErrClosed) {
			t.Errorf("a change that begins one: %v", err)
		}
		synctest.Wait()
		if n := b.sources["late"].began.Load(); n != 0 {
			t.Errorf("a source was begun %d times", n)
		}
	}, "files")
}

func (b *bench) must(err error) {
	b.t.Helper()
	if err != nil {
		b.t.Fatal(err)
	}
}
