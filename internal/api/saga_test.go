package api

import (
	"strings"
	"testing"
	"time"
)

func TestASagaRequestIsReadStrictly(t *testing.T) {
	var r SagaRequest
	err := r.Decode([]byte(`{"id":"a.b_c:d@e-1","mode":"optimistic","timeout":"1m30s","wait":0,"refusePuts":true,
		"steps":[{"sink":"web","key":"a","verb":"upsert","payload":1.0},{"sink":"web","key":"b","verb":"delete","after":"forget"}]}`))
	if err != nil {
		t.Fatal(err)
	}
	if r.ID != "a.b_c:d@e-1" || *r.Timeout != Duration(90*time.Second) || *r.Wait != 0 || !r.RefusePuts ||
		len(r.Steps) != 2 || string(r.Steps[0].Payload) != "1.0" || r.Steps[1].After != "forget" || r.Steps[1].Bytes() != nil {
		t.Errorf("%+v", r)
	}
	for body, says := range map[string]string{
		`{"steps":[{"sink":"a","sink":"b"}]}`:                    `the field "sink" is given twice`,
		`{"steps":[{"sink":"a"}`:                                 "the JSON ends too early",
		"{\"steps\":[\n{}, null]}":                               "line 2, column 5: this is no JSON object",
		`{"steps":null}`:                                         "steps is no list",
		`{"Steps":[]}`:                                           `did you mean "steps"?`,
		`{"steps":[{}]} x`:                                       "something follows",
		`{"wait":"-1s"}`:                                         `wait can't be "-1s"`,
		`{"steps":[{"payload":1,"payloadBase64":"AA=="}]}`:       "both payload and payloadBase64",
		`{"steps":[{"verb":"upsert"}]}`:                          "step 1 (upsert) has no payload",
		`{"id":"` + strings.Repeat("a", 129) + `","steps":[{}]}`: "can't be part of a path",
	} {
		if err := r.Decode([]byte(body)); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v, want %s", body, err, says)
		}
	}
}

func FuzzSagaRequest(f *testing.F) {
	f.Add([]byte(`{"id":"a","mode":"optimistic","timeout":"1m","steps":[{"sink":"web","key":"a","verb":"upsert","payload":{"a":[1]}}]}`))
	f.Add([]byte("{\"steps\":[\n{\"verb\":\"delete\"}, 5]}"))
	f.Fuzz(func(t *testing.T, body []byte) {
		var r SagaRequest
		err := r.Decode(body)
		p, ok := err.(*Problem)
		switch {
		case err == nil && r.ID != "" && !IsSagaID(r.ID):
			t.Errorf("the id %q is taken", r.ID)
		case err != nil && !ok:
			t.Errorf("%T: %v", err, err)
		case ok && p.Status == 400 && p.Line > 1+strings.Count(string(body), "\n"):
			t.Errorf("line %d of %q", p.Line, body)
		}
	})
}

func TestExplainSagaSaysWhatIsWaitedForAndWhatToDo(t *testing.T) {
	saga := func(change func(*Saga)) *Saga {
		s := &Saga{ID: "s", Mode: "pessimistic", Phase: SagaForward, Began: noon.Add(-time.Minute), Deadline: noon.Add(20 * time.Second), Steps: []SagaStep{
			{Sink: "a", Key: "x", Verb: "create", State: StepWritten}, {Sink: "b", Key: "y", Verb: "delete", State: StepWaiting},
		}}
		change(s)
		return s
	}
	for name, c := range map[string]struct {
		saga *Saga
		says []string
		not  string
	}{
		"waiting": {saga(func(s *Saga) { s.Phase, s.Began = SagaWaiting, time.Time{} }), []string{"has 2 steps and has not begun", "it begins when that has ended"}, "resolve"},
		"forward": {saga(func(*Saga) {}), []string{"began 1m0s ago", "Step 2 (delete b/y) is next.", "until 12:00:20 UTC (in 20s)", "Puts and Deletes of them are stored"}, "resolve"},
		"sending": {saga(func(s *Saga) {
			s.Steps[1].State, s.Steps[1].MayLandUntil, s.RefusePuts = StepSending, noon.Add(5*time.Second), true
		}), []string{"is being sent", "may still land, until 12:00:05 UTC (in 5s)", "are refused"}, "resolve"},
		"undoing": {saga(func(s *Saga) {
			s.Phase, s.FailedStep, s.Cause, s.Tries, s.NextAt = SagaUndoing, 2, "quota", 1, noon.Add(3*time.Second)
			s.Steps[1].State, s.Steps[1].Refusal = StepRefused, &SagaAnswer{Status: "rejected", Message: "quota"}
			s.Steps[0].Answer = &SagaAnswer{Status: "unreachable"}
		}), []string{"step 2 (delete b/y): rejected: quota.", "Step 1 (create a/x) is written and is still to be undone.", "1 try failed (unreachable); it goes on in 3s."}, "resolve"},
		"late": {saga(func(s *Saga) {
			s.Deadline, s.Unresolved, s.Phase, s.FailedStep, s.Cause = noon.Add(-time.Hour), true, SagaUndoing, 2, "the deadline passed before it was written"
			s.Steps[1].State, s.Steps[1].Answer = StepInDoubt, &SagaAnswer{Status: "unreachable", Message: "refused"}
		}), []string{"the deadline passed before it was written (unreachable: refused).", "It is unresolved", "pawl saga resolve s --as committed"}, "--as retry"},
		"committed": {saga(func(s *Saga) { s.Phase, s.Outcome, s.EndedAt = SagaEnded, SagaCommitted, noon }), []string{"all of it is written. It ended just now."}, "delivered"},
		"releasing": {saga(func(s *Saga) {
			s.Phase, s.Outcome, s.Steps[1].MayLandUntil = SagaReleasing, SagaCommitted, noon.Add(9*time.Second)
		}), []string{"may still land, so that its hold and its locks stay until that is over, in 9s.", "nothing else is delivered"}, "resolve"},
	} {
		text := ExplainSaga(c.saga, noon)
		for _, says := range c.says {
			if !strings.Contains(text, says) {
				t.Errorf("%s: %q is not in: %s", name, says, text)
			}
		}
		if strings.Contains(text, c.not) {
			t.Errorf("%s: %q is in: %s", name, c.not, text)
		}
	}
}

func TestUnresolvedSagasAreAHeadline(t *testing.T) {
	st := &DaemonStatus{Sagas: SagaCounts{Running: 3, Unresolved: 2, Oldest: noon.Add(-5 * time.Minute)}}
	if h := Headlines(st, noon); len(h) != 1 || h[0] != "2 sagas unresolved, the oldest began 5m0s ago; see pawl saga list --open." {
		t.Errorf("%q", h)
	}
}
