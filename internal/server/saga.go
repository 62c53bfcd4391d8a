package server

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/pawlsync/pawl/engine/saga"
	"github.com/pawlsync/pawl/internal/access"
	"github.com/pawlsync/pawl/internal/api"
	"github.com/pawlsync/pawl/internal/sagatemplate"
)

// Sagas is what the API needs of *saga.Manager.
type Sagas interface {
	Run(context.Context, saga.Spec) (saga.View, error)
	Start(context.Context, saga.Spec) (saga.View, error)
	Wait(ctx context.Context, id string) (saga.View, error)
	Get(id string) (saga.View, error)
	List(context.Context, saga.ListOptions) (views []saga.View, more bool, err error)
	Resolve(ctx context.Context, id string, how saga.Resolution) (saga.View, error)
	Stats() saga.Stats
}

const (
	defaultSagaTimeout = 30 * time.Second
	// undoPatience is how long a caller waits beyond the timeout for what was written
	// to be taken back: most are then told the outcome and need not ask.
	undoPatience = 5 * time.Second
)

func (s *Server) sagaRoutes(a huma.API) {
	op := operation(a, "run-saga", http.MethodPost, "/v1/sagas", "Run a saga",
		"Writes to several targets: all of it or none. 200: Committed. 409 with the code saga-rolled-back: nothing of it is left, and the problem has the target's own answer. 202: it goes on; ask at its Location.",
		400, 404, 409, 413, 422, 503, 507)
	op.Responses["202"] = &huma.Response{Description: "Still running, or unresolved", Content: map[string]*huma.MediaType{
		"application/json": {Schema: a.OpenAPI().Components.Schemas.Schema(reflect.TypeFor[api.Saga](), true, "")},
	}}
	huma.Register(a, op, s.runSaga)
	documentBody[api.SagaRequest](a, op.Path, op.Method, "application/json", "Steps, or a template with its params.")
	huma.Register(a, operation(a, "list-sagas", http.MethodGet, "/v1/sagas", "List sagas",
		"Pages of sagas in the order of their ids, without payloads. Ended ones are remembered for 7 days.", 422), s.listSagas)
	huma.Register(a, operation(a, "get-saga", http.MethodGet, "/v1/sagas/{id}", "Get a saga",
		"Payloads are shown where payload=true asks for them; values at the sinks' sensitive paths read \"***\" unless reveal=true. What the targets held before is never shown.",
		404), s.getSaga)
	huma.Register(a, operation(a, "wait-saga", http.MethodGet, "/v1/sagas/{id}/wait", "Wait for a saga",
		"Answers when its outcome is known, or after the timeout without one: ask again.", 404, 422), s.waitSaga)
	huma.Register(a, operation(a, "explain-saga", http.MethodGet, "/v1/sagas/{id}/explain", "Explain a saga",
		"Says in words how far a saga has come, what it waits for and what an operator may do. Never shows payload.", 404), s.explainSaga)
	huma.Register(a, operation(a, "list-saga-templates", http.MethodGet, "/v1/saga-templates", "List saga templates",
		"What a saga's template and params may be: the templates of the configuration, by name."), s.listSagaTemplates)
	resolve := operation(a, "resolve-saga", http.MethodPost, "/v1/sagas/{id}/resolve", "Resolve a saga",
		"An operator's decision about a saga whose outcome is not known. Durable when the answer comes.", 400, 404, 409, 422)
	huma.Register(a, resolve, s.resolveSaga)
	documentBody[api.SagaResolution](a, resolve.Path, resolve.Method, "application/json", "What it is resolved as.")
}

type sagaOutput struct {
	Status   int
	Location string `header:"Location" doc:"Path of the saga."`
	Body     api.Saga
}

func (s *Server) runSaga(ctx context.Context, in *call) (*sagaOutput, error) {
	body, err := s.readBody(in)
	if err != nil {
		return nil, s.problem(ctx, err)
	}
	var r api.SagaRequest
	if err := r.Decode(body); err != nil {
		return nil, s.problem(ctx, err)
	}
	spec, err := s.sagaSpec(&r)
	if err != nil {
		return nil, s.problem(ctx, err)
	}
	if err := maySaga(ctx, access.Write, &spec); err != nil {
		return nil, s.problem(ctx, err)
	}
	noteSaga(ctx, spec.ID)
	patience := spec.Timeout + undoPatience
	if r.Wait != nil {
		patience = time.Duration(*r.Wait)
	}
	run := s.sagas.Run
	if patience == 0 { // but until it is durable
		run, patience = s.sagas.Start, s.o.IOTimeout
	}
	limited, whole, done := s.waiting(ctx, in, patience)
	defer done()
	v, err := run(limited, spec)
	if err != nil {
		return nil, s.sagaProblem(whole, &spec, err)
	}
	out := &sagaOutput{Status: http.StatusAccepted, Location: "/v1/sagas/" + spec.ID, Body: sagaOf(&v)}
	switch v.State.Outcome {
	case saga.Committed:
		out.Status = http.StatusOK
	case saga.RolledBack:
		return nil, rolledBack(&out.Body)
	}
	return out, nil
}

// sagaSpec is what r asks for.
func (s *Server) sagaSpec(r *api.SagaRequest) (spec saga.Spec, err error) {
	if r.Template != "" {
		spec, err = s.rules.Load().templates.Expand(r.Template, r.Params)
	} else {
		spec = steps(r)
	}
	if err != nil {
		return spec, templateProblem(err)
	}
	spec.ID = cmp.Or(r.ID, strings.ToLower(rand.Text()))
	size := 0
	for i := range spec.Steps {
		size += len(spec.Steps[i].Payload)
	}
	if size > s.o.PayloadMaxBytes { // a saga is one record of the store, as a resource is
		return spec, api.NewProblem(http.StatusRequestEntityTooLarge, api.CodeTooLarge,
			fmt.Sprintf("the saga's payloads have %d bytes together, more than the %d allowed", size, s.o.PayloadMaxBytes), "limits.payload_max_bytes sets the limit")
	}
	return spec, nil
}

// steps is the saga of a request that has no template.
func steps(r *api.SagaRequest) saga.Spec {
	spec := saga.Spec{Mode: saga.Mode(r.Mode), Timeout: defaultSagaTimeout, RefusePuts: r.RefusePuts}
	if r.Timeout != nil {
		spec.Timeout = time.Duration(*r.Timeout)
	}
	for i := range r.Steps {
		st := &r.Steps[i]
		spec.Steps = append(spec.Steps, saga.Step{
			Key: recordKey(st), Verb: saga.Verb(st.Verb), Payload: compacted(st), After: saga.After(st.After),
		})
	}
	return spec
}

// compacted is the payload of a step without insignificant white space, so that a
// caller who asks again by other means asks for the same.
func compacted(st *api.SagaStepRequest) []byte {
	var out bytes.Buffer
	if st.Payload == nil || json.Compact(&out, st.Payload) != nil {
		return st.Bytes()
	}
	return out.Bytes()
}

// templateProblem says what is wrong with a template's name or params.
func templateProblem(err error) *api.Problem {
	if unknown, ok := errors.AsType[*sagatemplate.UnknownError](err); ok {
		return api.NewProblem(http.StatusNotFound, api.CodeUnknownTemplate, fmt.Sprintf("there is no saga template %.64q", unknown.Name),
			cmp.Or(api.DidYouMean(unknown.Name, unknown.Names), "the configuration has none below sagas"))
	}
	return api.NewProblem(http.StatusUnprocessableEntity, api.CodeInvalid, err.Error(), "pawl saga templates -o json, or GET /v1/saga-templates, says what they may be")
}

func (s *Server) listSagaTemplates(ctx context.Context, _ *struct{}) (*output[api.SagaTemplateList], error) {
	out := api.SagaTemplateList{Items: []api.SagaTemplate{}}
	for _, t := range s.rules.Load().templates.List() {
		if !slices.ContainsFunc(t.Steps, func(st sagatemplate.StepInfo) bool { return !access.From(ctx).AllowsSome(access.Read, st.Sink) }) {
			out.Items = append(out.Items, sagaTemplate(&t))
		}
	}
	return answer(ctx, s, out, nil)
}

// sagaProblem says why a saga was not begun.
func (s *Server) sagaProblem(ctx context.Context, spec *saga.Spec, err error) *api.Problem {
	switch {
	case errors.Is(err, saga.ErrInvalid):
		for i := range spec.Steps {
			name := spec.Steps[i].Key.Sink
			if sink := s.sink(name); sink == nil || !sink.Configured {
				p := s.unknownSink(ctx, name)
				p.Detail = fmt.Sprintf("step %d: %s", i+1, p.Detail)
				return p
			}
		}
	case errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil:
		return api.NewProblem(http.StatusConflict, api.CodeBusy, "a delivery of one of its resources is under way, and time ran out before it ended: "+err.Error(),
			"nothing was written; ask again with the same id")
	}
	return s.problem(ctx, err)
}

// rolledBack is how a caller is told that nothing of the saga is left.
func rolledBack(v *api.Saga) *api.Problem {
	detail := fmt.Sprintf("saga %s is rolled back, and nothing of it is left: %s", v.ID, v.Failure())
	p := api.NewProblem(http.StatusConflict, api.CodeSagaRolledBack, detail, "run it again with another id, once the cause is gone")
	p.Saga = v
	return p
}

// SagaInput names one saga.
type SagaInput struct {
	ID string `path:"id" doc:"The saga's id."`
}

type getSagaInput struct {
	SagaInput
	Payload bool `query:"payload" doc:"Show the payloads."`
	Reveal  bool `query:"reveal" doc:"Show sensitive values of them too."`
}

func (s *Server) getSaga(ctx context.Context, in *getSagaInput) (*output[api.Saga], error) {
	v, err := s.sagaFor(ctx, in.ID)
	if err == nil && in.Payload && in.Reveal {
		err = maySaga(ctx, access.Admin, &v.Spec)
	}
	if err != nil {
		return nil, s.problem(ctx, err)
	}
	out := sagaOf(&v)
	if in.Payload {
		s.showPayloads(&out, &v, in.Reveal)
	}
	return answer(ctx, s, out, nil)
}

func (s *Server) showPayloads(out *api.Saga, v *saga.View, reveal bool) {
	for i := range out.Steps {
		st := &out.Steps[i]
		mask := s.mask(st.Sink)
		if reveal {
			mask = api.Mask{}
		}
		if v.Spec.Steps[i].Verb != saga.Delete {
			st.Payload, st.PayloadBase64, st.PayloadHidden = mask.Show(v.Spec.Steps[i].Payload)
		}
	}
}

type listSagasInput struct {
	Open  bool   `query:"open" doc:"Only those that have not ended."`
	After string `query:"after" doc:"The id after which the page begins."`
	Limit int    `query:"limit" default:"100" minimum:"1" maximum:"1000" doc:"Most items of a page."`
}

func (s *Server) listSagas(ctx context.Context, in *listSagasInput) (*output[api.SagaPage], error) {
	views, more, err := s.sagasFor(ctx, saga.ListOptions{Open: in.Open, After: in.After, Limit: in.Limit})
	if err != nil {
		return nil, s.problem(ctx, err)
	}
	out := api.SagaPage{Items: make([]api.Saga, len(views))}
	for i := range views {
		out.Items[i] = sagaOf(&views[i])
	}
	if more && len(views) > 0 {
		out.Next = views[len(views)-1].Spec.ID
	}
	return answer(ctx, s, out, nil)
}

type waitSagaInput struct {
	SagaInput
	call
	Timeout string `query:"timeout" default:"30s" doc:"How long to wait, as 30s or 2m; at most 10m."`
}

func (s *Server) waitSaga(ctx context.Context, in *waitSagaInput) (*output[api.Saga], error) {
	patience, err := parseTimeout(in.Timeout)
	if err == nil {
		_, err = s.sagaFor(ctx, in.ID)
	}
	if err != nil {
		return nil, s.problem(ctx, err)
	}
	limited, whole, done := s.waiting(ctx, &in.call, patience)
	defer done()
	v, err := s.sagas.Wait(limited, in.ID)
	if errors.Is(err, context.DeadlineExceeded) && whole.Err() == nil { // it has not begun
		v, err = s.sagas.Get(in.ID)
	}
	return answer(whole, s, sagaOf(&v), err)
}

func (s *Server) explainSaga(ctx context.Context, in *SagaInput) (*output[api.SagaExplanation], error) {
	v, err := s.sagaFor(ctx, in.ID)
	out := api.SagaExplanation{Saga: sagaOf(&v)}
	out.Text = api.ExplainSaga(&out.Saga, s.o.Now())
	return answer(ctx, s, out, err)
}

type resolveSagaInput struct {
	SagaInput
	call
}

func (s *Server) resolveSaga(ctx context.Context, in *resolveSagaInput) (*output[api.Saga], error) {
	body, err := s.readBody(&in.call)
	if err != nil {
		return nil, s.problem(ctx, err)
	}
	var r api.SagaResolution
	if err := r.Decode(body); err != nil {
		return nil, s.problem(ctx, err)
	}
	if err := s.mayResolve(ctx, in.ID); err != nil {
		return nil, s.problem(ctx, err)
	}
	v, err := s.sagas.Resolve(ctx, in.ID, saga.Resolution(r.As))
	if err == nil && saga.Resolution(r.As) != saga.TryAgain && v.State.Outcome == "" { // then the outcome stands, and is told in a moment
		limited, _, done := s.waiting(ctx, &in.call, s.o.IOTimeout)
		defer done()
		v, err = s.sagas.Wait(limited, in.ID)
	}
	return answer(ctx, s, sagaOf(&v), err)
}

// sagaCounts are the figures of now.
func (s *Server) sagaCounts() api.SagaCounts { return api.SagaCounts(s.sagas.Stats()) }
