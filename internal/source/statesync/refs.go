package statesync

import (
	"context"
	"encoding/base64"
	"fmt"
	"sync"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/pawlsync/pawl/internal/source/kube/feed"
	"github.com/pawlsync/pawl/kube/v1alpha1"
)

// refPlace is where payloads are taken from: all ConfigMaps, or all Secrets, of a
// namespace.
type refPlace struct{ kind, namespace string }

// The kinds of places.
const (
	configMaps = "ConfigMap"
	secrets    = "Secret"
)

func (p refPlace) resource() schema.GroupVersionResource {
	if p.kind == secrets {
		return schema.GroupVersionResource{Version: "v1", Resource: "secrets"}
	}
	return schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}
}

// ref names one payload.
type ref struct {
	place     refPlace
	name, key string
}

// refOf is where the payload of a StateSync is; nil: in itself.
func refOf(ss *v1alpha1.StateSync) *ref {
	from := ss.Spec.PayloadFrom
	switch {
	case from == nil:
		return nil
	case from.ConfigMapKeyRef != nil:
		return &ref{refPlace{configMaps, ss.Namespace}, from.ConfigMapKeyRef.Name, from.ConfigMapKeyRef.Key}
	case from.SecretKeyRef != nil:
		return &ref{refPlace{secrets, ss.Namespace}, from.SecretKeyRef.Name, from.SecretKeyRef.Key}
	}
	return nil
}

// refs follows the places that StateSyncs take payloads from, each as long as one
// does, so that rights are needed only where they are used.
type refs struct {
	ctx     context.Context
	cluster *feed.Cluster
	shelf   *feed.Shelf
	running *sync.WaitGroup
	changed func(place refPlace, name string) // called without mu

	mu     sync.Mutex
	places map[refPlace]*place
}

// place is one that is followed. Its methods are its feed.Handler.
type place struct {
	refs *refs
	at   refPlace

	users   int
	cancel  context.CancelFunc
	objects map[string]map[string]any // data by name; nil: not read yet
	trouble error
}

func newRefs(ctx context.Context, c *feed.Cluster, shelf *feed.Shelf, running *sync.WaitGroup, changed func(refPlace, string)) *refs {
	return &refs{ctx: ctx, cluster: c, shelf: shelf, running: running, changed: changed, places: map[refPlace]*place{}}
}

// part is the shelf's name of a place: a full set waits until it is read, or can't be.
func (p refPlace) part() string { return p.kind + " " + p.namespace }

// use begins to follow a place, for one StateSync more.
func (r *refs) use(at refPlace) {
	r.mu.Lock()
	defer r.mu.Unlock()
	p := r.places[at]
	if p == nil {
		p = &place{refs: r, at: at}
		r.places[at] = p
		r.shelf.Expect(at.part())
		var ctx context.Context
		ctx, p.cancel = context.WithCancel(r.ctx)
		r.running.Go(func() { r.cluster.Follow(ctx, feed.Selection{Resource: at.resource(), Namespace: at.namespace}, p) })
	}
	p.users++
}

// release ends it when nobody uses the place any more.
func (r *refs) release(at refPlace) {
	r.mu.Lock()
	defer r.mu.Unlock()
	p := r.places[at]
	if p.users--; p.users == 0 {
		p.cancel()
		delete(r.places, at)
		r.shelf.Forget(at.part())
	}
}

// payload returns what a ref names.
func (r *refs) payload(f ref) ([]byte, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	p := r.places[f.place]
	what := f.place.kind + " " + f.place.namespace + "/" + f.name
	switch {
	case p.objects == nil && p.trouble != nil:
		return nil, &refusedError{"PayloadUnreadable", fmt.Sprintf("its payload is in %s: %v", what, p.trouble)}
	case p.objects == nil:
		return nil, &refusedError{"PayloadUnreadable", "its payload is in " + what + ", which is still to be read"}
	}
	data, there := p.objects[f.name]
	if !there {
		return nil, &refusedError{"PayloadNotFound", "its payload is in " + what + ", which does not exist"}
	}
	payload, there, err := valueOf(f.place.kind, data, f.key)
	switch {
	case err != nil:
		return nil, &refusedError{"PayloadUnreadable", fmt.Sprintf("its payload, the entry %q of %s, is no base64", f.key, what)}
	case !there:
		return nil, &refusedError{"PayloadNotFound", fmt.Sprintf("%s has no entry %q", what, f.key)}
	}
	return payload, nil
}

// valueOf returns an entry of a ConfigMap or Secret.
func valueOf(kind string, object map[string]any, key string) (value []byte, there bool, err error) {
	data, _ := object["data"].(map[string]any)
	text, there := data[key].(string)
	if there && kind == configMaps {
		return []byte(text), true, nil
	}
	if !there {
		binary, _ := object["binaryData"].(map[string]any)
		if text, there = binary[key].(string); !there {
			return nil, false, nil
		}
	}
	value, err = base64.StdEncoding.DecodeString(text)
	return value, true, err
}

// dataOf is what is kept of an object.
func dataOf(obj *unstructured.Unstructured) map[string]any {
	return map[string]any{"data": obj.Object["data"], "binaryData": obj.Object["binaryData"]}
}

// Replace implements feed.Handler.
func (p *place) Replace(objs []*unstructured.Unstructured) {
	objects := make(map[string]map[string]any, len(objs))
	for _, obj := range objs {
		objects[obj.GetName()] = dataOf(obj)
	}
	p.change("", func() { p.objects, p.trouble = objects, nil })
	p.refs.shelf.Ready(p.at.part())
}

// Changed implements feed.Handler.
func (p *place) Changed(obj *unstructured.Unstructured) {
	p.change(obj.GetName(), func() { p.objects[obj.GetName()] = dataOf(obj) })
}

// Gone implements feed.Handler.
func (p *place) Gone(obj *unstructured.Unstructured) {
	p.change(obj.GetName(), func() { delete(p.objects, obj.GetName()) })
}

// Trouble implements feed.Handler.
func (p *place) Trouble(err error) {
	p.refs.mu.Lock()
	p.trouble = err
	unread, current := p.objects == nil, p.refs.places[p.at] == p
	p.refs.mu.Unlock()
	if !current {
		return
	}
	p.refs.shelf.Trouble(p.at.part(), err)
	if err != nil && unread { // the StateSyncs that need nothing of it must not wait
		p.refs.changed(p.at, "")
		p.refs.shelf.Ready(p.at.part())
	}
}

// change changes what is known of a place, and tells it.
func (p *place) change(name string, do func()) {
	p.refs.mu.Lock()
	do()
	current := p.refs.places[p.at] == p
	p.refs.mu.Unlock()
	if current {
		p.refs.changed(p.at, name)
	}
}
