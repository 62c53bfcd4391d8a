package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/pawlsync/pawl/engine/record"
	"github.com/pawlsync/pawl/internal/sagatemplate/form"
)

// parseFile reads the one YAML document of the file. What it returns is nil if
// the document is empty or there is an error, which is then noted.
func (l *loader) parseFile(data []byte) *yaml.Node {
	dec := yaml.NewDecoder(bytes.NewReader(data))
	var doc, more yaml.Node
	if err := dec.Decode(&doc); err != nil {
		if !errors.Is(err, io.EOF) {
			l.syntax(err)
		}
		return nil
	}
	switch err := dec.Decode(&more); {
	case err == nil:
		l.fail(at(&more), "", "a second document starts here", "keep one document in the file")
		return nil
	case !errors.Is(err, io.EOF):
		l.syntax(err)
		return nil
	}
	return doc.Content[0]
}

var yamlLine = regexp.MustCompile(`^(?:yaml: )?line (\d+): `)

// syntax notes an error of the YAML parser, which has the line in its text.
func (l *loader) syntax(err error) {
	o := origin{}
	what := err.Error()
	if m := yamlLine.FindStringSubmatch(what); m != nil {
		o.line, _ = strconv.Atoi(m[1])
		what = what[len(m[0]):]
	}
	hint := ""
	if strings.Contains(what, "',' or '}'") { // which is what path: /x/{key} within braces ends in
		hint = `within { } a value that holds braces is put in quotes, as in {path: "/items/{key}"}`
	}
	l.fail(o, "", "not YAML: "+strings.TrimPrefix(what, "yaml: "), hint)
}

func at(n *yaml.Node) origin { return origin{line: n.Line, column: n.Column} }

// section reads the mapping n at path into nested maps of Go values, the shape
// that viper merges. What is wrong is noted and left out.
func (l *loader) section(f *field, n *yaml.Node, path string) map[string]any {
	out := map[string]any{}
	for _, p := range l.pairs(n, path, wantKeys(f)) {
		key := p.key.Value
		c := f.child(key)
		if c == nil {
			l.fail(at(p.key), join(path, keyText(key)), "unknown key", didYouMean(key, f.keys()))
			if m := meant(key, f.keys()); m != "" {
				l.badKeys[join(path, m)] = true // so that it is not missed as well
			}
			continue
		}
		l.origins[join(path, key)] = at(p.key)
		if v := l.value(c, p.value, join(path, key)); v != nil {
			out[key] = v
		}
	}
	return out
}

// wantKeys says what f needs: its keys, unless they are too many to read.
func wantKeys(f *field) string {
	const few = 16
	if len(f.children) > few {
		return "keys with values"
	}
	return "keys: " + strings.Join(f.keys(), ", ")
}

// table reads the mapping n from names to f's sections.
func (l *loader) table(f *field, n *yaml.Node, path string) map[string]any {
	out := map[string]any{}
	for _, p := range l.pairs(n, path, "names, each with its keys") {
		name := p.key.Value
		if what, hint := f.badName(name); what != "" {
			l.fail(at(p.key), join(path, keyText(name)), what, hint)
			l.section(f, p.value, join(path, keyText(name))) // so that what else is wrong there is told at once
			continue
		}
		l.origins[join(path, name)] = at(p.key)
		l.names[path] = append(l.names[path], name)
		out[name] = l.section(f, p.value, join(path, name))
	}
	return out
}

// series reads the list n of f's sections.
func (l *loader) series(f *field, n *yaml.Node, path string) map[string]any {
	if n.Kind != yaml.SequenceNode {
		l.fail(at(n), path, "needs a list of sections, not "+describe(n), "begin each with -")
		return nil
	}
	if err := within(f, len(n.Content), strconv.Atoi, strconv.Itoa); err != nil {
		l.failLeaf(at(n), path, problemf("it needs "+f.min+" to "+f.max, "has %d %s", len(n.Content), f.unit))
		return nil
	}
	out := map[string]any{}
	for i, c := range n.Content {
		number := strconv.Itoa(i + 1)
		l.origins[join(path, number)] = at(c)
		l.names[path] = append(l.names[path], number)
		out[number] = l.section(f, c, join(path, number))
	}
	return out
}

// badName says what is wrong with a name in table f: of a sink, plugin, upstream
// or saga, which share the rule for sinks, or of a parameter.
func (f *field) badName(name string) (what, hint string) {
	ok := record.ValidateSink(name) == nil
	hint = "names have lower-case letters, digits and hyphens, start with none of the last, and have at most 63 of them"
	if f.words {
		ok = form.ValidName(name)
		hint = "names have lower-case letters, digits and underscores, start with a letter, and have at most 63 of them"
	}
	if ok {
		return "", ""
	}
	return shown(name) + " is no name", hint
}

// value reads what stands at the key at path; nil if it is wrong or if it goes elsewhere.
func (l *loader) value(f *field, n *yaml.Node, path string) any {
	n = deref(n)
	switch f.kind {
	case kindSection, kindOptional:
		return l.section(f, n, path)
	case kindTable:
		return l.table(f, n, path)
	case kindSeries:
		return l.series(f, n, path)
	case kindObject, kindScalar:
		if raw, ok := l.object(f, n, path); ok {
			l.objects[path], l.trees[path] = raw, n
		}
		return nil
	}
	v, err := l.leaf(f, n)
	if err != nil {
		l.failLeaf(at(n), path, err)
		return nil
	}
	if text, ok := v.(string); ok && f.kind == kindPath && text != "" && !filepath.IsAbs(text) {
		v = filepath.Join(filepath.Dir(l.file), text)
	}
	l.origins[path] = at(n)
	if f.kind == kindList {
		l.items[path] = n.Content
	}
	return v
}

// leaf reads a scalar or a list of strings.
func (l *loader) leaf(f *field, n *yaml.Node) (any, error) {
	if f.kind != kindList {
		text, err := scalar(f.kind, n)
		if err != nil {
			return nil, err
		}
		return f.parse(text)
	}
	if n.Kind != yaml.SequenceNode {
		return nil, problemf("write [a, b]", "needs a list, not %s", describe(n))
	}
	items := make([]string, len(n.Content))
	for i, c := range n.Content {
		text, err := scalar(kindString, deref(c))
		if err != nil {
			return nil, problemf(err.hint, "item %d %s", i+1, err.what)
		}
		items[i] = text
	}
	return f.parseList(items)
}

// scalar returns the text of n if its YAML type fits k. It is strict, since
// what YAML makes of unquoted words (012, 1e3, yes, null) is seldom meant.
func scalar(k kind, n *yaml.Node) (string, *problem) {
	if n.Kind != yaml.ScalarNode {
		return "", problemf("", "needs a %s, not %s", k, describe(n))
	}
	tag := n.ShortTag()
	fits := false
	switch k {
	case kindBool:
		fits = tag == "!!bool"
	case kindInt:
		fits = tag == "!!int"
	case kindFloat:
		fits = tag == "!!int" || tag == "!!float"
	case kindDuration, kindBytes: // a bare number is told its unit by the parser
		fits = tag == "!!str" || tag == "!!int" || tag == "!!float"
	default:
		fits = tag == "!!str"
	}
	switch {
	case fits:
		return n.Value, nil
	case tag == "!!null":
		return "", problemf("give it a value or remove the key", "has no value")
	case k == kindString || k == kindPath || k == kindSecret:
		return "", problemf("put it in quotes", "needs a string, not %s", describe(n))
	case tag == "!!str" && n.Style&(yaml.SingleQuotedStyle|yaml.DoubleQuotedStyle) != 0:
		return "", problemf("remove the quotes", "needs a %s, not %s", k, describe(n))
	case k == kindBool:
		return "", problemf("write true or false", "needs a boolean, not %s", describe(n))
	}
	return "", problemf("", "needs a %s, not %s", k, describe(n))
}

// describe names what n is; never what it holds, which may be a secret.
func describe(n *yaml.Node) string {
	switch n.Kind {
	case yaml.MappingNode:
		return "a mapping"
	case yaml.SequenceNode:
		return "a list"
	}
	switch n.ShortTag() {
	case "!!str":
		return "a string"
	case "!!int":
		return "a number"
	case "!!float":
		return "a decimal number"
	case "!!bool":
		return "a boolean"
	case "!!null":
		return "nothing"
	case "!!timestamp":
		return "a date"
	}
	return "a value tagged " + n.ShortTag()
}

// pair is one key of a mapping with its value.
type pair struct{ key, value *yaml.Node }

// pairs returns the keys and values of n, the mapping at path, without what is
// wrong with it as a mapping, which is noted. An empty value is an empty
// mapping. want completes "needs …".
func (l *loader) pairs(n *yaml.Node, path, want string) []pair {
	n = deref(n)
	if n.Kind == yaml.ScalarNode && n.ShortTag() == "!!null" {
		return nil
	}
	if n.Kind != yaml.MappingNode {
		l.fail(at(n), path, fmt.Sprintf("needs %s; not %s", want, describe(n)), "")
		return nil
	}
	first := map[string]int{} // the line that a key was first seen at
	var out []pair
	for i := 0; i+1 < len(n.Content); i += 2 {
		key := deref(n.Content[i])
		line, seen := first[key.Value]
		switch {
		case key.Kind != yaml.ScalarNode:
			l.fail(at(key), path, "a key must be a word, not "+describe(key), "")
		case key.ShortTag() == "!!merge":
			l.fail(at(key), path, "merge keys (<<) are not supported", "put what sinks share below defaults")
		case seen:
			l.fail(at(key), join(path, keyText(key.Value)), fmt.Sprintf("given twice, first on line %d", line), "remove one")
		default:
			first[key.Value] = key.Line
			out = append(out, pair{key, n.Content[i+1]})
		}
	}
	return out
}

// deref follows an alias to what it stands for. The YAML parser makes no alias
// of an alias.
func deref(n *yaml.Node) *yaml.Node {
	if n.Kind == yaml.AliasNode && n.Alias != nil {
		return n.Alias
	}
	return n
}
