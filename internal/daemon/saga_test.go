package daemon

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/pawlsync/pawl/engine/record"
	"github.com/pawlsync/pawl/internal/api"
)

func upsert(id, key, payload string) api.SagaRequest {
	return api.SagaRequest{ID: id, Mode: "optimistic", Steps: []api.SagaStepRequest{
		{Sink: "web", Key: key, Verb: "upsert", Payload: json.RawMessage(payload)},
	}}
}

// The http adapter takes no part in sagas but as the last step, which needs no undo.
func TestASagaReachesItsTargetAndIsTheSameAfterARestart(t *testing.T) {
	needPlugins(t)
	target, url := newObjects(t)
	dir := t.TempDir()
	c := load(t, write(t, dir, url, ""))
	d := begin(t, c, options())
	v, err := d.RunSaga(t.Context(), upsert("first", "users/anna", `{"name":"Anna"}`))
	if err != nil || v.Outcome != api.SagaCommitted {
		t.Fatalf("%+v, %v", v, err)
	}
	if got := target.get("/o/users/anna"); got != `{"name":"Anna"}` {
		t.Errorf("the target holds %q", got)
	}
	key := record.Key{Sink: "web", Name: "users/anna"}
	if w, err := d.Wait(t.Context(), key, 0); err != nil || !w.Done {
		t.Errorf("the resource is no ordinary one: %+v, %v", w, err)
	}
	two := upsert("second", "users/anna", `{}`)
	two.Steps = append(two.Steps, api.SagaStepRequest{Sink: "web", Key: "users/bob", Verb: "upsert", Payload: json.RawMessage(`{}`)})
	if _, err := d.RunSaga(t.Context(), two); api.CodeOf(err) != api.CodeInvalid || !strings.Contains(err.Error(), "only the last step") {
		t.Errorf("a step that can't be undone before the last: %v", err)
	}
	response, err := http.Get(d.ready.Address + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`pawl_sagas_total{mode="optimistic",outcome="Committed"} 1`, "pawl_sagas_unresolved 0"} {
		if !strings.Contains(string(text), want) {
			t.Errorf("the metrics have no %s", want)
		}
	}
	if err := d.stop(); err != nil {
		t.Fatal(err)
	}

	d = begin(t, c, options())
	if v, err := d.Saga(t.Context(), "first", false); err != nil || v.Outcome != api.SagaCommitted || v.Phase != api.SagaEnded {
		t.Errorf("after a restart: %+v, %v", v, err)
	}
	if v, err := d.RunSaga(t.Context(), upsert("first", "users/anna", `{"name":"Anna"}`)); err != nil || v.Outcome != api.SagaCommitted {
		t.Errorf("the same again: %+v, %v", v, err)
	}
	if _, err := d.RunSaga(t.Context(), upsert("first", "users/anna", `{"name":"Eve"}`)); api.CodeOf(err) != api.CodeSagaMismatch {
		t.Errorf("other content: %v", err)
	}
}

// A daemon that is stopped while a saga waits for its target leaves it to the next.
func TestASagaUnderWayIsGoneOnWithAfterARestart(t *testing.T) {
	needPlugins(t)
	target, _ := newObjects(t)
	var up atomic.Bool
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if up.Load() {
			target.ServeHTTP(w, r)
		} else {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	}))
	t.Cleanup(front.Close)
	dir := t.TempDir()
	d := begin(t, load(t, write(t, dir, front.URL, "")), options())
	r := upsert("late", "users/anna", `{"name":"Anna"}`)
	r.Timeout, r.Wait = new(api.Duration), new(api.Duration)
	*r.Timeout = api.Duration(30 * 60e9)
	v, err := d.RunSaga(t.Context(), r)
	if err != nil || v.Outcome != "" {
		t.Fatalf("%+v, %v", v, err)
	}
	if err := d.stop(); err != nil {
		t.Fatal(err)
	}
	up.Store(true)
	d = begin(t, load(t, write(t, dir, front.URL, "")), options())
	v, err = d.WaitSaga(t.Context(), "late")
	if err != nil || v.Outcome != api.SagaCommitted {
		t.Fatalf("%+v, %v", v, err)
	}
	if got := target.get("/o/users/anna"); got != `{"name":"Anna"}` {
		t.Errorf("the target holds %q", got)
	}
	page, err := d.Sagas(t.Context(), true, "", 0)
	if ids := page.Items; err != nil || slices.ContainsFunc(ids, func(s api.Saga) bool { return s.Outcome == "" }) {
		t.Errorf("%+v, %v", ids, err)
	}
}
