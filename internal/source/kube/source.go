// Package kube is the source whose desired state is the objects of one kind in a
// Kubernetes cluster.
package kube

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/pawlsync/pawl/internal/source"
	"github.com/pawlsync/pawl/internal/source/kube/feed"
)

// Options say which objects become which resources.
type Options struct {
	Server     feed.Server
	APIVersion string   // as in manifests
	Kind       string   // as in manifests
	Namespaces []string // none: all
	Labels     string   // a label selector; "": all
	Fields     string   // a field selector; "": all
	Sink       string
	Key        string // a template; "": NAMESPACE/NAME, or NAME of what has no namespace
	Payload    string // a JSON pointer; "": the whole object, without what belongs to its cluster
}

// Source tells of the objects of one kind.
type Source struct {
	o       Options
	key     template // nil: by what the kind is
	cluster *feed.Cluster
	shelf   atomic.Pointer[feed.Shelf] // of the Run under way
}

// New checks o. It opens no connection.
//
// # Errors
//
// A selector, template or pointer that can't be read.
func New(o Options) (*Source, error) {
	s := &Source{o: o}
	var err error
	if s.key, err = parseTemplate(o.Key); err != nil {
		return nil, fmt.Errorf("key: %w", err)
	}
	if o.Payload != "" && !strings.HasPrefix(o.Payload, "/") {
		return nil, errors.New("payload is no JSON pointer; start it with /, as in /data")
	}
	if _, err := labels.Parse(o.Labels); err != nil {
		return nil, fmt.Errorf("label_selector: %w", err)
	}
	if _, err := fields.ParseSelector(o.Fields); err != nil {
		return nil, fmt.Errorf("field_selector: %w", err)
	}
	if s.cluster, err = feed.Connect(o.Server, 0); err != nil {
		return nil, err
	}
	return s, nil
}

// Rescan implements source.Source. The watch keeps the set current; it is told again.
func (s *Source) Rescan() {
	if shelf := s.shelf.Load(); shelf != nil {
		shelf.Full()
	}
}

// Run implements source.Source. It ends with an error where the cluster does not have
// the kind, or can't be asked.
func (s *Source) Run(ctx context.Context, in source.Inlet) error {
	kind, err := s.cluster.Find(ctx, s.o.APIVersion, s.o.Kind)
	if err != nil {
		return err
	}
	m := &mapping{sink: s.o.Sink, key: s.key, payload: s.o.Payload}
	if m.key == nil {
		m.key = defaultKey(kind.Namespaced)
	}
	namespaces := s.o.Namespaces
	switch {
	case len(namespaces) == 0:
		namespaces = []string{""}
	case !kind.Namespaced:
		return fmt.Errorf("objects of kind %s have no namespace: remove namespaces", s.o.Kind)
	}
	shelf := feed.NewShelf(namespaces...)
	s.shelf.Store(shelf)
	ctx, cancel := context.WithCancel(ctx)
	var follow sync.WaitGroup
	defer follow.Wait()
	defer cancel()
	for _, ns := range namespaces {
		sel := feed.Selection{Resource: kind.GroupVersionResource, Namespace: ns, Labels: s.o.Labels, Fields: s.o.Fields}
		follow.Go(func() { s.cluster.Follow(ctx, sel, &handler{ns, m, shelf}) })
	}
	return shelf.Run(ctx, in)
}

func defaultKey(namespaced bool) template {
	if namespaced {
		return template{{path: []string{"metadata", "namespace"}}, {literal: "/"}, {path: []string{"metadata", "name"}}}
	}
	return template{{path: []string{"metadata", "name"}}}
}

// handler puts the objects of a namespace on the shelf.
type handler struct {
	namespace string
	mapping   *mapping
	shelf     *feed.Shelf
}

func (h *handler) Replace(objs []*unstructured.Unstructured) {
	entries := make(map[string]feed.Entry, len(objs))
	for _, obj := range objs {
		entries[id(obj)] = h.mapping.entry(obj)
	}
	h.shelf.Replace(h.namespace, entries, func(id string) bool { return h.namespace == "" || strings.HasPrefix(id, h.namespace+"/") })
}

func (h *handler) Changed(obj *unstructured.Unstructured) { h.shelf.Set(id(obj), h.mapping.entry(obj)) }
func (h *handler) Gone(obj *unstructured.Unstructured)    { h.shelf.Drop(id(obj)) }
func (h *handler) Trouble(err error)                      { h.shelf.Trouble(h.namespace, err) }
