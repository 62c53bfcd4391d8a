package main

import (
	"bytes"
	_ "embed"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"text/template"

	"google.golang.org/protobuf/reflect/protoreflect"
)

//go:embed reference.md.tmpl
var referenceText string

// reference makes docs/plugins/abi.md of the schema and the vectors: the
// template's prose, with a table for each message and enum that it names.
type reference struct {
	file    protoreflect.FileDescriptor
	vectors map[string][]byte // by file name
	used    map[protoreflect.FullName]bool
}

// makeReference returns the page's text.
//
// # Errors
//
// A message, enum or vector that the template names and that does not exist, a
// message or enum of the schema that it does not name, and a field of which the
// schema says nothing.
func makeReference(schema protoreflect.FileDescriptor, vectors map[string][]byte) ([]byte, error) {
	r := &reference{schema, vectors, map[protoreflect.FullName]bool{}}
	t, err := template.New("abi.md").Funcs(template.FuncMap{"enum": r.enum, "message": r.message, "rules": r.rules}).Parse(referenceText)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	if err := t.Execute(&b, nil); err != nil {
		return nil, err
	}
	for i := range schema.Messages().Len() {
		if d := schema.Messages().Get(i); !r.used[d.FullName()] {
			return nil, fmt.Errorf("reference.md.tmpl leaves out the message %s", d.Name())
		}
	}
	for i := range schema.Enums().Len() {
		if d := schema.Enums().Get(i); !r.used[d.FullName()] {
			return nil, fmt.Errorf("reference.md.tmpl leaves out the enum %s", d.Name())
		}
	}
	return b.Bytes(), nil
}

// rules is what the schema says at its head, as it stands there.
func (r *reference) rules() (string, error) {
	head := r.file.SourceLocations().ByPath(protoreflect.SourcePath{12}) // the syntax statement
	lines := strings.Split(strings.TrimSpace(head.LeadingComments), "\n")
	start := slices.IndexFunc(lines, func(l string) bool { return strings.HasPrefix(strings.TrimSpace(l), "- ") })
	if start < 0 {
		return "", fmt.Errorf("the schema's head lists no rules")
	}
	out := []string{"Messages are in the wire format of Protocol Buffers, with these rules:", ""}
	for _, l := range lines[start:] {
		out = append(out, strings.TrimPrefix(strings.TrimPrefix(l, " "), "  "))
	}
	// The two spaces before each rule are of the comment; a rule's later lines keep theirs.
	return strings.Join(out, "\n"), nil
}

// comment is what the schema says of d, on one line.
func (r *reference) comment(d protoreflect.Descriptor) string {
	at := r.file.SourceLocations().ByDescriptor(d)
	return strings.Join(strings.Fields(at.LeadingComments+" "+at.TrailingComments), " ")
}

func (r *reference) enum(name string) (string, error) {
	d := r.file.Enums().ByName(protoreflect.Name(name))
	if d == nil {
		return "", fmt.Errorf("no enum %s", name)
	}
	r.used[d.FullName()] = true
	var b strings.Builder
	fmt.Fprintf(&b, "### %s\n\n", name)
	if c := r.comment(d); c != "" {
		fmt.Fprintf(&b, "%s\n\n", c)
	}
	b.WriteString("| number | name | meaning |\n|---|---|---|\n")
	for i := range d.Values().Len() {
		v := d.Values().Get(i)
		fmt.Fprintf(&b, "| %d | `%s` | %s |\n", v.Number(), v.Name(), cell(r.comment(v)))
	}
	return strings.TrimSuffix(b.String(), "\n"), nil
}

// message is a message's table, and the bytes of some vectors of it.
func (r *reference) message(name string, examples ...string) (string, error) {
	d := r.file.Messages().ByName(protoreflect.Name(name))
	if d == nil {
		return "", fmt.Errorf("no message %s", name)
	}
	r.used[d.FullName()] = true
	var b strings.Builder
	fmt.Fprintf(&b, "### %s\n\n", name)
	if c := r.comment(d); c != "" {
		fmt.Fprintf(&b, "%s\n\n", c)
	}
	b.WriteString("| field | name | type | meaning |\n|---|---|---|---|\n")
	for i := range d.Fields().Len() {
		f := d.Fields().Get(i)
		c := r.comment(f)
		if c == "" {
			return "", fmt.Errorf("the schema says nothing of %s.%s", name, f.Name())
		}
		fmt.Fprintf(&b, "| %d | `%s` | %s | %s |\n", f.Number(), f.Name(), typeOf(f), cell(c))
	}
	for _, e := range examples {
		text, err := r.example(d, e)
		if err != nil {
			return "", err
		}
		b.WriteString(text)
	}
	return strings.TrimSuffix(b.String(), "\n"), nil
}

func cell(s string) string { return strings.ReplaceAll(s, "|", `\|`) }

// typeOf names a field's type, with a link where this page has it.
func typeOf(f protoreflect.FieldDescriptor) string {
	of := f.Kind().String()
	link := func(d protoreflect.Descriptor) string {
		return fmt.Sprintf("[%s](#%s)", d.Name(), strings.ToLower(string(d.Name())))
	}
	switch {
	case f.IsMap():
		return fmt.Sprintf("map of %s to %s", f.MapKey().Kind(), f.MapValue().Kind())
	case f.Message() != nil:
		of = link(f.Message())
	case f.Enum() != nil:
		of = link(f.Enum())
	}
	if f.IsList() {
		return "repeated " + of
	}
	return of
}

// example is a vector with each field on a line of its own.
func (r *reference) example(d protoreflect.MessageDescriptor, name string) (string, error) {
	var v file
	if err := json.Unmarshal(r.vectors[name+".valid.json"], &v); err != nil {
		return "", fmt.Errorf("the vector %s: %w", name, err)
	}
	b, err := hex.DecodeString(v.Hex)
	if err != nil {
		return "", err
	}
	if v.Message != string(d.Name()) {
		return "", fmt.Errorf("the vector %s is a %s, not a %s", name, v.Message, d.Name())
	}
	lines, err := dump(b, d, "")
	if err != nil {
		return "", fmt.Errorf("the vector %s: %w", name, err)
	}
	return fmt.Sprintf("\nFor example, `%s`, %s; %d bytes:\n\n```\n%s```\n", name, v.About, len(b), strings.Join(lines, "")), nil
}
