package statesync

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/util/workqueue"

	"github.com/pawlsync/pawl/engine"
	"github.com/pawlsync/pawl/engine/record"
	"github.com/pawlsync/pawl/internal/source/kube/feed"
	"github.com/pawlsync/pawl/kube/v1alpha1"
)

// desk writes to the API server what is to write of each StateSync in the queue.
type desk struct {
	o      *Options
	engine Engine
	book   *book
	client dynamic.NamespaceableResourceInterface // of StateSyncs
	events dynamic.NamespaceableResourceInterface
}

// Pauses before one StateSync is tried again.
const (
	retryBase = 100 * time.Millisecond
	retryMax  = time.Minute
)

func newDeskQueue() workqueue.TypedRateLimitingInterface[string] {
	return workqueue.NewTypedRateLimitingQueue(workqueue.NewTypedItemExponentialFailureRateLimiter[string](retryBase, retryMax))
}

// writing is the part of the shelf's troubles that writes have.
const writing = "\x00writing"

// work does what is in the queue until it is shut down.
func (d *desk) work(ctx context.Context) {
	for {
		id, down := d.book.queue.Get()
		if down {
			return
		}
		err := d.look(ctx, id)
		switch {
		case ctx.Err() != nil || errors.Is(err, engine.ErrClosed):
		case err == nil:
			d.book.queue.Forget(id)
		case apierrors.IsConflict(err): // the newer one is on its way here
			d.book.queue.AddRateLimited(id)
		case apierrors.IsNotFound(err): // gone: that is on its way too
			d.book.shelf.Trouble(writing, nil)
			d.book.queue.Forget(id)
		default:
			d.book.shelf.Trouble(writing, feed.Explain(err, "writing to StateSync "+id))
			d.book.queue.AddRateLimited(id)
		}
		d.book.queue.Done(id)
	}
}

// look does what is to do for one StateSync now.
func (d *desk) look(ctx context.Context, id string) error {
	e, claimed, ok := d.book.get(id)
	switch {
	case !ok:
		return nil
	case e.deleting() && !e.guarded():
		return nil // others hold it
	case !e.deleting() && !e.guarded():
		return d.guard(ctx, &e)
	}
	res, err := d.resource(ctx, &e)
	if err != nil {
		return err
	}
	if e.deleting() {
		if !e.settled {
			return nil
		}
		free, err := d.free(ctx, &e, res, claimed)
		if err != nil {
			return err
		}
		if free {
			return d.release(ctx, &e)
		}
	}
	if e.answered == 0 && !e.deleting() {
		return nil // nothing is known yet
	}
	return d.write(ctx, &e, res)
}

// resource returns what a StateSync is of; nil where there is none of this source's.
func (d *desk) resource(ctx context.Context, e *entry) (*engine.Resource, error) {
	res, err := d.engine.Get(ctx, e.key)
	switch {
	case errors.Is(err, engine.ErrNotFound), errors.Is(err, engine.ErrInvalid):
		return nil, nil
	case err != nil:
		return nil, err
	case res.Desired.Owner != d.o.Name:
		return nil, nil
	}
	return &res, nil
}

// free reports whether nothing is owed to the target any more.
func (d *desk) free(ctx context.Context, e *entry, res *engine.Resource, claimed bool) (bool, error) {
	if res == nil || claimed { // deleted, another source's, or another StateSync's by now
		return true, nil
	}
	if e.sync.Spec.DeletionPolicy != v1alpha1.Retain {
		return false, nil
	}
	if res.Desired.Deletion != record.Retain {
		// It became Retain after the deletion was told. The target's object stays then,
		// so that this is none of the deletions that the fuse counts.
		_, err := d.engine.Delete(ctx, engine.Delete{Key: e.key, Owner: d.o.Name, Deletion: record.Retain})
		if err != nil && !errors.Is(err, engine.ErrNotFound) {
			return false, err
		}
	}
	return true, nil
}

// guard sets the finalizer.
func (d *desk) guard(ctx context.Context, e *entry) error {
	return d.finalizers(ctx, e, append(slices.Clone(e.sync.Finalizers), v1alpha1.Finalizer))
}

// release takes the finalizer away.
func (d *desk) release(ctx context.Context, e *entry) error {
	err := d.finalizers(ctx, e, slices.DeleteFunc(slices.Clone(e.sync.Finalizers), func(f string) bool { return f == v1alpha1.Finalizer }))
	if err == nil {
		d.o.Logger.Debug("a StateSync is let go", "source", d.o.Name, "statesync", e.id())
	}
	return err
}

// finalizers writes the list of finalizers, unless the StateSync has changed meanwhile.
func (d *desk) finalizers(ctx context.Context, e *entry, list []string) error {
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"uid": e.sync.UID, "resourceVersion": e.sync.ResourceVersion, "finalizers": list,
	}})
	if err != nil {
		return err
	}
	_, err = d.client.Namespace(e.sync.Namespace).Patch(ctx, e.sync.Name, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: manager})
	return d.done(err)
}

// manager is what the API server calls the writer of these fields.
const manager = "pawl"

// done takes the trouble back when a write went well.
func (d *desk) done(err error) error {
	if err == nil {
		d.book.shelf.Trouble(writing, nil)
	}
	return err
}

// stored is a status that was written, and what the API server made of it: an older
// CRD lacks some of its fields.
type stored struct{ sent, kept string }

// write writes the status where it is another than that which is there.
func (d *desk) write(ctx context.Context, e *entry, res *engine.Resource) error {
	status := statusOf(e, res, d.o.Show, time.Now())
	was, sent := text(e.sync.Status), text(status)
	if sent == was || sent == e.written.sent && was == e.written.kept {
		return nil
	}
	next := e.sync.DeepCopy()
	next.Status = status
	next.APIVersion, next.Kind = v1alpha1.GroupVersion.String(), "StateSync"
	object, err := runtime.DefaultUnstructuredConverter.ToUnstructured(next)
	if err != nil {
		return err
	}
	got, err := d.client.Namespace(next.Namespace).UpdateStatus(ctx, &unstructured.Unstructured{Object: object}, metav1.UpdateOptions{FieldManager: manager})
	if d.done(err) != nil {
		return err
	}
	back, err := read(got)
	if err != nil {
		return fmt.Errorf("its status can't be read back: %w", err)
	}
	d.book.wrote(e.id(), stored{sent, text(back.Status)})
	return d.tell(ctx, e, &status)
}

// text makes a status comparable.
func text(s v1alpha1.StateSyncStatus) string {
	b, err := json.Marshal(s)
	if err != nil {
		return "" // it has no value that JSON lacks
	}
	return string(b)
}
