package kube

import (
	"encoding/json"
	"fmt"
	"maps"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/pawlsync/pawl/engine/record"
	"github.com/pawlsync/pawl/internal/source/kube/feed"
)

// mapping makes resources out of objects.
type mapping struct {
	sink    string
	key     template
	payload string // a JSON pointer; "": the whole object
}

// entry is what an object asks for.
//
// It has no order (R08): a set is read from what the server has committed last, and
// its events come in order, so that nothing is overtaken. And an object that was
// brought back from a backup has a smaller generation, though it is what is wanted.
func (m *mapping) entry(obj *unstructured.Unstructured) feed.Entry {
	e := feed.Entry{Rank: rank(obj)}
	e.Item.Place = place(obj)
	name, err := m.key.fill(obj.Object)
	if err != nil {
		e.Err = fmt.Errorf("the key can't be made: %w; correct the object, or select only those that have it", err)
		return e
	}
	key := record.Key{Sink: m.sink, Name: name}
	if err := key.Validate(); err != nil {
		e.Err = fmt.Errorf("the key can't be made: %w", err)
		return e
	}
	e.Item.Key = key
	if m.payload == "" {
		e.Item.Payload, e.Err = json.Marshal(manifest(obj.Object))
	} else if e.Item.Payload, err = pointed(obj.Object, m.payload); err != nil {
		e.Err = fmt.Errorf("the payload can't be taken: %w", err)
	}
	return e
}

// rank puts the older object first.
func rank(obj *unstructured.Unstructured) string {
	return obj.GetCreationTimestamp().UTC().Format("20060102150405") + " " + id(obj)
}

// id names an object within its kind.
func id(obj *unstructured.Unstructured) string { return obj.GetNamespace() + "/" + obj.GetName() }

// place reads "ConfigMap app/settings".
func place(obj *unstructured.Unstructured) string {
	if obj.GetNamespace() == "" {
		return obj.GetKind() + " " + obj.GetName()
	}
	return obj.GetKind() + " " + id(obj)
}

// ofServer are fields of metadata that belong to the cluster where the object is.
var ofServer = []string{"uid", "resourceVersion", "generation", "creationTimestamp", "deletionTimestamp",
	"deletionGracePeriodSeconds", "selfLink", "managedFields", "ownerReferences", "finalizers"}

// lastApplied is where kubectl keeps what it applied: the same once more.
const lastApplied = "kubectl.kubernetes.io/last-applied-configuration"

// manifest is an object as its author wrote it, as far as that shows.
func manifest(object map[string]any) map[string]any {
	out := maps.Clone(object)
	delete(out, "status")
	metadata, _ := out["metadata"].(map[string]any)
	metadata = maps.Clone(metadata)
	for _, name := range ofServer {
		delete(metadata, name)
	}
	if notes, ok := metadata["annotations"].(map[string]any); ok && notes[lastApplied] != nil {
		notes = maps.Clone(notes)
		if delete(notes, lastApplied); len(notes) == 0 {
			delete(metadata, "annotations")
		} else {
			metadata["annotations"] = notes
		}
	}
	out["metadata"] = metadata
	return out
}
