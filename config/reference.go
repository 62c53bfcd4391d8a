package config

import (
	_ "embed"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Entry describes one key.
type Entry struct {
	Key      string   `json:"key"`                // "sinks.<name>.timeout"
	Type     string   `json:"type"`               // "duration", "size", "whole number", …; "section" and "names" hold further keys
	Default  string   `json:"default,omitempty"`  // as one would write it, or how it is found; "" for none
	Inherits string   `json:"inherits,omitempty"` // the key whose value is the default
	Min      string   `json:"min,omitempty"`      // the least allowed
	Max      string   `json:"max,omitempty"`      // the most allowed
	Zero     string   `json:"zero,omitempty"`     // what 0 means, where it is allowed though below Min
	OneOf    []string `json:"oneOf,omitempty"`    // the words allowed
	Unit     string   `json:"unit,omitempty"`     // what a number counts
	Env      string   `json:"env,omitempty"`      // variable: "PAWL_SINKS_<NAME>_TIMEOUT"; "" where none can set it
	Flag     string   `json:"flag,omitempty"`     // flag of the daemon, without dashes
	Required bool     `json:"required,omitempty"` // within its section, if that is there
	Doc      string   `json:"doc"`
}

// Reference lists every key in the order of the file's sections, a section
// before its keys.
func Reference() []Entry {
	var out []Entry
	schema().walk("", nil, func(f *field, path string) {
		e := Entry{
			Key: path, Type: f.kind.String(), Default: f.def, Min: f.min, Max: f.max, Zero: f.zero,
			OneOf: f.oneof, Unit: f.unit, Flag: f.flag, Required: f.required, Doc: f.doc,
		}
		if f.dynamic != "" {
			e.Default = f.dynamic
		}
		if f.kind.leaf() {
			e.Env = envName(path)
		}
		if f.inherits && f.kind.leaf() {
			e.Default, e.Inherits = "", inherited(path)
		}
		out = append(out, e)
	})
	return out
}

//go:embed example.yaml
var example string

// Example returns a small configuration that works: one sink that talks to one
// HTTP service.
func Example() string { return example }

//go:embed example-sagas.yaml
var exampleSagas string

//go:embed intro.md
var intro string

// Markdown returns the reference as a page, docs/config.md.
func Markdown() string {
	var b strings.Builder
	b.WriteString("<!-- Generated from the tags in config/config.go and from config/intro.md by: go generate ./config -->\n\n")
	b.WriteString(strings.NewReplacer("{{example}}", strings.TrimSpace(example), "{{sagas}}", strings.TrimSpace(exampleSagas)).Replace(intro))
	b.WriteString("\n## All keys\n")
	section := ""
	for _, e := range Reference() {
		if top, _, _ := strings.Cut(e.Key, "."); top != section {
			section = top
			fmt.Fprintf(&b, "\n### %s\n\n%s\n\n| key | type | default | allowed | |\n|---|---|---|---|---|\n", top, e.Doc)
			continue
		}
		if e.Inherits == "" && !inheritedSection(e) {
			b.WriteString(e.row())
		}
	}
	b.WriteString("\nA sink also takes every key of `defaults`, and a plugin those of `defaults.limits`: what a sink does not set\n" +
		"it takes from `plugins.<name>.limits` of its plugin, if it is a limit, and else from `defaults`.\n")
	b.WriteString("\n## Variables that set no key\n\n| variable | |\n|---|---|\n")
	for _, name := range slices.Sorted(maps.Keys(reservedEnv)) {
		fmt.Fprintf(&b, "| `%s` | %s |\n", name, reservedEnv[name])
	}
	return b.String()
}

// inheritedSection reports whether e is a section whose keys are inherited.
func inheritedSection(e Entry) bool {
	return e.Type == "section" && strings.HasPrefix(e.Key, "sinks.")
}

// row is e as a line of a table.
func (e Entry) row() string {
	code := func(s string) string {
		if s == "" || strings.Contains(s, " ") {
			return s
		}
		return "`" + s + "`"
	}
	kind := e.Type
	if e.Unit != "" {
		kind += ", " + e.Unit
	}
	def := code(e.Default)
	if e.Required {
		def = "required"
	}
	doc := e.Doc
	if e.Flag != "" {
		doc += fmt.Sprintf(" Flag: `--%s`.", e.Flag)
	}
	return fmt.Sprintf("| `%s` | %s | %s | %s | %s |\n", e.Key, kind, def, e.allowed("`"), doc)
}

// Allowed says which values are allowed; "": any of the type.
func (e Entry) Allowed() string { return e.allowed("") }

func (e Entry) allowed(quote string) string {
	if len(e.OneOf) > 0 {
		words := slices.Clone(e.OneOf)
		for i := range words {
			words[i] = quote + words[i] + quote
		}
		return strings.Join(words, ", ")
	}
	if e.Min == "" {
		return ""
	}
	s := fmt.Sprintf("%s to %s", e.Min, e.Max)
	if e.Zero != "" {
		s += fmt.Sprintf("; 0: %s", e.Zero)
	}
	return s
}
