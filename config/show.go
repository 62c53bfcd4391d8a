package config

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"go.yaml.in/yaml/v3"

	"github.com/pawlsync/pawl/internal/duration"
)

// YAML prints the configuration in force as a file that Load accepts, with
// every key, secrets as "[redacted]", and a comment on each value that is no
// default, which says where it comes from.
func (c *Config) YAML() ([]byte, error) {
	var out bytes.Buffer
	enc := yaml.NewEncoder(&out)
	enc.SetIndent(2)
	root, err := c.node(reflect.ValueOf(c).Elem(), schema(), "")
	if err != nil {
		return nil, fmt.Errorf("printing the configuration: %w", err)
	}
	if err := enc.Encode(root); err != nil {
		return nil, fmt.Errorf("printing the configuration: %w", err)
	}
	return out.Bytes(), nil
}

// node prints v, the Go value of section f at path.
func (c *Config) node(v reflect.Value, f *field, path string) (*yaml.Node, error) {
	n := &yaml.Node{Kind: yaml.MappingNode}
	for _, child := range f.children {
		p := join(path, child.key)
		value, err := c.valueNode(v.FieldByIndex(child.index), child, p)
		if err != nil {
			return nil, err
		}
		if value == nil {
			continue
		}
		n.Content = append(n.Content, word(child.key), value)
	}
	return n, nil
}

// valueNode prints v, what stands at f; nil where that is nothing.
func (c *Config) valueNode(v reflect.Value, f *field, path string) (*yaml.Node, error) {
	switch f.kind {
	case kindSection:
		return c.node(v, f, path)
	case kindOptional:
		if v.IsNil() {
			return nil, nil
		}
		return c.node(v.Elem(), f, path)
	case kindTable:
		return c.tableNode(v, f, path)
	case kindSeries:
		return c.seriesNode(v, f, path)
	case kindObject, kindScalar:
		if v.Len() == 0 {
			return nil, nil
		}
		return objectNode(v.Bytes())
	}
	n := leafNode(v)
	if n != nil {
		n.LineComment = c.comment(path, f)
	}
	return n, nil
}

func (c *Config) tableNode(v reflect.Value, f *field, path string) (*yaml.Node, error) {
	n := &yaml.Node{Kind: yaml.MappingNode}
	names := make([]string, 0, v.Len())
	for _, k := range v.MapKeys() {
		names = append(names, k.String())
	}
	slices.Sort(names)
	for _, name := range names {
		value, err := c.node(v.MapIndex(reflect.ValueOf(name)), f, join(path, name))
		if err != nil {
			return nil, err
		}
		n.Content = append(n.Content, word(name), value)
	}
	return n, nil
}

func (c *Config) seriesNode(v reflect.Value, f *field, path string) (*yaml.Node, error) {
	n := &yaml.Node{Kind: yaml.SequenceNode}
	for i := range v.Len() {
		item, err := c.node(v.Index(i), f, join(path, strconv.Itoa(i+1)))
		if err != nil {
			return nil, err
		}
		n.Content = append(n.Content, item)
	}
	return n, nil
}

// leafNode prints a value so that Load reads it back; nil for "" and for an
// empty list, which are the same as nothing.
func leafNode(v reflect.Value) *yaml.Node {
	switch x := v.Interface().(type) {
	case time.Duration:
		return word(duration.Text(x))
	case Bytes:
		return word(x.String())
	case Sensitive:
		if x == "" {
			return nil
		}
		return word(x.String())
	case bool:
		return &yaml.Node{Kind: yaml.ScalarNode, Value: strconv.FormatBool(x)}
	case int:
		return &yaml.Node{Kind: yaml.ScalarNode, Value: strconv.Itoa(x)}
	case float64:
		return &yaml.Node{Kind: yaml.ScalarNode, Value: showFloat(x)}
	case []string:
		if len(x) == 0 {
			return nil
		}
		n := &yaml.Node{Kind: yaml.SequenceNode, Style: yaml.FlowStyle}
		for _, item := range x {
			n.Content = append(n.Content, word(item))
		}
		return n
	}
	if v.String() == "" {
		return nil
	}
	return word(v.String())
}

// word is a string, quoted where YAML would take it for something else, or
// where a reader could not see what it holds.
func word(s string) *yaml.Node {
	n := &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: s}
	if strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) }) {
		n.Style = yaml.DoubleQuotedStyle
	}
	return n
}

// objectNode turns JSON, which is YAML, into a tree in YAML's usual style.
func objectNode(raw json.RawMessage) (*yaml.Node, error) {
	var doc yaml.Node
	if err := yaml.Unmarshal(raw, &doc); err != nil {
		return nil, err
	}
	n := doc.Content[0]
	plain(n)
	return n, nil
}

// plain undoes JSON's flow style and its quotes where they are not needed.
func plain(n *yaml.Node) {
	n.Style = 0
	if n.Kind == yaml.ScalarNode && n.Tag == "!!str" {
		*n = *word(n.Value)
	}
	for _, c := range n.Content {
		plain(c)
	}
}

// comment says where the value at path comes from; "" for a default.
func (c *Config) comment(path string, f *field) string {
	o, ok := c.origins[path]
	from := ""
	for p := path; !ok && f.inherits && !strings.HasPrefix(p, "defaults."); {
		p = inheritedFrom(p, c.plugin)
		o, ok = c.origins[p]
		from, _, _ = strings.Cut(p, ".")
		from += ", "
	}
	switch {
	case !ok:
		return ""
	case o.source != "":
		return o.source
	}
	return fmt.Sprintf("%sline %d", from, o.line)
}

// plugin is the plugin of a sink; "" for one that is not declared.
func (c *Config) plugin(sink string) string {
	name := c.Sinks[sink].Plugin
	if _, ok := c.Plugins[name]; !ok {
		return ""
	}
	return name
}
