package e2e

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pawlsync/pawl/engine"
	"github.com/pawlsync/pawl/engine/record"
	"github.com/pawlsync/pawl/test/e2e/servers"
)

func TestKube(t *testing.T) {
	if testing.Short() {
		t.Skip("real servers are slow to build and to start")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Minute)
	defer cancel()
	k, err := servers.StartKube(ctx, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer k.Stop()
	c := &cluster{k, shippedPlugin(t, "kube")}
	type test struct {
		name string
		run  func(*cluster, *testing.T)
	}
	t.Run("Beside", func(t *testing.T) { // of one another: most of their time is spent waiting
		for _, test := range []test{
			{"AConfigMapThroughItsLife", (*cluster).life},
			{"DriftUnderEachPolicy", (*cluster).drift},
			{"FieldsOfOthersAreReported", (*cluster).conflicts},
			{"ListsAndQuantities", (*cluster).lists},
			{"ALargeObject", (*cluster).large},
			{"Secrets", (*cluster).secrets},
			{"ManifestsThatNameTheObject", (*cluster).manifests},
			{"DeletionUnderEachPolicy", (*cluster).deletions},
			{"FinalizersHoldADeletion", (*cluster).finalizers},
			{"ObjectsThatAreBeingDeletedByOthers", (*cluster).deletedByOthers},
			{"KindsThatComeAndGo", (*cluster).kinds},
			{"NamespacesThatComeAndGo", (*cluster).namespaces},
			{"ImmutableFields", (*cluster).immutable},
			{"WhatKubernetesRefuses", (*cluster).refusals},
			{"AdmissionAndQuotas", (*cluster).admission},
			{"WebhooksThatDenyAndHang", (*cluster).webhooks},
			{"AnAccountWithFewRights", (*cluster).rights},
			{"NoRoomAtTheServer", (*cluster).pressure},
			{"CredentialsThatExpire", (*cluster).expiry},
			{"CreationsThatRace", (*cluster).creations},
			{"SagasCreate", (*cluster).sagaCreations},
			{"SagasCreateNamespaces", (*cluster).sagaNamespaces},
			{"SagasLoseAnswers", (*cluster).sagaLost},
			{"SagasRace", (*cluster).sagaRivals},
			{"SagasUndoUpdates", (*cluster).sagaUndo},
			{"SagasUndoLate", (*cluster).sagaLateUndo},
			{"SagasBesideOthers", (*cluster).sagaOthers},
			{"SagasWriteOnConditions", (*cluster).sagaConditions},
			{"WholeSagas", (*cluster).sagaWhole},
			{"Inbound", (*cluster).inbound},
			{"BothDirections", (*cluster).both},
			{"BothDirectionsAndDeletions", (*cluster).bothDelete},
			{"BothDirectionsConflict", (*cluster).bothConflict},
			{"BothDirectionsAndManagers", (*cluster).bothManaged},
			{"TheProgram", (*cluster).program},
		} {
			t.Run(test.name, func(t *testing.T) {
				t.Parallel()
				test.run(c, t)
			})
		}
	})
	for _, test := range []test{
		{"AThousandObjectsAndNoWriteMore", (*cluster).thousand},
		{"ADayOfDriftChecks", (*cluster).day},
		{"PlansWriteNothing", (*cluster).plans},
		{"Conformance", (*cluster).conformance},
		{"CallersWithTokensOfTheCluster", (*cluster).callers},
		{"FaultsOnTheWay", (*cluster).faults},
		{"TheServerDiesAndReturns", (*cluster).restart},
	} {
		t.Run(test.name, func(t *testing.T) { test.run(c, t) })
	}
}

func (c *cluster) life(t *testing.T) {
	c.namespace(t, "life")
	r := c.rig(t, `{}`, often)
	const key = "v1/ConfigMap/life/greeting"
	path := configMapPath("life", "greeting")
	r.acked(t, key, configMap("life", "greeting", `{"text":"hello","more":"x"}`))
	if o := c.get(t, path); o.at("data", "text") != "hello" || o.at("data", "more") != "x" {
		t.Fatalf("created as %v", o)
	}
	r.acked(t, key, configMap("life", "greeting", `{"text":"goodbye"}`))
	o := c.get(t, path)
	if o.at("data", "text") != "goodbye" || o.at("data", "more") != nil {
		t.Fatalf("updated to %v", o.at("data"))
	}

	// What others add is theirs, and to look writes nothing.
	c.edit(t, path, `{"data":{"others":"y"},"metadata":{"labels":{"team":"z"}}}`)
	version, applies := c.get(t, path).version(), r.sink.applies.Load()
	r.seenBy(t, 5)
	if o := c.get(t, path); o.version() != version || r.sink.applies.Load() != applies {
		t.Errorf("looking at what is as desired wrote: %s, then %s; %d applies", version, o.version(), r.sink.applies.Load()-applies)
	}

	// Another key for the same object is refused, and names the first.
	res := r.settle(t, "core/v1/ConfigMap/life/greeting", r.put(t, "core/v1/ConfigMap/life/greeting", configMap("life", "greeting", `{"text":"goodbye"}`)))
	if res.Phase != record.Failed || res.Reason != record.ReasonContended || !strings.Contains(res.Message, key) {
		t.Errorf("a second owner: %+v", res)
	}

	r.deleted(t, key, "")
	if c.exists(t, path) {
		t.Error("it is still there")
	}
}

func (c *cluster) drift(t *testing.T) {
	c.namespace(t, "drift")
	path := configMapPath("drift", "d")
	const key = "v1/ConfigMap/drift/d"
	for _, p := range []struct {
		policy record.ConflictPolicy
		phase  record.Phase
	}{
		{record.SourceWins, record.AckedPhase},
		{record.TargetWins, record.AckedPhase},
		{record.ReportOnly, record.Drifted},
	} {
		t.Run(string(p.policy), func(t *testing.T) {
			o := often
			o.Conflict = p.policy
			r := c.rig(t, `{}`, o)
			r.acked(t, key, configMap("drift", "d", `{"a":"1","b":"2"}`))
			c.edit(t, path, `{"data":{"a":"changed","b":null}}`)
			is := func(a, b any) bool {
				o := c.get(t, path)
				return o.at("data", "a") == a && o.at("data", "b") == b
			}
			if p.policy == record.SourceWins {
				eventually(t, "the drift is corrected", func() bool { return is("1", "2") })
				r.deleted(t, key, "")
				return
			}
			eventually(t, "the drift is told", func() bool {
				st := r.status(t, key)
				return st.Phase == p.phase && slices.Equal(st.DriftPaths, []string{"/data/a", "/data/b"})
			})
			r.seenBy(t, 3)
			if !is("changed", nil) {
				t.Error("drift that is not ours to correct was corrected")
			}
			if p.policy == record.ReportOnly {
				if err := r.ApplyForce(t.Context(), zedKey(key)); err != nil {
					t.Fatal(err)
				}
			} else {
				r.acked(t, key, configMap("drift", "d", `{"a":"1","b":"2","c":"3"}`))
			}
			eventually(t, "what is desired is applied", func() bool { return is("1", "2") })
			c.remove(t, path)
			switch p.policy {
			case record.TargetWins:
				eventually(t, "the loss is accepted", func() bool { return r.status(t, key).Acked.Missing })
			default:
				eventually(t, "the loss is told", func() bool { return r.status(t, key).Phase == record.Drifted })
			}
			r.deleted(t, key, "")
		})
	}
}

// conflicts: a field that somebody else manages with another value is drift where
// we don't force, with the manager's name; agreement is none.
func (c *cluster) conflicts(t *testing.T) {
	c.namespace(t, "conflicts")
	o := often
	o.Conflict = record.ReportOnly
	r := c.rig(t, `{}`, o)
	const key = "v1/ConfigMap/conflicts/c"
	path := configMapPath("conflicts", "c")
	r.acked(t, key, configMap("conflicts", "c", `{"ours":"1"}`))
	c.edit(t, path, `{"data":{"theirs":"x"}}`)
	res := r.settle(t, key, r.put(t, key, configMap("conflicts", "c", `{"ours":"2","theirs":"y"}`)))
	paths := r.status(t, key).DriftPaths
	if res.Phase != record.Drifted || len(paths) != 1 || paths[0] != "/data/theirs (managed by kubectl-edit)" {
		t.Fatalf("%+v, %q", res, paths)
	}
	if o := c.get(t, path); o.at("data", "ours") != "1" || o.at("data", "theirs") != "x" {
		t.Errorf("it was applied all the same: %v", o.at("data"))
	}
	r.acked(t, key, configMap("conflicts", "c", `{"ours":"2","theirs":"x"}`))
	r.put(t, key, configMap("conflicts", "c", `{"ours":"3","theirs":"z"}`))
	eventually(t, "drift is told", func() bool { return r.status(t, key).Phase == record.Drifted })
	if err := r.ApplyForce(t.Context(), zedKey(key)); err != nil {
		t.Fatal(err)
	}
	eventually(t, "force takes the field over", func() bool { return c.get(t, path).at("data", "theirs") == "z" })
}

func (c *cluster) lists(t *testing.T) {
	c.namespace(t, "lists")
	r := c.rig(t, `{}`, often)
	const key = "apps/v1/Deployment/lists/web"
	const path = "/apis/apps/v1/namespaces/lists/deployments/web"
	manifest := func(image, more string) string {
		return `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"web","namespace":"lists"},"spec":{
			"selector":{"matchLabels":{"app":"web"}},"strategy":{},
			"template":{"metadata":{"labels":{"app":"web"}},"spec":{"securityContext":{},"containers":[
			{"name":"app","image":"` + image + `","args":["a","b"],"ports":[{"containerPort":80}],
			 "resources":{"requests":{"cpu":"1000m","memory":"1024Mi"}}` + more + `}]}}}}`
	}
	r.acked(t, key, manifest("one", `,"env":[{"name":"A","value":"1"},{"name":"B","value":"2"}]`))
	quiet := func(what string) {
		t.Helper()
		version, applies := c.get(t, path).version(), r.sink.applies.Load()
		r.seenBy(t, 3)
		if o := c.get(t, path); o.version() != version || r.sink.applies.Load() != applies {
			t.Errorf("%s is taken for drift: %q", what, r.status(t, key).DriftPaths)
		}
	}
	quiet("what the server adds, and how it writes quantities,")
	patch := func(containers string) {
		t.Helper()
		c.must(t, http.MethodPatch, path+"?fieldManager=injector", "application/strategic-merge-patch+json",
			`{"spec":{"template":{"spec":{"containers":`+containers+`}}}}`)
	}
	patch(`[{"name":"sidecar","image":"x"}]`)
	patch(`[{"name":"app","env":[{"name":"C","value":"3"}]}]`)
	quiet("what others put into lists with keys")
	env := func() string { return fmt.Sprint(container(c.get(t, path), "app")["env"]) }

	c.must(t, http.MethodPatch, path, "application/strategic-merge-patch+json", `{"status":{"replicas":3}}`)
	c.must(t, http.MethodPatch, path+"/status", "application/strategic-merge-patch+json", `{"status":{"replicas":3}}`)
	quiet("status")

	patch(`[{"name":"app","image":"hacked"}]`)
	eventually(t, "an item's field is corrected", func() bool { return container(c.get(t, path), "app")["image"] == "one" })
	patch(`[{"name":"app","args":["a","b","c"]}]`)
	eventually(t, "an atomic list is corrected", func() bool {
		return fmt.Sprint(container(c.get(t, path), "app")["args"]) == "[a b]"
	})
	patch(`[{"name":"app","env":[{"name":"B","$patch":"delete"}]}]`)
	eventually(t, "an item is put back", func() bool { return strings.Contains(env(), "name:B") })

	r.acked(t, key, manifest("two", `,"env":[{"name":"A","value":"1"}]`))
	if e := env(); strings.Contains(e, "name:B") || !strings.Contains(e, "name:C") {
		t.Errorf("an item that is desired no more must go, and one of others stay: %s", e)
	}

	// An engine that knows nothing of it finds it as desired: no write.
	o := often
	o.Conflict = record.ReportOnly
	fresh := c.rig(t, `{}`, o)
	plain := strings.NewReplacer("1000m", "1", "1024Mi", "1Gi").Replace(manifest("two", `,"env":[{"name":"A","value":"1"}]`))
	version := c.get(t, path).version()
	if res := fresh.settle(t, key, fresh.put(t, key, plain)); !res.Done {
		t.Fatalf("%+v: %q", res, fresh.status(t, key).DriftPaths)
	}
	fresh.seenBy(t, 2)
	if c.get(t, path).version() != version || fresh.sink.applies.Load() != 0 {
		t.Error("what was as desired was applied")
	}
}

// container returns a deployment's container of that name.
func container(o object, name string) map[string]any {
	list, _ := o.at("spec", "template", "spec", "containers").([]any)
	for _, c := range list {
		if m, _ := c.(map[string]any); m["name"] == name {
			return m
		}
	}
	return nil
}

// large is an object of which too many fields are ours to keep each one's value.
func (c *cluster) large(t *testing.T) {
	c.namespace(t, "large")
	r := c.rig(t, `{}`, often)
	data := func(last string) string {
		var b strings.Builder
		for i := range 5000 {
			fmt.Fprintf(&b, `"key-of-the-large-object-%d":"value %d",`, i, i)
		}
		return "{" + b.String() + `"last":"` + last + `"}`
	}
	const key = "v1/ConfigMap/large/l"
	path := configMapPath("large", "l")
	r.acked(t, key, configMap("large", "l", data("one")))
	c.edit(t, path, `{"data":{"others":"y"}}`)
	version := c.get(t, path).version()
	r.seenBy(t, 3)
	if v := c.get(t, path).version(); v != version {
		t.Errorf("looking wrote: %s, then %s", version, v)
	}
	c.edit(t, path, `{"data":{"key-of-the-large-object-7":"changed"}}`)
	eventually(t, "a change is corrected", func() bool {
		return c.get(t, path).at("data", "key-of-the-large-object-7") == "value 7"
	})
	r.acked(t, key, configMap("large", "l", `{"last":"two"}`))
	if n := len(c.get(t, path).at("data").(map[string]any)); n != 2 {
		t.Errorf("%d keys are left, want ours and that of others", n)
	}
}

func (c *cluster) secrets(t *testing.T) {
	c.namespace(t, "secrets")
	o := often
	o.Conflict = record.ReportOnly
	r := c.rig(t, `{}`, o)
	const key = "v1/Secret/secrets/s"
	const path = "/api/v1/namespaces/secrets/secrets/s"
	manifest := func(fields string) string {
		return `{"apiVersion":"v1","kind":"Secret","metadata":{"name":"s","namespace":"secrets"},` + fields + `}`
	}
	r.acked(t, key, manifest(`"stringData":{"a":"hush","b":"quiet"},"data":{"c":"aGk="}`))
	r.seenBy(t, 3)
	r.acked(t, key, manifest(`"stringData":{"a":"hush"},"data":{"c":"aGk="}`))
	if o := c.get(t, path); o.at("data", "a") != "aHVzaA==" || o.at("data", "b") != nil || o.at("data", "c") != "aGk=" {
		t.Errorf("stringData became %v", o.at("data"))
	}
	c.edit(t, path, `{"data":{"a":"aGFja2Vk"}}`)
	eventually(t, "drift is told", func() bool {
		st := r.status(t, key)
		return st.Phase == record.Drifted && slices.Equal(st.DriftPaths, []string{"/data/a"})
	})
	res := r.settle(t, "v1/Secret/secrets/t", r.put(t, "v1/Secret/secrets/t",
		`{"apiVersion":"v1","kind":"Secret","metadata":{"name":"t","namespace":"secrets"},"data":{"a":"not base64: hush"}}`))
	if res.Phase != record.Failed || strings.Contains(res.Message, "hush") || !strings.Contains(res.Message, "server answered") {
		t.Errorf("%s: %s", res.Phase, res.Message)
	}
	res = r.settle(t, "v1/Secret/secrets/u", r.put(t, "v1/Secret/secrets/u",
		`{"apiVersion":"v1","kind":"Secret","metadata":{"name":"u","namespace":"secrets"},"type":"kubernetes.io/basic-auth-hush","data":{"bad key hush":"aGk="}}`))
	if res.Phase != record.Failed || !strings.Contains(res.Message, "FieldValueInvalid") {
		t.Errorf("%s: %s", res.Phase, res.Message)
	}
}

func (c *cluster) manifests(t *testing.T) {
	c.namespace(t, "manifests")
	r := c.rig(t, `{"key":"manifest","namespace":"manifests","field_manager":"somebody"}`, engine.SinkOptions{})
	const bare = `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"m","creationTimestamp":null},"data":{"a":"1"},"status":{}}`
	r.acked(t, "any key / at all", bare)
	path := configMapPath("manifests", "m")
	o := c.get(t, path)
	if fields, _ := o.at("metadata", "managedFields").([]any); len(fields) != 1 || object(fields[0].(map[string]any)).at("manager") != "somebody" {
		t.Errorf("managed by %v", fields)
	}
	res := r.settle(t, "any key / at all", r.put(t, "any key / at all", strings.Replace(bare, `"m"`, `"n"`, 1)))
	if res.Phase != record.Failed || !strings.Contains(res.Message, "ConfigMap n") || !strings.Contains(res.Message, "ConfigMap manifests/m") {
		t.Errorf("another object: %+v", res)
	}
	r.deleted(t, "any key / at all", "")
	if c.exists(t, path) {
		t.Error("a deletion did not find its object")
	}
	r.acked(t, "cluster", `{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"ClusterRole","metadata":{"name":"system:pawl:test"},"rules":[]}`)
	if !c.exists(t, "/apis/rbac.authorization.k8s.io/v1/clusterroles/system:pawl:test") {
		t.Error("there is no role")
	}
	r.deleted(t, "cluster", "")
}
