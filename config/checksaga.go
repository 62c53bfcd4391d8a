package config

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/pawlsync/pawl/engine/record"
	"github.com/pawlsync/pawl/internal/sagatemplate/form"
)

// sagaCheck carries the check of one template.
type sagaCheck struct {
	*loader
	path  string                // of the template
	types map[string]*form.Type // of parameters without errors
	names []string              // of all parameters
	used  map[string]bool       // parameters that a step has
}

func (l *loader) checkSaga(c *Config, s Saga, path string) {
	k := &sagaCheck{l, path, map[string]*form.Type{}, slices.Sorted(maps.Keys(s.Params)), map[string]bool{}}
	for _, name := range k.names {
		k.checkParam(name, s.Params[name])
	}
	first := map[record.Key]int{}
	for i, st := range s.Steps {
		step := join(join(path, "steps"), strconv.Itoa(i+1))
		k.checkStep(c, st, step)
		key := record.Key{Sink: st.Sink, Name: st.Key}
		if j, seen := first[key]; seen && st.Key != "" {
			l.wrong(step+".key", fmt.Sprintf("is the resource of step %d too", j+1), "a saga writes a resource once")
		} else {
			first[key] = i
		}
	}
	if k.badBelow(path+".steps") || len(s.Steps) == 0 {
		return // what is wrong in a step may be where the parameter is
	}
	for _, name := range k.names {
		if !k.used[name] {
			l.wrong(k.param(name), "no step has {{."+name+"}}", "use the parameter, or remove it")
		}
	}
}

func (k *sagaCheck) param(name string) string { return join(join(k.path, "params"), name) }

func (k *sagaCheck) checkParam(name string, p SagaParam) {
	path, errs := k.param(name), len(k.errs)
	for _, of := range []struct {
		key, kind string
		set       bool
	}{
		{"pattern", "string", p.Pattern != ""},
		{"enum", "string", len(p.Enum) > 0},
		{"max_length", "string", p.MaxLength != sagaLengthMax},
		{"min", "integer", p.Min != -sagaIntegerMax},
		{"max", "integer", p.Max != sagaIntegerMax},
	} {
		if of.set && p.Type != of.kind {
			k.wrong(path+"."+of.key, "means nothing for type "+p.Type, "remove it, or set type: "+of.kind)
		}
	}
	if len(p.Enum) > 0 && p.Pattern != "" {
		k.wrong(path+".pattern", "enum is set too", "keep one of them")
	}
	if p.Min > p.Max {
		k.wrong(path+".min", fmt.Sprintf("min (%d) is more than max (%d)", p.Min, p.Max), "")
	}
	t, err := form.NewType(form.Param(p))
	if err != nil {
		k.problem(k.where(path+".pattern"), path+".pattern", err)
	}
	if err != nil || len(k.errs) > errs || k.badBelow(path) {
		return
	}
	if len(p.Default) > 0 {
		if _, err := t.Read(p.Default); err != nil {
			k.problem(k.where(path+".default"), path+".default", err)
			return
		}
	}
	k.types[name] = t
}

// problem notes an error of package form.
func (k *sagaCheck) problem(o origin, path string, err error) {
	var p *form.Problem
	if !errors.As(err, &p) {
		p = &form.Problem{What: err.Error()}
	}
	k.fail(o, path, p.What, p.Hint)
}

// badBelow reports whether something at or below path has an error.
func (k *sagaCheck) badBelow(path string) bool {
	for p := range k.badKeys {
		if p == path || strings.HasPrefix(p, path+".") {
			return true
		}
	}
	return false
}

func (k *sagaCheck) checkStep(c *Config, st SagaStep, path string) {
	sinks := slices.Sorted(maps.Keys(c.Sinks))
	if st.Sink != "" && !slices.Contains(sinks, st.Sink) && !k.badKeys["sinks."+st.Sink] {
		hint := didYouMean(st.Sink, sinks)
		if hint == "" {
			hint = "declare it below sinks"
		}
		k.wrong(path+".sink", "no sink is called "+shown(st.Sink), hint)
	}
	if st.Key != "" && !k.badKeys[path+".key"] {
		k.checkText(k.where(path+".key"), path+".key", st.Key, true)
	}
	switch _, given := k.origins[path+".payload"]; {
	case st.Verb == "delete" && given:
		k.wrong(path+".payload", "means nothing for verb delete", "remove it")
	case !given && (st.Verb == "create" || st.Verb == "upsert"):
		k.wrong(path+".payload", "is missing", "it is needed: the content to "+st.Verb)
	case given && k.trees[path+".payload"] != nil:
		k.checkPayload(c, st.Payload, path+".payload")
	}
}

func (k *sagaCheck) checkPayload(c *Config, raw json.RawMessage, path string) {
	if limit := c.Limits.PayloadMaxBytes; Bytes(len(raw)) > limit {
		k.wrong(path, fmt.Sprintf("has %d bytes, more than limits.payload_max_bytes (%s)", len(raw), limit), "")
		return
	}
	k.checkTree(k.trees[path], path)
}

// checkTree checks the strings of a payload, which may hold placeholders, and
// its keys, which may not.
func (k *sagaCheck) checkTree(n *yaml.Node, path string) {
	n = deref(n)
	switch n.Kind {
	case yaml.MappingNode:
		for i := 0; i+1 < len(n.Content); i += 2 {
			key := deref(n.Content[i])
			below := join(path, keyText(key.Value))
			if t, err := form.ParseText(key.Value); err != nil || len(t.Params()) > 0 {
				k.fail(at(key), below, "the keys of a payload are fixed", "put placeholders into values")
			}
			k.checkTree(n.Content[i+1], below)
		}
	case yaml.SequenceNode:
		for i, c := range n.Content {
			k.checkTree(c, fmt.Sprintf("%s[%d]", path, i))
		}
	default:
		if tag := n.ShortTag(); tag == "!!str" || tag == "!!timestamp" {
			k.checkText(at(n), path, n.Value, false)
		}
	}
}

// checkText checks a key or a string of a payload. In a key a parameter counts
// as within a longer text even where it stands alone, since callers must not be
// able to choose any resource.
func (k *sagaCheck) checkText(o origin, path, text string, key bool) {
	t, err := form.ParseText(text)
	if err != nil {
		k.problem(o, path, err)
		return
	}
	if key && len(t.Literal()) > record.MaxKeyBytes {
		k.fail(o, path, fmt.Sprintf("has %d bytes without its parameters; keys have at most %d", len(t.Literal()), record.MaxKeyBytes), "")
	}
	for _, name := range t.Params() {
		k.used[name] = true
		if !slices.Contains(k.names, name) {
			if !k.badKeys[k.param(name)] {
				hint := didYouMean(name, k.names)
				if hint == "" {
					hint = "declare it below " + k.path + ".params"
				}
				k.fail(o, path, "no parameter is called "+shown(name), hint)
			}
			continue
		}
		typ := k.types[name]
		if _, alone := t.Alone(); typ == nil || alone && !key {
			continue
		}
		if sign, ok := typ.Foreign(t.Literal()); ok {
			k.foreign(o, path, name, typ, sign)
		}
	}
}

// foreign notes that a parameter could turn the text around it into another one.
func (k *sagaCheck) foreign(o origin, path, name string, t *form.Type, sign rune) {
	if t.Pattern == "" {
		k.fail(o, path, fmt.Sprintf("{{.%s}} may be any text, so that a caller could change the meaning of what stands around it", name),
			"set "+k.param(name)+".pattern, as in [a-z0-9-]+, or enum")
		return
	}
	k.fail(o, path, fmt.Sprintf("{{.%s}} may hold %q, with which a caller could change the meaning of what stands around it", name, sign),
		"narrow "+k.param(name)+".pattern, as in [a-z0-9-]+")
}
