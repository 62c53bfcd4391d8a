package config

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// ErrInvalid is what every Error and Errors of this package is, for errors.Is.
var ErrInvalid = errors.New("invalid configuration")

// Error is one thing that is wrong with the configuration.
type Error struct {
	File   string // "" where the value is from a variable or a flag
	Line   int    // 1-based; 0: unknown
	Column int    // 1-based, in characters; 0: unknown
	Source string // variable ("PAWL_LOG_LEVEL") or flag ("--log-level"); "" for the file
	Key    string // path of the key: "sinks.web.timeout"; "" for the file as such
	What   string // what is wrong
	Hint   string // what to do, or what was probably meant; may be ""
}

// Error reads "pawl.yaml:12:5: sinks.web.timout: unknown key; did you mean timeout?".
func (e *Error) Error() string {
	var parts []string
	if p := e.position(); p != "" {
		parts = append(parts, p)
	}
	if e.Key != "" {
		parts = append(parts, e.Key)
	}
	what := e.What
	if e.Hint != "" {
		what += "; " + e.Hint
	}
	return strings.Join(append(parts, what), ": ")
}

// Is reports whether target is ErrInvalid.
func (e *Error) Is(target error) bool { return target == ErrInvalid }

func (e *Error) position() string {
	switch {
	case e.Source != "":
		return e.Source
	case e.Line == 0:
		return e.File
	case e.Column == 0:
		return fmt.Sprintf("%s:%d", e.File, e.Line)
	}
	return fmt.Sprintf("%s:%d:%d", e.File, e.Line, e.Column)
}

// Errors is all that is wrong, the file's first, by line. It is never empty.
type Errors []*Error

// Error has one line for each of them.
func (es Errors) Error() string {
	lines := make([]string, len(es))
	for i, e := range es {
		lines[i] = e.Error()
	}
	return strings.Join(lines, "\n")
}

// Unwrap gives the single errors to errors.Is and errors.As.
func (es Errors) Unwrap() []error {
	out := make([]error, len(es))
	for i, e := range es {
		out[i] = e
	}
	return out
}

// Sorted orders es as people look things up: file by line, then variables and
// flags by name; errors at the same place by key, and the same error once.
func (es Errors) Sorted() Errors {
	slices.SortStableFunc(es, func(a, b *Error) int {
		return cmp.Or(cmp.Compare(a.Source, b.Source), cmp.Compare(a.Line, b.Line),
			cmp.Compare(a.Column, b.Column), cmp.Compare(a.Key, b.Key))
	})
	return slices.CompactFunc(es, func(a, b *Error) bool { return *a == *b })
}

// Wrong is an error of the value at key, of one that Load could not find: it
// shows when the value is used. It points at where that key was written, else at
// where the section around it was.
func (c *Config) Wrong(key, what, hint string) *Error {
	o := nearestOrigin(c.origins, key)
	e := &Error{Key: key, What: what, Hint: hint, Source: o.source}
	if o.source == "" {
		e.File, e.Line, e.Column = c.File, o.line, o.column
	}
	return e
}

// nearestOrigin is where key was written, else where the section around it was.
// A variable that merely made a section exist counts too.
func nearestOrigin(origins map[string]origin, key string) origin {
	for p := key; p != ""; p = parent(p) {
		if o, ok := origins[p]; ok {
			return o
		}
	}
	return origin{}
}

// origin is where a value, a section or a name was written.
type origin struct {
	line, column int    // in the file
	source       string // else a variable or a flag
}
