package e2e

import (
	"encoding/json"
	"net/http"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/pawlsync/pawl/engine"
	"github.com/pawlsync/pawl/engine/record"
)

// facing is a rig whose resources go that way, and are looked at often.
func (c *cluster) facing(t *testing.T, d record.Direction, policy record.ConflictPolicy) *rig {
	o := often
	o.Direction, o.Conflict, o.PollInterval = d, policy, 100*time.Millisecond
	return c.rig(t, `{}`, o)
}

// dataOf is what a manifest has as data; nil where it is no ConfigMap of that name.
func dataOf(t *testing.T, manifest []byte, ns, name string) map[string]any {
	t.Helper()
	var o object
	if err := json.Unmarshal(manifest, &o); err != nil {
		t.Fatalf("%v: %q", err, manifest)
	}
	if o.at("kind") != "ConfigMap" || o.at("metadata", "namespace") != ns || o.at("metadata", "name") != name {
		return nil
	}
	data, _ := o.at("data").(map[string]any)
	return data
}

// desires waits until that data is desired, and the cluster's idea or not.
func (r *rig) desires(t *testing.T, key, ns, name string, data map[string]any, origin record.Origin) {
	t.Helper()
	eventually(t, key+" is desired as it should be", func() bool {
		res, err := r.Get(t.Context(), zedKey(key))
		return err == nil && res.Desired.Origin == origin && res.Status.Phase == record.AckedPhase && len(res.Desired.Payload) > 0 &&
			reflect.DeepEqual(dataOf(t, res.Desired.Payload, ns, name), data)
	})
}

// rests fails where looks alone write anything, to the cluster or to the store.
func (c *cluster) rests(t *testing.T, r *rig, path string) {
	t.Helper()
	r.seenBy(t, 2) // what was under way has ended
	version := func() string {
		if status, o := c.call(t, http.MethodGet, path, "", ""); status == http.StatusOK {
			return o.version()
		}
		return ""
	}
	there, applies, revision := version(), r.sink.applies.Load(), r.Stats().Info.Revision
	r.seenBy(t, 4)
	if now := version(); now != there || r.sink.applies.Load() != applies {
		t.Errorf("looking wrote: version %q, then %q; %d applies", there, now, r.sink.applies.Load()-applies)
	}
	if now := r.Stats().Info.Revision; now != revision {
		t.Errorf("looking gave %d new generations", now-revision)
	}
}

// targetDeleted waits until the cluster's deletion is what is desired.
func (r *rig) targetDeleted(t *testing.T, key string) {
	t.Helper()
	eventually(t, "the deletion is taken over", func() bool {
		st := r.status(t, key)
		return st.Phase == record.AckedPhase && st.Reason == record.ReasonTargetDeleted
	})
}

// inbound: R31 on a real API server. Nothing is ever written there.
func (c *cluster) inbound(t *testing.T) {
	c.namespace(t, "inbound")
	r := c.facing(t, record.Inbound, "")
	const key = "v1/ConfigMap/inbound/i"
	path := configMapPath("inbound", "i")
	shows := func(what string, data map[string]any) {
		t.Helper()
		eventually(t, what, func() bool {
			st := r.status(t, key)
			return st.Phase == record.AckedPhase && st.Observed != nil && reflect.DeepEqual(dataOf(t, st.Observed.Content, "inbound", "i"), data)
		})
	}
	missing := func(what string) {
		t.Helper()
		eventually(t, what, func() bool {
			st := r.status(t, key)
			return st.Phase == record.Pending && st.Reason == record.ReasonMissing && st.Observed == nil
		})
	}

	r.put(t, key, `{"any":"declaration"}`)
	missing("what is not there is told")
	c.create(t, configMapPath("inbound", ""), configMap("inbound", "i", `{"a":"1"}`))
	shows("what the cluster has is shown", map[string]any{"a": "1"})
	var o object
	if err := json.Unmarshal(r.status(t, key).Observed.Content, &o); err != nil {
		t.Fatal(err)
	}
	for _, field := range []string{"uid", "resourceVersion", "creationTimestamp", "managedFields"} {
		if v := o.at("metadata", field); v != nil {
			t.Errorf("metadata.%s is shown, which no manifest could say: %v", field, v)
		}
	}
	version := c.edit(t, path, `{"data":{"a":"2","b":"x"},"metadata":{"labels":{"team":"z"}}}`).version()
	shows("a change is seen", map[string]any{"a": "2", "b": "x"})
	c.rests(t, r, path)
	if v := c.get(t, path).version(); v != version {
		t.Errorf("it was written to: version %s, then %s", version, v)
	}
	c.remove(t, path)
	missing("a deletion is seen")
	c.create(t, configMapPath("inbound", ""), configMap("inbound", "i", `{"a":"3"}`))
	shows("it is seen again", map[string]any{"a": "3"})

	version = c.get(t, path).version()
	r.deleted(t, key, "")
	if o := c.get(t, path); o.version() != version || r.sink.applies.Load() != 0 {
		t.Errorf("the declaration's end must leave the object alone: %v, %d applies", o, r.sink.applies.Load())
	}
}

// both: R32 on a real API server, one side at a time.
func (c *cluster) both(t *testing.T) {
	c.namespace(t, "both")
	r := c.facing(t, record.Both, record.SourceWins)
	const key = "v1/ConfigMap/both/b"
	path := configMapPath("both", "b")
	is := func(data map[string]any) bool { return reflect.DeepEqual(c.get(t, path).at("data"), data) }
	first := configMap("both", "b", `{"a":"1","b":"x"}`)
	r.acked(t, key, first)
	if !is(map[string]any{"a": "1", "b": "x"}) {
		t.Fatalf("created as %v", c.get(t, path))
	}
	c.rests(t, r, path)

	version := c.edit(t, path, `{"data":{"a":"theirs","b":null}}`).version()
	r.desires(t, key, "both", "b", map[string]any{"a": "theirs"}, record.FromTarget)
	generation := r.status(t, key).Generation
	if g := r.put(t, key, first); g != generation { // as a source does that is read again and again
		t.Errorf("what the source had is generation %d, want %d still", g, generation)
	}
	c.rests(t, r, path)
	if o := c.get(t, path); o.version() != version {
		t.Errorf("the cluster's change was written over: %v", o.at("data"))
	}

	r.acked(t, key, configMap("both", "b", `{"a":"2"}`))
	if !is(map[string]any{"a": "2"}) {
		t.Errorf("the source's change did not go out: %v", c.get(t, path).at("data"))
	}
	r.desires(t, key, "both", "b", map[string]any{"a": "2"}, record.FromSource)
	c.rests(t, r, path)
	r.deleted(t, key, "")
	if c.exists(t, path) {
		t.Error("the source deleted it, and it is still there")
	}
}

// bothDelete: what is deleted in the cluster rests as a tombstone (R32).
func (c *cluster) bothDelete(t *testing.T) {
	c.namespace(t, "both-delete")
	r := c.facing(t, record.Both, record.SourceWins)
	const key = "v1/ConfigMap/both-delete/b"
	path := configMapPath("both-delete", "b")
	first := configMap("both-delete", "b", `{"a":"1"}`)
	r.acked(t, key, first)
	c.remove(t, path)
	r.targetDeleted(t, key)
	r.put(t, key, first)
	c.rests(t, r, path)
	if c.exists(t, path) {
		t.Fatal("what the source had brought it back")
	}

	c.create(t, configMapPath("both-delete", ""), configMap("both-delete", "b", `{"a":"1","more":"x"}`))
	r.desires(t, key, "both-delete", "b", map[string]any{"a": "1", "more": "x"}, record.FromTarget)
	c.rests(t, r, path)
	c.edit(t, path, `{"data":{"more":"y"}}`) // desired as well as what our manifest had
	r.desires(t, key, "both-delete", "b", map[string]any{"a": "1", "more": "y"}, record.FromTarget)

	// The source alone changed: its content goes out, and what others put there stays.
	r.acked(t, key, configMap("both-delete", "b", `{"a":"2"}`))
	if o := c.get(t, path); !reflect.DeepEqual(o.at("data"), map[string]any{"a": "2", "more": "y"}) {
		t.Errorf("the source's new content made it %v", o.at("data"))
	}
	c.rests(t, r, path)

	c.remove(t, path)
	r.targetDeleted(t, key)
	r.acked(t, key, configMap("both-delete", "b", `{"a":"3"}`))
	if o := c.get(t, path); !reflect.DeepEqual(o.at("data"), map[string]any{"a": "3"}) {
		t.Errorf("the source's new content became %v", o.at("data"))
	}
	c.rests(t, r, path)

	c.remove(t, path)
	r.targetDeleted(t, key)
	r.deleted(t, key, "")
}

// bothConflict: both sides changed between two looks, and the policy decides (R32).
func (c *cluster) bothConflict(t *testing.T) {
	c.namespace(t, "both-conflict")
	for _, p := range []struct {
		policy record.ConflictPolicy
		there  string // what the cluster has at the end
		phase  record.Phase
		origin record.Origin
	}{
		{record.SourceWins, "source", record.AckedPhase, record.FromSource},
		{record.TargetWins, "target", record.AckedPhase, record.FromTarget},
		{record.ReportOnly, "target", record.Drifted, record.FromSource},
	} {
		t.Run(string(p.policy), func(t *testing.T) {
			// No look comes by itself between the two changes.
			r := c.rig(t, `{}`, engine.SinkOptions{Direction: record.Both, Conflict: p.policy, PollInterval: time.Hour, DriftInterval: time.Hour})
			const key = "v1/ConfigMap/both-conflict/b"
			path := configMapPath("both-conflict", "b")
			r.acked(t, key, configMap("both-conflict", "b", `{"a":"1"}`))
			c.edit(t, path, `{"data":{"a":"target"}}`)
			r.settle(t, key, r.put(t, key, configMap("both-conflict", "b", `{"a":"source"}`)))
			res, err := r.Get(t.Context(), zedKey(key))
			if err != nil {
				t.Fatal(err)
			}
			if got := c.get(t, path).at("data", "a"); got != p.there || res.Status.Phase != p.phase || res.Desired.Origin != p.origin {
				t.Errorf("the cluster has %v, it is %s (%s) of origin %q: %s", got, res.Status.Phase, res.Status.Reason, res.Desired.Origin, res.Status.Message)
			}
			if p.policy == record.ReportOnly && !slices.Equal(res.Status.DriftPaths, []string{"/data/a (managed by kubectl-edit)"}) {
				t.Errorf("drift is told at %q", res.Status.DriftPaths)
			}
			r.deleted(t, key, "")
		})
	}
}

// bothManaged: a field that was taken over is still its writer's for the API server.
func (c *cluster) bothManaged(t *testing.T) {
	c.namespace(t, "both-managed")
	r := c.facing(t, record.Both, record.ReportOnly)
	const key = "v1/ConfigMap/both-managed/b"
	path := configMapPath("both-managed", "b")
	is := func(data map[string]any) bool { return reflect.DeepEqual(c.get(t, path).at("data"), data) }
	r.acked(t, key, configMap("both-managed", "b", `{"a":"1","b":"x"}`))
	c.edit(t, path, `{"data":{"a":"theirs"}}`)
	r.desires(t, key, "both-managed", "b", map[string]any{"a": "theirs", "b": "x"}, record.FromTarget)

	res := r.settle(t, key, r.put(t, key, configMap("both-managed", "b", `{"a":"2","b":"x"}`)))
	if paths := r.status(t, key).DriftPaths; res.Phase != record.Drifted || !slices.Equal(paths, []string{"/data/a (managed by kubectl-edit)"}) {
		t.Errorf("another value of their field, under report-only: %+v, %q", res, paths)
	}
	if err := r.ApplyForce(t.Context(), zedKey(key)); err != nil {
		t.Fatal(err)
	}
	eventually(t, "force replaces it", func() bool { return is(map[string]any{"a": "2", "b": "x"}) })

	c.edit(t, path, `{"data":{"a":"theirs again"}}`)
	r.desires(t, key, "both-managed", "b", map[string]any{"a": "theirs again", "b": "x"}, record.FromTarget)
	r.acked(t, key, configMap("both-managed", "b", `{"b":"y"}`))
	if !is(map[string]any{"a": "theirs again", "b": "y"}) {
		t.Errorf("a manifest without their field made it %v", c.get(t, path).at("data"))
	}
	c.rests(t, r, path)
}
