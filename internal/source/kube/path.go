package kube

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
)

// template makes texts out of objects: what stands between {{ and }} is replaced by
// the field that it names, as in {{.metadata.namespace}}, or, where a name has signs
// of its own, {{.metadata.labels["app.kubernetes.io/name"]}}.
type template []piece

// piece is a literal, or, where path is set, a field.
type piece struct {
	literal string
	path    []string
}

// parseTemplate reads a template.
func parseTemplate(text string) (template, error) {
	var t template
	for {
		before, rest, found := strings.Cut(text, "{{")
		if before != "" {
			t = append(t, piece{literal: before})
		}
		if !found {
			return t, nil
		}
		field, after, closed := strings.Cut(rest, "}}")
		if !closed {
			return nil, fmt.Errorf("{{%s has no }}", rest)
		}
		path, err := parsePath(strings.TrimSpace(field))
		if err != nil {
			return nil, fmt.Errorf("{{%s}}: %w", field, err)
		}
		t = append(t, piece{path: path})
		text = after
	}
}

// parsePath reads .a.b["c.d"].
func parsePath(text string) ([]string, error) {
	var path []string
	for text != "" {
		switch {
		case strings.HasPrefix(text, `["`):
			quoted, err := strconv.QuotedPrefix(text[1:])
			if err != nil || !strings.HasPrefix(text[1+len(quoted):], "]") {
				return nil, fmt.Errorf(`%s does not end with "]`, text)
			}
			name, err := strconv.Unquote(quoted)
			if err != nil {
				return nil, err
			}
			path, text = append(path, name), text[len(quoted)+2:]
		case strings.HasPrefix(text, "."):
			end := strings.IndexAny(text[1:], ".[") + 1
			if end == 0 {
				end = len(text)
			}
			if end == 1 || strings.ContainsAny(text[1:end], " \t(){}|$\"") {
				return nil, fmt.Errorf("%s is no name of a field; there is no other template language than .a.b and [\"c\"]", text)
			}
			path, text = append(path, text[1:end]), text[end:]
		default:
			return nil, fmt.Errorf(`%s does not begin with a dot; write .metadata.name`, text)
		}
	}
	if len(path) == 0 {
		return nil, fmt.Errorf("it names no field; write .metadata.name")
	}
	return path, nil
}

// fill makes the text for an object.
func (t template) fill(object map[string]any) (string, error) {
	var b strings.Builder
	for _, p := range t {
		if p.path == nil {
			b.WriteString(p.literal)
			continue
		}
		text, err := scalar(object, p.path)
		if err != nil {
			return "", err
		}
		b.WriteString(text)
	}
	return b.String(), nil
}

// scalar is the text of a field that is no list and no map, and not empty.
func scalar(object map[string]any, path []string) (string, error) {
	var v any = object
	for _, name := range path {
		m, _ := v.(map[string]any)
		v = m[name]
	}
	switch v := v.(type) {
	case string:
		if v != "" {
			return v, nil
		}
	case bool, int64, float64:
		return fmt.Sprint(v), nil
	case map[string]any, []any:
		return "", fmt.Errorf("the field %s is no text", dotted(path))
	}
	return "", fmt.Errorf("it has no %s", dotted(path))
}

func dotted(path []string) string { return "." + strings.Join(path, ".") }

// pointed returns what a JSON pointer points at, as JSON.
func pointed(object map[string]any, pointer string) ([]byte, error) {
	var v any = object
	for _, name := range strings.Split(pointer, "/")[1:] {
		name = strings.NewReplacer("~1", "/", "~0", "~").Replace(name)
		switch at := v.(type) {
		case map[string]any:
			v = at[name]
		case []any:
			v = nil
			if i, err := strconv.Atoi(name); err == nil && i >= 0 && i < len(at) {
				v = at[i]
			}
		default:
			v = nil
		}
	}
	if v == nil {
		return nil, fmt.Errorf("it has nothing at %s", pointer)
	}
	return json.Marshal(v)
}
