// Package sagatemplate turns a small request, the name of a template of the
// configuration and its parameters, into the saga that the template says.
//
// A parameter changes values alone: sinks, verbs, and the shape of payloads are
// the template's. See package form for what a value within a text may be.
package sagatemplate

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/pawlsync/pawl/config"
	"github.com/pawlsync/pawl/engine/record"
	"github.com/pawlsync/pawl/engine/saga"
	"github.com/pawlsync/pawl/engine/sink"
	"github.com/pawlsync/pawl/internal/nearest"
	"github.com/pawlsync/pawl/internal/sagatemplate/form"
)

// Set is the templates of a configuration. It is not changed once made, so that
// many may use it at once.
type Set struct {
	templates  map[string]*template
	names      []string // sorted
	payloadMax int      // bytes
}

type template struct {
	name   string
	config config.Saga
	params map[string]*form.Type
	names  []string // of params, sorted
	steps  []step
}

// step is a step with its texts read.
type step struct {
	key     form.Text
	payload []chunk
}

// New makes the templates of c. After config.Load, which has checked them, the
// only errors are of a c that was made or changed by other means.
func New(c *config.Config) (*Set, error) {
	s := &Set{templates: map[string]*template{}, names: slices.Sorted(maps.Keys(c.Sagas)), payloadMax: int(c.Limits.PayloadMaxBytes)}
	for _, name := range s.names {
		t, err := read(name, c.Sagas[name])
		if err != nil {
			return nil, fmt.Errorf("saga template %s: %w", name, err)
		}
		s.templates[name] = t
	}
	return s, nil
}

func read(name string, c config.Saga) (*template, error) {
	t := &template{name: name, config: c, params: map[string]*form.Type{}, names: slices.Sorted(maps.Keys(c.Params))}
	for _, p := range t.names {
		typ, err := form.NewType(form.Param(c.Params[p]))
		if err != nil {
			return nil, fmt.Errorf("parameter %s: %w", p, err)
		}
		t.params[p] = typ
	}
	for i, st := range c.Steps {
		key, err := form.ParseText(st.Key)
		if err != nil {
			return nil, fmt.Errorf("step %d: key: %w", i+1, err)
		}
		payload, err := chunks(st.Payload)
		if err != nil {
			return nil, fmt.Errorf("step %d: payload: %w", i+1, err)
		}
		texts := []form.Text{key}
		for _, c := range payload {
			texts = append(texts, c.text)
		}
		for _, text := range texts {
			for _, p := range text.Params() {
				if t.params[p] == nil {
					return nil, fmt.Errorf("step %d: no parameter is called %s", i+1, p)
				}
			}
		}
		t.steps = append(t.steps, step{key, payload})
	}
	return t, nil
}

// Expand returns the saga that template name says for params, a JSON object (or
// nothing, where no parameter is needed). Its ID is left empty, and whether its
// sinks can do it is left to saga.Spec.Validate. The same params give the same
// bytes.
//
// # Errors
//
// *UnknownError where there is no such template, *ParamsError with all that is
// wrong with params.
func (s *Set) Expand(name string, params json.RawMessage) (saga.Spec, error) {
	t := s.templates[name]
	if t == nil {
		return saga.Spec{}, &UnknownError{Name: name, Nearest: near(name, s.names), Names: s.names}
	}
	values, err := t.values(params)
	if err != nil {
		return saga.Spec{}, err
	}
	spec := saga.Spec{Mode: saga.Mode(t.config.Mode), Timeout: t.config.Timeout, RefusePuts: t.config.RefusePuts}
	for i, st := range t.steps {
		c := t.config.Steps[i]
		payload, ok := fill(st.payload, values, s.payloadMax)
		if !ok {
			return saga.Spec{}, tooLong(name, "payload", i, s.payloadMax)
		}
		if st.key.Len(values) > record.MaxKeyBytes {
			return saga.Spec{}, tooLong(name, "key", i, record.MaxKeyBytes)
		}
		spec.Steps = append(spec.Steps, saga.Step{
			Key: record.Key{Sink: c.Sink, Name: st.key.Fill(values)}, Verb: saga.Verb(c.Verb), After: saga.After(c.After), Payload: payload,
		})
	}
	return spec, nil
}

// Misfits says, by name, why the sinks as they are can't run a template.
func (s *Set) Misfits(manifest func(sinkName string) (sink.Manifest, bool)) map[string]error {
	out := map[string]error{}
	for _, name := range s.names {
		c := s.templates[name].config
		spec := saga.Spec{ID: name, Mode: saga.Mode(c.Mode), Timeout: c.Timeout}
		for _, st := range c.Steps { // with their placeholders, keys are keys, and no two are the same
			spec.Steps = append(spec.Steps, saga.Step{Key: record.Key{Sink: st.Sink, Name: st.Key}, Verb: saga.Verb(st.Verb), Payload: st.Payload})
		}
		if err := spec.Validate(manifest); err != nil {
			out[name] = err
		}
	}
	return out
}

func tooLong(template, what string, step, limit int) error {
	return &ParamsError{Template: template, Problems: []Problem{{
		What: fmt.Sprintf("make the %s of step %d longer than the %d bytes allowed", what, step+1, limit), Hint: "give shorter ones",
	}}}
}

// near is the candidate that a name from a caller was meant to be; "" if none.
func near(name string, candidates []string) string {
	if len(name) > 2*shownMax {
		return ""
	}
	return nearest.Of(name, candidates)
}

// Info describes a template to its callers.
type Info struct {
	Name        string        `json:"name"`
	Description string        `json:"description,omitempty"`
	Mode        saga.Mode     `json:"mode"`
	Timeout     time.Duration `json:"-"` // written as the API writes durations
	Params      []ParamInfo   `json:"params"`
	Steps       []StepInfo    `json:"steps"`
}

// ParamInfo describes a parameter.
type ParamInfo struct {
	Name        string          `json:"name"`
	Description string          `json:"description,omitempty"`
	Type        string          `json:"type"` // "string", "integer" or "boolean"
	Required    bool            `json:"required"`
	Default     json.RawMessage `json:"default,omitempty"`
	Pattern     string          `json:"pattern,omitempty"`
	Enum        []string        `json:"enum,omitempty"`
	MaxLength   *int            `json:"maxLength,omitempty"` // characters, of strings without Enum
	Min         *int            `json:"min,omitempty"`       // of integers
	Max         *int            `json:"max,omitempty"`
}

// StepInfo describes a step, with the placeholders of its key.
type StepInfo struct {
	Sink string    `json:"sink"`
	Key  string    `json:"key"`
	Verb saga.Verb `json:"verb"`
}

// List describes all templates, by name.
func (s *Set) List() []Info {
	out := make([]Info, 0, len(s.names))
	for _, name := range s.names {
		t := s.templates[name]
		info := Info{Name: name, Description: t.config.Description, Mode: saga.Mode(t.config.Mode), Timeout: t.config.Timeout,
			Params: make([]ParamInfo, 0, len(t.names))}
		for _, p := range t.names {
			info.Params = append(info.Params, paramInfo(p, t.config.Params[p]))
		}
		for _, st := range t.config.Steps {
			info.Steps = append(info.Steps, StepInfo{Sink: st.Sink, Key: st.Key, Verb: saga.Verb(st.Verb)})
		}
		out = append(out, info)
	}
	return out
}

func paramInfo(name string, p config.SagaParam) ParamInfo {
	info := ParamInfo{Name: name, Description: p.Description, Type: p.Type, Required: len(p.Default) == 0,
		Default: p.Default, Pattern: p.Pattern, Enum: p.Enum}
	switch {
	case p.Type == "integer":
		info.Min, info.Max = &p.Min, &p.Max
	case p.Type == "string" && len(p.Enum) == 0:
		info.MaxLength = &p.MaxLength
	}
	return info
}
