// Package statesync is the source whose desired state is the custom resources
// StateSync of a Kubernetes cluster. It writes back to them what becomes of it.
//
// What a StateSync asks for goes one way, what is known of its resource the other:
//
//	API server ─watch─▶ book ─▶ feed.Shelf ─▶ Inlet ─▶ engine
//	API server ◀─writes─ desk ◀─queue─ engine.Watch, answers of the Inlet
//
// The book has what is known of every StateSync. The desk takes one after the other
// from its queue, and does what is to do for it now: set the finalizer, write the
// status, let it go. Nothing but the newest state counts, so that however much
// happens while a StateSync waits in the queue, it is written once.
package statesync

import (
	"context"
	"encoding/json"
	"iter"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/pawlsync/pawl/engine"
	"github.com/pawlsync/pawl/engine/record"
	"github.com/pawlsync/pawl/internal/source"
	"github.com/pawlsync/pawl/internal/source/kube/feed"
	"github.com/pawlsync/pawl/kube/v1alpha1"
)

// Engine is what the source needs of *engine.Engine to tell StateSyncs what became of
// them. What is wanted goes through the Inlet.
type Engine interface {
	Get(ctx context.Context, key record.Key) (engine.Resource, error)
	List(ctx context.Context, o engine.ListOptions) (engine.Page, error)
	Watch(ctx context.Context, o engine.WatchOptions) iter.Seq2[engine.Event, error]
	Delete(ctx context.Context, del engine.Delete) (engine.PutResult, error)
}

// Options say which StateSyncs, and for what.
type Options struct {
	Name   string // the source's
	Server feed.Server
	// Engine returns the engine; it is called when the source runs.
	Engine     func() Engine
	Namespaces []string // none: all
	Sinks      []string // that a StateSync may name; none: all
	// WritesPerSecond bounds the requests that change StateSyncs, and the events.
	// Defaults to 100.
	WritesPerSecond float64
	// Show makes what a sink's target has fit to be seen by who may read StateSyncs; nil:
	// nothing of it may. Defaults to showing nothing.
	Show func(sink string, content []byte) json.RawMessage
	// Logger is told of what can't be said in a StateSync. Defaults to nowhere.
	Logger *slog.Logger
}

// Source tells of StateSyncs.
type Source struct {
	o     Options
	read  *feed.Cluster
	write *feed.Cluster
	shelf atomic.Pointer[feed.Shelf] // of the Run under way
}

// New makes the source. It opens no connection.
func New(o Options) (*Source, error) {
	if o.WritesPerSecond == 0 {
		o.WritesPerSecond = 100
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Show == nil {
		o.Show = func(string, []byte) json.RawMessage { return nil }
	}
	if len(o.Namespaces) == 0 {
		o.Namespaces = []string{""}
	}
	s := &Source{o: o}
	var err error
	if s.read, err = feed.Connect(o.Server, 0); err != nil {
		return nil, err
	}
	s.write, err = feed.Connect(o.Server, o.WritesPerSecond)
	return s, err
}

// Rescan implements source.Source. The watch keeps the set current; it is told again.
func (s *Source) Rescan() {
	if shelf := s.shelf.Load(); shelf != nil {
		shelf.Full()
	}
}

// workers write at the same time, within Options.WritesPerSecond.
const workers = 16

// Run implements source.Source.
func (s *Source) Run(ctx context.Context, in source.Inlet) error {
	// The token is taken first, so that no change of what the set puts is missed.
	running := s.o.Engine()
	page, err := running.List(ctx, engine.ListOptions{Limit: 1})
	if err != nil {
		return err
	}
	shelf := feed.NewShelf(s.o.Namespaces...)
	s.shelf.Store(shelf)
	var tasks sync.WaitGroup
	defer tasks.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	b := newBook(&s.o, running, shelf, newDeskQueue())
	b.refs = newRefs(ctx, s.read, shelf, &tasks, b.changedRef)
	shelf.Settled = b.settled
	kind := v1alpha1.GroupVersion.WithResource(v1alpha1.Resource)
	d := &desk{o: &s.o, engine: running, book: b, client: s.write.Resource(kind), events: s.write.Resource(eventsResource)}
	for range workers {
		tasks.Go(func() { d.work(ctx) })
	}
	tasks.Go(func() { b.follow(ctx, page.Token) })
	for _, ns := range s.o.Namespaces {
		sel := feed.Selection{Resource: kind, Namespace: ns}
		tasks.Go(func() { s.read.Follow(ctx, sel, &handler{ns, b}) })
	}
	defer b.queue.ShutDown()
	return shelf.Run(ctx, in)
}

// handler writes the StateSyncs of a namespace into the book.
type handler struct {
	namespace string // "": all
	book      *book
}

func (h *handler) Replace(objs []*unstructured.Unstructured) {
	h.book.replace(h.namespace, objs, func(id string) bool {
		return h.namespace == "" || strings.HasPrefix(id, h.namespace+"/")
	})
}

func (h *handler) Changed(obj *unstructured.Unstructured) { h.book.changed(obj) }
func (h *handler) Gone(obj *unstructured.Unstructured)    { h.book.gone(idOf(obj)) }
func (h *handler) Trouble(err error)                      { h.book.shelf.Trouble(h.namespace, err) }

func idOf(obj *unstructured.Unstructured) string { return obj.GetNamespace() + "/" + obj.GetName() }
