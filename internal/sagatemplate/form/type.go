package form

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"regexp/syntax"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Param is how a parameter is declared.
type Param struct {
	Description string
	Type        string // "string", "integer" or "boolean"
	Pattern     string // of strings: matches the whole value; "": any
	Enum        []string
	MaxLength   int // of strings, in characters
	Min, Max    int // of integers
	Default     json.RawMessage
}

// Type reads the values of a parameter.
type Type struct {
	Param
	pattern *regexp.Regexp
	reach   reach
}

// Value is a value as it stands within a text, and as JSON.
type Value struct {
	Text string
	JSON []byte
}

// NewType makes the type of a parameter. The error, a *Problem, is of its pattern.
func NewType(p Param) (*Type, error) {
	t := &Type{Param: p}
	if p.Pattern == "" {
		t.reach = everything
		return t, nil
	}
	tree, err := syntax.Parse(p.Pattern, syntax.Perl)
	if err == nil {
		t.reach = reachOf(tree)
		t.pattern, err = regexp.Compile(`\A(?:` + p.Pattern + `)\z`)
	}
	if err != nil {
		return nil, &Problem{strings.TrimPrefix(err.Error(), "error parsing regexp: "), "write a regular expression of RE2, as in [a-z0-9-]+"}
	}
	return t, nil
}

// Read returns the value that raw, one JSON value, has as a t. The error, a
// *Problem, does not show it: it may be confidential.
func (t *Type) Read(raw json.RawMessage) (Value, error) {
	raw = bytes.TrimSpace(raw)
	switch t.Type {
	case "integer":
		return t.readInteger(raw)
	case "boolean":
		if s := string(raw); s == "true" || s == "false" {
			return Value{s, raw}, nil
		}
		return Value{}, &Problem{"needs a boolean, not " + describe(raw), "write true or false"}
	}
	return t.readString(raw)
}

func (t *Type) readInteger(raw json.RawMessage) (Value, error) {
	if k := describe(raw); k != "a number" {
		return Value{}, &Problem{"needs a whole number, not " + k, ""}
	}
	n, err := strconv.ParseInt(string(raw), 10, 64)
	if err != nil {
		return Value{}, &Problem{"needs a whole number", "write digits alone"}
	}
	if n < int64(t.Min) || n > int64(t.Max) {
		return Value{}, &Problem{"is out of range", fmt.Sprintf("allowed is %d to %d", t.Min, t.Max)}
	}
	s := strconv.FormatInt(n, 10) // -0 is 0
	return Value{s, []byte(s)}, nil
}

func (t *Type) readString(raw json.RawMessage) (Value, error) {
	var s string
	if k := describe(raw); k != "a string" {
		return Value{}, &Problem{"needs a string, not " + k, ""}
	}
	if err := json.Unmarshal(raw, &s); err != nil || !utf8.Valid(raw) {
		return Value{}, &Problem{"is no string of UTF-8", ""}
	}
	switch {
	case len(t.Enum) > 0:
		if !slices.Contains(t.Enum, s) {
			return Value{}, &Problem{"is none of the values allowed", "allowed are " + strings.Join(t.Enum, ", ")}
		}
	case utf8.RuneCountInString(s) > t.MaxLength:
		return Value{}, &Problem{"is too long", fmt.Sprintf("it may have %d characters", t.MaxLength)}
	case t.pattern != nil && !t.pattern.MatchString(s):
		return Value{}, &Problem{"does not match the pattern " + t.Pattern, ""}
	}
	return Value{s, quote(s)}, nil
}

// quote writes s as JSON, without the escapes that are meant for HTML.
func quote(s string) []byte {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(s); err != nil {
		return nil // strings can be encoded
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}

// Quote fills t in, and writes the text as JSON; a parameter that stands alone
// keeps its type.
func (t Text) Quote(values map[string]Value) []byte {
	if p, ok := t.Alone(); ok {
		return values[p].JSON
	}
	return quote(t.Fill(values))
}

// describe names the type of a JSON value.
func describe(raw json.RawMessage) string {
	if len(raw) == 0 {
		return "nothing"
	}
	switch raw[0] {
	case '"':
		return "a string"
	case '{':
		return "an object"
	case '[':
		return "a list"
	case 't', 'f':
		return "a boolean"
	case 'n':
		return "null"
	}
	return "a number"
}

// Signs that a value within a longer text may hold unless the text has them
// itself. Letters, digits and plain signs always may; all others never.
const (
	plainSigns = "-_."
	otherSigns = "+=|~@/:"
)

// reach is what values may hold besides letters, digits and plainSigns.
type reach struct {
	signs   string // those of otherSigns
	foreign rune   // one that a text can't bear; 0: there is none
}

var everything = reach{otherSigns, '"'}

// Foreign returns a character that a value may hold, and that could mean
// something within a text whose literals are around: with it, a caller could
// turn the text into another one.
func (t *Type) Foreign(around string) (r rune, ok bool) {
	if t.Type != "string" || len(t.Enum) > 0 {
		return 0, false // a number, true, false, or what the template's author wrote
	}
	if t.reach.foreign != 0 {
		return t.reach.foreign, true
	}
	for _, r := range t.reach.signs {
		if strings.ContainsRune(around, r) {
			return r, true
		}
	}
	return 0, false
}

// reachOf says what the matches of a pattern may hold; it errs on the side of more.
func reachOf(re *syntax.Regexp) reach {
	var out reach
	switch re.Op {
	case syntax.OpAnyChar, syntax.OpAnyCharNotNL:
		return everything
	case syntax.OpLiteral: // case changes letters alone
		for _, r := range re.Rune {
			out.add(r, r)
		}
	case syntax.OpCharClass:
		for i := 0; i+1 < len(re.Rune); i += 2 {
			out.add(re.Rune[i], re.Rune[i+1])
		}
	}
	for _, sub := range re.Sub {
		r := reachOf(sub)
		out.signs += r.signs
		if r.foreign != 0 {
			out.foreign = r.foreign
		}
	}
	return out
}

// add lets matches hold lo to hi. The first foreign one is enough.
func (o *reach) add(lo, hi rune) {
	for r := lo; r <= hi && o.foreign == 0; r++ {
		switch {
		case unicode.IsLetter(r), unicode.IsDigit(r), strings.ContainsRune(plainSigns, r):
		case strings.ContainsRune(otherSigns, r):
			o.signs += string(r)
		default:
			o.foreign = r
			if r == 0 { // which a message could not show
				o.foreign = everything.foreign
			}
		}
	}
}
