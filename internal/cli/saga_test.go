package cli

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/pawlsync/pawl/internal/api"
)

// sampleSagas are one of each kind of end.
func sampleSagas() []api.Saga {
	ago := func(d time.Duration) time.Time { return now.Add(-d) }
	steps := func(first, second string) []api.SagaStep {
		return []api.SagaStep{
			{Sink: "permissions", Key: "ns/foo", Verb: "create", After: "keep", State: first, Answer: &api.SagaAnswer{Status: "ok", At: ago(9 * time.Second)}},
			{Sink: "cluster", Key: "ns/foo", Verb: "create", After: "keep", State: second},
		}
	}
	committed := api.Saga{ID: "done", Mode: "pessimistic", Phase: api.SagaEnded, Outcome: api.SagaCommitted, Began: ago(10 * time.Second),
		Deadline: now.Add(20 * time.Second), EndedAt: ago(8 * time.Second), Steps: steps(api.StepWritten, api.StepWritten)}
	refused := api.Saga{ID: "refused", Mode: "optimistic", Phase: api.SagaEnded, Outcome: api.SagaRolledBack, Began: ago(10 * time.Second), Cause: "quota exceeded",
		FailedStep: 2, EndedAt: ago(8 * time.Second), Steps: steps(api.StepUndone, api.StepRefused)}
	refused.Steps[1].Refusal = &api.SagaAnswer{Status: "rejected", Message: "quota exceeded", At: ago(9 * time.Second)}
	running := api.Saga{ID: "running", Mode: "pessimistic", Phase: api.SagaForward, Began: ago(10 * time.Second), Deadline: now.Add(20 * time.Second),
		Tries: 3, NextAt: now.Add(4 * time.Second), Steps: steps(api.StepWritten, api.StepInDoubt)}
	running.Steps[1].Answer = &api.SagaAnswer{Status: "unreachable", Message: "connection refused", At: ago(time.Second)}
	running.Steps[1].MayLandUntil = now.Add(12 * time.Second)
	stuck := api.Saga{ID: "stuck", Mode: "pessimistic", Phase: api.SagaUndoing, Unresolved: true, Began: ago(time.Hour), Deadline: ago(59 * time.Minute), FailedStep: 2,
		Cause: "quota exceeded", Stuck: "step 1 can't be undone: somebody changed permissions/ns/foo since", Steps: steps(api.StepWritten, api.StepRefused), RefusePuts: true}
	return []api.Saga{committed, refused, running, stuck}
}

// saga answers for the sagas; whichever is run has the outcome that its id says.
func (d *fakeDaemon) saga(w http.ResponseWriter, r *http.Request, path []string) {
	if len(path) == 1 && r.Method == http.MethodGet {
		page := api.SagaPage{Items: []api.Saga{}}
		for _, v := range sampleSagas() {
			if v.ID > r.URL.Query().Get("after") && (v.Phase != api.SagaEnded || r.URL.Query().Get("open") != "true") {
				page.Items = append(page.Items, v)
			}
		}
		if len(page.Items) > 2 { // two pages
			page.Items, page.Next = page.Items[:2], page.Items[1].ID
		}
		answer(w, page)
		return
	}
	body, _ := io.ReadAll(r.Body)
	d.bodies = append(d.bodies, string(body))
	id, verb := "", ""
	if len(path) == 1 {
		var asked api.SagaRequest
		if err := asked.Decode(body); err != nil {
			refuse(w, problemOf(err))
			return
		}
		id = asked.ID
	} else if id = path[1]; len(path) > 2 {
		verb = path[2]
	}
	for _, v := range sampleSagas() {
		switch {
		case v.ID != id:
			continue
		case len(path) == 1 && v.Outcome == api.SagaRolledBack:
			p := api.NewProblem(409, api.CodeSagaRolledBack, "saga "+id+" is rolled back", "")
			p.Saga = &v
			refuse(w, p)
		case verb == "explain":
			answer(w, api.SagaExplanation{Text: api.ExplainSaga(&v, now), Saga: v})
		case verb == "wait" && v.Outcome == "":
			d.mu.Unlock()
			<-r.Context().Done()
			d.mu.Lock()
		default:
			answer(w, v)
		}
		return
	}
	refuse(w, api.NewProblem(404, api.CodeNotFound, "no such saga: there is no saga "+id, ""))
}

func TestGoldenSagas(t *testing.T) {
	d := newFakeDaemon(t)
	const file = "id: done\nmode: optimistic\nsteps:\n- {sink: web, key: a, verb: upsert, payload: {n: 1.0}}\n"
	golden(t, "saga", transcript(t, d, file,
		[]string{"saga", "run", "-f", "-"},
		[]string{"saga", "run", "-f", "-", "--id", "refused"},
		[]string{"saga", "run", "-f", "-", "--id", "running", "--wait", "0s"},
		[]string{"saga", "run", "-f", "-", "-o", "json", "--wait", "1m"},
		[]string{"saga", "run", "--template", "t", "--param", "name=foo", "--param", "n:=3", "--id", "done"},
		[]string{"saga", "templates"},
		[]string{"saga", "list"},
		[]string{"saga", "list", "--open", "--limit", "1"},
		[]string{"saga", "get", "done"},
		[]string{"saga", "get", "stuck"},
		[]string{"saga", "get", "nobody"},
		[]string{"saga", "explain", "done"},
		[]string{"saga", "explain", "refused"},
		[]string{"saga", "explain", "running"},
		[]string{"saga", "explain", "stuck"},
		[]string{"saga", "wait", "done"},
		[]string{"saga", "wait", "refused", "-o", "yaml"},
		[]string{"saga", "wait", "running", "--timeout", "20ms"},
		[]string{"saga", "resolve", "stuck", "--as", "retry"},
		[]string{"saga", "resolve", "stuck", "--as", "rolled-back"},
	))
	wantBodies := []string{
		`{"id":"done","mode":"optimistic","steps":[{"sink":"web","key":"a","verb":"upsert","payload":{"n":1.0}}]}`,
		`{"id":"refused","mode":"optimistic","steps":[{"sink":"web","key":"a","verb":"upsert","payload":{"n":1.0}}]}`,
		`{"id":"running","mode":"optimistic","steps":[{"sink":"web","key":"a","verb":"upsert","payload":{"n":1.0}}],"wait":"0s"}`,
		`{"id":"done","mode":"optimistic","steps":[{"sink":"web","key":"a","verb":"upsert","payload":{"n":1.0}}],"wait":"1m0s"}`,
		`{"id":"done","template":"t","params":{"n":3,"name":"foo"}}`,
	}
	for i, want := range wantBodies {
		if got := strings.TrimSpace(d.bodies[i]); got != want {
			t.Errorf("sent %s, want %s", got, want)
		}
	}
}

func TestGoldenSagaUsage(t *testing.T) {
	d := newFakeDaemon(t)
	golden(t, "saga_usage", transcript(t, d, "mode: optimistic\nsteps:\n- {sink: web, kee: a}\n",
		[]string{"saga", "run"},
		[]string{"saga", "run", "-f", "-", "--template", "t"},
		[]string{"saga", "run", "-f", "-", "--param", "a=b"},
		[]string{"saga", "run", "--template", "t", "--param", "a"},
		[]string{"saga", "run", "--template", "t", "--param", "a:=b"},
		[]string{"saga", "run", "--template", "t", "--param", "a=b", "--param", "a=c"},
		[]string{"saga", "run", "-f", "-", "--id", "a/b"},
		[]string{"saga", "run", "-f", "-"},
		[]string{"saga", "run", "-f", "nowhere.yaml"},
		[]string{"saga", "get", "a/b"},
		[]string{"saga", "resolve", "a"},
		[]string{"saga", "resolve", "a", "--as", "undone"},
		[]string{"saga", "lst"},
	))
	if len(d.calls) > 0 {
		t.Errorf("calls were made: %v", d.calls)
	}
}

// Without an id in the file, one is made up here: who loses the connection can ask again.
func TestASagaThatMayHaveBegunIsNamed(t *testing.T) {
	d := newFakeDaemon(t)
	d.Close()
	_, stderr, code := run(t, d.URL, `{"mode":"optimistic","steps":[{"sink":"web","key":"a","verb":"delete"}]}`, "saga", "run", "-f", "-")
	if _, id, _ := strings.Cut(stderr, "--id "); code != ExitUnreachable || !api.IsSagaID(strings.TrimSpace(strings.TrimSuffix(id, " to learn its outcome\n"))) {
		t.Errorf("exit code %d, %s", code, stderr)
	}
}
