package sagatemplate

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/pawlsync/pawl/internal/sagatemplate/form"
)

// paramsMaxBytes bounds the parameters of one request.
const paramsMaxBytes = 1 << 20

const (
	problemsMax = 20 // told of one request
	shownMax    = 64 // characters of a caller's name in a message
)

// UnknownError: there is no template of that name.
type UnknownError struct {
	Name    string
	Nearest string   // what was probably meant; may be ""
	Names   []string // all that there are
}

func (e *UnknownError) Error() string {
	what := fmt.Sprintf("no saga template is called %q", cut(e.Name))
	switch {
	case e.Nearest != "":
		return what + "; did you mean " + e.Nearest + "?"
	case len(e.Names) == 0:
		return what + "; the configuration has none below sagas"
	}
	return what + "; there are " + strings.Join(e.Names, ", ")
}

// ParamsError: the parameters don't fit the template.
type ParamsError struct {
	Template string
	Problems []Problem // at least one
}

// Problem is what is wrong with one parameter, or with all of them as such.
type Problem struct {
	Param string // "" for all of them
	What  string // never shows a value
	Hint  string // what to do; may be ""
}

func (e *ParamsError) Error() string {
	lines := make([]string, len(e.Problems))
	for i, p := range e.Problems {
		lines[i] = p.String()
	}
	return "the parameters of saga template " + e.Template + ": " + strings.Join(lines, "; ")
}

// String reads "namespace is missing (its name)".
func (p Problem) String() string {
	s := p.What
	if p.Param != "" {
		s = p.Param + " " + s
	}
	if p.Hint != "" {
		s += " (" + p.Hint + ")"
	}
	return s
}

func cut(name string) string {
	if r := []rune(name); len(r) > shownMax {
		return string(r[:shownMax]) + "…"
	}
	return name
}

// paramsReader reads the parameters of one request.
type paramsReader struct {
	t        *template
	values   map[string]form.Value
	given    map[string]bool // also those with a wrong value
	problems []Problem
}

// values reads raw, and takes defaults for what it does not have.
func (t *template) values(raw json.RawMessage) (map[string]form.Value, error) {
	r := &paramsReader{t: t, values: map[string]form.Value{}, given: map[string]bool{}}
	if len(raw) == 0 || r.object(raw) {
		r.defaults()
	}
	if len(r.problems) > 0 {
		return nil, &ParamsError{Template: t.name, Problems: r.problems}
	}
	return r.values, nil
}

// wrong notes a problem, unless there are enough for one answer.
func (r *paramsReader) wrong(param, what, hint string) {
	if len(r.problems) < problemsMax {
		r.problems = append(r.problems, Problem{param, what, hint})
	}
}

// object reads a JSON object itself, since encoding/json takes the last of two
// values of a name, and leaves out what it does not know. ok is false if it is none.
func (r *paramsReader) object(raw json.RawMessage) (ok bool) {
	switch {
	case len(raw) > paramsMaxBytes:
		r.wrong("", fmt.Sprintf("have %d bytes, more than the %d allowed", len(raw), paramsMaxBytes), "")
		return false
	case !utf8.Valid(raw):
		r.wrong("", "are not UTF-8", "")
		return false
	}
	dec := json.NewDecoder(bytes.NewReader(raw))
	if first, err := dec.Token(); err != nil || first != json.Delim('{') {
		r.wrong("", "are no JSON object", `write {"name": value}`)
		return false
	}
	for dec.More() {
		name, err := dec.Token()
		var value json.RawMessage
		if err == nil {
			err = dec.Decode(&value)
		}
		if err != nil {
			r.wrong("", "are no JSON: "+err.Error(), "")
			return false
		}
		r.param(name.(string), value) // within an object, what comes first is a name
	}
	if _, err := dec.Token(); err != nil {
		r.wrong("", "are no JSON: "+err.Error(), "")
		return false
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		r.wrong("", "go on after the object", "give one object")
		return false
	}
	return true
}

func (r *paramsReader) param(name string, raw json.RawMessage) {
	typ := r.t.params[name]
	switch {
	case len(r.problems) == problemsMax:
		return
	case typ == nil:
		hint := "there are " + strings.Join(r.t.names, ", ")
		if n := near(name, r.t.names); n != "" {
			hint = "did you mean " + n + "?"
		} else if len(r.t.names) == 0 {
			hint = "it has none"
		}
		r.wrong(cut(name), "is no parameter", hint)
		return
	case r.given[name]:
		r.wrong(name, "is given twice", "")
		return
	}
	r.given[name] = true
	v, err := typ.Read(raw)
	if err != nil {
		r.problem(name, err)
		return
	}
	r.values[name] = v
}

// defaults takes the default of each parameter that was not given.
func (r *paramsReader) defaults() {
	for _, name := range r.t.names {
		if r.given[name] {
			continue
		}
		typ := r.t.params[name]
		if len(typ.Default) == 0 {
			r.wrong(name, "is missing", strings.TrimSuffix(typ.Description, "."))
			continue
		}
		v, err := typ.Read(typ.Default)
		if err != nil {
			r.problem(name, err)
		}
		r.values[name] = v
	}
}

func (r *paramsReader) problem(name string, err error) {
	p := &form.Problem{What: err.Error()}
	errors.As(err, &p)
	r.wrong(name, p.What, p.Hint)
}
