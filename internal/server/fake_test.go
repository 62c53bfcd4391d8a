package server

import (
	"context"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/pawlsync/pawl/engine"
	"github.com/pawlsync/pawl/engine/record"
)

// fake is an engine whose faults tests choose. It keeps what is put, and acks
// nothing.
type fake struct {
	mu        sync.Mutex
	revision  uint64
	resources map[record.Key]engine.Resource
	log       []engine.Event
	changed   chan struct{} // closed and replaced at each change

	err      error // what every operation answers
	batchErr error // what PutBatch as a whole answers
	watchErr error // what a watch ends with, after what is in the log
	puts     []engine.Put
	deletes  []engine.Delete
	batches  []int // sizes
	orders   []string
	listed   engine.ListOptions  // of the newest list
	watched  engine.WatchOptions // of the newest watch
	sinks    []engine.SinkStatus
	stats    engine.Stats
	wait     func(ctx context.Context, key record.Key, generation uint64) (engine.WaitResult, error)
	watchers int
	preview  func(context.Context, engine.Question) (engine.Preview, error)

	beforePut func(context.Context)
	holdWatch chan struct{} // a watch whose context ended does not return before it is closed
}

func newFake() *fake {
	return &fake{
		resources: map[record.Key]engine.Resource{}, changed: make(chan struct{}),
		sinks: []engine.SinkStatus{{Name: "web", Configured: true}, {Name: "cluster", Configured: true}},
	}
}

func (f *fake) Put(ctx context.Context, p engine.Put) (engine.PutResult, error) {
	if f.beforePut != nil {
		f.beforePut(ctx)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.put(p)
}

func (f *fake) put(p engine.Put) (engine.PutResult, error) {
	if f.err != nil {
		return engine.PutResult{}, f.err
	}
	if !slices.ContainsFunc(f.sinks, func(s engine.SinkStatus) bool { return s.Name == p.Key.Sink && s.Configured }) {
		return engine.PutResult{}, &engine.Error{Op: "put", Key: p.Key, Err: engine.ErrUnknownSink}
	}
	if p.Key.Name == "refused" {
		return engine.PutResult{}, &engine.Error{Op: "put", Key: p.Key, Err: engine.ErrConflict, Hint: "get it again", Generation: 7}
	}
	f.puts = append(f.puts, p)
	f.revision++
	r := engine.Resource{
		Key:     p.Key,
		Desired: record.Desired{Generation: f.revision, Payload: p.Payload, Hash: record.HashOf(p.Payload), Owner: p.Owner, Order: p.Order},
		Status: record.Status{Phase: record.Pending, History: []record.Transition{
			{Phase: record.Pending, Generation: f.revision, Took: 1500 * time.Millisecond},
		}},
	}
	_, replaced := f.resources[p.Key]
	f.resources[p.Key] = r
	f.emit(engine.Event{Resource: r})
	return engine.PutResult{Generation: f.revision, Changed: true, Replaced: replaced}, nil
}

func (f *fake) emit(e engine.Event) {
	e.Token = token(f.revision)
	e.Resource.Desired.Payload = nil
	f.log = append(f.log, e)
	close(f.changed)
	f.changed = make(chan struct{})
}

// endWatches ends those under way.
func (f *fake) endWatches(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.watchErr = err
	close(f.changed)
	f.changed = make(chan struct{})
}

func token(revision uint64) string { return fmt.Sprintf("epoch.%d", revision) }

func (f *fake) PutBatch(_ context.Context, ps []engine.Put) ([]engine.BatchItem, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.batches = append(f.batches, len(ps))
	if f.batchErr != nil {
		return nil, f.batchErr
	}
	out := make([]engine.BatchItem, len(ps))
	for i, p := range ps {
		out[i].PutResult, out[i].Err = f.put(p)
	}
	return out, nil
}

func (f *fake) Delete(_ context.Context, d engine.Delete) (engine.PutResult, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.deletes = append(f.deletes, d)
	if f.err != nil {
		return engine.PutResult{}, f.err
	}
	f.revision++
	delete(f.resources, d.Key)
	f.emit(engine.Event{Resource: engine.Resource{Key: d.Key}, Removed: true})
	return engine.PutResult{Generation: f.revision, Changed: true}, nil
}

func (f *fake) Get(_ context.Context, key record.Key) (engine.Resource, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.err != nil {
		return engine.Resource{}, f.err
	}
	r, ok := f.resources[key]
	if !ok {
		return r, &engine.Error{Op: "get", Key: key, Err: engine.ErrNotFound}
	}
	return r, nil
}

func (f *fake) List(_ context.Context, o engine.ListOptions) (engine.Page, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.listed = o
	p := engine.Page{Token: token(f.revision)}
	for _, k := range slices.SortedFunc(maps.Keys(f.resources), record.Key.Compare) {
		r := f.resources[k]
		switch {
		case o.Sink != "" && k.Sink != o.Sink, !strings.HasPrefix(k.Name, o.Prefix), k.String() <= o.Page,
			len(o.Phases) > 0 && !slices.Contains(o.Phases, r.Status.Phase):
			continue
		case len(p.Items) == o.Limit:
			p.Next = p.Items[len(p.Items)-1].Key.String()
			return p, f.err
		}
		if !o.Payloads {
			r.Desired.Payload = nil
		}
		p.Items = append(p.Items, r)
	}
	return p, f.err
}

func (f *fake) Watch(ctx context.Context, o engine.WatchOptions) iter.Seq2[engine.Event, error] {
	return func(yield func(engine.Event, error) bool) {
		f.mu.Lock()
		f.watched = o
		f.mu.Unlock()
		after, err := strconv.ParseUint(strings.TrimPrefix(o.From, "epoch."), 10, 64)
		if err != nil {
			yield(engine.Event{}, fmt.Errorf("%w: foreign token", engine.ErrWatchExpired))
			return
		}
		f.mu.Lock()
		f.watchers++
		f.mu.Unlock()
		defer func() { f.mu.Lock(); f.watchers--; f.mu.Unlock() }()
		for seen := 0; ; {
			f.mu.Lock()
			log, changed, end := f.log, f.changed, f.watchErr
			f.mu.Unlock()
			for _, e := range log[seen:] {
				if revision, _ := strconv.ParseUint(strings.TrimPrefix(e.Token, "epoch."), 10, 64); revision > after && !yield(e, nil) {
					return
				}
			}
			seen = len(log)
			if end != nil {
				yield(engine.Event{}, end)
				return
			}
			select {
			case <-changed:
			case <-ctx.Done():
				if f.holdWatch != nil {
					<-f.holdWatch
				}
				return
			}
		}
	}
}

func (f *fake) Wait(ctx context.Context, key record.Key, generation uint64) (engine.WaitResult, error) {
	if f.wait != nil {
		return f.wait(ctx, key, generation)
	}
	<-ctx.Done()
	return engine.WaitResult{}, ctx.Err()
}

func (f *fake) order(what string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.orders = append(f.orders, what)
	return f.err
}

func (f *fake) Retry(_ context.Context, k record.Key) error { return f.order("retry " + k.String()) }
func (f *fake) Suspend(_ context.Context, k record.Key) error {
	return f.order("suspend " + k.String())
}
func (f *fake) Resume(_ context.Context, k record.Key) error { return f.order("resume " + k.String()) }
func (f *fake) Accept(_ context.Context, k record.Key) error { return f.order("accept " + k.String()) }
func (f *fake) Forget(_ context.Context, k record.Key) error { return f.order("forget " + k.String()) }
func (f *fake) ApplyForce(_ context.Context, k record.Key) error {
	return f.order("force " + k.String())
}
func (f *fake) SuspendSink(_ context.Context, s string) error { return f.order("suspend " + s) }
func (f *fake) ResumeSink(_ context.Context, s string) error  { return f.order("resume " + s) }

func (f *fake) Preview(ctx context.Context, q engine.Question) (engine.Preview, error) {
	return f.preview(ctx, q)
}

func (f *fake) HeldBy(record.Key) string { return "" }

func (f *fake) Sinks() []engine.SinkStatus { return f.sinks }

func (f *fake) Stats() engine.Stats {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.stats
}
