package engine_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/pawlsync/pawl/engine"
	"github.com/pawlsync/pawl/engine/record"
	"github.com/pawlsync/pawl/engine/sink"
)

// many puts n resources, named r0000 and so on, each of an owner.
func (b *bench) many(n int, owner func(i int) string) {
	b.t.Helper()
	puts := make([]engine.Put, n)
	for i := range puts {
		puts[i] = engine.Put{Key: web(fmt.Sprintf("r%04d", i)), Payload: []byte("1"), Owner: owner(i)}
	}
	items, err := b.PutBatch(b.t.Context(), puts)
	for _, item := range items {
		err = errors.Join(err, item.Err)
	}
	if err != nil {
		b.t.Fatal(err)
	}
}

// all reads a list to its end, and returns the names and how many pages that were.
func (b *bench) all(o engine.ListOptions) (names []string, pages int) {
	b.t.Helper()
	for {
		page, err := b.List(b.t.Context(), o)
		if err != nil {
			b.t.Fatal(err)
		}
		pages++
		if len(page.Items) > o.Limit {
			b.t.Fatalf("a page has %d of %d", len(page.Items), o.Limit)
		}
		for _, r := range page.Items {
			names = append(names, r.Key.Name)
		}
		if o.Page = page.Next; o.Page == "" {
			return names, pages
		}
	}
}

func nobody(int) string { return "" }

// Beyond the first 512 the schedule is asked, which must not show.
func TestAListFindsThePhaseThatFewHaveWhereverTheyStand(t *testing.T) {
	few := []string{"r0007", "r0511", "r0512", "r0513", "r5000", "r5999"}
	slow := []string{"r0100", "r5500"}
	inBubble(t, func(o *engine.Options) { o.Sinks[0].MaxInFlight = 10_000 }, func(b *bench) {
		b.target.answer = func(_ string, r *sink.Request) *sink.Result {
			if slices.Contains(slow, r.Key.Name) {
				time.Sleep(10 * time.Second)
			}
			if slices.Contains(few, r.Key.Name) {
				return &sink.Result{Status: sink.Rejected, Message: "no"}
			}
			return nil
		}
		b.many(6000, nobody)
		b.after(time.Second)
		for _, limit := range []int{1, 2, 5, 6, 100} {
			got, pages := b.all(engine.ListOptions{Phases: []record.Phase{record.Failed}, Limit: limit})
			if want := (len(few) + limit - 1) / limit; !slices.Equal(got, few) || pages != want {
				t.Errorf("in pages of %d: %v on %d pages, want %v on %d", limit, got, pages, few, want)
			}
		}
		if got, _ := b.all(engine.ListOptions{Phases: []record.Phase{record.Failed}, Prefix: "r5", Limit: 9}); !slices.Equal(got, few[4:]) {
			t.Errorf("below r5: %v", got)
		}
		if got, _ := b.all(engine.ListOptions{Phases: []record.Phase{record.Delivering}, Limit: 9}); !slices.Equal(got, slow) {
			t.Errorf("being delivered: %v, want %v", got, slow)
		}
		b.after(time.Minute)
		if got, _ := b.all(engine.ListOptions{Phases: []record.Phase{record.Delivering}, Limit: 9}); len(got) > 0 {
			t.Errorf("being delivered, after all have been: %v", got)
		}
	})
}

func TestAListByOwnerIsWholeAlthoughOneAnswerLooksAtSomeOnly(t *testing.T) {
	inBubble(t, nil, func(b *bench) {
		b.many(6000, func(i int) string { return map[bool]string{true: "few", false: "most"}[i%2999 == 1] })
		few, most := "few", "most"
		if got, _ := b.all(engine.ListOptions{Owner: &few, Limit: 100}); !slices.Equal(got, []string{"r0001", "r3000", "r5999"}) {
			t.Errorf("got %v", got)
		}
		if got, pages := b.all(engine.ListOptions{Owner: &most, Limit: 1000}); len(got) != 5997 || pages < 6 {
			t.Errorf("most are %d, on %d pages", len(got), pages)
		}
		if got, _ := b.all(engine.ListOptions{Owner: new(string), Limit: 100}); len(got) != 0 {
			t.Errorf("nobody's are %v", got)
		}
		page, err := b.List(b.t.Context(), engine.ListOptions{Owner: new(string)})
		if err != nil || page.Next == "" || len(page.Items) > 0 {
			t.Errorf("one answer read all: %v, %v", page, err)
		}
	})
}

func TestAPrefixIsFoundInEverySink(t *testing.T) {
	inBubble(t, func(o *engine.Options) {
		o.Sinks = append(o.Sinks, engine.SinkOptions{Name: "cluster", Sink: newTarget()}, engine.SinkOptions{Name: "other", Sink: newTarget()})
	}, func(b *bench) {
		for _, sink := range []string{"web", "cluster", "other"} {
			for _, name := range []string{"a", "p/1", "p/2", "q"} {
				if _, err := b.Put(b.t.Context(), engine.Put{Key: record.Key{Sink: sink, Name: name}, Payload: []byte("1")}); err != nil {
					b.t.Fatal(err)
				}
			}
		}
		for _, limit := range []int{1, 3, 10} {
			o, got := engine.ListOptions{Prefix: "p/", Limit: limit}, []string{}
			for more := true; more; more = o.Page != "" {
				page, err := b.List(b.t.Context(), o)
				if err != nil {
					b.t.Fatal(err)
				}
				for _, r := range page.Items {
					got = append(got, r.Key.String())
				}
				o.Page = page.Next
			}
			if want := []string{"cluster/p/1", "cluster/p/2", "other/p/1", "other/p/2", "web/p/1", "web/p/2"}; !slices.Equal(got, want) {
				t.Errorf("in pages of %d: %v, want %v", limit, got, want)
			}
		}
	})
}

func TestAWatchOfAPageSeesWhatStandsThereAndNothingElse(t *testing.T) {
	inBubble(t, nil, func(b *bench) {
		b.many(6, nobody)
		first, err := b.List(b.t.Context(), engine.ListOptions{Limit: 2})
		second, err2 := b.List(b.t.Context(), engine.ListOptions{Limit: 2, Page: first.Next})
		if err = errors.Join(err, err2); err != nil {
			t.Fatal(err)
		}
		from := second.Token
		for _, name := range []string{"r0001", "r0002", "r00025", "r0003", "r0004"} {
			b.put(name, "2")
		}
		b.settle()
		seen := map[string]bool{}
		over, cancel := context.WithCancel(b.t.Context())
		cancel() // what there is, and no waiting
		for e, err := range b.Watch(over, engine.WatchOptions{From: from, Page: first.Next, Next: second.Next}) {
			if err != nil {
				t.Fatal(err)
			}
			seen[e.Resource.Key.Name] = true
		}
		if len(seen) != 3 || !seen["r0002"] || !seen["r00025"] || !seen["r0003"] {
			t.Errorf("saw %v", seen)
		}
		for _, err := range b.Watch(b.t.Context(), engine.WatchOptions{Next: "rubbish!"}) {
			if !errors.Is(err, engine.ErrInvalid) {
				t.Errorf("rubbish: %v", err)
			}
		}
	})
}
