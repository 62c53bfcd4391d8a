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

func parseYAML(content []byte, file string) (docs []Document, wrong Errors) {
	dec := yaml.NewDecoder(bytes.NewReader(content))
	for {
		var node yaml.Node
		switch err := dec.Decode(&node); {
		case errors.Is(err, io.EOF):
			return docs, wrong
		case err != nil:
			return nil, append(wrong, yamlError(file, err))
		}
		if len(node.Content) == 0 || node.Content[0].Tag == "!!null" {
			continue // an empty document: comments, or --- at the end
		}
		ds, es := yamlDocuments(file, node.Content[0])
		docs, wrong = append(docs, ds...), append(wrong, es...)
	}
}

var yamlLine = regexp.MustCompile(`^yaml: (?:line (\d+): )?`)

// yamlError moves the line from the parser's message to where it belongs.
func yamlError(file string, err error) *Error {
	msg := err.Error()
	m := yamlLine.FindStringSubmatch(msg)
	if m == nil {
		return &Error{File: file, What: "this is no YAML: " + msg}
	}
	line, _ := strconv.Atoi(m[1]) // 0, unknown, where there is none
	return &Error{File: file, Line: line, What: "this is no YAML: " + msg[len(m[0]):]}
}

func yamlDocuments(file string, node *yaml.Node) (docs []Document, wrong Errors) {
	switch node.Kind {
	case yaml.SequenceNode:
		for _, item := range node.Content {
			ds, es := yamlDocuments(file, item)
			docs, wrong = append(docs, ds...), append(wrong, es...)
		}
	case yaml.MappingNode:
		fields, err := yamlFields(node)
		if err != nil {
			err.File = file
			return nil, Errors{err}
		}
		doc, es := build(file, node.Line, fields)
		docs, wrong = append(docs, doc), es
	default:
		wrong = Errors{{File: file, Line: node.Line, What: "a document must be a mapping with sink, key and payload"}}
	}
	return docs, wrong
}

func yamlFields(node *yaml.Node) ([]field, *Error) {
	var fields []field
	for i := 0; i+1 < len(node.Content); i += 2 {
		name, value := node.Content[i], node.Content[i+1]
		c := converter{open: map[*yaml.Node]bool{}}
		if err := c.write(value); err != nil {
			return nil, err
		}
		fields = append(fields, field{name: name.Value, line: name.Line, value: c.out.Bytes()})
	}
	return fields, nil
}

// converter writes YAML nodes as JSON.
type converter struct {
	out  bytes.Buffer
	open map[*yaml.Node]bool // anchors being written, to see one that holds itself
}

func wrongNode(node *yaml.Node, format string, args ...any) *Error {
	return &Error{Line: node.Line, What: fmt.Sprintf(format, args...)}
}

func (c *converter) write(node *yaml.Node) *Error {
	if c.out.Len() > maxJSONBytes {
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
	seen := map[string]bool{}
	c.out.WriteByte('{')
	for i := 0; i+1 < len(node.Content); i += 2 {
		name, value := node.Content[i], node.Content[i+1]
		switch {
		case name.Kind != yaml.ScalarNode:
			return wrongNode(name, "a key of a mapping must be a string, as in JSON")
		case name.Tag == "!!merge":
			return wrongNode(name, "merge keys (<<) are not supported; use an alias for the whole value")
		case seen[name.Value]:
			return wrongNode(name, "the key %q is there twice", name.Value)
		}
		seen[name.Value] = true
		if len(seen) > 1 {
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

func (c *converter) writeString(s string) {
	enc := json.NewEncoder(&c.out)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(s) // a string always encodes
	c.out.Truncate(c.out.Len() - 1)
}

func (c *converter) writeScalar(node *yaml.Node) *Error {
	switch node.Tag {
	case "!!null":
		c.out.WriteString("null")
	case "!!bool":
		truth := strings.ToLower(node.Value)
		if truth != "true" && truth != "false" { // !!bool yes
			return wrongNode(node, "%q is no truth value; write true or false", node.Value)
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
		return "", wrongNode(node, "%s may mean eight-based digits (YAML 1.1) or not (1.2); put it in quotes, or write it without the 0 in front", node.Value)
	}
	digits := strings.ReplaceAll(node.Value, "_", "")
	if node.Tag == "!!int" {
		if n, ok := new(big.Int).SetString(digits, 0); ok {
			return n.String(), nil
		}
	}
	f, err := strconv.ParseFloat(digits, 64)
	if err != nil || math.IsInf(f, 0) || math.IsNaN(f) {
		return "", wrongNode(node, "JSON has no number %s", node.Value)
	}
	return strconv.FormatFloat(f, 'g', -1, 64), nil
}
