package sagatemplate

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/pawlsync/pawl/config"
	"github.com/pawlsync/pawl/engine/record"
	"github.com/pawlsync/pawl/engine/saga"
	"github.com/pawlsync/pawl/engine/sink"
)

const templates = `
sinks:
  permissions: {plugin: http}
  cluster: {plugin: http}
limits: {payload_max_bytes: 1KiB}
sagas:
  create-namespace:
    description: A namespace.
    mode: optimistic
    timeout: 7s
    refuse_puts: true
    params:
      user: {description: Whose it is., pattern: "[a-z0-9-]{1,40}"}
      namespace: {pattern: "[a-z0-9-]+", max_length: 63}
      tier: {enum: [small, "large & fine"], default: small}
      replicas: {type: integer, min: -1, max: 5, default: 3}
      open: {type: boolean, default: false}
      note: {max_length: 65536, default: ""}
    steps:
      - sink: permissions
        key: namespaces/{{.namespace}}
        verb: create
        payload: {relationships: ["namespace:{{.namespace}}#owner@user:{{.user}}"]}
      - sink: cluster
        key: v1/Namespace/{{.namespace}}
        verb: upsert
        after: forget
        payload:
          z: {name: "{{.namespace}}", n: "{{.replicas}}", text: "{{ .replicas }} of {{.open}}", open: "{{.open}}"}
          a: [1.50, ~, "{{.tier}}", "{{.note}}", 'go: {{"{{"}}.x}}', "\"}, {{.tier}}"]
  clean:
    steps:
      - {sink: cluster, key: old, verb: delete}
  long:
    params: {x: {pattern: "[a-z]*", max_length: 60000}}
    steps:
      - {sink: cluster, key: "{{.x}}{{.x}}", verb: delete}
`

func load(t testing.TB, text string) *config.Config {
	t.Helper()
	file := filepath.Join(t.TempDir(), "pawl.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := config.Load(config.Options{File: file})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func newSet(t testing.TB, text string) *Set {
	t.Helper()
	s, err := New(load(t, text))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestATemplateBecomesTheSagaThatItSays(t *testing.T) {
	s := newSet(t, templates)
	got, err := s.Expand("create-namespace", json.RawMessage(`{"namespace":"web","user":"anne","replicas":-1,"tier":"large & fine","note":"\"<\n"}`))
	if err != nil {
		t.Fatal(err)
	}
	if got.ID != "" || got.Mode != saga.Optimistic || got.Timeout != 7*time.Second || !got.RefusePuts || len(got.Steps) != 2 {
		t.Errorf("saga = %+v", got)
	}
	for i, want := range []saga.Step{
		{Key: record.Key{Sink: "permissions", Name: "namespaces/web"}, Verb: saga.Create, After: saga.Keep,
			Payload: []byte(`{"relationships":["namespace:web#owner@user:anne"]}`)},
		{Key: record.Key{Sink: "cluster", Name: "v1/Namespace/web"}, Verb: saga.Upsert, After: saga.Forget,
			Payload: []byte(`{"z":{"name":"web","n":-1,"text":"-1 of false","open":false},"a":[1.50,null,"large & fine","\"<\n","go: {{.x}}","\"}, large & fine"]}`)},
	} {
		g := got.Steps[i]
		if g.Key != want.Key || g.Verb != want.Verb || g.After != want.After || string(g.Payload) != string(want.Payload) {
			t.Errorf("step %d = %+v\npayload %s\nwant    %s", i+1, g, g.Payload, want.Payload)
		}
	}
	got, err = s.Expand("clean", nil)
	if err != nil || len(got.Steps) != 1 || got.Steps[0].Verb != saga.Delete || len(got.Steps[0].Payload) > 0 {
		t.Errorf("clean = %+v, %v", got, err)
	}
}

// What the configuration allows is what sagas know.
func TestWordsOfTheConfigurationAreThoseOfSagas(t *testing.T) {
	want := map[string]string{
		"sagas.<name>.mode":            string(saga.Pessimistic + " " + saga.Optimistic),
		"sagas.<name>.steps.<n>.verb":  string(saga.Create + " " + saga.Upsert + " " + saga.Delete),
		"sagas.<name>.steps.<n>.after": string(saga.Keep + " " + saga.Forget),
	}
	for _, e := range config.Reference() {
		if w, ok := want[e.Key]; ok {
			if strings.Join(e.OneOf, " ") != w {
				t.Errorf("%s: %v, want %s", e.Key, e.OneOf, w)
			}
			delete(want, e.Key)
		}
		switch e.Key {
		case "sagas.<name>.steps":
			if e.Max != "16" || saga.MaxSteps != 16 {
				t.Errorf("steps: %s, and a saga has %d", e.Max, saga.MaxSteps)
			}
		case "sagas.<name>.timeout":
			if e.Max != "1h" || saga.MaxTimeout != time.Hour {
				t.Errorf("timeout: %s, and a saga has %v", e.Max, saga.MaxTimeout)
			}
		}
	}
	if len(want) > 0 {
		t.Errorf("no such keys: %v", want)
	}
}

func TestWhatIsWrongWithARequestIsToldAtOnceByName(t *testing.T) {
	s := newSet(t, templates)
	const of = "the parameters of saga template create-namespace: "
	for _, row := range []struct{ name, template, params, want string }{
		{"misspelt template", "create-namespce", `{}`, `no saga template is called "create-namespce"; did you mean create-namespace?`},
		{"unknown template", "zzzzzzzz", `{}`, `no saga template is called "zzzzzzzz"; there are clean, create-namespace, long`},
		{"a name too long to show", strings.Repeat("x", 1000), `{}`, `no saga template is called "` + strings.Repeat("x", 64) + `…"; there are clean, create-namespace, long`},
		{"nothing", "create-namespace", ``, of + `namespace is missing; user is missing (Whose it is)`},
		{"not an object", "create-namespace", `["a"]`, of + `are no JSON object (write {"name": value})`},
		{"null", "create-namespace", `null`, of + `are no JSON object (write {"name": value})`},
		{"broken", "create-namespace", `{"user":}`, of + `are no JSON: invalid character '}' looking for beginning of value`},
		{"cut off", "create-namespace", `{"user":"a"`, of + `are no JSON: EOF`},
		{"two objects", "create-namespace", `{"user":"a","namespace":"b"} {}`, of + `go on after the object (give one object)`},
		{"not UTF-8", "create-namespace", "{\"user\":\"\xff\"}", of + `are not UTF-8`},
		{"twice", "create-namespace", `{"user":"a","user":"b","namespace":"c"}`, of + `user is given twice`},
		{"misspelt", "create-namespace", `{"usr":"a","namespace":"c"}`, of + `usr is no parameter (did you mean user?); user is missing (Whose it is)`},
		{"of none", "clean", `{"x":1}`, `the parameters of saga template clean: x is no parameter (it has none)`},
		{"types", "create-namespace", `{"user":1,"namespace":null,"replicas":"3","open":"true","note":{}}`, of +
			`user needs a string, not a number; namespace needs a string, not null; replicas needs a whole number, not a string; ` +
			`open needs a boolean, not a string (write true or false); note needs a string, not an object`},
		{"values", "create-namespace", `{"user":"a#b","namespace":"` + strings.Repeat("x", 64) + `","replicas":6,"tier":"huge"}`, of +
			`user does not match the pattern [a-z0-9-]{1,40}; namespace is too long (it may have 63 characters); ` +
			`replicas is out of range (allowed is -1 to 5); tier is none of the values allowed (allowed are small, large & fine)`},
		{"a line more than the pattern", "create-namespace", `{"user":"a\n","namespace":"b"}`, of + `user does not match the pattern [a-z0-9-]{1,40}`},
		{"fractions", "create-namespace", `{"user":"a","namespace":"b","replicas":3.0}`, of + `replicas needs a whole number (write digits alone)`},
		{"too small an integer", "create-namespace", `{"user":"a","namespace":"b","replicas":-2}`, of + `replicas is out of range (allowed is -1 to 5)`},
		{"huge integer", "create-namespace", `{"user":"a","namespace":"b","replicas":99999999999999999999}`, of + `replicas needs a whole number (write digits alone)`},
		{"payload too long", "create-namespace", `{"user":"a","namespace":"b","note":"` + strings.Repeat("x", 1000) + `"}`, of +
			`make the payload of step 2 longer than the 1024 bytes allowed (give shorter ones)`},
		{"payload too long once written", "create-namespace", `{"user":"a","namespace":"b","note":"` + strings.Repeat(`\u0001`, 500) + `"}`, of +
			`make the payload of step 2 longer than the 1024 bytes allowed (give shorter ones)`},
		{"key too long", "long", `{"x":"` + strings.Repeat("x", 600) + `"}`,
			`the parameters of saga template long: make the key of step 1 longer than the 1024 bytes allowed (give shorter ones)`},
	} {
		t.Run(row.name, func(t *testing.T) {
			_, err := s.Expand(row.template, json.RawMessage(row.params))
			if err == nil || err.Error() != row.want {
				t.Fatalf("got:  %v\nwant: %s", err, row.want)
			}
			var unknown *UnknownError
			var params *ParamsError
			if !errors.As(err, &unknown) && !errors.As(err, &params) {
				t.Errorf("the error is a %T", err)
			}
		})
	}
}

func TestARequestCanNotMakeAnAnswerLong(t *testing.T) {
	s := newSet(t, templates)
	many := "{" + strings.Repeat(`"`+strings.Repeat("y", 200)+`":1,`, 1000) + `"z":1}`
	_, err := s.Expand("create-namespace", json.RawMessage(many))
	if err == nil || len(err.Error()) > 20*300 {
		t.Errorf("%d bytes", len(err.Error()))
	}
	_, err = s.Expand("create-namespace", json.RawMessage(`{"note":"`+strings.Repeat("x", paramsMaxBytes)+`"}`))
	if err == nil || !strings.Contains(err.Error(), "more than the 1048576 allowed") {
		t.Errorf("err = %.200v", err)
	}
}

func TestAPayloadThatWouldBeHugeTakesNoMemory(t *testing.T) {
	s := newSet(t, `
sinks: {a: {plugin: http}}
limits: {payload_max_bytes: 64KiB}
sagas:
  t:
    params: {x: {pattern: "x*", max_length: 65536}}
    steps: [{sink: a, key: k, verb: create, payload: {x: "`+strings.Repeat("{{.x}} ", 5000)+`"}}]
`)
	params := json.RawMessage(`{"x":"` + strings.Repeat("x", 65536) + `"}`)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, err := s.Expand("t", params)
	runtime.ReadMemStats(&after)
	const most = 16 << 20 // of over 300 MB that it would be
	if took := after.TotalAlloc - before.TotalAlloc; err == nil || took > most {
		t.Errorf("took %d bytes, %v", took, err)
	}
}

func TestATemplateThatItsSinksCanNotRunIsAMisfit(t *testing.T) {
	s := newSet(t, templates)
	able := sink.Manifest{Observes: true, Deletes: true, Marks: true, Locks: true, RestoresApply: true, RestoresDelete: true}
	cluster := able
	manifest := func(name string) (sink.Manifest, bool) {
		if name == "permissions" {
			return able, true
		}
		return cluster, name == "cluster"
	}
	if m := s.Misfits(manifest); len(m) > 0 {
		t.Errorf("able sinks: %v", m)
	}
	cluster.Deletes = false
	m := s.Misfits(manifest)
	if len(m) != 2 || m["create-namespace"] != nil || !strings.Contains(m["clean"].Error(), "step 1 (delete cluster/old): its sink can't delete") {
		t.Errorf("a sink that can't delete: %v", m)
	}
	able.RestoresApply = false
	if m = s.Misfits(manifest); !strings.Contains(m["create-namespace"].Error(), "step 1 (create permissions/namespaces/{{.namespace}}): its sink can't undo that") {
		t.Errorf("a sink that can't undo: %v", m)
	}
}

func TestTheListSaysWhatACallerNeeds(t *testing.T) {
	list := newSet(t, templates).List()
	got, err := json.Marshal(list[:2])
	if err != nil {
		t.Fatal(err)
	}
	want := `[{"name":"clean","mode":"pessimistic","params":[],"steps":[{"sink":"cluster","key":"old","verb":"delete"}]},` +
		`{"name":"create-namespace","description":"A namespace.","mode":"optimistic","params":[` +
		`{"name":"namespace","type":"string","required":true,"pattern":"[a-z0-9-]+","maxLength":63},` +
		`{"name":"note","type":"string","required":false,"default":"","maxLength":65536},` +
		`{"name":"open","type":"boolean","required":false,"default":false},` +
		`{"name":"replicas","type":"integer","required":false,"default":3,"min":-1,"max":5},` +
		`{"name":"tier","type":"string","required":false,"default":"small","enum":["small","large \u0026 fine"]},` +
		`{"name":"user","description":"Whose it is.","type":"string","required":true,"pattern":"[a-z0-9-]{1,40}","maxLength":256}],` +
		`"steps":[{"sink":"permissions","key":"namespaces/{{.namespace}}","verb":"create"},{"sink":"cluster","key":"v1/Namespace/{{.namespace}}","verb":"upsert"}]}]`
	if string(got) != want || list[1].Timeout != 7*time.Second {
		t.Errorf("got:  %s\nwant: %s", got, want)
	}
}

func TestTemplatesThatNobodyCheckedAreRefused(t *testing.T) {
	step := func(key, payload string) config.Saga {
		return config.Saga{Params: map[string]config.SagaParam{"a": {Type: "string", MaxLength: 9}},
			Steps: []config.SagaStep{{Sink: "s", Key: key, Verb: "create", Payload: json.RawMessage(payload)}}}
	}
	bad := step("k", "{}")
	bad.Params["a"] = config.SagaParam{Pattern: "("}
	for want, s := range map[string]config.Saga{
		"parameter a: missing closing )":          bad,
		"step 1: key: {{ has no }}":               step("{{", "{}"),
		"step 1: payload: {{ has no }}":           step("k", `{"x":"{{"}`),
		"step 1: payload: it is no JSON":          step("k", `{"x"`),
		"step 1: payload: the keys of a payload":  step("k", `{"{{.a}}" : 1}`),
		"step 1: no parameter is called b":        step("{{.b}}", `{}`),
		"step 1: no parameter is called c":        step("k", `["{{.c}}"]`),
		"step 1: payload: \"{{x y}}\" is no plac": step("k", `["{{x y}}"]`),
	} {
		_, err := New(&config.Config{Sagas: map[string]config.Saga{"t": s}})
		if err == nil || !strings.Contains(err.Error(), "saga template t: "+want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}
