package main

import (
	"io"
	"maps"
	"net/http"
	"strings"
	"testing"

	"github.com/pawlsync/pawl/plugins/internal/jsondoc"
	pawl "github.com/pawlsync/pawl/sdk/go"
	"github.com/pawlsync/pawl/sdk/go/pawltest"
)

func TestFieldsOfTwoSets(t *testing.T) {
	for _, test := range []struct{ x, y, want string }{
		{`{}`, `{}`, `{}`},
		{`{"f:a":{}}`, `{"f:b":{"f:c":{}}}`, `{"f:a":{},"f:b":{"f:c":{}}}`},
		{`{"f:a":{"f:b":{}}}`, `{"f:a":{"f:c":{},".":{}}}`, `{"f:a":{"f:b":{},"f:c":{},".":{}}}`},
		{`{"f:a":{}}`, `{"f:a":{"f:b":{}}}`, `{"f:a":{".":{},"f:b":{}}}`}, // the value itself, and a part of it
		{`{"f:a":{".":{},"f:b":{}}}`, `{"f:a":{}}`, `{"f:a":{".":{},"f:b":{}}}`},
		{`{"f:a":{"k:{\"n\":\"1\"}":{"f:n":{}}}}`, `{"f:a":{"k:{\"n\":\"2\"}":{"f:n":{}}}}`, `{"f:a":{"k:{\"n\":\"1\"}":{"f:n":{}},"k:{\"n\":\"2\"}":{"f:n":{}}}}`},
	} {
		x, y, want := mustParse(t, test.x), mustParse(t, test.y), mustParse(t, test.want)
		if got := union(x, y); !jsondoc.Equal(got, want) {
			t.Errorf("%s and %s are %s", test.x, test.y, got.Raw())
		}
		if got := union(y, x); !jsondoc.Equal(got, want) {
			t.Errorf("%s and %s are %s", test.y, test.x, got.Raw())
		}
	}
	if x := mustParse(t, `{"f:a":{}}`); union(x, jsondoc.Value{}).Raw() != x.Raw() || union(jsondoc.Value{}, x).Raw() != x.Raw() {
		t.Error("what is not there adds something")
	}
}

func TestAManifestOfSomeFields(t *testing.T) {
	metadata := mustParse(t, `{"name":"x","namespace":"y","uid":"u","resourceVersion":"7","labels":{"not":"this"}}`)
	got := manifestAt(mustParse(t, liveSet), mustParse(t, live), metadata)
	want := `{"apiVersion":"v1","kind":"","metadata":{"name":"x","namespace":"y","uid":"u","resourceVersion":"7","labels":{"a/b":"1"}},
		"spec":{"ports":[{"protocol":"TCP","port":80,"name":"web"}],"finalizers":["f1"],"args":["a","b"],"selector":{"app":"web"},"empty":{"defaulted":true},"cpu":"1"}}`
	if !jsondoc.Equal(mustParse(t, string(got)), mustParse(t, want)) {
		t.Errorf("%s", got)
	}
	// What is not there is not in it, and what only has to be there is empty.
	got = manifestAt(mustParse(t, `{"f:data":{"f:gone":{}},"f:spec":{".":{}},"f:none":{}}`), mustParse(t, `{"data":{"a":"1"},"spec":{"a":"1"}}`), metadata)
	if !strings.HasSuffix(string(got), `,"data":{},"spec":{}}`) {
		t.Errorf("%s", got)
	}
}

func TestFieldsThatAreAsBefore(t *testing.T) {
	now := mustParse(t, strings.NewReplacer(`"a/b":"1"`, `"a/b":"2"`, `"name":"web"`, `"name":"db"`, `"f1",`, ``).Replace(live))
	want := `{"f:spec":{"f:ports":{"k:{\"port\":80,\"protocol\":\"TCP\"}":{".":{},"f:port":{}}},"f:args":{},"f:selector":{},"f:empty":{},"f:cpu":{}}}`
	if got := sameAt(mustParse(t, liveSet), now, mustParse(t, live)); !jsondoc.Equal(got, mustParse(t, want)) {
		t.Errorf("%s", got.Raw())
	}
}

// scripted answers with what it is told to.
type scripted struct {
	api
	look    string                                      // the object
	answers map[string]func() (status int, body string) // by method and media type
	calls   map[string]int
}

func (s *scripted) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	kind := r.Method + " " + strings.TrimPrefix(r.Header.Get("Content-Type"), "application/")
	answer, ok := s.answers[kind]
	switch {
	case r.URL.Path == "/api/v1":
		_, _ = io.WriteString(w, `{"resources":[{"name":"configmaps","kind":"ConfigMap","namespaced":true,"verbs":["get","patch"]}]}`)
	case r.Method == http.MethodGet:
		_, _ = io.WriteString(w, s.look)
	case ok:
		s.calls[kind]++
		status, body := answer()
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	default:
		w.WriteHeader(http.StatusTeapot)
	}
}

const (
	applied   = "PATCH apply-patch+yaml"
	handed    = "PATCH merge-patch+json"
	removed   = "DELETE json"
	conflict  = `{"kind":"Status","reason":"Conflict","message":"the object has been modified","details":{"name":"x"}}`
	sagaOwner = `"managedFields":[{"manager":"pawl-test","operation":"Apply","apiVersion":"v1","fieldsV1":{"f:data":{"f:a":{}},"f:metadata":{"f:annotations":{"f:pawl.dev/saga":{}}}}}]`
	ofSaga    = `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"x","namespace":"y","uid":"u","resourceVersion":"7","annotations":{"pawl.dev/saga":"0a-3"},` + sagaOwner + `},"data":{"a":"2"}}`
	asBefore  = `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"x","namespace":"y","uid":"u","resourceVersion":"8",` + sagaOwner + `},"data":{"a":"1"}}`
	before    = `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"x","namespace":"y","managedFields":[{"manager":"they","operation":"Update","apiVersion":"v1","fieldsV1":{"f:data":{"f:a":{}}}}]},"data":{"a":"1"}}`
)

func always(status int, body string) func() (int, string) {
	return func() (int, string) { return status, body }
}

// An undo that meets a change between its look and its write looks again, and never
// takes that for somebody who changed what the step wrote: that would end the saga.
func TestAnUndoLooksAgain(t *testing.T) {
	refused := always(422, `{"kind":"Status","reason":"Invalid","message":"no","details":{"name":"x"}}`)
	once := func(first, then func() (int, string)) func() (int, string) {
		asked := false
		return func() (int, string) {
			if !asked {
				asked = true
				return first()
			}
			return then()
		}
	}
	for name, test := range map[string]struct {
		creates bool
		look    string
		answers map[string]func() (int, string)
		want    pawl.Status
		calls   map[string]int
	}{
		"an update that changes all the time": {false, ofSaga, map[string]func() (int, string){applied: always(409, conflict)}, pawl.StatusRetry, map[string]int{applied: maxLooks}},
		"an update that changed once": {false, ofSaga, map[string]func() (int, string){applied: once(always(409, conflict), always(200, asBefore)), handed: always(200, asBefore)},
			pawl.StatusOK, map[string]int{applied: 2, handed: 1}},
		"an update that goes on":       {false, ofSaga, map[string]func() (int, string){applied: always(500, "")}, pawl.StatusRetry, map[string]int{applied: 1}},
		"owners of what is as before":  {false, asBefore, map[string]func() (int, string){handed: always(200, asBefore)}, pawl.StatusOK, map[string]int{handed: 1}},
		"owners that change":           {false, asBefore, map[string]func() (int, string){handed: once(always(409, conflict), always(200, asBefore))}, pawl.StatusOK, map[string]int{handed: 2}},
		"owners that nobody may write": {false, asBefore, map[string]func() (int, string){handed: refused}, pawl.StatusOK, map[string]int{handed: 1}},
		"owners without an answer":     {false, asBefore, map[string]func() (int, string){handed: always(503, "")}, pawl.StatusRetry, map[string]int{handed: 1}},
		"a refusal":                    {false, ofSaga, map[string]func() (int, string){applied: refused}, pawl.StatusRejected, map[string]int{applied: 1}},
		"a creation that changes":      {true, ofSaga, map[string]func() (int, string){removed: always(409, conflict)}, pawl.StatusRetry, map[string]int{removed: maxLooks}},
		"a creation that goes":         {true, ofSaga, map[string]func() (int, string){removed: always(404, strings.Replace(conflict, "Conflict", "NotFound", 1))}, pawl.StatusOK, map[string]int{removed: 1}},
		"a creation of others":         {true, asBefore, nil, pawl.StatusConflict, map[string]int{}},
	} {
		s := &scripted{look: test.look, answers: test.answers, calls: map[string]int{}}
		k := pawltest.New(t, &adapter{}, pawltest.Options{Upstream: s})
		r := &pawl.Request{Key: testKey, Payload: []byte(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"x","namespace":"y"},"data":{"a":"2"}}`),
			Saga: &pawl.SagaRun{ID: "0a", Step: 3, Before: &pawl.Image{}}}
		if !test.creates {
			r.Saga.Before = &pawl.Image{Exists: true, UID: "u", CID: "6", Content: []byte(before)}
		}
		got := k.Restore(r)
		if got.Status != test.want {
			t.Errorf("%s: %v: %s, want %v", name, got.Status, got.Message, test.want)
		}
		if !maps.Equal(s.calls, test.calls) {
			t.Errorf("%s: sent %v, want %v", name, s.calls, test.calls)
		}
	}
}

// Not every conflict is one about the object.
func TestAConflictIsOneOnlyIfTheObjectChanged(t *testing.T) {
	for name, test := range map[string]struct {
		cid  string
		mode pawl.Mode
		want pawl.Status
	}{
		"as it was":        {"7", pawl.Upsert, pawl.StatusRetry},
		"it changed":       {"6", pawl.Upsert, pawl.StatusConflict},
		"there was none":   {"", pawl.Upsert, pawl.StatusConflict},
		"to create it":     {"", pawl.CreateOnly, pawl.StatusAlreadyExists},
		"without an image": {"none", pawl.Upsert, pawl.StatusRejected},
	} {
		s := &scripted{look: ofSaga, answers: map[string]func() (int, string){applied: always(409, conflict)}, calls: map[string]int{}}
		k := pawltest.New(t, &adapter{}, pawltest.Options{Upstream: s})
		r := &pawl.Request{Key: testKey, Mode: test.mode, Payload: []byte(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"x","namespace":"y"}}`),
			Saga: &pawl.SagaRun{ID: "0b", Before: &pawl.Image{Exists: test.cid != "", UID: "u", CID: test.cid}}}
		switch test.cid {
		case "":
			r.Saga.Before = &pawl.Image{}
		case "none":
			r.Saga.Before = nil
		}
		if got := k.Apply(r); got.Status != test.want {
			t.Errorf("%s: %v: %s", name, got.Status, got.Message)
		}
		if r.Saga.Before == nil {
			if got := k.Delete(r); got.Status != pawl.StatusRejected {
				t.Errorf("%s: a deletion: %v", name, got.Status)
			}
		}
	}
}
