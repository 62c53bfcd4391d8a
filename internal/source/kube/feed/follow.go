package feed

import (
	"context"
	"fmt"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
)

// Selection says which objects to follow.
type Selection struct {
	Resource  schema.GroupVersionResource
	Namespace string // "": all
	Labels    string // a label selector; "": all
	Fields    string // a field selector; "": all
}

// String names the objects for people: "configmaps in namespace app".
func (s Selection) String() string {
	if s.Namespace == "" {
		return s.Resource.Resource + " in all namespaces"
	}
	return s.Resource.Resource + " in namespace " + s.Namespace
}

// Handler is told of objects, by one goroutine at a time. They are its own then.
type Handler interface {
	// Replace gives all that there are. It comes first, and again whenever the server
	// no longer knows what has changed since (410).
	Replace(objs []*unstructured.Unstructured)
	Changed(obj *unstructured.Unstructured)
	Gone(obj *unstructured.Unstructured)
	// Trouble tells why objects can't be read at the moment; nil: they can.
	Trouble(err error)
}

// Follow tells h of objects until ctx ends. What it can't read it tries again, with
// growing pauses; bookmarks keep its place, so that it seldom has to list again.
func (c *Cluster) Follow(ctx context.Context, s Selection, h Handler) {
	client := c.dynamic.Resource(s.Resource).Namespace(s.Namespace)
	doing := "reading " + s.String()
	note := func(err error) {
		switch {
		case ctx.Err() != nil:
		case err == nil:
			h.Trouble(nil)
		case !apierrors.IsResourceExpired(err) && !apierrors.IsGone(err): // it lists again, that's all
			h.Trouble(Explain(err, doing))
		}
	}
	lw := &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			o.LabelSelector, o.FieldSelector = s.Labels, s.Fields
			if o.Continue == "" {
				// The newest there is: a server's cache that lags behind would lack objects,
				// which would look as if they had been deleted.
				o.ResourceVersion, o.ResourceVersionMatch = "", ""
			}
			list, err := client.List(ctx, o)
			note(err)
			return list, err
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			o.LabelSelector, o.FieldSelector = s.Labels, s.Fields
			w, err := client.Watch(ctx, o)
			note(err)
			return w, err
		},
	}
	silent := logr.Discard() // Handler.Trouble tells it
	r := cache.NewReflectorWithOptions(cache.ToListWatcherWithWatchListSemantics(lw, c.dynamic), nil, &objects{h},
		cache.ReflectorOptions{Name: s.String(), TypeDescription: s.Resource.Resource, Logger: &silent})
	r.RunWithContext(klog.NewContext(ctx, silent))
}

// objects is the Handler as a reflector's store.
type objects struct{ h Handler }

func (o *objects) Add(obj any) error    { return o.each(obj, o.h.Changed) }
func (o *objects) Update(obj any) error { return o.each(obj, o.h.Changed) }
func (o *objects) Delete(obj any) error { return o.each(obj, o.h.Gone) }
func (o *objects) Resync() error        { return nil }

func (o *objects) Replace(list []any, _ string) error {
	objs := make([]*unstructured.Unstructured, len(list))
	for i, item := range list {
		obj, ok := item.(*unstructured.Unstructured)
		if !ok {
			return fmt.Errorf("a list holds a %T", item)
		}
		objs[i] = obj
	}
	o.h.Replace(objs)
	return nil
}

func (o *objects) each(item any, do func(*unstructured.Unstructured)) error {
	obj, ok := item.(*unstructured.Unstructured)
	if !ok {
		return fmt.Errorf("an event is of a %T", item)
	}
	do(obj)
	return nil
}
