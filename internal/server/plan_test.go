package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/pawlsync/pawl/engine"
	"github.com/pawlsync/pawl/engine/outbox"
	"github.com/pawlsync/pawl/engine/outbox/memory"
	"github.com/pawlsync/pawl/engine/record"
	"github.com/pawlsync/pawl/engine/sink"
	"github.com/pawlsync/pawl/internal/access"
	"github.com/pawlsync/pawl/internal/api"
)

// reporting is a target that tells where an object differs, and what it has.
type reporting struct{ *target }

func (t reporting) Manifest() sink.Manifest {
	m := t.target.Manifest()
	m.ReportsContent = true
	return m
}

func (t reporting) Observe(ctx context.Context, r *sink.Request) sink.Result {
	res := t.target.Observe(ctx, r)
	if o := res.Observation; o != nil && o.Exists && o.MatchDesired == sink.No {
		o.Differing = []string{"/name", "/password", "/old", "/new/deep"}
	}
	return res
}

// planning is an API over a real engine with one such target, web.
func planning(t *testing.T) (*target, *engine.Engine, *httptest.Server) {
	t.Helper()
	web := newTarget()
	e, err := engine.Open(t.Context(), engine.Options{
		Sinks: []engine.SinkOptions{{Name: "web", Sink: reporting{web}}},
		Store: func(o outbox.Observer) (outbox.Store, error) {
			return memory.Open(memory.NewDisk(), memory.Options{Observer: o})
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close(context.Background()) })
	_, _, hs := start(t, Options{Engine: e, Sensitive: map[string][]string{"web": {"/password"}}})
	return web, e, hs
}

// have makes the target have content, acknowledged.
func have(t *testing.T, e *engine.Engine, key, content string) {
	t.Helper()
	k := record.Key{Sink: "web", Name: key}
	if _, err := e.Put(t.Context(), engine.Put{Key: k, Payload: []byte(content)}); err != nil {
		t.Fatal(err)
	}
	if r, err := e.Wait(t.Context(), k, 0); err != nil || !r.Done {
		t.Fatalf("%+v %v", r, err)
	}
}

func planned(t *testing.T, url string, lines ...string) []api.PlanAnswer {
	t.Helper()
	response, body := ask(t, "POST", url, strings.Join(lines, "\n"))
	if ct := response.Header.Get("Content-Type"); response.StatusCode != 200 || ct != "application/x-ndjson" {
		t.Fatalf("%s %s: %s", response.Status, ct, body)
	}
	var out []api.PlanAnswer
	d := json.NewDecoder(strings.NewReader(body))
	for {
		var a api.PlanAnswer
		if err := d.Decode(&a); errors.Is(err, io.EOF) {
			return out
		} else if err != nil {
			t.Fatalf("%v in %s", err, body)
		}
		out = append(out, a)
	}
}

func TestAPlanSaysWhatEachLineWouldComeTo(t *testing.T) {
	web, e, hs := planning(t)
	have(t, e, "same", `{"a":1}`)
	have(t, e, "other", `{"a":1}`)
	before := web.names()
	got := planned(t, hs.URL+"/v1/plan",
		`{"sink":"web","key":"same","payload":{"a":1}}`,
		`{"sink":"web","key":"other","payload":{"a":2}}`,
		`{"sink":"web","key":"new","payloadBase64":"AP8="}`,
		``,
		`{"sink":"web","key":"same","delete":true}`,
		`{"sink":"web","key":"none","delete":true}`,
		`{"sink":"web","key":"same"}`,
		`{"sink":"wbe","key":"same","payload":1}`,
		`{"sink":"web","key":"same","payload":1,"delete":true}`,
		`{"sink":"web","key":"same","suspend":true}`,
		`{"sink":"web","key":"none"}`,
		`nonsense`,
	)
	want := []struct {
		line   int
		action string
		code   api.Code
		says   string
	}{
		{1, api.ActionNone, "", ""}, {2, api.ActionUpdate, "", ""}, {3, api.ActionCreate, "", ""},
		{5, api.ActionDelete, "", ""}, {6, api.ActionNone, "", "no such resource"}, {7, api.ActionNone, "", ""},
		{8, "", api.CodeUnknownSink, `did you mean "web"?`}, {9, "", api.CodeInvalid, "a deletion has no payload"},
		{10, "", api.CodeInvalid, "the line has no payload"}, {11, "", api.CodeNotFound, "there is no such resource"},
		{12, "", api.CodeBadRequest, "line 12, column 2"},
	}
	if len(got) != len(want) {
		t.Fatalf("%d answers, want %d: %+v", len(got), len(want), got)
	}
	for i, w := range want {
		a := got[i]
		switch {
		case a.Line != w.line, (a.Error == nil) != (w.code == ""), (a.Difference == nil) != (w.code != ""):
			t.Errorf("%+v, want %+v", a, w)
		case a.Error != nil && (a.Error.Code != w.code || a.Error.Line != w.line || !strings.Contains(a.Error.Error(), w.says)):
			t.Errorf("line %d: %+v, want %+v", a.Line, a.Error, w)
		case a.Error == nil && (a.Action != w.action || !strings.Contains(a.Why, w.says)):
			t.Errorf("line %d: %+v, want %+v", a.Line, a.Difference, w)
		}
	}
	if after := web.names(); fmt.Sprint(before) != fmt.Sprint(after) || web.content("other") != `{"a":1}` {
		t.Errorf("the target had %v and has %v", before, after)
	}
	if r, err := e.Get(t.Context(), record.Key{Sink: "web", Name: "new"}); !errors.Is(err, engine.ErrNotFound) {
		t.Errorf("a plan stored %+v, %v", r, err)
	}
}

func TestADifferenceHasPathsAndHidesValues(t *testing.T) {
	web, e, hs := planning(t)
	have(t, e, "a", `{"name":"Alice","password":"s3cret","new":{"deep":[1]}}`)
	web.mu.Lock()
	web.objects["a"] = `{"name":"Bob","password":"gu3ss","old":true,"new":{}}`
	web.mu.Unlock()
	for query, want := range map[string]string{
		"": `[{"path":"/name","change":"update"},{"path":"/password","change":"update"},{"path":"/old","change":"remove"},{"path":"/new/deep","change":"add"}]`,
		"&values=true": `[{"path":"/name","change":"update","desired":"Alice","observed":"Bob"},{"path":"/password","change":"update","desired":"***","observed":"***"},` +
			`{"path":"/old","change":"remove","observed":true},{"path":"/new/deep","change":"add","desired":[1]}]`,
	} {
		response, body := ask(t, "GET", hs.URL+"/v1/sinks/web/resource/diff?key=a"+query, "")
		var d api.Difference
		if err := json.Unmarshal([]byte(body), &d); err != nil || response.StatusCode != 200 {
			t.Fatalf("%s %s", response.Status, body)
		}
		paths, _ := json.Marshal(d.Paths)
		if string(paths) != want || d.Action != api.ActionUpdate || !d.Drift || !d.Exists || d.Same || !d.Looked {
			t.Errorf("%s: %s", query, body)
		}
		if strings.Contains(body, "s3cret") || strings.Contains(body, "gu3ss") || query == "" && strings.Contains(body, "Alice") {
			t.Errorf("%s: values are shown: %s", query, body)
		}
	}
}

func TestADifferenceOfWhatIsNotThereIsAProblem(t *testing.T) {
	_, _, hs := planning(t)
	for path, code := range map[string]api.Code{
		"/v1/sinks/web/resource/diff?key=none": api.CodeNotFound,
		"/v1/sinks/wbe/resource/diff?key=none": api.CodeUnknownSink,
		"/v1/sinks/web/resource/diff":          api.CodeInvalid,
	} {
		response, body := ask(t, "GET", hs.URL+path, "")
		if p := problemOf(t, response, body); p.Code != code {
			t.Errorf("%s: %+v, want %s", path, p, code)
		}
	}
}

// The answers are in the order of the lines, whatever order their targets answer in;
// and no more than a few lines are under way.
func TestAPlanAnswersInOrderAFewAtATime(t *testing.T) {
	f := newFake()
	const n = 2000
	var running, most atomic.Int64
	var second [n]chan bool // closed when that line is answered
	for i := range second {
		second[i] = make(chan bool)
	}
	f.preview = func(_ context.Context, q engine.Question) (engine.Preview, error) {
		now := running.Add(1)
		defer running.Add(-1)
		for was := most.Load(); now > was && !most.CompareAndSwap(was, now); was = most.Load() {
		}
		i, err := strconv.Atoi(q.Key.Name)
		if i%2 == 0 {
			<-second[i+1] // the first of each two is answered last
		} else {
			close(second[i])
		}
		return engine.Preview{Key: q.Key, Action: engine.ActionNone, Same: true, Status: sink.OK}, err
	}
	_, _, hs := start(t, Options{Engine: f})
	var lines []string
	for i := range n {
		lines = append(lines, fmt.Sprintf(`{"sink":"web","key":"%d"}`, i))
	}
	got := planned(t, hs.URL+"/v1/plan", lines...)
	if len(got) != n {
		t.Fatalf("%d answers, want %d", len(got), n)
	}
	for i, a := range got {
		if a.Line != i+1 || a.Difference == nil || a.Key != fmt.Sprint(i) {
			t.Fatalf("answer %d: %+v", i, a)
		}
	}
	if m := most.Load(); m > planAhead+2 {
		t.Errorf("%d were under way at once", m)
	}
}

func TestAPlanAsksATargetThatIsAwayAFewTimesOnly(t *testing.T) {
	f := newFake()
	var mu sync.Mutex
	asked := map[string]int{}
	f.preview = func(_ context.Context, q engine.Question) (engine.Preview, error) {
		mu.Lock()
		defer mu.Unlock()
		asked[q.Key.Sink]++
		p := engine.Preview{Key: q.Key, Action: engine.ActionNone, Same: true, Status: sink.OK}
		if q.Key.Sink == "web" {
			p = engine.Preview{Key: q.Key, Action: engine.ActionUnknown, Why: "unreachable", Status: sink.Unreachable}
		}
		return p, nil
	}
	_, _, hs := start(t, Options{Engine: f})
	var lines []string
	for i := range 200 {
		lines = append(lines, fmt.Sprintf(`{"sink":%q,"key":"%d"}`, []string{"web", "cluster"}[i%2], i))
	}
	got := planned(t, hs.URL+"/v1/plan", lines...)
	if last := got[198]; last.Action != api.ActionUnknown || !strings.Contains(last.Why, "not asked: the target did not answer the last") {
		t.Errorf("%+v", last)
	}
	if asked["cluster"] != 100 || asked["web"] < planDeaf || asked["web"] > planDeaf+planAhead {
		t.Errorf("asked %v", asked)
	}
}

func TestAPlanEndsWithTheServer(t *testing.T) {
	f := newFake()
	begun := make(chan bool, 1)
	f.preview = func(ctx context.Context, _ engine.Question) (engine.Preview, error) {
		begun <- true
		<-ctx.Done()
		return engine.Preview{}, ctx.Err()
	}
	s, _, hs := start(t, Options{Engine: f})
	pr, pw := io.Pipe()
	defer pw.Close()
	request, err := http.NewRequest("POST", hs.URL+"/v1/plan", pr)
	if err != nil {
		t.Fatal(err)
	}
	go io.WriteString(pw, `{"sink":"web","key":"a"}`+"\n")
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	<-begun
	s.stop(errStopping)
	body, _ := io.ReadAll(response.Body)
	if !strings.Contains(string(body), `"line":1`) || !strings.Contains(string(body), `"closed"`) {
		t.Errorf("%s", body)
	}
}

// Of a short secret every value could be asked for, and the right one is the one that
// changes nothing.
func TestWhoOnlyReadsFindsOutNoSensitiveValueByAPlan(t *testing.T) {
	k := &scopeKit{T: t, file: filepath.Join(t.TempDir(), "tokens")}
	reader := k.token("reader", access.TokenGrant{Scope: access.Read})
	writer := k.token("writer", access.TokenGrant{Scope: access.Write})
	_, f, hs := start(t, Options{Authenticators: tokensOf(t, k.file), Sensitive: map[string][]string{"web": {"/pin"}, "cluster": nil}})
	f.preview = func(_ context.Context, q engine.Question) (engine.Preview, error) {
		return engine.Preview{Key: q.Key, Action: engine.ActionNone, Same: true}, nil
	}
	for _, want := range []struct {
		line           string
		reader, writer bool
	}{
		{`{"sink":"web","key":"k","payload":{"pin":"1234"}}`, false, true},
		{`{"sink":"web","key":"k"}`, true, true},
		{`{"sink":"web","key":"k","delete":true}`, true, true},
		{`{"sink":"cluster","key":"k","payload":{"pin":"1234"}}`, true, true}, // nothing is hidden there
	} {
		for as, answered := range map[*[]string]bool{&reader: want.reader, &writer: want.writer} {
			_, body := ask(t, "POST", hs.URL+"/v1/plan", want.line, *as...)
			if strings.Contains(body, `"same":true`) != answered || strings.Contains(body, "lacks the scope write for ") == answered {
				t.Errorf("%s as %s: %s", want.line, map[bool]string{true: "reader", false: "writer"}[as == &reader], body)
			}
		}
	}
}
