package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pawlsync/pawl/engine"
	"github.com/pawlsync/pawl/engine/outbox"
	"github.com/pawlsync/pawl/engine/outbox/memory"
	"github.com/pawlsync/pawl/engine/record"
	"github.com/pawlsync/pawl/engine/saga"
	"github.com/pawlsync/pawl/engine/sink"
)

// settled is what of an object an undo is to bring back, who owns what included.
func (o object) settled(t *testing.T) string {
	t.Helper()
	metadata := o["metadata"].(map[string]any)
	for _, changes := range []string{"resourceVersion", "generation"} {
		delete(metadata, changes)
	}
	owners, _ := metadata["managedFields"].([]any)
	for _, e := range owners {
		delete(e.(map[string]any), "time")
	}
	slices.SortFunc(owners, func(a, b any) int { return strings.Compare(fmt.Sprint(a), fmt.Sprint(b)) })
	text, err := json.MarshalIndent(o, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

const sagaDeployment = `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"web","namespace":"saga-undo","labels":{"tier":"front"%s}},
	"spec":{"replicas":%d,"selector":{"matchLabels":{"app":"web"}},"template":{"metadata":{"labels":{"app":"web"}},"spec":{"containers":[
	{"name":"app","image":"%s","resources":{"requests":{"cpu":"1000m"}},"ports":[{"containerPort":80}],"args":["a","b"]%s}%s]}}}}`

// sagaUndo: fields, labels and items are as before, and whose they were.
func (c *cluster) sagaUndo(t *testing.T) {
	c.namespace(t, "saga-undo")
	s := c.connect(t, "test", `{}`)
	const key, path = "apps/v1/Deployment/saga-undo/web", "/apis/apps/v1/namespaces/saga-undo/deployments/web"
	old := fmt.Sprintf(sagaDeployment, `,"old":"x"`, 2, "one", `,"env":[{"name":"A","value":"1"},{"name":"B","value":"2"}]`, `,{"name":"gone","image":"x"}`)
	next := fmt.Sprintf(sagaDeployment, `,"new":"y"`, 5, "two", `,"env":[{"name":"A","value":"9"},{"name":"C","value":"3"}]`, `,{"name":"added","image":"y","ports":[{"containerPort":90}]}`)
	by := map[string]func(){
		"us": func() {
			req := &sink.Request{Key: zedKey(key), Payload: []byte(old), Conflict: record.SourceWins}
			if res := s.Apply(t.Context(), req); res.Status != sink.OK {
				t.Fatal(res.Message)
			}
		},
		"another apply": func() {
			c.must(t, http.MethodPatch, path+"?fieldManager=argo", "application/apply-patch+yaml", old)
		},
		"somebody's create": func() { c.create(t, "/apis/apps/v1/namespaces/saga-undo/deployments?fieldManager=kubectl-create", old) },
	}
	others := func() { // have fields of their own in it
		c.must(t, http.MethodPatch, path+"?fieldManager=injector", "application/strategic-merge-patch+json",
			`{"metadata":{"annotations":{"theirs":"z"}},"spec":{"template":{"spec":{"containers":[{"name":"app","env":[{"name":"D","value":"4"}]}]}}}}`)
		c.must(t, http.MethodPatch, path+"?fieldManager=scaler", "application/merge-patch+json", `{"spec":{"replicas":3}}`) // of which the step leaves it nothing
	}
	for who, creates := range by {
		t.Run("of "+who, func(t *testing.T) {
			creates()
			others()
			defer c.remove(t, path)
			was := c.get(t, path).settled(t)
			update := s.step(t, key, next)
			update.looks(sink.OK)
			update.writes(sink.OK)
			update.asks(sink.OK, sink.Yes)
			if o := c.get(t, path); container(o, "app")["image"] != "two" || o.at("metadata", "labels", "new") != "y" {
				t.Fatalf("it was not written: %v", o)
			}
			update.restores(sink.OK)
			if is := c.get(t, path).settled(t); is != was {
				t.Errorf("it is %s\nand was %s", is, was)
			}
			version := c.get(t, path).version()
			update.restores(sink.OK)
			if v := c.get(t, path).version(); v != version {
				t.Error("an undo of what is as before wrote")
			}
		})
	}
}

// sagaOthers: what others did since to fields that are not the step's stays, and
// what they did to those of the step makes the undo refuse.
func (c *cluster) sagaOthers(t *testing.T) {
	c.namespace(t, "saga-others")
	s := c.connect(t, "test", `{}`)
	const key = "v1/ConfigMap/saga-others/o"
	path := configMapPath("saga-others", "o")
	for name, test := range map[string]struct {
		do    func()
		wants sink.Status
	}{
		"nothing":                    {func() {}, sink.OK},
		"a field of their own":       {func() { c.edit(t, path, `{"data":{"theirs":"new"},"metadata":{"labels":{"l":"1"}}}`) }, sink.OK},
		"a finalizer":                {func() { c.edit(t, path, `{"metadata":{"finalizers":["example.com/hold"]}}`) }, sink.OK},
		"a field of ours":            {func() { c.edit(t, path, `{"data":{"changed":"theirs"}}`) }, sink.Conflict},
		"a field of ours, as before": {func() { c.edit(t, path, `{"data":{"changed":"old"}}`) }, sink.Conflict},
		"a field of ours, removed":   {func() { c.edit(t, path, `{"data":{"added":null}}`) }, sink.Conflict},
		"a field that we removed":    {func() { c.edit(t, path, `{"data":{"removed":"theirs"}}`) }, sink.Conflict},
		"the mark":                   {func() { c.edit(t, path, `{"metadata":{"annotations":{"pawl.dev/saga":"x"}}}`) }, sink.Conflict},
		"all as before, by their own": {func() {
			c.edit(t, path, `{"metadata":{"annotations":null},"data":{"changed":"old","removed":"old","added":null}}`)
		}, sink.OK},
		"a deletion": {func() { c.remove(t, path) }, sink.Conflict},
		"a deletion and an equal one": {func() {
			c.remove(t, path)
			c.create(t, "/api/v1/namespaces/saga-others/configmaps", configMap("saga-others", "o", `{"changed":"old","removed":"old","kept":"k","theirs":"old"}`))
		}, sink.Conflict},
	} {
		t.Run(name, func(t *testing.T) {
			req := &sink.Request{Key: zedKey(key), Payload: []byte(configMap("saga-others", "o", `{"changed":"old","removed":"old","kept":"k"}`)), Conflict: record.SourceWins}
			if res := s.Apply(t.Context(), req); res.Status != sink.OK {
				t.Fatal(res.Message)
			}
			c.edit(t, path, `{"data":{"theirs":"old"}}`)
			update := s.step(t, key, configMap("saga-others", "o", `{"changed":"new","added":"new","kept":"k"}`))
			update.looks(sink.OK)
			update.writes(sink.OK)
			test.do()
			version := ""
			if c.exists(t, path) {
				version = c.get(t, path).version()
			}
			theirs := name == "a field of their own"
			res := update.restores(test.wants)
			if strings.Contains(res.Message, "theirs") {
				t.Errorf("a value is told: %s", res.Message)
			}
			switch {
			case !c.exists(t, path):
			case test.wants == sink.Conflict:
				if c.get(t, path).version() != version {
					t.Error("what others changed was touched")
				}
			default:
				data := c.get(t, path).at("data").(map[string]any)
				if data["changed"] != "old" || data["removed"] != "old" || data["added"] != nil || data["kept"] != "k" || (data["theirs"] == "new") != theirs {
					t.Errorf("it holds %v", data)
				}
				if m := markOf(c.get(t, path)); m != nil {
					t.Errorf("the mark stays: %v", m)
				}
			}
			if c.exists(t, path) {
				c.edit(t, path, `{"metadata":{"finalizers":null}}`)
				c.remove(t, path)
			}
		})
	}

	// A status is nobody's change.
	const namespace = "/api/v1/namespaces/saga-others"
	update := s.step(t, "v1/Namespace/saga-others", `{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"saga-others","labels":{"a":"1"}}}`)
	update.looks(sink.OK)
	update.writes(sink.OK)
	c.must(t, http.MethodPatch, namespace+"/status?fieldManager=controller", "application/merge-patch+json", `{"status":{"conditions":[{"type":"T","status":"True"}]}}`)
	update.restores(sink.OK)
	if o := c.get(t, namespace); o.at("metadata", "labels", "a") != nil || o.at("status", "conditions") == nil {
		t.Errorf("it is %v", o)
	}
}

// sagaLateUndo: an undo that lands late does nothing to what others have by then.
func (c *cluster) sagaLateUndo(t *testing.T) {
	c.namespace(t, "saga-late")
	s, w := c.wired(t)
	const key, collection = "v1/ConfigMap/saga-late/l", "/api/v1/namespaces/saga-late/configmaps"
	path := configMapPath("saga-late", "l")
	late := func(st *step, meanwhile func()) {
		t.Helper()
		w.hold.Store(true)
		st.restores(sink.Unreachable)
		meanwhile()
		version := c.get(t, path).version()
		w.land(t)
		if v := c.get(t, path).version(); v != version {
			t.Error("an undo that came late wrote")
		}
		st.restores(sink.Conflict)
	}
	create := s.creation(t, key, configMap("saga-late", "l", `{"a":"new"}`))
	create.writes(sink.OK)
	late(create, func() {
		c.remove(t, path)
		c.create(t, collection, configMap("saga-late", "l", `{"a":"old"}`))
	})
	update := s.step(t, key, configMap("saga-late", "l", `{"a":"new"}`))
	update.looks(sink.OK)
	update.writes(sink.OK)
	late(update, func() { c.edit(t, path, `{"data":{"a":"theirs"}}`) })
	update = s.step(t, key, configMap("saga-late", "l", `{"a":"newer"}`))
	update.looks(sink.OK)
	update.writes(sink.OK)
	late(update, func() {
		c.remove(t, path)
		c.create(t, collection, configMap("saga-late", "l", `{"a":"another"}`))
		c.remove(t, path)
		c.create(t, collection, configMap("saga-late", "l", `{"a":"yet another"}`))
	})
}

// sagaConditions: a write goes through only if the object is what the image says,
// and a deletion is told by who is gone.
func (c *cluster) sagaConditions(t *testing.T) {
	c.namespace(t, "saga-conditions")
	s := c.connect(t, "test", `{}`)
	const key, collection = "v1/ConfigMap/saga-conditions/c", "/api/v1/namespaces/saga-conditions/configmaps"
	path := configMapPath("saga-conditions", "c")
	object := configMap("saga-conditions", "c", `{"a":"1"}`)
	for name, payload := range map[string]string{"an update": configMap("saga-conditions", "c", `{"a":"2"}`), "a deletion": ""} {
		t.Run(name, func(t *testing.T) {
			c.create(t, collection, object)
			st := s.step(t, key, payload)
			st.looks(sink.OK)
			version := c.edit(t, path, `{"metadata":{"labels":{"l":"1"}}}`).version()
			st.writes(sink.Conflict)
			if c.get(t, path).version() != version {
				t.Error("it was written all the same")
			}
			st.before = nil
			st.looks(sink.OK)
			c.remove(t, path)
			want := sink.Conflict
			if payload == "" {
				want = sink.NotFound
			}
			st.writes(want)
			if c.exists(t, path) {
				t.Error("it was created")
			}
			version = c.create(t, collection, object).version()
			st.writes(sink.Conflict)
			if c.get(t, path).version() != version {
				t.Error("another object of that name was written")
			}
			if payload == "" {
				st.asks(sink.NotFound, sink.Unknown) // the one that it was to delete is gone
			} else {
				st.asks(sink.OK, sink.No)
			}
			c.remove(t, path)
		})
	}

	// Finalizers: 202 or 200, the deletion is under way, and that is success (S10).
	c.create(t, collection, object)
	c.edit(t, path, `{"metadata":{"finalizers":["example.com/hold"]}}`)
	remove := s.step(t, key, "")
	remove.looks(sink.OK)
	remove.asks(sink.OK, sink.No)
	remove.writes(sink.InProgress)
	remove.asks(sink.InProgress, sink.Unknown)
	remove.restores(sink.Rejected)
	c.edit(t, path, `{"metadata":{"finalizers":null}}`)
	remove.asks(sink.NotFound, sink.Unknown)

	// What can't be kept for an undo is not written; it can be deleted.
	c.create(t, collection, configMap("saga-conditions", "c", `{"big":"`+strings.Repeat("x", 1<<20-64)+`"}`))
	s.step(t, key, object).looks(sink.Rejected)
	remove = s.step(t, key, "")
	remove.looks(sink.OK)
	remove.writes(sink.OK)

	// Refusals write nothing, and of Secrets no value is told.
	const secret = "v1/Secret/saga-conditions/s"
	manifest := func(data string) string {
		return `{"apiVersion":"v1","kind":"Secret","metadata":{"name":"s","namespace":"saga-conditions"},` + data + `}`
	}
	bad := s.creation(t, secret, manifest(`"data":{"a":"not base64: hush"}`))
	if res := bad.writes(sink.Rejected); strings.Contains(res.Message, "hush") {
		t.Error(res.Message)
	}
	bad.asks(sink.NotFound, sink.No)
	good := s.creation(t, secret, manifest(`"stringData":{"a":"hush"}`))
	good.writes(sink.OK)
	update := s.step(t, secret, manifest(`"stringData":{"a":"quiet"}`))
	update.looks(sink.OK)
	update.writes(sink.OK)
	if res := update.restores(sink.OK); strings.Contains(res.Message, "hush") {
		t.Error(res.Message)
	}
	if a := c.get(t, "/api/v1/namespaces/saga-conditions/secrets/s").at("data", "a"); a != "aHVzaA==" {
		t.Errorf("it holds %v", a)
	}
	// The fields of another version may be called otherwise.
	scaler := func(version, size string) string {
		return `{"apiVersion":"autoscaling/` + version + `","kind":"HorizontalPodAutoscaler","metadata":{"name":"h","namespace":"saga-conditions"},
			"spec":{"maxReplicas":` + size + `,"scaleTargetRef":{"apiVersion":"apps/v1","kind":"Deployment","name":"d"}}}`
	}
	s.creation(t, "autoscaling/v1/HorizontalPodAutoscaler/saga-conditions/h", scaler("v1", "3")).writes(sink.OK)
	s.step(t, "autoscaling/v2/HorizontalPodAutoscaler/saga-conditions/h", scaler("v2", "4")).looks(sink.Rejected)
	s.step(t, "autoscaling/v1/HorizontalPodAutoscaler/saga-conditions/h", scaler("v1", "4")).looks(sink.OK)

	c.connect(t, "test", `{"key":"manifest"}`).step(t, "any", "").looks(sink.Rejected)
	forged := s.creation(t, key, strings.Replace(object, `"name"`, `"annotations":{"pawl.dev/saga":"x"},"name"`, 1))
	if res := forged.writes(sink.Rejected); !strings.Contains(res.Message, "leave it out") {
		t.Error(res.Message)
	}
}

// sagaWhole runs sagas over the engine: what is kept loses its mark, and what is
// refused leaves nothing.
func (c *cluster) sagaWhole(t *testing.T) {
	c.namespace(t, "saga-whole")
	sagas := saga.New(saga.Options{RetryBase: 20 * time.Millisecond})
	e, err := engine.Open(t.Context(), engine.Options{
		Store:   func(o outbox.Observer) (outbox.Store, error) { return memory.New(memory.Options{Observer: o}), nil },
		Prepare: sagas.Prepare,
		Sinks:   []engine.SinkOptions{{Name: zedSink, Sink: c.connect(t, "test", `{}`), Timeout: 30 * time.Second}},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := sagas.Close(context.Background()); err != nil {
			t.Error(err)
		}
		if err := e.Close(context.Background()); err != nil {
			t.Error(err)
		}
	}()
	path := func(name string) string { return configMapPath("saga-whole", name) }
	run := func(id string, names ...string) saga.View {
		t.Helper()
		spec := saga.Spec{ID: id, Mode: saga.Optimistic, Timeout: time.Minute}
		for _, name := range names {
			spec.Steps = append(spec.Steps, saga.Step{Key: zedKey("v1/ConfigMap/saga-whole/" + name), Verb: saga.Create,
				Payload: []byte(configMap("saga-whole", name, `{"a":"1"}`))})
		}
		v, err := sagas.Run(t.Context(), spec)
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	if v := run("first", "a", "b"); v.State.Outcome != saga.Committed {
		t.Fatalf("%+v", v.State)
	}
	for _, name := range []string{"a", "b"} {
		eventually(t, "the mark goes with the first delivery", func() bool { return markOf(c.get(t, path(name))) == nil })
	}
	if v := run("second", "d", "c", "b"); v.State.Outcome != saga.RolledBack || v.State.FailedStep != 3 {
		t.Fatalf("%+v", v.State)
	}
	if c.exists(t, path("c")) || c.exists(t, path("d")) {
		t.Error("a saga that was refused left something")
	}
	if !c.exists(t, path("b")) {
		t.Error("it removed what was there")
	}
}
