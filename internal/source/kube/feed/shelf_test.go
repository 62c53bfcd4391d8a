package feed

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/pawlsync/pawl/engine/record"
	"github.com/pawlsync/pawl/internal/bubble"
	"github.com/pawlsync/pawl/internal/source"
)

// scribe is an Inlet that writes down what it is told.
type scribe struct {
	mu    sync.Mutex
	lines []string
	put   func(source.Item) error
	gone  func(record.Key) error
	hold  chan struct{} // where set, Put waits for it
}

func (s *scribe) note(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lines = append(s.lines, fmt.Sprintf(format, args...))
}

// told returns what was told since it was last asked.
func (s *scribe) told() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := strings.Join(s.lines, "; ")
	s.lines = nil
	return out
}

func (s *scribe) Full(_ context.Context, items iter.Seq2[source.Item, error], kept func() []source.Kept) error {
	var list []string
	for it, err := range items {
		if err != nil {
			return err
		}
		list = append(list, it.Key.Name+"="+string(it.Payload))
		s.answer(it)
	}
	for _, k := range kept() {
		list = append(list, "kept "+k.Key.Name+"("+k.Err.Error()+")")
	}
	s.note("full %s", strings.Join(list, ","))
	return nil
}

func (s *scribe) answer(it source.Item) error {
	var err error
	if s.put != nil {
		err = s.put(it)
	}
	if it.Answer != nil {
		it.Answer(err)
	}
	return err
}

func (s *scribe) Put(_ context.Context, items []source.Item) []error {
	if s.hold != nil && len(items) > 0 {
		<-s.hold
	}
	errs := make([]error, len(items))
	for i, it := range items {
		s.note("put %s=%s", it.Key.Name, it.Payload)
		errs[i] = s.answer(it)
	}
	return errs
}

func (s *scribe) Keep(kept []source.Kept) {
	for _, k := range kept {
		s.note("keep %s(%v)", k.Key.Name, k.Err)
	}
}

// Delete would hold all of a change that is too much.
func (s *scribe) Delete(context.Context, []record.Key) []error { panic("events are not one change") }

func (s *scribe) DeleteEach(_ context.Context, keys []record.Key) []error {
	errs := make([]error, len(keys))
	for i, key := range keys {
		s.note("delete %s", key.Name)
		if s.gone != nil {
			errs[i] = s.gone(key)
		}
	}
	return errs
}

func (s *scribe) Trouble(err error) { s.note("trouble %v", err) }

func asks(key, payload string) Entry {
	return Entry{Item: source.Item{Key: record.Key{Sink: "web", Name: key}, Payload: []byte(payload), Place: "object of " + key}}
}

// play runs a shelf in a bubble; settle waits until all is told.
func play(t *testing.T, s *Shelf, in *scribe, script func(expect func(want string))) {
	bubble.Test(t, func(t *testing.T) {
		s.wake = make(chan struct{}, 1) // of this bubble
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- s.Run(ctx, in) }()
		script(func(want string) {
			t.Helper()
			synctest.Wait()
			if got := in.told(); got != want {
				t.Errorf("told %q, want %q", got, want)
			}
		})
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Errorf("Run ended with %v", err)
		}
	})
}

func TestAFullSetWaitsForAllItsParts(t *testing.T) {
	s := NewShelf("a", "b")
	play(t, s, &scribe{}, func(expect func(string)) {
		s.Replace("a", map[string]Entry{"a/x": asks("x", "1")}, func(string) bool { return false })
		s.Set("a/y", asks("y", "2"))
		expect("") // a change is not told before the set either
		s.Trouble("b", errors.New("no rights"))
		expect("trouble no rights")
		s.Replace("b", map[string]Entry{"b/z": asks("z", "3")}, func(string) bool { return false })
		s.Trouble("b", nil)
		expect("trouble <nil>; full x=1,y=2,z=3")
		s.Set("a/x", asks("x", "4"))
		expect("put x=4")
		s.Drop("a/y")
		expect("delete y")
	})
}

func TestAPartThatIsReadAgainDropsWhatVanished(t *testing.T) {
	s := NewShelf("a")
	play(t, s, &scribe{}, func(expect func(string)) {
		ofA := func(id string) bool { return strings.HasPrefix(id, "a/") }
		s.Replace("a", map[string]Entry{"a/x": asks("x", "1"), "a/y": asks("y", "2")}, ofA)
		expect("full x=1,y=2")
		s.Replace("a", map[string]Entry{"a/y": asks("y", "2")}, ofA)
		expect("full y=2")
	})
}

func TestChangesMeanwhileAreToldOnceInTheirNewestForm(t *testing.T) {
	in := &scribe{}
	s := NewShelf()
	play(t, s, in, func(expect func(string)) {
		expect("full ")
		in.hold = make(chan struct{})
		s.Set("x", asks("x", "0"))
		expect("") // the Inlet is busy
		for i := range 100 {
			s.Set("x", asks("x", fmt.Sprint(i+1)))
		}
		close(in.hold)
		expect("put x=0; put x=100")
		s.Set("x", asks("x", "100"))
		expect("") // nothing has changed
	})
}

func TestOfTwoObjectsTheOlderHasTheKey(t *testing.T) {
	s := NewShelf()
	in := &scribe{}
	older, younger := asks("k", "older"), asks("k", "younger")
	older.Rank, younger.Rank = "1", "2"
	older.Item.Place, younger.Item.Place = "the older", "the younger"
	var answer error
	younger.Item.Answer = func(err error) { answer = err }
	play(t, s, in, func(expect func(string)) {
		expect("full ")
		s.Set("b", younger)
		expect("put k=younger")
		s.Set("a", older)
		expect("put k=older; keep k(its key is another's: the older has web/k; give this one another key, or delete one of them)")
		if !errors.Is(answer, ErrTaken) {
			t.Errorf("the younger is told %v", answer)
		}
		s.Full()
		expect("full k=older,kept k(its key is another's: the older has web/k; give this one another key, or delete one of them)")
		s.Drop("a")
		expect("put k=younger") // the key goes on without a deletion
		if answer != nil {
			t.Errorf("the younger is told %v", answer)
		}
	})
}

func TestWhatCanNotBePutIsKept(t *testing.T) {
	s := NewShelf()
	play(t, s, &scribe{}, func(expect func(string)) {
		bad := asks("k", "")
		bad.Err = errors.New("no data")
		s.Set("x", bad)
		expect("full kept k(no data)")
		s.Set("x", asks("k", "1"))
		expect("put k=1")
		unkeyed := Entry{Err: errors.New("no label")}
		s.Set("y", unkeyed)
		expect("keep (no label)")
		s.Drop("y") // a set without it can be swept again
		expect("full k=1")
	})
}

func TestAMovedKeyIsDeletedAndPut(t *testing.T) {
	in := &scribe{}
	s := NewShelf()
	play(t, s, in, func(expect func(string)) {
		s.Set("x", asks("k", "1"))
		expect("full k=1")
		s.Set("x", asks("other", "1"))
		expect("put other=1; delete k")
	})
}

func TestSettledIsCalledWhenADeletionIsTold(t *testing.T) {
	s := NewShelf()
	fused := fmt.Errorf("held: %w", source.ErrFused)
	in := &scribe{gone: func(record.Key) error { return fused }}
	var settled []string
	s.Settled = func(key record.Key, err error) { settled = append(settled, fmt.Sprint(key.Name, " ", err)) }
	play(t, s, in, func(expect func(string)) {
		s.Touch(record.Key{Sink: "web", Name: "unseen"}) // of an earlier run: the full set sweeps it
		s.Set("x", asks("k", "1"))
		expect("full k=1")
		if want := []string{"unseen <nil>", "k <nil>"}; !slices.Equal(settled, want) {
			t.Errorf("settled %v, want %v", settled, want)
		}
		settled = nil
		s.Drop("x")
		expect("delete k") // that the fuse holds it ends nothing
		if want := []string{"k " + fused.Error()}; !slices.Equal(settled, want) {
			t.Errorf("settled %v, want %v", settled, want)
		}
	})
}

func TestRunEndsWithAnErrorOfTheEngine(t *testing.T) {
	broken := errors.New("the disk is full")
	in := &scribe{gone: func(record.Key) error { return broken }}
	s := NewShelf()
	var once sync.Once
	s.Settled = func(record.Key, error) {
		once.Do(func() { go s.Drop("x") })
	}
	s.Set("x", asks("k", "1"))
	if err := s.Run(t.Context(), in); !errors.Is(err, broken) {
		t.Errorf("Run ended with %v", err)
	}
}
