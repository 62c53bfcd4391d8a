package statesync

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/util/workqueue"

	"github.com/pawlsync/pawl/engine"
	"github.com/pawlsync/pawl/engine/record"
	"github.com/pawlsync/pawl/internal/source/kube/feed"
	"github.com/pawlsync/pawl/kube/v1alpha1"
)

// entry is what is known of one StateSync.
type entry struct {
	sync *v1alpha1.StateSync // newest seen; not changed once it is here
	key  record.Key
	ref  *ref // where its payload is; nil: in itself

	answered int64 // its generation that the engine last answered; 0: none yet
	refusal  error // that answer; nil: it was stored
	accepted int64 // its newest generation that was stored; 0: none

	settled bool  // its deletion was told
	fused   error // why the deletion is held

	written stored // what was written last
}

func (e *entry) id() string { return e.sync.Namespace + "/" + e.sync.Name }

func (e *entry) deleting() bool { return e.sync.DeletionTimestamp != nil }

func (e *entry) guarded() bool { return slices.Contains(e.sync.Finalizers, v1alpha1.Finalizer) }

// book has what is known of all StateSyncs.
type book struct {
	o      *Options
	engine Engine
	shelf  *feed.Shelf
	queue  workqueue.TypedRateLimitingInterface[string] // of ids, for the desk
	refs   *refs

	mu      sync.Mutex // comes before those of refs and shelf
	entries map[string]*entry
	byKey   map[record.Key]map[string]bool
	byRef   map[ref]map[string]bool
}

func newBook(o *Options, e Engine, shelf *feed.Shelf, queue workqueue.TypedRateLimitingInterface[string]) *book {
	return &book{o: o, engine: e, shelf: shelf, queue: queue, entries: map[string]*entry{},
		byKey: map[record.Key]map[string]bool{}, byRef: map[ref]map[string]bool{}}
}

// read makes a StateSync out of what the API server sent.
func read(obj *unstructured.Unstructured) (*v1alpha1.StateSync, error) {
	ss := &v1alpha1.StateSync{}
	err := runtime.DefaultUnstructuredConverter.FromUnstructured(obj.Object, ss)
	return ss, err
}

// replace takes in all StateSyncs of a part; mine tells which entries are of it.
func (b *book) replace(part string, objs []*unstructured.Unstructured, mine func(id string) bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	there := make(map[string]bool, len(objs))
	for _, obj := range objs {
		there[idOf(obj)] = true
		b.take(obj)
	}
	for id := range b.entries {
		if !there[id] && mine(id) {
			b.remove(id)
		}
	}
	b.shelf.Ready(part)
	b.shelf.Full()
}

func (b *book) changed(obj *unstructured.Unstructured) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.take(obj)
}

func (b *book) gone(id string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.remove(id)
}

// take takes in one StateSync. b.mu is held.
func (b *book) take(obj *unstructured.Unstructured) {
	id := idOf(obj)
	ss, err := read(obj)
	if err != nil { // the CRD lets nothing pass that can't be read, but one of a later version may
		b.o.Logger.Error("a StateSync can't be read; its resource stays as it is", "source", b.o.Name, "statesync", id, "cause", err)
		b.shelf.Set(id, feed.Entry{Item: itemAt(record.Key{}, id), Err: fmt.Errorf("it can't be read: %w", err)})
		return
	}
	e := b.entries[id]
	if e != nil && e.sync.UID != ss.UID { // deleted and made anew between two looks
		b.remove(id)
		e = nil
	}
	if e == nil {
		e = &entry{key: keyOf(ss)}
		b.entries[id] = e
		add(b.byKey, e.key, id)
	}
	was := e.sync
	e.sync = ss
	b.link(e)
	switch {
	case e.deleting() && (was == nil || was.DeletionTimestamp == nil):
		b.shelf.Drop(id)
		b.shelf.Touch(e.key)
	case e.deleting():
	case was != nil && was.Generation == ss.Generation && entryGuarded(was) == e.guarded():
		// Metadata or status: nothing else is wanted.
	default:
		b.put(e)
	}
	b.queue.Add(id)
}

func entryGuarded(ss *v1alpha1.StateSync) bool {
	return slices.Contains(ss.Finalizers, v1alpha1.Finalizer)
}

// remove forgets a StateSync that is no more. What it had put is deleted, if that is
// still to do: somebody has taken the finalizer away. b.mu is held.
func (b *book) remove(id string) {
	b.shelf.Drop(id)
	e := b.entries[id]
	if e == nil {
		return
	}
	delete(b.entries, id)
	drop(b.byKey, e.key, id)
	b.unlink(e)
}

// link follows where e's payload is. b.mu is held.
func (b *book) link(e *entry) {
	r := refOf(e.sync)
	if e.deleting() {
		r = nil
	}
	if r != nil && e.ref != nil && *r == *e.ref {
		return
	}
	old := e.ref
	if e.ref = r; r != nil {
		add(b.byRef, *r, e.id())
		b.refs.use(r.place)
	}
	if old != nil {
		drop(b.byRef, *old, e.id())
		b.refs.release(old.place)
	}
}

func (b *book) unlink(e *entry) {
	if e.ref != nil {
		drop(b.byRef, *e.ref, e.id())
		b.refs.release(e.ref.place)
		e.ref = nil
	}
}

// put puts on the shelf what e wants. b.mu is held.
func (b *book) put(e *entry) {
	if !e.guarded() {
		// The desk sets the finalizer first. What is on the shelf already stays there;
		// what an earlier run has put must not be swept meanwhile.
		if _, err := b.engine.Get(context.Background(), e.key); err == nil && e.accepted == 0 {
			b.shelf.Set(e.id(), feed.Entry{Item: itemAt(e.key, e.id()), Err: errNoFinalizer, Rank: rank(e.sync)})
		}
		return
	}
	id, uid, generation := e.id(), e.sync.UID, e.sync.Generation
	out := feed.Entry{Rank: rank(e.sync)}
	out.Item, out.Err = b.item(e)
	out.Item.Answer = func(err error) { b.answered(id, string(uid), generation, err) }
	b.shelf.Set(id, out)
}

// errNoFinalizer: a StateSync without the finalizer is not put, since its deletion
// would not be seen.
var errNoFinalizer = errors.New("its finalizer " + v1alpha1.Finalizer + " is still to be set")

// answered notes what became of what a StateSync asked for.
func (b *book) answered(id, uid string, generation int64, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	e := b.entries[id]
	if e == nil || string(e.sync.UID) != uid || generation < e.answered {
		return
	}
	e.answered, e.refusal = generation, err
	if err == nil {
		e.accepted = generation
	}
	b.queue.Add(id)
}

// settled notes that what changed of a key was told.
func (b *book) settled(key record.Key, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for id := range b.byKey[key] {
		if e := b.entries[id]; e.deleting() {
			e.settled, e.fused = true, err
			b.queue.Add(id)
		}
	}
}

// changedRef puts again what is taken from a ConfigMap or Secret that changed; name
// "" is all of a place.
func (b *book) changedRef(place refPlace, name string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for r, ids := range b.byRef {
		if r.place != place || name != "" && r.name != name {
			continue
		}
		for id := range ids {
			b.put(b.entries[id])
		}
	}
}

// get returns a copy of what is known of a StateSync, and whether another one, that is
// not being deleted, asks for its key.
func (b *book) get(id string) (e entry, claimed, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	known := b.entries[id]
	if known == nil {
		return entry{}, false, false
	}
	for other := range b.byKey[known.key] {
		claimed = claimed || other != id && !b.entries[other].deleting()
	}
	return *known, claimed, true
}

// wrote notes what was written of a StateSync's status.
func (b *book) wrote(id string, w stored) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if e := b.entries[id]; e != nil {
		e.written = w
	}
}

// calm is how long a change of a resource waits for the next one before it is
// written: most Puts are acked by then, and cost one write instead of two.
const calm = 100 * time.Millisecond

// follow queues the StateSyncs whose resources change, until ctx ends.
func (b *book) follow(ctx context.Context, token string) {
	for ctx.Err() == nil {
		for ev, err := range b.engine.Watch(ctx, engine.WatchOptions{From: token}) {
			if err != nil {
				if errors.Is(err, engine.ErrClosed) {
					return
				}
				break // it fell behind
			}
			b.queueKey(ev.Resource.Key)
		}
		token = ""
		if page, err := b.engine.List(ctx, engine.ListOptions{Limit: 1}); err == nil {
			token = page.Token
		}
		b.queueAll()
	}
}

func (b *book) queueKey(key record.Key) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for id := range b.byKey[key] {
		b.queue.AddAfter(id, calm)
	}
}

func (b *book) queueAll() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for id := range b.entries {
		b.queue.Add(id)
	}
}

// add and drop keep an index.
func add[K comparable](index map[K]map[string]bool, key K, id string) {
	if index[key] == nil {
		index[key] = map[string]bool{}
	}
	index[key][id] = true
}

func drop[K comparable](index map[K]map[string]bool, key K, id string) {
	if delete(index[key], id); len(index[key]) == 0 {
		delete(index, key)
	}
}
