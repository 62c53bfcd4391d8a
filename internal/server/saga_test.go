package server

import (
	"context"
	"encoding/json"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pawlsync/pawl/config"
	"github.com/pawlsync/pawl/engine/saga"
	"github.com/pawlsync/pawl/engine/sink"
	"github.com/pawlsync/pawl/internal/api"
	"github.com/pawlsync/pawl/internal/manifest"
	"github.com/pawlsync/pawl/internal/sagatemplate"
)

const grantAndNamespace = `{"id":"ns-foo","mode":"pessimistic","timeout":"20s","steps":[
  {"sink":"permissions","key":"ns/foo","verb":"create","payload":{"owner":"u1","secret":"canary"}},
  {"sink":"cluster","key":"ns/foo","verb":"create","payload":{"kind":"Namespace","name":"foo"}}]}`

func sagaIn(t *testing.T, response *http.Response, body string, status int) api.Saga {
	t.Helper()
	if response.StatusCode != status {
		t.Fatalf("%s, want %d: %s", response.Status, status, body)
	}
	var v api.Saga
	if err := json.Unmarshal([]byte(body), &v); err != nil {
		t.Fatalf("%v in %s", err, body)
	}
	return v
}

func states(v *api.Saga) (out []string) {
	for i := range v.Steps {
		out = append(out, v.Steps[i].State)
	}
	return out
}

func TestASagaThatIsWrittenIsToldAsCommitted(t *testing.T) {
	s := startSagas(t, Options{})
	response, body := ask(t, "POST", s.url+"/v1/sagas", grantAndNamespace)
	v := sagaIn(t, response, body, 200)
	if v.ID != "ns-foo" || len(v.Run) != 32 || v.Outcome != api.SagaCommitted || !slices.Equal(states(&v), []string{"written", "written"}) {
		t.Errorf("%+v", v)
	}
	if at := response.Header.Get("Location"); at != "/v1/sagas/ns-foo" {
		t.Errorf("Location %q", at)
	}
	if !slices.Equal(s.permissions.names(), []string{"ns/foo"}) || !slices.Equal(s.cluster.names(), []string{"ns/foo"}) {
		t.Errorf("written: %v, %v", s.permissions.names(), s.cluster.names())
	}
	// The resources are ordinary ones from now on.
	response, body = ask(t, "GET", s.url+"/v1/sinks/cluster/resource/wait?key=ns/foo", "")
	if response.StatusCode != 200 || !strings.Contains(body, `"done":true`) {
		t.Errorf("%s %s", response.Status, body)
	}
}

func TestTheSameSagaIsOneAndOtherContentIsRefused(t *testing.T) {
	s := startSagas(t, Options{})
	for range 3 {
		response, body := ask(t, "POST", s.url+"/v1/sagas", grantAndNamespace)
		sagaIn(t, response, body, 200)
	}
	response, body := ask(t, "POST", s.url+"/v1/sagas", strings.Replace(grantAndNamespace, "u1", "u2", 1))
	if p := problemOf(t, response, body); p.Code != api.CodeSagaMismatch || p.Status != 409 || !strings.Contains(p.Detail, "ns-foo") {
		t.Errorf("%+v", p)
	}
	// White space, and how long the caller waits, are no part of the content.
	response, body = ask(t, "POST", s.url+"/v1/sagas", strings.NewReplacer(`"mode"`, `"wait":0,"mode"`, `{"owner"`, `{ "owner"`).Replace(grantAndNamespace))
	sagaIn(t, response, body, 200)
}

func TestARolledBackSagaCarriesTheTargetsOwnAnswer(t *testing.T) {
	s := startSagas(t, Options{})
	s.cluster.become(refuses(sink.Rejected, `namespaces "foo" is forbidden: quota`))
	response, body := ask(t, "POST", s.url+"/v1/sagas", grantAndNamespace)
	p := problemOf(t, response, body)
	if p.Code != api.CodeSagaRolledBack || p.Status != 409 || !strings.Contains(p.Detail, "step 2 (create cluster/ns/foo): rejected: namespaces \"foo\" is forbidden: quota") {
		t.Fatalf("%+v", p)
	}
	v := p.Saga
	if v == nil || v.Outcome != api.SagaRolledBack || v.FailedStep != 2 || !slices.Equal(states(v), []string{"undone", "refused"}) {
		t.Fatalf("%+v", v)
	}
	if r := v.Steps[1].Refusal; r == nil || r.Status != "rejected" || r.Message != `namespaces "foo" is forbidden: quota` {
		t.Errorf("%+v", r)
	}
	if n := len(s.permissions.names()) + len(s.cluster.names()); n != 0 {
		t.Errorf("left: %v, %v", s.permissions.names(), s.cluster.names())
	}
	// Whoever asks again, or only asks, is told the same.
	response, body = ask(t, "POST", s.url+"/v1/sagas", grantAndNamespace)
	if p := problemOf(t, response, body); p.Code != api.CodeSagaRolledBack {
		t.Errorf("%+v", p)
	}
	response, body = ask(t, "GET", s.url+"/v1/sagas/ns-foo", "")
	if v := sagaIn(t, response, body, 200); v.Outcome != api.SagaRolledBack {
		t.Errorf("%+v", v)
	}
}

func TestWhoDoesNotWaitIsToldTheIDAndMayWaitLater(t *testing.T) {
	s := startSagas(t, Options{})
	s.cluster.become(refuses(sink.Unreachable, "connection refused"))
	without := strings.Replace(grantAndNamespace, `"id":"ns-foo"`, `"wait":0`, 1)
	response, body := ask(t, "POST", s.url+"/v1/sagas", without)
	v := sagaIn(t, response, body, 202)
	if v.ID == "" || v.Outcome != "" || response.Header.Get("Location") != "/v1/sagas/"+v.ID {
		t.Fatalf("%+v, Location %q", v, response.Header.Get("Location"))
	}
	response, body = ask(t, "GET", s.url+"/v1/sagas/"+v.ID+"/wait?timeout=1ms", "")
	if v := sagaIn(t, response, body, 200); v.Outcome != "" {
		t.Errorf("%+v", v)
	}
	response, body = ask(t, "GET", s.url+"/v1/sagas?open=true", "")
	if !strings.Contains(body, v.ID) {
		t.Errorf("%s %s", response.Status, body)
	}
	s.cluster.become(nil)
	response, body = ask(t, "GET", s.url+"/v1/sagas/"+v.ID+"/wait?timeout=1m", "")
	if v := sagaIn(t, response, body, 200); v.Outcome != api.SagaCommitted {
		t.Errorf("%+v", v)
	}
}

func TestTheAPIStopsWhileACallerWaits(t *testing.T) {
	s := startSagas(t, Options{})
	asked := make(chan struct{}, 100)
	s.cluster.become(func(op string, r *sink.Request) *sink.Result {
		if op != "apply" {
			return nil
		}
		asked <- struct{}{}
		return &sink.Result{Status: sink.Unreachable, NotSent: true}
	})
	go func() {
		<-asked
		s.server.stop(errStopping)
	}()
	response, body := ask(t, "POST", s.url+"/v1/sagas", grantAndNamespace)
	if v := sagaIn(t, response, body, 202); v.ID != "ns-foo" || v.Outcome != "" {
		t.Errorf("%+v", v)
	}
	s.cluster.become(nil)
}

func TestPayloadsOfSagasAreShownOnlyToWhoAsksAndNeverWhatWasThereBefore(t *testing.T) {
	s := startSagas(t, Options{Sensitive: map[string][]string{"permissions": {"/secret"}, "cluster": nil}})
	s.permissions.objects["ns/foo"] = "of others"
	upsert := strings.Replace(grantAndNamespace, `"verb":"create"`, `"verb":"upsert"`, 1)
	response, body := ask(t, "POST", s.url+"/v1/sagas", upsert)
	sagaIn(t, response, body, 200)
	for _, path := range []string{"/v1/sagas/ns-foo", "/v1/sagas", "/v1/sagas/ns-foo/explain", "/v1/sagas/ns-foo/wait"} {
		_, more := ask(t, "GET", s.url+path, "")
		body += more
	}
	for _, hidden := range []string{"payload", "canary", "Namespace", "of others", "b2Ygb3RoZXJz"} {
		if strings.Contains(body, hidden) {
			t.Errorf("%q is shown in %s", hidden, body)
		}
	}
	_, body = ask(t, "GET", s.url+"/v1/sagas/ns-foo?payload=true", "")
	if !strings.Contains(body, `"payload":{"owner":"u1","secret":"***"}`) || !strings.Contains(body, "Namespace") || strings.Contains(body, "of others") {
		t.Errorf("%s", body)
	}
	if _, body = ask(t, "GET", s.url+"/v1/sagas/ns-foo?payload=true&reveal=true", ""); !strings.Contains(body, "canary") {
		t.Errorf("%s", body)
	}
}

func TestWhatIsHeldIsNamed(t *testing.T) {
	s := startSagas(t, Options{})
	s.cluster.become(refuses(sink.Unreachable, "connection refused"))
	first := strings.Replace(grantAndNamespace, `"mode"`, `"wait":0,"refusePuts":true,"mode"`, 1)
	response, body := ask(t, "POST", s.url+"/v1/sagas", first)
	sagaIn(t, response, body, 202)
	for _, c := range []struct{ method, path, body string }{
		{"POST", "/v1/sagas", strings.Replace(grantAndNamespace, "ns-foo", "rival", 1)},
		{"PUT", "/v1/sinks/cluster/resource?key=ns/foo", `{"payload":1}`},
		{"DELETE", "/v1/sinks/cluster/resource?key=ns/foo", ""},
	} {
		response, body := ask(t, c.method, s.url+c.path, c.body)
		if p := problemOf(t, response, body); p.Code != api.CodeHeld || p.Status != 409 || !strings.Contains(p.Detail, `"ns-foo"`) {
			t.Errorf("%s %s: %+v", c.method, c.path, p)
		}
	}
	s.cluster.become(nil)
	response, body = ask(t, "GET", s.url+"/v1/sagas/ns-foo/wait?timeout=1m", "")
	sagaIn(t, response, body, 200)
}

func TestAResourceThatIsHeldSaysByWhichSaga(t *testing.T) {
	s := startSagas(t, Options{})
	s.cluster.become(refuses(sink.Unreachable, "connection refused"))
	response, body := ask(t, "POST", s.url+"/v1/sagas", strings.Replace(grantAndNamespace, `"mode"`, `"wait":0,"mode"`, 1))
	sagaIn(t, response, body, 202)
	if response, body := ask(t, "PUT", s.url+"/v1/sinks/cluster/resource?key=ns/foo", `{"payload":"newer"}`); response.StatusCode != 200 {
		t.Fatalf("%s %s", response.Status, body)
	}
	if _, body := ask(t, "GET", s.url+"/v1/sinks/cluster/resource?key=ns/foo", ""); !strings.Contains(body, `"heldBy":"ns-foo"`) {
		t.Errorf("%s", body)
	}
	if _, body := ask(t, "GET", s.url+"/v1/sinks/cluster/resource/explain?key=ns/foo", ""); !strings.Contains(body, "Saga ns-foo writes to it") {
		t.Errorf("%s", body)
	}
	s.cluster.become(nil) // what was put meanwhile is delivered afterwards
	response, body = ask(t, "GET", s.url+"/v1/sinks/cluster/resource/wait?key=ns/foo&timeout=1m", "")
	if !strings.Contains(body, `"done":true`) || s.cluster.content("ns/foo") != `"newer"` {
		t.Errorf("%s %s; the target holds %s", response.Status, body, s.cluster.content("ns/foo"))
	}
}

func TestASagaIsRefusedWhereItsResourceOrSinkIsNotFree(t *testing.T) {
	s := startSagas(t, Options{})
	s.cluster.become(func(op string, _ *sink.Request) *sink.Result {
		return &sink.Result{Status: sink.Rejected, Message: "no"}
	})
	ask(t, "PUT", s.url+"/v1/sinks/cluster/resource?key=ns/foo", `{"payload":1}`)
	ask(t, "GET", s.url+"/v1/sinks/cluster/resource/wait?key=ns/foo", "")
	response, body := ask(t, "POST", s.url+"/v1/sagas", grantAndNamespace)
	if p := problemOf(t, response, body); p.Code != api.CodeBusy || p.Status != 409 || !strings.Contains(p.Detail, "cluster/ns/foo") {
		t.Errorf("%+v", p)
	}
	ask(t, "POST", s.url+"/v1/sinks/cluster/suspend", "")
	response, body = ask(t, "POST", s.url+"/v1/sagas", grantAndNamespace)
	if p := problemOf(t, response, body); p.Code != api.CodeSinkUnavailable || p.Status != 503 || !strings.Contains(p.Hint, "resume") {
		t.Errorf("%+v", p)
	}
}

func TestWhatIsWrongWithASagaIsSaidWithItsPlace(t *testing.T) {
	s := startSagas(t, Options{PayloadMaxBytes: 200})
	step := `{"sink":"cluster","key":"k","verb":"upsert","payload":1}`
	for _, c := range []struct {
		body   string
		status int
		code   api.Code
		says   string
	}{
		{`{"mode":"optimistic","steps":[{"sink":"cluster","kee":"k"}]}`, 400, api.CodeBadRequest, `did you mean "key"?`},
		{"{\"mode\":\"optimistic\",\n\"steps\":[" + step + ",\n {\"sink\":1}]}", 400, api.CodeBadRequest, "line 3, column 10: sink can't be a number"},
		{`{"mode":"optimistic","steps":{}}`, 400, api.CodeBadRequest, "steps is no list"},
		{`{"mode":"optimistic","steps":[7]}`, 400, api.CodeBadRequest, "no JSON object"},
		{`{"mode":"optimistic","timeout":"soon","steps":[` + step + `]}`, 400, api.CodeBadRequest, `timeout can't be "soon"; it is a duration`},
		{`{"mode":"optimistic","timeout":5,"steps":[` + step + `]}`, 400, api.CodeBadRequest, `timeout can't be 5; it is a duration`},
		{`{"mode":"optimistic"}`, 422, api.CodeInvalid, "no steps"},
		{`{"mode":"optimistic","steps":[]}`, 422, api.CodeInvalid, "no steps"},
		{`{"steps":[` + step + `]}`, 422, api.CodeInvalid, "unknown mode"},
		{`{"mode":"optimistic","steps":[` + step + `,` + step + `]}`, 422, api.CodeInvalid, "steps 1 and 2 are of one resource"},
		{`{"mode":"optimistic","steps":[{"sink":"cluster","key":"k","verb":"create"}]}`, 422, api.CodeInvalid, "step 1 (create) has no payload"},
		{`{"mode":"optimistic","steps":[{"sink":"clusted","key":"k","verb":"delete"}]}`, 404, api.CodeUnknownSink, `step 1: there is no sink clusted; did you mean "cluster"?`},
		{`{"id":"a/b","mode":"optimistic","steps":[` + step + `]}`, 422, api.CodeInvalid, "can't be part of a path"},
		{`{"id":"..","mode":"optimistic","steps":[` + step + `]}`, 422, api.CodeInvalid, "can't be part of a path"},
		{`{"template":"create-namespace","params":{"name":"foo"}}`, 404, api.CodeUnknownTemplate, "no saga template \"create-namespace\"; the configuration has none"},
		{`{"template":"t","mode":"optimistic"}`, 422, api.CodeInvalid, "those are the template's"},
		{`{"params":{},"steps":[` + step + `]}`, 422, api.CodeInvalid, "no template"},
		{`{"mode":"optimistic","steps":[{"sink":"cluster","key":"k","verb":"upsert","payload":"` + strings.Repeat("x", 200) + `"}]}`, 413, api.CodeTooLarge, "limits.payload_max_bytes"},
	} {
		response, body := ask(t, "POST", s.url+"/v1/sagas", c.body)
		p := problemOf(t, response, body)
		if p.Code != c.code || p.Status != c.status || !strings.Contains(p.Error(), c.says) {
			t.Errorf("%s: %d %s %s, want %d %s %q", c.body, p.Status, p.Code, p.Error(), c.status, c.code, c.says)
		}
	}
	if n := len(s.cluster.names()); n > 0 {
		t.Errorf("written: %v", s.cluster.names())
	}
	for _, path := range []string{"/v1/sagas/nobody", "/v1/sagas/nobody/wait", "/v1/sagas/nobody/explain"} {
		response, body := ask(t, "GET", s.url+path, "")
		if p := problemOf(t, response, body); p.Code != api.CodeNotFound || !strings.Contains(p.Detail, "nobody") {
			t.Errorf("%s: %+v", path, p)
		}
	}
}

func TestAnOperatorResolvesASagaThatIsStuck(t *testing.T) {
	s := startSagas(t, Options{})
	s.cluster.become(func(op string, r *sink.Request) *sink.Result {
		if op != "apply" {
			return nil
		}
		s.permissions.mu.Lock() // somebody changes what the first step wrote
		s.permissions.objects["ns/foo"], s.permissions.marks["ns/foo"] = "of others", "others"
		s.permissions.mu.Unlock()
		return &sink.Result{Status: sink.Rejected, Message: "quota"}
	})
	response, body := ask(t, "POST", s.url+"/v1/sagas", strings.Replace(grantAndNamespace, `"mode"`, `"wait":"1s","mode"`, 1))
	v := sagaIn(t, response, body, 202)
	if !v.Unresolved || v.Stuck == "" || v.Outcome != "" {
		t.Fatalf("%+v", v)
	}
	_, body = ask(t, "GET", s.url+"/v1/status", "")
	if !strings.Contains(body, `"unresolved":1`) || !strings.Contains(body, "1 saga unresolved") {
		t.Errorf("%s", body)
	}
	_, body = ask(t, "GET", s.url+"/v1/sagas/ns-foo/explain", "")
	if !strings.Contains(body, "pawl saga resolve ns-foo --as retry") || !strings.Contains(body, "changed since") {
		t.Errorf("%s", body)
	}
	response, body = ask(t, "POST", s.url+"/v1/sagas/ns-foo/resolve", `{"as":"undone"}`)
	if p := problemOf(t, response, body); p.Code != api.CodeInvalid {
		t.Errorf("%+v", p)
	}
	response, body = ask(t, "POST", s.url+"/v1/sagas/ns-foo/resolve", `{"as":"rolled-back"}`)
	if v := sagaIn(t, response, body, 200); v.Outcome != api.SagaRolledBack || v.Unresolved {
		t.Errorf("%+v", v)
	}
	response, body = ask(t, "POST", s.url+"/v1/sagas/ns-foo/resolve", `{"as":"retry"}`)
	if p := problemOf(t, response, body); p.Code != api.CodeNothingToDo {
		t.Errorf("%+v", p)
	}
}

func TestSagasAreListedInPages(t *testing.T) {
	s := startSagas(t, Options{})
	for _, id := range []string{"c", "a", "b"} {
		body := `{"id":"` + id + `","mode":"optimistic","steps":[{"sink":"cluster","key":"` + id + `","verb":"upsert","payload":1,"after":"forget"}]}`
		response, body := ask(t, "POST", s.url+"/v1/sagas", body)
		if v := sagaIn(t, response, body, 200); v.Steps[0].After != "forget" {
			t.Errorf("%+v", v)
		}
		if _, err := s.manager.Wait(context.Background(), id); err != nil {
			t.Fatal(err)
		}
	}
	var seen []string
	for after, pages := "", 0; pages < 2; pages++ {
		_, body := ask(t, "GET", s.url+"/v1/sagas?limit=2&after="+after, "")
		var page api.SagaPage
		if err := json.Unmarshal([]byte(body), &page); err != nil {
			t.Fatal(err)
		}
		for i := range page.Items {
			seen = append(seen, page.Items[i].ID)
		}
		if after = page.Next; (after == "") != (pages == 1) {
			t.Errorf("page %d leads to %q", pages, after)
		}
	}
	if !slices.Equal(seen, []string{"a", "b", "c"}) {
		t.Errorf("listed: %v", seen)
	}
}

func TestATemplateMakesTheStepsOfItsParams(t *testing.T) {
	templates, err := sagatemplate.New(&config.Config{
		Limits: config.Limits{PayloadMaxBytes: 1 << 20},
		Sagas: map[string]config.Saga{"create-namespace": {
			Description: "A namespace and its owner.", Mode: "pessimistic", Timeout: 20 * time.Second,
			Params: map[string]config.SagaParam{
				"user": {Type: "string", Pattern: "[a-z0-9]+", MaxLength: 20}, "name": {Type: "string", Pattern: "[a-z]+", MaxLength: 20},
			},
			Steps: []config.SagaStep{
				{Sink: "permissions", Key: "ns/{{.name}}", Verb: "create", After: "keep", Payload: json.RawMessage(`{"owner":"{{.user}}"}`)},
				{Sink: "cluster", Key: "ns/{{.name}}", Verb: "create", After: "forget", Payload: json.RawMessage(`{"name":"{{.name}}"}`)},
			},
		}},
	})
	if err != nil {
		t.Fatal(err)
	}
	s := startSagas(t, Options{Templates: templates})
	response, body := ask(t, "POST", s.url+"/v1/sagas", `{"id":"foo","template":"create-namespace","params":{"user":"u1","name":"foo"}}`)
	v := sagaIn(t, response, body, 200)
	if v.Mode != "pessimistic" || v.Deadline.Sub(v.Began) != 20*time.Second || v.Steps[1].After != "forget" {
		t.Errorf("%+v", v)
	}
	if got := s.permissions.content("ns/foo"); got != `{"owner":"u1"}` {
		t.Errorf("written: %s", got)
	}
	response, body = ask(t, "POST", s.url+"/v1/sagas", `{"template":"create-namespace","params":{"user":7,"nam":"foo"}}`)
	if p := problemOf(t, response, body); p.Code != api.CodeInvalid || !strings.Contains(p.Detail, "user") || !strings.Contains(p.Detail, "nam ") {
		t.Errorf("%+v", p)
	}
	response, body = ask(t, "POST", s.url+"/v1/sagas", `{"template":"create-namespaces"}`)
	if p := problemOf(t, response, body); p.Code != api.CodeUnknownTemplate || p.Hint != `did you mean "create-namespace"?` {
		t.Errorf("%+v", p)
	}
	_, body = ask(t, "GET", s.url+"/v1/saga-templates", "")
	var list api.SagaTemplateList
	if err := json.Unmarshal([]byte(body), &list); err != nil || len(list.Items) != 1 || len(list.Items[0].Params) != 2 ||
		list.Items[0].Params[1].Pattern != "[a-z0-9]+" || list.Items[0].Timeout != api.Duration(20*time.Second) || list.Items[0].Steps[0].Key != "ns/{{.name}}" {
		t.Errorf("%v in %s", err, body)
	}
}

func TestTheExampleOfTheGuideWorks(t *testing.T) {
	guide, err := os.ReadFile("../../docs/sagas.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(guide), "```yaml\n")
	example, _, ok := strings.Cut(rest, "```")
	body, isYAML, err := manifest.Value([]byte(example), "sagas.md")
	if !ok || !isYAML || err != nil {
		t.Fatal(ok, isYAML, err)
	}
	s := startSagas(t, Options{})
	response, answer := ask(t, "POST", s.url+"/v1/sagas", string(body))
	if v := sagaIn(t, response, answer, 200); v.ID != "create-web" || v.Outcome != api.SagaCommitted {
		t.Errorf("%+v", v)
	}
	if !slices.Equal(s.permissions.names(), []string{"namespaces/web"}) || !slices.Equal(s.cluster.names(), []string{"v1/Namespace/web"}) {
		t.Errorf("written: %v, %v", s.permissions.names(), s.cluster.names())
	}
}

// forgets is a manager of a saga whose record is damaged: resolved, it is forgotten.
type forgets struct{ Sagas }

func (forgets) Resolve(_ context.Context, id string, _ saga.Resolution) (saga.View, error) {
	return saga.View{Spec: saga.Spec{ID: id}, State: saga.State{Phase: saga.Ended, Outcome: saga.RolledBack}}, nil
}

func TestASagaThatIsForgottenWhenItIsResolvedIsAnswered(t *testing.T) {
	s := startSagas(t, Options{})
	s.server.sagas = forgets{s.manager}
	response, body := ask(t, "POST", s.url+"/v1/sagas/lost/resolve", `{"as":"rolled-back"}`)
	if v := sagaIn(t, response, body, 200); v.Outcome != api.SagaRolledBack {
		t.Errorf("%+v", v)
	}
}
