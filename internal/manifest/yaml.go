package manifest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"math/big"
	"regexp"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// maxJSONBytes bounds what one value becomes: a few lines of aliases can stand
// for gigabytes.
const maxJSONBytes = 64 << 20

// yamlParser reads a file.
type yamlParser struct {
	file    string
	before  int // lines of the file above what is read
	entries []Entry
	c       converter // used again for every document
}

// parseYAML reads the documents one by one, so that one that is no YAML spoils no other.
func parseYAML(content []byte, file string) []Entry {
	p := &yamlParser{file: file}
	for _, s := range p.first(content, split(content)) {
		p.before = s.before
		p.stretch(s.text)
	}
	return p.entries
}

// first reads with one decoder, as one for each takes more, and returns what is left where
// something is no YAML: from the last stretch on of which it read a document, which may be
// the one that is wrong. It leaves all where there are anchors, which a decoder keeps for
// all that it reads and which are meant for one document, and where it counts other lines.
func (p *yamlParser) first(content []byte, left []stretch) []stretch {
	if len(left) == 1 || bytes.IndexByte(content, '&') >= 0 || !hasPlainLines(content) {
		return left
	}
	dec, sure := yaml.NewDecoder(bytes.NewReader(content)), 0 // entries of what is not left
	for {
		n := len(p.entries)
		line, err := p.next(dec)
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			p.entries = p.entries[:sure]
			return left
		}
		for len(left) > 1 && left[1].before < line {
			left, sure = left[1:], n
		}
	}
}

func (p *yamlParser) stretch(text []byte) {
	dec := yaml.NewDecoder(bytes.NewReader(text))
	for {
		switch _, err := p.next(dec); {
		case errors.Is(err, io.EOF):
			return
		case err != nil:
			e := bad(yamlError(err).in(p.file, p.before))
			e.Key = guessKey(text)
			p.entries = append(p.entries, e)
			return
		}
	}
}

// next takes the document that dec has next, and returns the line of it.
func (p *yamlParser) next(dec *yaml.Decoder) (line int, err error) {
	var node yaml.Node
	if err := dec.Decode(&node); err != nil {
		return 0, err
	}
	if len(node.Content) > 0 && node.Content[0].Tag != "!!null" { // else it is empty: comments, or --- at the end
		p.document(node.Content[0])
	}
	return node.Line, nil
}

var yamlLine = regexp.MustCompile(`^yaml: (?:line (\d+): )?`)

var yamlAnchor = regexp.MustCompile(`unknown anchor '.*' referenced`)

// yamlError moves the line from the parser's message to where it belongs. What the file
// holds is nobody's to tell.
func yamlError(err error) *Error {
	msg := yamlAnchor.ReplaceAllString(err.Error(), "an anchor is referenced that is not there")
	m := yamlLine.FindStringSubmatch(msg)
	if m == nil {
		return &Error{What: "this is no YAML: " + msg}
	}
	line, _ := strconv.Atoi(m[1]) // 0, unknown, where there is none
	return &Error{Line: line, What: "this is no YAML: " + msg[len(m[0]):]}
}

// document takes a document, or a list of them.
func (p *yamlParser) document(node *yaml.Node) {
	switch node.Kind {
	case yaml.SequenceNode:
		for _, item := range node.Content {
			p.document(item)
		}
	case yaml.MappingNode:
		if items := listItems(node); items != nil {
			p.document(items)
			return
		}
		fields, wrong := p.fields(node)
		p.entries = append(p.entries, build(p.file, p.before+node.Line, fields, wrong, func() json.RawMessage { return joined(fields) }))
	default:
		p.entries = append(p.entries, bad(wrongNode(node, "a document must be a mapping with sink, key and payload").in(p.file, p.before)))
	}
}

// listItems returns the items of a list of Kubernetes; nil: it is none.
func listItems(node *yaml.Node) *yaml.Node {
	var versioned, list bool
	var items *yaml.Node
	for i := 0; i+1 < len(node.Content); i += 2 {
		switch name, value := node.Content[i].Value, node.Content[i+1]; {
		case name == "sink":
			return nil
		case name == "apiVersion":
			versioned = true
		case name == "kind":
			list = isList(value.Value)
		case name == "items" && value.Kind == yaml.SequenceNode:
			items = value
		}
	}
	if !versioned || !list {
		return nil
	}
	return items
}

// fields are the members of the mapping node that can be read, and what is wrong with
// the others.
func (p *yamlParser) fields(node *yaml.Node) (fields []field, wrong Errors) {
	fields = make([]field, 0, len(node.Content)/2)
	p.c.out.Reset()
	for i := 0; i+1 < len(node.Content); i += 2 {
		name, value := node.Content[i], node.Content[i+1]
		p.c.start = p.c.out.Len()
		if err := p.c.write(value); err != nil {
			wrong = append(wrong, err.in(p.file, p.before))
			p.c.out.Truncate(p.c.start) // it may be long
			continue
		}
		fields = append(fields, field{name: name.Value, line: p.before + name.Line, value: p.c.out.Bytes()[p.c.start:]})
	}
	return fields, wrong
}

// joined is the JSON object of fields.
func joined(fields []field) json.RawMessage {
	c := converter{}
	for i, f := range fields {
		c.out.WriteByte("{,"[min(i, 1)])
		c.writeString(f.name)
		c.out.WriteByte(':')
		c.out.Write(f.value)
	}
	c.out.WriteByte('}')
	return c.out.Bytes()
}

// converter writes YAML nodes as JSON.
type converter struct {
	out   bytes.Buffer
	start int                 // of the value in out
	open  map[*yaml.Node]bool // anchors being written, to see one that holds itself
}

func wrongNode(node *yaml.Node, format string, args ...any) *Error {
	return &Error{Line: node.Line, What: fmt.Sprintf(format, args...)}
}

func (c *converter) write(node *yaml.Node) *Error {
	if c.out.Len()-c.start > maxJSONBytes {
		return wrongNode(node, "the value grows beyond %d MiB, its aliases written out", maxJSONBytes>>20)
	}
	switch node.Kind {
	case yaml.AliasNode:
		return c.writeAlias(node)
	case yaml.MappingNode:
		return c.writeMapping(node)
	case yaml.SequenceNode:
		return c.writeSequence(node)
	}
	return c.writeScalar(node)
}

func (c *converter) writeAlias(node *yaml.Node) *Error {
	if node.Alias == nil || c.open[node.Alias] {
		return wrongNode(node, "the anchor %q holds itself", node.Value)
	}
	if c.open == nil { // few documents have aliases
		c.open = map[*yaml.Node]bool{}
	}
	c.open[node.Alias] = true
	defer delete(c.open, node.Alias)
	return c.write(node.Alias)
}

func (c *converter) writeSequence(node *yaml.Node) *Error {
	c.out.WriteByte('[')
	for i, item := range node.Content {
		if i > 0 {
			c.out.WriteByte(',')
		}
		if err := c.write(item); err != nil {
			return err
		}
	}
	c.out.WriteByte(']')
	return nil
}

func (c *converter) writeMapping(node *yaml.Node) *Error {
	names := seenIn(node)
	c.out.WriteByte('{')
	for i := 0; i+1 < len(node.Content); i += 2 {
		name, value := node.Content[i], node.Content[i+1]
		switch {
		case name.Kind != yaml.ScalarNode:
			return wrongNode(name, "a key of a mapping must be a string, as in JSON")
		case name.Tag == "!!merge":
			return wrongNode(name, "merge keys (<<) are not supported; use an alias for the whole value")
		case names.before(i):
			return wrongNode(name, "the key %q is there twice", name.Value)
		}
		if i > 0 {
			c.out.WriteByte(',')
		}
		c.writeString(name.Value)
		c.out.WriteByte(':')
		if err := c.write(value); err != nil {
			return err
		}
	}
	c.out.WriteByte('}')
	return nil
}

// seen tells which keys of a mapping were there before.
type seen struct {
	node  *yaml.Node
	names map[string]bool // nil: there are few, and comparing them takes less
}

const fewKeys = 16

func seenIn(node *yaml.Node) seen {
	if len(node.Content) <= 2*fewKeys {
		return seen{node: node}
	}
	return seen{node, make(map[string]bool, len(node.Content)/2)}
}

// before reports whether the key at i was there before it. It is asked for one after the
// other.
func (s seen) before(i int) bool {
	name := s.node.Content[i].Value
	if s.names != nil {
		twice := s.names[name]
		s.names[name] = true
		return twice
	}
	for j := 0; j < i; j += 2 {
		if s.node.Content[j].Value == name {
			return true
		}
	}
	return false
}

func (c *converter) writeString(s string) {
	if isPlain(s) { // as most are
		c.out.WriteByte('"')
		c.out.WriteString(s)
		c.out.WriteByte('"')
		return
	}
	enc := json.NewEncoder(&c.out)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(s) // a string always encodes
	c.out.Truncate(c.out.Len() - 1)
}

// isPlain reports whether s means the same within the quotes of JSON.
func isPlain(s string) bool {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c > '~' || c == '"' || c == '\\' {
			return false
		}
	}
	return true
}

func (c *converter) writeScalar(node *yaml.Node) *Error {
	switch node.Tag {
	case "!!null":
		c.out.WriteString("null")
	case "!!bool":
		truth := strings.ToLower(node.Value)
		if truth != "true" && truth != "false" { // !!bool yes
			return wrongNode(node, "this is no truth value; write true or false")
		}
		c.out.WriteString(truth)
	case "!!int", "!!float":
		number, err := jsonNumber(node)
		if err != nil {
			return err
		}
		c.out.WriteString(number)
	case "!!str", "!!timestamp": // JSON has no dates; they stay as written
		c.writeString(node.Value)
	default:
		return wrongNode(node, "the tag %s has no counterpart in JSON", node.Tag)
	}
	return nil
}

var jsonNumberPattern = regexp.MustCompile(`^-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?$`)

// octalPattern is what the versions of YAML read differently: a mode, or an
// identifier with a 0 in front, would silently become another number.
var octalPattern = regexp.MustCompile(`^[-+]?0[0-9_]+$`)

// jsonNumber keeps a number as written where JSON can write it so, whatever
// its size.
func jsonNumber(node *yaml.Node) (string, *Error) {
	if jsonNumberPattern.MatchString(node.Value) {
		return node.Value, nil
	}
	if octalPattern.MatchString(node.Value) {
		return "", wrongNode(node, "a number with a 0 in front may mean eight-based digits (YAML 1.1) or not (1.2); put it in quotes, or write it without the 0")
	}
	digits := strings.ReplaceAll(node.Value, "_", "")
	if node.Tag == "!!int" {
		if n, ok := new(big.Int).SetString(digits, 0); ok {
			return n.String(), nil
		}
	}
	f, err := strconv.ParseFloat(digits, 64)
	if err != nil || math.IsInf(f, 0) || math.IsNaN(f) {
		return "", wrongNode(node, "JSON has no such number")
	}
	return strconv.FormatFloat(f, 'g', -1, 64), nil
}
