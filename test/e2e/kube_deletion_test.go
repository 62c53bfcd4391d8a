package e2e

import (
	"strings"
	"testing"

	"github.com/pawlsync/pawl/engine"
	"github.com/pawlsync/pawl/engine/record"
)

func (c *cluster) deletions(t *testing.T) {
	c.namespace(t, "deletions")
	r := c.rig(t, `{}`, engine.SinkOptions{})
	const key = "v1/ConfigMap/deletions/d"
	path := configMapPath("deletions", "d")
	manifest := configMap("deletions", "d", `{"a":"1"}`)
	for _, p := range []struct {
		policy record.DeletionPolicy
		stays  bool
	}{{record.DeleteTarget, false}, {record.AckThenDelete, false}, {record.Retain, true}} {
		r.acked(t, key, manifest)
		r.deleted(t, key, p.policy)
		if c.exists(t, path) != p.stays {
			t.Errorf("%s: the object stays: %v", p.policy, !p.stays)
		}
	}
	// Somebody was quicker.
	r.acked(t, key, manifest)
	c.remove(t, path)
	r.deleted(t, key, "")

	// Somebody was quicker, and made another object of that name: it is not ours.
	r.acked(t, key, manifest)
	c.remove(t, path)
	c.create(t, "/api/v1/namespaces/deletions/configmaps", configMap("deletions", "d", `{"theirs":"1"}`))
	r.deleted(t, key, "")
	if !c.exists(t, path) {
		t.Error("somebody else's object was deleted")
	}

	// Nor is one that was there before, where nothing was ever applied.
	r.neverSent(t, "v1/ConfigMap/deletions/d")
	if !c.exists(t, path) {
		t.Error("an object that was never ours was deleted")
	}

	// What bears our mark is, though somebody made it anew.
	r.acked(t, key, manifest)
	c.remove(t, path)
	other := c.rig(t, `{}`, engine.SinkOptions{})
	other.acked(t, key, manifest)
	r.deleted(t, key, "")
	if c.exists(t, path) {
		t.Error("an object with our mark was left")
	}
}

// neverSent declares a resource while its sink is held, and deletes it before it was ever sent.
func (r *rig) neverSent(t *testing.T, key string) {
	t.Helper()
	if err := r.SuspendSink(t.Context(), zedSink); err != nil {
		t.Fatal(err)
	}
	r.put(t, key, configMap("deletions", "d", `{}`))
	res, err := r.Delete(t.Context(), engine.Delete{Key: zedKey(key)})
	if err != nil {
		t.Fatal(err)
	}
	if err := r.ResumeSink(t.Context(), zedSink); err != nil {
		t.Fatal(err)
	}
	if res := r.settle(t, key, res.Generation); !res.Gone {
		t.Errorf("%+v", res)
	}
}

func (c *cluster) finalizers(t *testing.T) {
	c.namespace(t, "finalizers")
	r := c.rig(t, `{}`, engine.SinkOptions{})
	const key = "v1/ConfigMap/finalizers/f"
	path := configMapPath("finalizers", "f")
	r.acked(t, key, configMap("finalizers", "f", `{"a":"1"}`))
	c.edit(t, path, `{"metadata":{"finalizers":["example.com/hold"]}}`)
	res, err := r.Delete(t.Context(), engine.Delete{Key: zedKey(key)})
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "the deletion is under way", func() bool {
		st := r.status(t, key)
		return st.Phase == record.Deleting && strings.Contains(st.Message, "example.com/hold")
	})
	if !c.exists(t, path) {
		t.Fatal("the finalizer did not hold")
	}
	c.edit(t, path, `{"metadata":{"finalizers":null}}`)
	if res := r.settle(t, key, res.Generation); !res.Gone {
		t.Errorf("%+v", res)
	}
}

// deletedByOthers is R36: nothing is applied to what is on its way out, and when
// it is gone the newest state follows.
func (c *cluster) deletedByOthers(t *testing.T) {
	c.namespace(t, "others")
	r := c.rig(t, `{}`, engine.SinkOptions{})
	const key = "v1/ConfigMap/others/o"
	path := configMapPath("others", "o")
	r.acked(t, key, configMap("others", "o", `{"a":"1"}`))
	uid := c.get(t, path).at("metadata", "uid")
	c.edit(t, path, `{"metadata":{"finalizers":["example.com/hold"]}}`)
	c.remove(t, path)
	generation := r.put(t, key, configMap("others", "o", `{"a":"2"}`))
	eventually(t, "it waits for the deletion", func() bool {
		st := r.status(t, key)
		return st.Phase == record.Pending && st.Reason == record.ReasonInProgress
	})
	c.edit(t, path, `{"metadata":{"finalizers":null}}`)
	if res := r.settle(t, key, generation); !res.Done {
		t.Fatalf("%+v", res)
	}
	if o := c.get(t, path); o.at("data", "a") != "2" || o.at("metadata", "uid") == uid {
		t.Errorf("it is %v", o)
	}
}

const widgetCRD = `{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"widgets.example.com"},
	"spec":{"group":"example.com","scope":"Namespaced","names":{"plural":"widgets","singular":"widget","kind":"Widget","listKind":"WidgetList"},
	"versions":[{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object","properties":{"spec":{"type":"object",
	"properties":{"size":{"type":"integer","minimum":1},"tags":{"type":"array","items":{"type":"string"}},
	"parts":{"type":"array","x-kubernetes-list-type":"map","x-kubernetes-list-map-keys":["id"],
	"items":{"type":"object","required":["id"],"properties":{"id":{"type":"string"},"n":{"type":"integer","default":7}}}}}}}}}}]}}`

func (c *cluster) kinds(t *testing.T) {
	c.namespace(t, "kinds")
	r := c.rig(t, `{}`, often)
	const key = "example.com/v1/Widget/kinds/w"
	const path = "/apis/example.com/v1/namespaces/kinds/widgets/w"
	generation := r.put(t, key, `{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"w","namespace":"kinds"},
		"spec":{"size":3,"tags":["a"],"parts":[{"id":"x"},{"id":"y","n":1}]}}`)
	eventually(t, "the kind is missed", func() bool {
		st := r.status(t, key)
		return st.Phase == record.Pending && st.Attempts == 0 && strings.Contains(st.Message, "no kind Widget in example.com/v1")
	})
	r.acked(t, "apiextensions.k8s.io/v1/CustomResourceDefinition//widgets.example.com", widgetCRD)
	if res := r.settle(t, key, generation); !res.Done {
		t.Fatalf("%+v", res)
	}
	version := c.get(t, path).version()
	r.seenBy(t, 4)
	if v := c.get(t, path).version(); v != version {
		t.Error("looking at a custom resource wrote")
	}
	c.edit(t, path, `{"spec":{"size":9}}`)
	eventually(t, "its drift is corrected", func() bool { return c.get(t, path).at("spec", "size") == 3.0 })

	// The group is retired, and its objects with it; while it is on its way out, and
	// when it is gone, what is desired of it waits, and returns when it does.
	const definition = "apiextensions.k8s.io/v1/CustomResourceDefinition//widgets.example.com"
	uid := c.get(t, path).at("metadata", "uid")
	c.edit(t, path, `{"metadata":{"finalizers":["example.com/hold"]}}`)
	retired, err := r.Delete(t.Context(), engine.Delete{Key: zedKey(definition)})
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "the object is on its way out", func() bool { return c.get(t, path).at("metadata", "deletionTimestamp") != nil })
	const lateKey = "example.com/v1/Widget/kinds/late"
	late := r.put(t, lateKey, `{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"late","namespace":"kinds"},"spec":{"size":1}}`)
	eventually(t, "the definition is on its way out", func() bool {
		st := r.status(t, lateKey)
		return st.Phase == record.Pending && st.Attempts == 0 && strings.Contains(st.Message, "is terminating")
	})
	c.edit(t, path, `{"metadata":{"finalizers":null}}`)
	if res := r.settle(t, definition, retired.Generation); !res.Gone {
		t.Fatalf("%+v", res)
	}
	eventually(t, "the kind is missed again", func() bool { return strings.Contains(r.status(t, lateKey).Message, "no kind Widget in example.com/v1") })
	r.acked(t, definition, widgetCRD)
	if res := r.settle(t, lateKey, late); !res.Done {
		t.Errorf("%+v", res)
	}
	eventually(t, "what went with its kind is made anew", func() bool {
		status, o := c.call(t, "GET", path, "", "")
		return status == 200 && o.at("metadata", "uid") != uid && o.at("spec", "size") == 3.0
	})
	r.deleted(t, definition, "")
	eventually(t, "the API forgets the group", func() bool {
		status, _ := c.call(t, "GET", "/apis/example.com/v1", "", "")
		return status == 404
	})
	// Without the kind there are no objects: the record goes.
	r.deleted(t, key, "")
}

func (c *cluster) namespaces(t *testing.T) {
	r := c.rig(t, `{}`, engine.SinkOptions{})
	const key = "v1/ConfigMap/later/l"
	generation := r.put(t, key, configMap("later", "l", `{"a":"1"}`))
	eventually(t, "the namespace is missed", func() bool {
		st := r.status(t, key)
		return st.Phase == record.Pending && strings.Contains(st.Message, "the namespace later of ConfigMap later/l does not exist")
	})
	r.acked(t, "v1/Namespace/later", `{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"later"}}`)
	if res := r.settle(t, key, generation); !res.Done {
		t.Fatalf("%+v", res)
	}
	// Nobody finishes deletions of namespaces here: it stays Terminating (R53).
	if _, err := r.Delete(t.Context(), engine.Delete{Key: zedKey("v1/Namespace/later")}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the namespace is being deleted", func() bool { return r.status(t, "v1/Namespace/later").Phase == record.Deleting })
	r.put(t, "v1/ConfigMap/later/m", configMap("later", "m", `{"a":"1"}`))
	eventually(t, "nothing new goes into it, for now", func() bool {
		st := r.status(t, "v1/ConfigMap/later/m")
		return st.Phase == record.Pending && strings.Contains(st.Message, "being terminated")
	})
}
