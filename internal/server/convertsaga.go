package server

import (
	"cmp"
	"time"

	"github.com/pawlsync/pawl/engine/record"
	"github.com/pawlsync/pawl/engine/saga"
	"github.com/pawlsync/pawl/internal/api"
	"github.com/pawlsync/pawl/internal/sagatemplate"
)

func recordKey(s *api.SagaStepRequest) record.Key { return record.Key{Sink: s.Sink, Name: s.Key} }

// sagaOf is v as clients see it: without payloads, and never with what the targets
// held before, which may be others'.
func sagaOf(v *saga.View) api.Saga {
	st := &v.State
	out := api.Saga{
		ID: v.Spec.ID, Run: st.Run, Mode: string(v.Spec.Mode), Phase: cmp.Or(string(st.Phase), api.SagaWaiting), Outcome: string(st.Outcome),
		Unresolved: v.Unresolved, Stuck: st.Stuck, Cause: st.Cause, FailedStep: st.FailedStep, RefusePuts: v.Spec.RefusePuts,
		Began: st.Began, Deadline: st.Deadline, EndedAt: st.EndedAt, Tries: st.Tries, NextAt: st.NextAt,
		Steps: make([]api.SagaStep, len(v.Spec.Steps)),
	}
	for i := range v.Spec.Steps {
		step := &v.Spec.Steps[i]
		out.Steps[i] = api.SagaStep{Sink: step.Key.Sink, Key: step.Key.Name, Verb: string(step.Verb), After: string(cmp.Or(step.After, saga.Keep)), State: api.StepWaiting}
		if i < len(st.Steps) { // none before it has begun
			sagaStep(&out.Steps[i], st, &st.Steps[i])
		}
	}
	return out
}

func sagaStep(out *api.SagaStep, whole *saga.State, st *saga.StepState) {
	out.State = stepState(whole, st)
	out.Refusal, out.Answer = sagaAnswer(st.Refusal), sagaAnswer(st.Last)
	if out.MayLandUntil = st.LateUntil; st.Pending.After(st.LateUntil) {
		out.MayLandUntil = st.Pending
	}
	if whole.Phase == saga.Ended { // nothing may any more
		out.MayLandUntil = time.Time{}
	}
}

func stepState(whole *saga.State, st *saga.StepState) string {
	switch {
	case st.Undone && st.Landed:
		return api.StepUndone
	case !st.Pending.IsZero() && st.Landed:
		return api.StepUndoing
	case st.Landed:
		return api.StepWritten
	case !st.Pending.IsZero():
		return api.StepSending
	case st.Doubt && !st.Undone:
		return api.StepInDoubt
	case st.Refusal != nil:
		return api.StepRefused
	case whole.FailedStep > 0 || whole.Outcome != "":
		return api.StepNotWritten
	}
	return api.StepWaiting
}

func sagaAnswer(a *saga.Answer) *api.SagaAnswer {
	if a == nil {
		return nil
	}
	return &api.SagaAnswer{Status: a.Status.String(), Message: a.Message, At: a.At}
}

func sagaTemplate(t *sagatemplate.Info) api.SagaTemplate {
	out := api.SagaTemplate{Name: t.Name, Description: t.Description, Mode: string(t.Mode), Timeout: api.Duration(t.Timeout)}
	out.Params = make([]api.SagaParam, len(t.Params))
	for i, p := range t.Params {
		out.Params[i] = api.SagaParam(p)
	}
	for _, st := range t.Steps {
		out.Steps = append(out.Steps, api.SagaTemplateStep{Sink: st.Sink, Key: st.Key, Verb: string(st.Verb)})
	}
	return out
}
