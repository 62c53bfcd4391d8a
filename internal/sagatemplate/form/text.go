// Package form holds what saga templates are made of: texts with placeholders,
// and the types of the parameters that take their places. The configuration
// checks templates with it, and package sagatemplate fills them in.
//
// A placeholder is written as in Go's templates, and it is all there is of them:
// nothing is run, so that nothing can fail or go on for ever, and every mistake is
// found when the template is read.
package form

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// Problem is what is wrong with a text, a type or a value, and what to do.
type Problem struct{ What, Hint string }

func (p *Problem) Error() string {
	if p.Hint == "" {
		return p.What
	}
	return p.What + "; " + p.Hint
}

// Text is a text with placeholders.
type Text []part

// part is either a literal or a parameter's name.
type part struct{ literal, param string }

// NamePattern is what parameters may be called.
const NamePattern = `[a-z][a-z0-9_]{0,62}`

var (
	name        = regexp.MustCompile(`^` + NamePattern + `$`)
	placeholder = regexp.MustCompile(`^\{\{ *\.(` + NamePattern + `) *\}\}`)
	forgotDot   = regexp.MustCompile(`^\{\{ *(` + NamePattern + `) *\}\}`)
)

// braces is how two braces that begin no placeholder are written.
const braces = `{{"{{"}}`

// ValidName reports whether a parameter may be called s.
func ValidName(s string) bool { return name.MatchString(s) }

// ParseText reads a text: {{.name}} stands for the value of a parameter, and
// {{"{{"}} for {{ itself. The error is a *Problem.
func ParseText(s string) (Text, error) {
	var t Text
	for s != "" {
		i := strings.Index(s, "{{")
		if i < 0 {
			i = len(s)
		}
		if i > 0 {
			t = append(t, part{literal: s[:i]})
			s = s[i:]
			continue
		}
		if rest, ok := strings.CutPrefix(s, braces); ok {
			t = append(t, part{literal: "{{"})
			s = rest
			continue
		}
		m := placeholder.FindStringSubmatch(s)
		if m == nil {
			return nil, notPlaceholder(s)
		}
		t = append(t, part{param: m[1]})
		s = s[len(m[0]):]
	}
	return t, nil
}

// notPlaceholder says what is wrong with s, which begins with {{.
func notPlaceholder(s string) *Problem {
	end := strings.Index(s, "}}")
	if end < 0 {
		return &Problem{"{{ has no }} after it", "write " + braces + " for {{ itself"}
	}
	const shownMax = 40
	written := s[:end+2]
	if r := []rune(written); len(r) > shownMax {
		written = string(r[:shownMax]) + "…"
	}
	hint := "there is {{.name}} for the value of a parameter, and " + braces + " for {{ itself"
	if m := forgotDot.FindStringSubmatch(s); m != nil {
		hint = fmt.Sprintf("did you mean {{.%s}}?", m[1])
	}
	return &Problem{fmt.Sprintf("%q is no placeholder", written), hint}
}

// Params lists the parameters in t, each once, as they come.
func (t Text) Params() []string {
	var out []string
	for _, p := range t {
		if p.param != "" && !slices.Contains(out, p.param) {
			out = append(out, p.param)
		}
	}
	return out
}

// Alone returns the parameter that t is nothing but.
func (t Text) Alone() (param string, ok bool) {
	if len(t) != 1 || t[0].param == "" {
		return "", false
	}
	return t[0].param, true
}

// Literal is t without its placeholders.
func (t Text) Literal() string {
	var b strings.Builder
	for _, p := range t {
		b.WriteString(p.literal)
	}
	return b.String()
}

// Len is how many bytes Fill returns.
func (t Text) Len(values map[string]Value) int {
	n := 0
	for _, p := range t {
		n += len(p.literal)
		if p.param != "" {
			n += len(values[p.param].Text)
		}
	}
	return n
}

// Fill puts values in the places of t's parameters, which they hold all of.
func (t Text) Fill(values map[string]Value) string {
	var b strings.Builder
	for _, p := range t {
		b.WriteString(p.literal)
		if p.param != "" {
			b.WriteString(values[p.param].Text)
		}
	}
	return b.String()
}
