package api

import (
	"encoding/json"
	"fmt"
	"net/http"
	"reflect"
	"time"
)

// SagaRequest is the body that starts a saga: its steps, or the name of a template
// that makes them of Params. The mode, the timeout and refusePuts of a template are
// its own.
type SagaRequest struct {
	ID         string            `json:"id,omitempty" maxLength:"128" doc:"The caller's name for it: the same id and content are the same saga, also after it ended. Letters, digits and . _ : @ -. Absent: one is made up."`
	Template   string            `json:"template,omitempty" doc:"Name of a template of the configuration, in place of mode and steps."`
	Params     json.RawMessage   `json:"params,omitempty" doc:"An object with the template's parameters."`
	Mode       string            `json:"mode,omitempty" enum:"pessimistic,optimistic" doc:"Pessimistic locks what it touches and tries until the timeout; optimistic takes no locks and gives up at the first step that can't be written at once."`
	Steps      []SagaStepRequest `json:"steps,omitempty" maxItems:"16" doc:"What is written, in this order."`
	Timeout    *Duration         `json:"timeout,omitempty" doc:"How long it tries to go forward; after that it takes back what it wrote. At most 1h. Absent: 30s."`
	RefusePuts bool              `json:"refusePuts,omitempty" doc:"Refuse Puts and Deletes of its resources while it runs; else they are stored and delivered afterwards."`
	Wait       *Duration         `json:"wait,omitempty" doc:"How long the answer waits for the outcome, at most 10m; 0: not at all. Absent: the timeout, and 5s for taking back what was written."`
}

// SagaStepRequest is one write of a saga.
type SagaStepRequest struct {
	Sink          string          `json:"sink"`
	Key           string          `json:"key" doc:"The resource's key within the sink."`
	Verb          string          `json:"verb" enum:"create,upsert,delete" doc:"Create: it must not exist. Upsert: create or replace."`
	Payload       json.RawMessage `json:"payload,omitempty" doc:"Any JSON value; none of delete."`
	PayloadBase64 []byte          `json:"payloadBase64,omitempty" doc:"In place of payload where that is not JSON."`
	After         string          `json:"after,omitempty" enum:"keep,forget" doc:"What becomes of the resource once all is written: keep, an ordinary one that is checked for drift (the default), or forget."`
}

// Bytes returns the payload as it is stored; nil: there is none.
func (s *SagaStepRequest) Bytes() []byte {
	if s.Payload != nil {
		return s.Payload
	}
	return s.PayloadBase64
}

// Duration is a span of time; it travels as "30s" or "1m30s", and 0 also as a number.
type Duration time.Duration

// MarshalText implements encoding.TextMarshaler.
func (d Duration) MarshalText() ([]byte, error) { return []byte(time.Duration(d).String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (d *Duration) UnmarshalText(text []byte) error {
	parsed, err := time.ParseDuration(string(text))
	if err != nil || parsed < 0 {
		return &json.UnmarshalTypeError{Value: fmt.Sprintf("number %q", clip(string(text))), Type: reflect.TypeFor[Duration]()}
	}
	*d = Duration(parsed)
	return nil
}

// UnmarshalJSON implements json.Unmarshaler.
func (d *Duration) UnmarshalJSON(value []byte) error {
	var text string
	switch err := json.Unmarshal(value, &text); {
	case string(value) == "0":
		*d = 0
		return nil
	case err != nil:
		return &json.UnmarshalTypeError{Value: "number " + clip(string(value)), Type: reflect.TypeFor[Duration]()}
	}
	return d.UnmarshalText([]byte(text))
}

// Decode reads the body that starts a saga, as strictly as PutRequest.Decode.
func (r *SagaRequest) Decode(body []byte) error {
	*r = SagaRequest{}
	err := decode(body, fields{
		"id": &r.ID, "template": &r.Template, "params": &r.Params, "mode": &r.Mode,
		"timeout": &r.Timeout, "refusePuts": &r.RefusePuts, "wait": &r.Wait,
		"steps": list(func() fields {
			r.Steps = append(r.Steps, SagaStepRequest{})
			return r.Steps[len(r.Steps)-1].fields()
		}),
	})
	if err != nil {
		return err
	}
	return r.complete()
}

func (s *SagaStepRequest) fields() fields {
	return fields{"sink": &s.Sink, "key": &s.Key, "verb": &s.Verb, "after": &s.After, "payload": &s.Payload, "payloadBase64": &s.PayloadBase64}
}

// complete says what is wrong with r as a whole. Values are the saga's to judge.
func (r *SagaRequest) complete() error {
	invalid := func(detail, hint string) error {
		return NewProblem(http.StatusUnprocessableEntity, CodeInvalid, detail, hint)
	}
	switch own := r.Mode != "" || r.Steps != nil || r.Timeout != nil || r.RefusePuts; {
	case r.ID != "" && !IsSagaID(r.ID):
		return invalid(fmt.Sprintf("the id %q can't be part of a path", clip(r.ID)), "use letters, digits and . _ : @ -, at most 128 of them")
	case r.Template != "" && own:
		return invalid("the body has a template, and also mode, steps, timeout or refusePuts", "those are the template's; give it params")
	case r.Template == "" && r.Params != nil:
		return invalid("the body has params and no template", "")
	case r.Template == "" && len(r.Steps) == 0:
		return invalid("the body has no steps", `give them as "steps": [{"sink": "…", "key": "…", "verb": "create", "payload": …}], or name a template`)
	}
	for i := range r.Steps {
		switch s := &r.Steps[i]; {
		case s.Payload != nil && s.PayloadBase64 != nil:
			return invalid(fmt.Sprintf("step %d has both payload and payloadBase64", i+1), "")
		case s.Bytes() == nil && (s.Verb == "create" || s.Verb == "upsert"):
			return invalid(fmt.Sprintf("step %d (%s) has no payload", i+1, s.Verb), "")
		}
	}
	return nil
}

// IsSagaID reports whether id can be a saga's: it stands in a path as it is.
func IsSagaID(id string) bool {
	dots := true
	for _, c := range []byte(id) {
		switch {
		case c == '.':
			continue
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', c == '_', c == ':', c == '@', c == '-':
			dots = false
		default:
			return false
		}
	}
	return !dots && len(id) <= 128
}

// The outcomes of a saga; the empty one is not known yet.
const (
	SagaCommitted  = "Committed"  // all of it is written
	SagaRolledBack = "RolledBack" // none of it is
)

// The phases of a saga.
const (
	SagaWaiting   = "Waiting"   // for deliveries of its resources that are under way
	SagaForward   = "Forward"   // its steps are being written
	SagaUndoing   = "Undoing"   // what it wrote is being taken back
	SagaReleasing = "Releasing" // its outcome stands; what it holds is being given up
	SagaEnded     = "Ended"
)

// Saga is one saga, as far as it has come.
type Saga struct {
	ID         string     `json:"id"`
	Run        string     `json:"run,omitempty" doc:"What its marks and locks bear at the targets."`
	Mode       string     `json:"mode" enum:"pessimistic,optimistic"`
	Phase      string     `json:"phase" enum:"Waiting,Forward,Undoing,Releasing,Ended" doc:"Waiting: for deliveries of its resources that are under way. Releasing: its outcome stands, and what it holds is being given up."`
	Outcome    string     `json:"outcome,omitempty" enum:"Committed,RolledBack" doc:"Committed: all of it is written. RolledBack: none of it is. Absent: not known yet."`
	Unresolved bool       `json:"unresolved,omitempty" doc:"Its deadline has passed, or it can't go on without an operator, and nobody can say how it ends."`
	Stuck      string     `json:"stuck,omitempty" doc:"Why it can't be ended without an operator."`
	Cause      string     `json:"cause,omitempty" doc:"Why it does not go forward: the failed step's refusal, in the target's own words, or that time was up."`
	FailedStep int        `json:"failedStep,omitempty" doc:"The step that could not be written, from 1."`
	RefusePuts bool       `json:"refusePuts,omitempty"`
	Began      time.Time  `json:"began,omitzero"`
	Deadline   time.Time  `json:"deadline,omitzero" doc:"Until when it tries to go forward."`
	EndedAt    time.Time  `json:"endedAt,omitzero"`
	Tries      int        `json:"tries,omitempty" doc:"Calls in vain since the last that moved it."`
	NextAt     time.Time  `json:"nextAt,omitzero" doc:"When it goes on; absent: it is at it."`
	Steps      []SagaStep `json:"steps" nullable:"false"`
}

// The states of a step.
const (
	StepWaiting    = "waiting"
	StepSending    = "sending"  // its write is under way
	StepInDoubt    = "in-doubt" // its write got no answer that says whether it landed
	StepWritten    = "written"
	StepRefused    = "refused" // by its target, for good; nothing was written
	StepUndoing    = "undoing" // its undo is under way
	StepUndone     = "undone"
	StepNotWritten = "not-written" // and won't be
)

// SagaStep is one write of a saga.
type SagaStep struct {
	Sink          string          `json:"sink"`
	Key           string          `json:"key"`
	Verb          string          `json:"verb" enum:"create,upsert,delete"`
	After         string          `json:"after" enum:"keep,forget"`
	State         string          `json:"state" enum:"waiting,sending,in-doubt,written,refused,undoing,undone,not-written" doc:"In-doubt: its write got no answer that says whether it landed; the target is asked."`
	Payload       json.RawMessage `json:"payload,omitempty" doc:"Only where it was asked for; sensitive values read \"***\"."`
	PayloadBase64 []byte          `json:"payloadBase64,omitempty" doc:"In place of payload where that is not JSON."`
	PayloadHidden bool            `json:"payloadHidden,omitempty" doc:"The payload was asked for, but is not shown: its sink has sensitive paths and they can't be found in it."`
	Refusal       *SagaAnswer     `json:"refusal,omitempty" doc:"The target's word that it won't write this."`
	Answer        *SagaAnswer     `json:"answer,omitempty" doc:"The newest of any call about this step."`
	MayLandUntil  time.Time       `json:"mayLandUntil,omitzero" doc:"Until when a request without an answer may still land."`
}

// SagaAnswer is what a target said.
type SagaAnswer struct {
	Status  string    `json:"status" doc:"How the call ended: ok, rejected, conflict, already-exists, unauthorized, unreachable, …"`
	Message string    `json:"message,omitempty" doc:"The target's own words; never payload."`
	At      time.Time `json:"at,omitzero"`
}

// SagaPage is a part of a list, in the order of ids.
type SagaPage struct {
	Items []Saga `json:"items" nullable:"false"`
	Next  string `json:"next,omitempty" doc:"Give it as after to get the next part; absent: this was the last."`
}

// SagaResolution is an operator's decision.
type SagaResolution struct {
	As string `json:"as" enum:"retry,committed,rolled-back" doc:"Retry: try again what it is stuck at. Committed, rolled-back: the operator vouches that all of it, or nothing, is written."`
}

// Decode reads the body of a resolution, as strictly as PutRequest.Decode.
func (r *SagaResolution) Decode(body []byte) error { return decode(body, fields{"as": &r.As}) }

// SagaExplanation says why a saga is where it is and what happens next.
type SagaExplanation struct {
	Text string `json:"text" doc:"A paragraph for people; never payload."`
	Saga Saga   `json:"saga" doc:"Without payloads."`
}

// SagaTemplate describes a template of the configuration to its callers.
type SagaTemplate struct {
	Name        string             `json:"name"`
	Description string             `json:"description,omitempty"`
	Mode        string             `json:"mode" enum:"pessimistic,optimistic"`
	Timeout     Duration           `json:"timeout" doc:"How long it tries to go forward."`
	Params      []SagaParam        `json:"params" nullable:"false"`
	Steps       []SagaTemplateStep `json:"steps" nullable:"false"`
}

// SagaParam describes a parameter of a template.
type SagaParam struct {
	Name        string          `json:"name"`
	Description string          `json:"description,omitempty"`
	Type        string          `json:"type" enum:"string,integer,boolean"`
	Required    bool            `json:"required"`
	Default     json.RawMessage `json:"default,omitempty"`
	Pattern     string          `json:"pattern,omitempty" doc:"Matches the whole of a string (RE2)."`
	Enum        []string        `json:"enum,omitempty" nullable:"false" doc:"The only strings allowed."`
	MaxLength   *int            `json:"maxLength,omitempty" doc:"Of strings without enum, in characters."`
	Min         *int            `json:"min,omitempty" doc:"Of integers."`
	Max         *int            `json:"max,omitempty" doc:"Of integers."`
}

// SagaTemplateStep describes a step of a template.
type SagaTemplateStep struct {
	Sink string `json:"sink"`
	Key  string `json:"key" doc:"With its placeholders."`
	Verb string `json:"verb" enum:"create,upsert,delete"`
}

// SagaTemplateList is every template, by name.
type SagaTemplateList struct {
	Items []SagaTemplate `json:"items" nullable:"false"`
}

// SagaCounts are the figures of sagas that have not ended.
type SagaCounts struct {
	Running    int       `json:"running"`
	Unresolved int       `json:"unresolved"`
	Oldest     time.Time `json:"oldestUnresolved,omitzero" doc:"When the oldest unresolved one began."`
}
