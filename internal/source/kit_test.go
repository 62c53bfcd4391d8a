package source_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawlsync/pawl/engine"
	"github.com/pawlsync/pawl/engine/outbox"
	"github.com/pawlsync/pawl/engine/outbox/memory"
	"github.com/pawlsync/pawl/engine/record"
	"github.com/pawlsync/pawl/engine/sink"
	"github.com/pawlsync/pawl/internal/bubble"
	"github.com/pawlsync/pawl/internal/source"
)

// scripted is a source that says what its test tells it to.
type scripted struct {
	orders  chan func(source.Inlet) error
	began   atomic.Int32
	rescans atomic.Int32
}

func newScripted() *scripted { return &scripted{orders: make(chan func(source.Inlet) error)} }

func (s *scripted) Run(ctx context.Context, in source.Inlet) error {
	s.began.Add(1)
	for {
		select {
		case order := <-s.orders:
			if err := order(in); err != nil {
				return err
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (s *scripted) Rescan() { s.rescans.Add(1) }

// target takes everything and remembers it.
type target struct {
	mu      sync.Mutex
	objects map[string]string
	deletes []string
}

func (g *target) Manifest() sink.Manifest {
	return sink.Manifest{Name: "fake", Version: "1", Target: "t1", Observes: true, Deletes: true, ApplyConfirms: true, ApplyIdempotent: true}
}
func (g *target) Close(context.Context) error { return nil }

func (g *target) Observe(_ context.Context, r *sink.Request) sink.Result {
	g.mu.Lock()
	defer g.mu.Unlock()
	got, ok := g.objects[r.Key.Name]
	if !ok {
		return sink.Result{Status: sink.NotFound}
	}
	return sink.Result{Status: sink.OK, Observation: &sink.Observation{Exists: true, AsFound: got, MatchDesired: sink.TriOf(got == string(r.Payload))}}
}

func (g *target) Apply(_ context.Context, r *sink.Request) sink.Result {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.objects[r.Key.Name] = string(r.Payload)
	return sink.Result{Status: sink.OK, Observation: &sink.Observation{Exists: true, AsFound: string(r.Payload)}}
}

func (g *target) Delete(_ context.Context, r *sink.Request) sink.Result {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.objects, r.Key.Name)
	g.deletes = append(g.deletes, r.Key.Name)
	return sink.Result{Status: sink.OK}
}

func (g *target) names() []string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.Sorted(maps.Keys(g.objects))
}

// bench is an engine with a manager of sources on it, in a bubble of its own time.
type bench struct {
	t       *testing.T
	disk    *memory.Disk
	store   *memory.Store
	target  *target
	engine  *engine.Engine
	opts    source.Options
	m       *source.Manager
	sources map[string]*scripted
	log     *bytes.Buffer
	counts  counts
	tweak   func(*engine.Options)
}

// counts is a source.Observer.
type counts struct {
	mu sync.Mutex
	n  map[string]int
}

func (c *counts) SourceChanged(name, kind, result string, n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.n[name+" "+kind+" "+result] += n
}

func (c *counts) of(what string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.n[what]
}

var usual = source.FuseOptions{Window: time.Hour, Share: 0.2, AtLeast: 2}

// inBubble runs test with sources of those names, and a pawl source edges.
func inBubble(t *testing.T, test func(b *bench), names ...string) {
	t.Helper()
	bubble.Test(t, func(t *testing.T) {
		b := &bench{t: t, disk: memory.NewDisk(), target: &target{objects: map[string]string{}}, sources: map[string]*scripted{},
			log: &bytes.Buffer{}, counts: counts{n: map[string]int{}}}
		b.configure(names...)
		b.open()
		defer b.close()
		test(b)
	})
}

func (b *bench) configure(names ...string) {
	b.opts = source.Options{Logger: slog.New(slog.NewTextHandler(b.log, nil)), Observer: &b.counts, GroupMax: 7, Seed: 1}
	for _, name := range names {
		if b.sources[name] == nil {
			b.sources[name] = newScripted()
		}
		b.opts.Sources = append(b.opts.Sources, source.Spec{Name: name, Kind: "dir", Source: b.sources[name], Fuse: usual})
	}
	b.opts.Sources = append(b.opts.Sources, source.Spec{Name: "edges", Kind: "pawl", Senders: []string{"edge-*", "hub"}, Sinks: []string{"web"}, Fuse: usual})
}

func (b *bench) open() {
	b.t.Helper()
	o := engine.Options{
		Sinks: []engine.SinkOptions{{Name: "web", Sink: b.target, DriftInterval: -1}},
		Seed:  1,
		Store: func(o outbox.Observer) (outbox.Store, error) {
			s, err := memory.Open(b.disk, memory.Options{Observer: o})
			b.store = s
			return s, err
		},
	}
	if b.tweak != nil {
		b.tweak(&o)
	}
	e, err := engine.Open(b.t.Context(), o)
	if err != nil {
		b.t.Fatal(err)
	}
	b.engine = e
	b.opts.Engine = e
	b.m = source.New(b.opts)
	b.m.Start()
	synctest.Wait()
}

func (b *bench) close() {
	b.m.Close()
	if err := b.engine.Close(context.Background()); err != nil {
		b.t.Errorf("close: %v", err)
	}
}

func (b *bench) reopen() {
	b.t.Helper()
	b.close()
	b.open()
}

// tell makes a source do something, and waits until it has.
func (b *bench) tell(name string, order func(source.Inlet) error) {
	b.t.Helper()
	done := make(chan struct{})
	b.sources[name].orders <- func(in source.Inlet) error {
		defer close(done)
		return order(in)
	}
	<-done
	synctest.Wait()
}

func web(name string) record.Key { return record.Key{Sink: "web", Name: name} }

func keysOf(names []string) (keys []record.Key) {
	for _, n := range names {
		keys = append(keys, web(n))
	}
	return keys
}

func item(name string) source.Item {
	return source.Item{Key: web(name), Payload: []byte(`"` + name + `"`), Place: name + ".yaml:1"}
}

// names returns n names: a0, a1, …
func names(prefix string, n int) []string {
	out := make([]string, n)
	for i := range out {
		out[i] = fmt.Sprintf("%s%03d", prefix, i)
	}
	return out
}

func each(names []string) iter.Seq2[source.Item, error] {
	return func(yield func(source.Item, error) bool) {
		for _, n := range names {
			if !yield(item(n), nil) {
				return
			}
		}
	}
}

// full tells a full set of those names.
func (b *bench) full(name string, items []string, kept ...source.Kept) {
	b.t.Helper()
	b.tell(name, func(in source.Inlet) error {
		return in.Full(b.t.Context(), each(items), func() []source.Kept { return kept })
	})
}

func (b *bench) put(name string, items ...string) (errs []error) {
	b.t.Helper()
	b.tell(name, func(in source.Inlet) error {
		var list []source.Item
		for _, n := range items {
			list = append(list, item(n))
		}
		errs = in.Put(b.t.Context(), list)
		return nil
	})
	return errs
}

func (b *bench) remove(name string, items ...string) (errs []error) {
	b.t.Helper()
	b.tell(name, func(in source.Inlet) error {
		errs = in.Delete(b.t.Context(), keysOf(items))
		return nil
	})
	return errs
}

// want checks what is at the target once everything is delivered.
func (b *bench) want(items ...string) {
	b.t.Helper()
	time.Sleep(time.Second)
	synctest.Wait()
	slices.Sort(items)
	if got := b.target.names(); !slices.Equal(got, items) {
		b.t.Errorf("at the target are %v, want %v", got, items)
	}
}

func (b *bench) status(name string) source.Status {
	b.t.Helper()
	s, err := b.m.Status(b.t.Context(), name, 100)
	if err != nil {
		b.t.Fatal(err)
	}
	return s
}

func (b *bench) owner(name string) string {
	b.t.Helper()
	r, err := b.engine.Get(b.t.Context(), web(name))
	if errors.Is(err, engine.ErrNotFound) {
		return "gone"
	}
	if err != nil {
		b.t.Fatal(err)
	}
	return r.Desired.Owner
}

// confirm confirms what is held.
func (b *bench) confirm(name string) int {
	b.t.Helper()
	h, err := b.m.Held(name, nil, 10)
	if err != nil {
		b.t.Fatal(err)
	}
	n, err := b.m.Confirm(b.t.Context(), name, h.Digest)
	if err != nil {
		b.t.Fatal(err)
	}
	return n
}

func (b *bench) logged(text string) int { return strings.Count(b.log.String(), text) }

func without(list []string, gone ...string) []string {
	return slices.DeleteFunc(slices.Clone(list), func(s string) bool { return slices.Contains(gone, s) })
}
