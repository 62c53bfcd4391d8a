package kube

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/pawlsync/pawl/engine/record"
)

func object(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	obj := &unstructured.Unstructured{}
	if err := obj.UnmarshalJSON([]byte(text)); err != nil {
		t.Fatal(err)
	}
	return obj
}

const settings = `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"namespace":"app","name":"settings","uid":"u1","resourceVersion":"7",
"generation":3,"creationTimestamp":"2026-01-02T03:04:05Z","managedFields":[{"manager":"x"}],"finalizers":["a/b"],"ownerReferences":[],
"labels":{"app.kubernetes.io/name":"web","tier":"front"},
"annotations":{"kubectl.kubernetes.io/last-applied-configuration":"{}"}},
"data":{"x/y":"1"},"list":["a",{"b":true}],"number":1.5,"status":{"phase":"x"}}`

func TestATemplateMakesTheKey(t *testing.T) {
	for _, tc := range []struct{ template, key, wrong string }{
		{"plain", "plain", ""},
		{"{{.metadata.namespace}}/{{.metadata.name}}", "app/settings", ""},
		{"v1/{{ .kind }}/{{.metadata.name}}", "v1/ConfigMap/settings", ""},
		{`{{.metadata.labels["app.kubernetes.io/name"]}}.{{.metadata.labels.tier}}`, "web.front", ""},
		{"{{.number}}-{{.metadata.generation}}", "1.5-3", ""},
		{"{{.metadata.labels.none}}", "", "it has no .metadata.labels.none"},
		{"{{.data}}", "", "the field .data is no text"},
		{"{{.data.x.y}}", "", "it has no .data.x.y"},
	} {
		tmpl, err := parseTemplate(tc.template)
		if err != nil {
			t.Errorf("%s: %v", tc.template, err)
			continue
		}
		e := (&mapping{sink: "web", key: tmpl}).entry(object(t, settings))
		switch {
		case tc.wrong == "" && (e.Err != nil || e.Item.Key != (record.Key{Sink: "web", Name: tc.key})):
			t.Errorf("%s: key %v, %v, want %s", tc.template, e.Item.Key, e.Err, tc.key)
		case tc.wrong != "" && (e.Err == nil || !strings.Contains(e.Err.Error(), tc.wrong) || e.Item.Key != (record.Key{})):
			t.Errorf("%s: key %v, %v, want none and %q", tc.template, e.Item.Key, e.Err, tc.wrong)
		}
	}
}

func TestATemplateThatCanNotBeReadSaysWhy(t *testing.T) {
	for text, words := range map[string]string{
		"{{.a":                "has no }}",
		"{{}}":                "names no field",
		"{{a}}":               "does not begin with a dot",
		"{{.a..b}}":           "no name of a field",
		"{{.a | upper}}":      "no name of a field",
		`{{.a["b}}`:           "does not end",
		`{{.a["b"}}`:          "does not end",
		"{{range .a}}{{end}}": "does not begin with a dot",
	} {
		if _, err := parseTemplate(text); err == nil || !strings.Contains(err.Error(), words) {
			t.Errorf("%s: %v, want words %q", text, err, words)
		}
	}
}

func TestAManifestHasNothingOfItsCluster(t *testing.T) {
	obj := object(t, settings)
	before := obj.DeepCopy()
	e := (&mapping{sink: "web", key: defaultKey(true)}).entry(obj)
	want := `{"apiVersion":"v1","data":{"x/y":"1"},"kind":"ConfigMap","list":["a",{"b":true}],"metadata":{"labels":{"app.kubernetes.io/name":"web","tier":"front"},"name":"settings","namespace":"app"},"number":1.5}`
	if e.Err != nil || string(e.Item.Payload) != want {
		t.Errorf("payload %s, %v\nwant    %s", e.Item.Payload, e.Err, want)
	}
	if e.Item.Place != "ConfigMap app/settings" || e.Item.Key.Name != "app/settings" {
		t.Errorf("place %q, key %q", e.Item.Place, e.Item.Key.Name)
	}
	if before.GetUID() != obj.GetUID() || len(obj.GetAnnotations()) != 1 {
		t.Error("the object itself was changed")
	}
}

func TestAPointerTakesAPartForThePayload(t *testing.T) {
	for pointer, want := range map[string]string{
		"/data": `{"x/y":"1"}`, "/data/x~1y": `"1"`, "/list/1/b": "true", "/list/2": "", "/nothing/there": "", "/number": "1.5", "/list/x": "",
	} {
		e := (&mapping{sink: "web", key: defaultKey(true), payload: pointer}).entry(object(t, settings))
		if string(e.Item.Payload) != want || (want == "") != (e.Err != nil) {
			t.Errorf("%s: %s, %v", pointer, e.Item.Payload, e.Err)
		}
		if e.Item.Key.Name != "app/settings" {
			t.Errorf("%s: an object whose payload can't be taken has key %v: its resource would be swept", pointer, e.Item.Key)
		}
	}
}

func TestWhatHasNoNamespaceIsCalledByItsName(t *testing.T) {
	obj := object(t, `{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"app"}}`)
	if e := (&mapping{key: defaultKey(false), sink: "web"}).entry(obj); e.Item.Key.Name != "app" || e.Item.Place != "Namespace app" {
		t.Errorf("key %q, place %q", e.Item.Key.Name, e.Item.Place)
	}
}

func TestNewSaysWhichOptionIsWrong(t *testing.T) {
	for words, o := range map[string]Options{
		"label_selector": {Labels: "a=b=c"}, "field_selector": {Fields: "a"}, "key": {Key: "{{x}}"}, "payload": {Payload: "data"},
	} {
		if _, err := New(o); err == nil || !strings.Contains(err.Error(), words) {
			t.Errorf("%+v: %v, want one about %s", o, err, words)
		}
	}
}
