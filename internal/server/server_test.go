package server

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pawlsync/pawl/engine"
	"github.com/pawlsync/pawl/engine/outbox"
	"github.com/pawlsync/pawl/engine/record"
	"github.com/pawlsync/pawl/engine/saga"
	"github.com/pawlsync/pawl/internal/api"
)

var update = flag.Bool("update", false, "write docs/openapi.json anew")

// start answers with o.Engine, or a new fake, until the test ends.
func start(t *testing.T, o Options) (*Server, *fake, *httptest.Server) {
	t.Helper()
	f, _ := o.Engine.(*fake)
	if o.Engine == nil {
		f = newFake()
		o.Engine = f
	}
	if o.Sagas == nil {
		o.Sagas = noSagas()
	}
	if o.Store == nil {
		o.Store = &fakeStore{}
	}
	if o.Diagnostics == nil {
		o.Diagnostics = fakeDiagnostics{}
	}
	s, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	hs := httptest.NewUnstartedServer(s.Handler())
	trouble := &strings.Builder{} // log.Logger writes one line at a time
	hs.Config.ErrorLog = log.New(trouble, "", 0)
	hs.Start()
	t.Cleanup(func() {
		s.stop(errStopping) // so that streams end
		hs.Close()
		if strings.Contains(trouble.String(), "panic") {
			t.Errorf("net/http says %s", trouble)
		}
	})
	return s, f, hs
}

// noSagas is of no engine, and is asked for none.
func noSagas() Sagas { return saga.New(saga.Options{}) }

// ask sends one request; header are names and values in turn.
func ask(t *testing.T, method, url, body string, header ...string) (*http.Response, string) {
	t.Helper()
	r, err := http.NewRequest(method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i+1 < len(header); i += 2 {
		if header[i] == "Host" {
			r.Host = header[i+1]
			continue
		}
		r.Header.Set(header[i], header[i+1])
	}
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	got, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response, string(got)
}

func problemOf(t *testing.T, response *http.Response, body string) api.Problem {
	t.Helper()
	if ct := response.Header.Get("Content-Type"); ct != "application/problem+json" {
		t.Fatalf("%s: content type %q, want application/problem+json; body %s", response.Status, ct, body)
	}
	var p api.Problem
	if err := json.Unmarshal([]byte(body), &p); err != nil {
		t.Fatalf("%v in %s", err, body)
	}
	if p.Status != response.StatusCode || p.Type != api.ProblemTypeBase+string(p.Code) || p.Title == "" {
		t.Errorf("status, type or title does not fit: %s in an answer %s", body, response.Status)
	}
	return p
}

func TestOpenAPIDocumentIsFresh(t *testing.T) {
	_, _, hs := start(t, Options{})
	_, body := ask(t, "GET", hs.URL+"/openapi.json", "")
	var document any
	if err := json.Unmarshal([]byte(body), &document); err != nil {
		t.Fatal(err)
	}
	want, _ := json.MarshalIndent(document, "", "  ")
	want = append(want, '\n')
	const path = "../../docs/openapi.json"
	if *update {
		if err := os.WriteFile(path, want, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, _ := os.ReadFile(path)
	if string(got) != string(want) {
		t.Errorf("docs/openapi.json is stale; write it anew with: go test ./internal/server -run Fresh -update")
	}
	if strings.Contains(body, "ErrorModel") {
		t.Error("the document names huma's own error, which is never sent")
	}
	if response, body := ask(t, "GET", hs.URL+"/openapi.yaml", ""); !strings.HasPrefix(body, "components:") {
		t.Errorf("openapi.yaml: %s %.80s", response.Status, body)
	}
}

func TestAPutReachesTheEngineAsItWasSent(t *testing.T) {
	_, f, hs := start(t, Options{})
	const payload = `{"n":1.50e+400,  "s":"<é>","big":12345678901234567890}`
	response, body := ask(t, "PUT", hs.URL+"/v1/sinks/web/resource?key=a%2Fb%2F..%2F%C3%A9+%26",
		`{"payload": `+payload+`, "conflictPolicy": "report-only", "deletionPolicy": "retain", "suspend": true, "direction": "outbound", "owner": "git",
		  "retry": {"base": "1s", "maxAttempts": 3}, "idempotencyKey": "order-17",
		  "order": {"source": "git", "epoch": "e", "number": 18446744073709551615, "partial": true}, "ifGeneration": 0}`)
	if response.StatusCode != http.StatusOK || body != `{"generation":1,"changed":true,"replaced":false}`+"\n" {
		t.Errorf("got %s %s", response.Status, body)
	}
	want := engine.Put{
		Key: record.Key{Sink: "web", Name: "a/b/../é &"}, Payload: []byte(payload),
		Conflict: record.ReportOnly, Deletion: record.Retain, Suspend: true, Direction: record.Outbound, Owner: "git",
		Retry: record.Retry{Base: time.Second, MaxAttempts: 3}, IdempotencyKey: "order-17",
		Order: record.Order{Source: "git", Epoch: "e", Number: 18446744073709551615}, OrderPartial: true, IfGeneration: new(uint64),
	}
	if len(f.puts) != 1 || !reflect.DeepEqual(f.puts[0], want) {
		t.Errorf("the engine got\n%+v, want\n%+v", f.puts, want)
	}
}

func TestR31_WhatTheTargetHasIsShownAsAPayloadIs(t *testing.T) {
	server, f, hs := start(t, Options{Sensitive: map[string][]string{"web": {"/password"}}})
	content := []byte(`{"password":"hunter2","a":1}`)
	key := record.Key{Sink: "web", Name: "k"}
	f.resources[key] = engine.Resource{Key: key,
		Desired: record.Desired{Generation: 1, Direction: record.Both, Origin: record.FromTarget, Tombstone: true},
		Status:  record.Status{Observed: &record.Observed{Content: content, Hash: record.HashOf(content), Cursor: "17"}}}
	const one = "/v1/sinks/web/resource?key=k"
	for url, want := range map[string]string{
		one:                               "",
		one + "&payload=true":             `"content":{"password":"***","a":1}`,
		one + "&payload=true&reveal=true": `"content":` + string(content),
		"/v1/resources?payloads=true":     `"content":{"password":"***","a":1}`,
	} {
		_, body := ask(t, "GET", hs.URL+url, "")
		if !strings.Contains(body, want) || want == "" && strings.Contains(body, "content") ||
			!strings.Contains(body, `"hash":"`+server.hash(key, record.HashOf(content))) || !strings.Contains(body, `"cursor":"17"`) ||
			!strings.Contains(body, `"direction":"both"`) || !strings.Contains(body, `"origin":"target"`) {
			t.Errorf("%s: %s", url, body)
		}
	}
}

func TestAPayloadThatIsNotJSONTravelsAsBase64(t *testing.T) {
	_, f, hs := start(t, Options{})
	ask(t, "PUT", hs.URL+"/v1/sinks/web/resource?key=k", `{"payloadBase64": "/wA="}`)
	if got := string(f.puts[0].Payload); got != "\xff\x00" {
		t.Errorf("stored %q", got)
	}
	if _, body := ask(t, "GET", hs.URL+"/v1/sinks/web/resource?key=k&payload=true", ""); !strings.Contains(body, `"payloadBase64":"/wA="`) {
		t.Errorf("shown as %s", body)
	}
}

func TestWrongInputSaysWhatIsWrongAndWhere(t *testing.T) {
	_, f, hs := start(t, Options{PayloadMaxBytes: 300})
	f.sinks = append(f.sinks, engine.SinkStatus{Name: "left"})
	const one = "/v1/sinks/web/resource?key=k"
	for _, c := range []struct {
		name, method, path, body string
		status                   int
		code                     api.Code
		says                     string // in detail or hint
	}{
		{"no JSON", "PUT", one, "{\n  \"payload\": {\"a\": }\n}", 400, api.CodeBadRequest, "line 2, column 20: this is not JSON: invalid character '}'"},
		{"cut off", "PUT", one, `{"payload": {"a": 1}`, 400, api.CodeBadRequest, "ends too early"},
		{"empty", "PUT", one, "", 400, api.CodeBadRequest, "the body is empty"},
		{"no object", "PUT", one, `[1]`, 400, api.CodeBadRequest, "no JSON object"},
		{"unknown field", "PUT", one, `{"payload": 1, "conflictpolicy": "retain"}`, 400, api.CodeBadRequest, `did you mean "conflictPolicy"?`},
		{"a field twice", "PUT", one, `{"payload": 1, "payload": 2}`, 400, api.CodeBadRequest, `"payload" is given twice`},
		{"unknown field within", "PUT", one, `{"payload": 1, "order": {"sourc": "x"}}`, 400, api.CodeBadRequest, `did you mean "source"?`},
		{"wrong type", "PUT", one, `{"payload": 1, "suspend": "yes"}`, 400, api.CodeBadRequest, "suspend can't be a string"},
		{"negative", "PUT", one, `{"payload": 1, "ifGeneration": -1}`, 400, api.CodeBadRequest, "a whole number, 0 or more"},
		{"bad base64", "PUT", one, `{"payloadBase64": "?"}`, 400, api.CodeBadRequest, "payloadBase64 is no base64"},
		{"something after", "PUT", one, `{"payload": 1} {}`, 400, api.CodeBadRequest, "line 1, column 16: something follows"},
		{"no payload", "PUT", one, `{"owner": "x"}`, 422, api.CodeInvalid, "no payload"},
		{"two payloads", "PUT", one, `{"payload": 1, "payloadBase64": ""}`, 422, api.CodeInvalid, "both payload and payloadBase64"},
		{"too large", "PUT", one, `{"payload": "` + strings.Repeat("x", 70_000) + `"}`, 413, api.CodeTooLarge, "a payload may have 300"},
		{"no key", "PUT", "/v1/sinks/web/resource", `{"payload": 1}`, 422, api.CodeInvalid, "query parameter key: required"},
		{"unknown parameter", "GET", one + "&payloads=true", "", 422, api.CodeInvalid, `did you mean "payload"?`},
		{"no number", "GET", "/v1/resources?limit=ten", "", 422, api.CodeInvalid, "query parameter limit: invalid integer"},
		{"limit of a page", "GET", "/v1/resources?limit=1001", "", 422, api.CodeInvalid, "limit"},
		{"unknown phase", "GET", "/v1/resources?phase=Pendign", "", 422, api.CodeInvalid, `did you mean "Pending"?`},
		{"unknown sink of a list", "GET", "/v1/resources?sink=wbe", "", 404, api.CodeUnknownSink, `did you mean "web"?`},
		{"unknown sink of a watch", "GET", "/v1/watch?sink=wbe", "", 404, api.CodeUnknownSink, `did you mean "web"?`},
		{"unknown sink of a Put", "PUT", "/v1/sinks/clutser/resource?key=k", `{"payload": 1}`, 404, api.CodeUnknownSink, `did you mean "cluster"?`},
		{"unknown sink of a Get", "GET", "/v1/sinks/wbe/resource?key=k", "", 404, api.CodeUnknownSink, `did you mean "web"?`},
		{"unknown sink of an explanation", "GET", "/v1/sinks/wbe/resource/explain?key=k", "", 404, api.CodeUnknownSink, `did you mean "web"?`},
		{"unknown resource", "GET", "/v1/sinks/web/resource?key=k", "", 404, api.CodeNotFound, "get web/k"},
		{"unknown resource of a sink that left", "GET", "/v1/sinks/left/resource?key=k", "", 404, api.CodeNotFound, "get left/k"},
		{"Put to a sink that left", "PUT", "/v1/sinks/left/resource?key=refuse", `{"payload": 1}`, 404, api.CodeUnknownSink, "not in the configuration any more"},
		{"near to a sink that left", "PUT", "/v1/sinks/letf/resource?key=k", `{"payload": 1}`, 404, api.CodeUnknownSink, "there are cluster, web"},
		{"no duration", "GET", "/v1/sinks/web/resource/wait?key=k&timeout=5", "", 422, api.CodeInvalid, "write it as 30s"},
		{"unknown deletion policy", "DELETE", one + "&deletionPolicy=drop", "", 422, api.CodeInvalid, "deletionPolicy"},
		{"no route", "GET", "/v1/resource", "", 404, api.CodeNoRoute, "/openapi.json"},
		{"a key in the path", "GET", "/v1/sinks/web/resource/k", "", 404, api.CodeNoRoute, "?key="},
		{"wrong method", "POST", one, "{}", 405, api.CodeMethodNotAllowed, "it takes "},
	} {
		t.Run(c.name, func(t *testing.T) {
			response, body := ask(t, c.method, hs.URL+c.path, c.body)
			p := problemOf(t, response, body)
			if p.Status != c.status || p.Code != c.code || !strings.Contains(p.Error(), c.says) {
				t.Errorf("got %d %s %q, want %d %s saying %q", p.Status, p.Code, p.Error(), c.status, c.code, c.says)
			}
		})
	}
	if len(f.puts) > 0 {
		t.Errorf("some of it was stored: %+v", f.puts)
	}
}

func TestWhatTheEngineRefusesKeepsItsKindHintAndGeneration(t *testing.T) {
	key := record.Key{Sink: "web", Name: "k"}
	seven := uint64(7)
	_, f, hs := start(t, Options{})
	for _, c := range []struct {
		err        error
		status     int
		code       api.Code
		generation *uint64
	}{
		{engine.ErrNotFound, 404, api.CodeNotFound, nil},
		{engine.ErrUnknownSink, 404, api.CodeUnknownSink, nil},
		{engine.ErrConflict, 409, api.CodeConflict, &seven},
		{engine.ErrStale, 409, api.CodeStale, &seven},
		{engine.ErrNothingToDo, 409, api.CodeNothingToDo, nil},
		{engine.ErrTooLarge, 413, api.CodeTooLarge, nil},
		{engine.ErrInvalid, 422, api.CodeInvalid, nil},
		{engine.ErrNoSpace, 507, api.CodeNoSpace, nil},
		{engine.ErrClosed, 503, api.CodeClosed, nil},
		{errors.New("the disk is on fire"), 500, api.CodeInternal, nil},
	} {
		t.Run(c.err.Error(), func(t *testing.T) {
			f.err = &engine.Error{Op: "put", Key: key, Err: fmt.Errorf("%w: details", c.err), Hint: "the engine's hint", Generation: 7}
			response, body := ask(t, "PUT", hs.URL+"/v1/sinks/web/resource?key=k", `{"payload": 1}`)
			p := problemOf(t, response, body)
			if p.Status != c.status || p.Code != c.code || !reflect.DeepEqual(p.Generation, c.generation) {
				t.Errorf("got %s, want %d %s", body, c.status, c.code)
			}
			want := "put web/k: " + c.err.Error() + ": details"
			if p.Code == api.CodeUnknownSink {
				want = "there is no sink web"
			}
			if p.Detail != want {
				t.Errorf("detail %q, want %q", p.Detail, want)
			}
			if p.Hint == "" {
				t.Error("the hint is lost")
			}
		})
	}
}

func TestAnErrorOfAWholeSinkNamesNoEmptyKey(t *testing.T) {
	_, f, hs := start(t, Options{})
	f.err = &engine.Error{Op: "resume sink", Key: record.Key{Sink: "web"}, Err: engine.ErrNothingToDo}
	response, body := ask(t, "POST", hs.URL+"/v1/sinks/web/resume", "")
	if p := problemOf(t, response, body); !strings.HasPrefix(p.Detail, "resume sink web: ") {
		t.Errorf("detail %q", p.Detail)
	}
}

func TestADamagedRecordSaysHowToGoOn(t *testing.T) {
	_, f, hs := start(t, Options{})
	f.err = &engine.Error{Op: "get", Key: record.Key{Sink: "web", Name: "k"}, Err: outbox.ErrDamaged}
	response, body := ask(t, "GET", hs.URL+"/v1/sinks/web/resource?key=k", "")
	if p := problemOf(t, response, body); p.Status != 500 || !strings.Contains(p.Hint, "forget") {
		t.Errorf("got %s", body)
	}
}

// A sink that leaves the configuration takes along what it said was sensitive.
func TestOfASinkThatIsNotInTheConfigurationEverythingIsHidden(t *testing.T) {
	s, _, hs := start(t, Options{Sensitive: map[string][]string{"web": {"/pin"}}})
	const one = "/v1/sinks/web/resource?key=k"
	ask(t, "PUT", hs.URL+one, `{"payload":{"pin":"1234"}}`)
	if err := s.Configure(nil, map[string][]string{"other": nil}); err != nil {
		t.Fatal(err)
	}
	if _, body := ask(t, "GET", hs.URL+one+"&payload=true", ""); !strings.Contains(body, `"payloadHidden":true`) || strings.Contains(body, "1234") || strings.Contains(body, record.HashOf([]byte(`{"pin":"1234"}`)).Hex()) {
		t.Errorf("shown: %s", body)
	}
	if _, body := ask(t, "GET", hs.URL+one+"&payload=true&reveal=true", ""); !strings.Contains(body, "1234") {
		t.Errorf("not revealed to who may see everything: %s", body)
	}
}

func TestAGetShowsPayloadOnRequestAndSensitiveValuesOnReveal(t *testing.T) {
	_, _, hs := start(t, Options{Sensitive: map[string][]string{"web": {"/spec/password", "/users/*/key"}}})
	const payload = `{"spec":{"password":{"a":1},"n":1.0},"users":[{"key":"k1","name":"<a>"},{"key":"k2"}]}`
	const one = "/v1/sinks/web/resource?key=k"
	ask(t, "PUT", hs.URL+one, `{"payload":`+payload+`}`)
	ask(t, "PUT", hs.URL+"/v1/sinks/web/resource?key=opaque", `{"payloadBase64":"c2VjcmV0"}`)
	for _, c := range []struct{ query, want string }{
		{one, ""},
		{one + "&payload=true", `{"spec":{"password":"***","n":1.0},"users":[{"key":"***","name":"<a>"},{"key":"***"}]}`},
		{one + "&payload=true&reveal=true", payload},
	} {
		_, body := ask(t, "GET", hs.URL+c.query, "")
		var r api.Resource
		if err := json.Unmarshal([]byte(body), &r); err != nil {
			t.Fatal(err)
		}
		if string(r.Payload) != c.want {
			t.Errorf("%s shows %s, want %s", c.query, r.Payload, c.want)
		}
		if len(r.Status.History) != 1 || r.Status.History[0].TookSeconds != 1.5 {
			t.Errorf("history is lost: %s", body)
		}
	}
	if _, body := ask(t, "GET", hs.URL+"/v1/sinks/web/resource?key=opaque&payload=true", ""); !strings.Contains(body, `"payloadHidden":true`) || strings.Contains(body, "c2VjcmV0") {
		t.Errorf("a payload in which nothing can be hidden is shown: %s", body)
	}
	if _, body := ask(t, "GET", hs.URL+"/v1/resources?payloads=true", ""); strings.Contains(body, "k1") || !strings.Contains(body, "***") {
		t.Errorf("a list shows %s", body)
	}
	if _, body := ask(t, "GET", hs.URL+"/v1/sinks/web/resource/explain?key=k", ""); strings.Contains(body, "k1") || !strings.Contains(body, `"text":"web/k is to have generation 1`) {
		t.Errorf("explain shows %s", body)
	}
}

func TestAListIsPagedAndFiltered(t *testing.T) {
	_, f, hs := start(t, Options{})
	for _, k := range []string{"a/1", "a/2", "a/3", "b/1"} {
		ask(t, "PUT", hs.URL+"/v1/sinks/web/resource?key="+k, `{"payload": 1}`)
	}
	f.mu.Lock()
	r := f.resources[record.Key{Sink: "web", Name: "a/2"}]
	r.Status.Phase = record.Stalled
	f.resources[r.Key] = r
	f.mu.Unlock()
	list := func(query string) (keys []string, page api.Page) {
		_, body := ask(t, "GET", hs.URL+"/v1/resources?"+query, "")
		if err := json.Unmarshal([]byte(body), &page); err != nil || page.Items == nil {
			t.Fatalf("%v: %s", err, body)
		}
		for _, r := range page.Items {
			keys = append(keys, r.Key)
		}
		return keys, page
	}
	keys, page := list("sink=web&prefix=a&limit=2")
	if !slices.Equal(keys, []string{"a/1", "a/2"}) || page.Next == "" || page.Token != token(4) {
		t.Errorf("first page: %v %+v", keys, page)
	}
	if keys, page = list("sink=web&prefix=a&limit=2&page=" + page.Next); !slices.Equal(keys, []string{"a/3"}) || page.Next != "" {
		t.Errorf("second page: %v %+v", keys, page)
	}
	if keys, _ = list("phase=stalled&phase=Failed"); !slices.Equal(keys, []string{"a/2"}) {
		t.Errorf("by phase: %v", keys)
	}
	if keys, _ = list("sink=cluster"); len(keys) > 0 {
		t.Errorf("of an empty sink: %v", keys)
	}
}

func TestADeleteCarriesItsConditions(t *testing.T) {
	_, f, hs := start(t, Options{})
	ask(t, "DELETE", hs.URL+"/v1/sinks/web/resource?key=k&deletionPolicy=retain&ifGeneration=0&orderSource=git&orderEpoch=e&orderNumber=9&orderPartial=true", "")
	ask(t, "DELETE", hs.URL+"/v1/sinks/web/resource?key=k", "")
	key := record.Key{Sink: "web", Name: "k"}
	want := []engine.Delete{
		{Key: key, Deletion: record.Retain, IfGeneration: new(uint64), Order: record.Order{Source: "git", Epoch: "e", Number: 9}, OrderPartial: true},
		{Key: key},
	}
	if !reflect.DeepEqual(f.deletes, want) {
		t.Errorf("the engine got %+v, want %+v", f.deletes, want)
	}
}

func TestAnOperatorsOrdersReachTheEngine(t *testing.T) {
	_, f, hs := start(t, Options{})
	var want []string
	for _, verb := range []string{"retry", "suspend", "resume", "accept", "force", "forget"} {
		want = append(want, verb+" web/a/b")
		if response, body := ask(t, "POST", hs.URL+"/v1/sinks/web/resource/"+verb+"?key=a/b", ""); response.StatusCode != http.StatusNoContent {
			t.Errorf("%s: %s %s", verb, response.Status, body)
		}
	}
	for _, verb := range []string{"suspend", "resume"} {
		want = append(want, verb+" web")
		ask(t, "POST", hs.URL+"/v1/sinks/web/"+verb, "")
	}
	if !slices.Equal(f.orders, want) {
		t.Errorf("the engine got %v, want %v", f.orders, want)
	}
	f.err = engine.ErrNothingToDo
	if response, body := ask(t, "POST", hs.URL+"/v1/sinks/web/resource/accept?key=k", ""); problemOf(t, response, body).Code != api.CodeNothingToDo {
		t.Errorf("refused with %s", body)
	}
}

func TestStatusSumsUpAndNamesWhatNeedsAttention(t *testing.T) {
	_, f, hs := start(t, Options{Version: api.Version{Version: "1.2.3"}})
	f.stats.Store.RefusingPuts = true
	f.stats.Resources = 5
	f.sinks[0].Counts = map[record.Phase]int{record.Failed: 2, record.AckedPhase: 1}
	f.sinks[1].Counts = map[record.Phase]int{record.Failed: 1}
	_, body := ask(t, "GET", hs.URL+"/v1/status", "")
	var st api.DaemonStatus
	if err := json.Unmarshal([]byte(body), &st); err != nil {
		t.Fatal(err)
	}
	if st.Version != "1.2.3" || st.Resources != 5 || st.Counts[record.Failed] != 3 || st.Sinks[0].Name != "cluster" {
		t.Errorf("got %s", body)
	}
	if len(st.Headlines) != 3 || !strings.HasPrefix(st.Headlines[0], "The disk is nearly full") {
		t.Errorf("headlines %q", st.Headlines)
	}
	if response, body := ask(t, "GET", hs.URL+"/readyz", ""); problemOf(t, response, body).Code != api.CodeNotReady {
		t.Errorf("a daemon that refuses Puts is ready: %s", body)
	}
	if response, _ := ask(t, "GET", hs.URL+"/livez", ""); response.StatusCode != http.StatusOK {
		t.Errorf("and does not live: %s", response.Status)
	}
}

func TestAWaitThatTimesOutSaysWhereTheResourceIs(t *testing.T) {
	_, f, hs := start(t, Options{})
	ask(t, "PUT", hs.URL+"/v1/sinks/web/resource?key=k", `{"payload": 1}`)
	_, body := ask(t, "GET", hs.URL+"/v1/sinks/web/resource/wait?key=k&timeout=1ms", "")
	if body != `{"done":false,"timedOut":true,"phase":"Pending","generation":1}`+"\n" {
		t.Errorf("got %s", body)
	}
	f.wait = waitFor(record.Key{Sink: "web", Name: "k"}, 1, engine.WaitResult{Done: true, Phase: record.AckedPhase, Generation: 1})
	if _, body = ask(t, "GET", hs.URL+"/v1/sinks/web/resource/wait?key=k&generation=1", ""); body != `{"done":true,"phase":"Acked","generation":1}`+"\n" {
		t.Errorf("got %s", body)
	}
}

func TestASensitivePathThatIsNoPointerIsRefusedAtStart(t *testing.T) {
	_, err := New(Options{Sagas: noSagas(), Engine: newFake(), Sensitive: map[string][]string{"web": {"spec.password"}}})
	if err == nil || !strings.Contains(err.Error(), `sink web: the sensitive path "spec.password" is no JSON pointer`) {
		t.Errorf("got %v", err)
	}
}

func TestAPanicIsAProblemAndNotTheEndOfTheDaemon(t *testing.T) {
	_, f, hs := start(t, Options{Now: func() time.Time { return time.Time{} }})
	f.sinks = nil
	f.resources = nil // the next Put writes to it
	f.sinks = []engine.SinkStatus{{Name: "web", Configured: true}}
	response, body := ask(t, "PUT", hs.URL+"/v1/sinks/web/resource?key=k", `{"payload": 1}`)
	if problemOf(t, response, body).Code != api.CodeInternal {
		t.Errorf("got %s", body)
	}
}
