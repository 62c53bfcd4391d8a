package config

import (
	"encoding/json"
	"time"
)

// Saga is a template: a named saga that callers start with parameters, and
// without knowing the sinks.
type Saga struct {
	Description string               `key:"description" doc:"What it does, for those who call it."`
	Mode        string               `key:"mode" default:"pessimistic" oneof:"pessimistic|optimistic" doc:"pessimistic: keep others off the objects while the saga runs; optimistic: don't, and undo what was done when a later step is refused."`
	Timeout     time.Duration        `key:"timeout" default:"30s" min:"100ms" max:"1h" doc:"How long it tries to go forward; beyond that it undoes."`
	RefusePuts  bool                 `key:"refuse_puts" default:"false" doc:"Refuse a put or delete of a step's resource while the saga runs; else it is stored, and delivered afterwards."`
	Params      map[string]SagaParam `key:"params" names:"identifiers" doc:"What callers give, by name. Every one is used by a step."`
	Steps       []SagaStep           `key:"steps" required:"yes" min:"1" max:"16" unit:"steps" doc:"What is written, in this order."`
}

// SagaParam is a parameter of a template.
type SagaParam struct {
	Description string          `key:"description" doc:"What it is, for those who give it."`
	Type        string          `key:"type" default:"string" oneof:"string|integer|boolean" doc:"Type of the JSON value that callers give."`
	Pattern     string          `key:"pattern" doc:"Regular expression (RE2) that matches the whole of a string. Needed, unless there is enum, where the parameter stands within a longer text or in a key."`
	Enum        []string        `key:"enum" doc:"The only strings allowed."`
	MaxLength   int             `key:"max_length" default:"256" min:"1" max:"65536" unit:"characters" doc:"Longest string."`
	Min         int             `key:"min" default:"-9007199254740991" min:"-9007199254740991" max:"9007199254740991" doc:"Least integer."`
	Max         int             `key:"max" default:"9007199254740991" min:"-9007199254740991" max:"9007199254740991" doc:"Greatest integer."`
	Default     json.RawMessage `key:"default" type:"scalar" doc:"Value where a caller gives none; without it the parameter is required."`
}

// What the tags say: the longest string, and the integers that every reader of
// JSON can tell apart.
const (
	sagaLengthMax  = 256
	sagaIntegerMax = 1<<53 - 1
)

// SagaStep is one write of a template. Key and the strings of Payload may hold
// placeholders, {{.name}}.
type SagaStep struct {
	Sink    string          `key:"sink" required:"yes" doc:"Name of the sink that is written to."`
	Key     string          `key:"key" required:"yes" doc:"The resource's key; {{.name}} in it stands for a parameter."`
	Verb    string          `key:"verb" required:"yes" oneof:"create|upsert|delete" doc:"create: the object must not exist; upsert: create or replace it; delete: remove it."`
	After   string          `key:"after" default:"keep" oneof:"keep|forget" doc:"What becomes of the resource once the saga has committed: keep it as an ordinary one, whose drift is corrected, or forget it."`
	Payload json.RawMessage `key:"payload" doc:"The resource's content; none for delete. {{.name}} in its strings stands for a parameter; a string that is nothing else becomes the value, an integer say. Keys are fixed."`
}
