package api

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf8"
)

// Hidden stands where a sensitive value would be shown.
const Hidden = "***"

// unescape undoes what a JSON pointer escapes.
var unescape = strings.NewReplacer("~1", "/", "~0", "~")

// Mask hides the sensitive values of one sink's payloads. The zero Mask hides
// nothing.
type Mask struct {
	paths [][]string
	whole bool
}

// MaskWhole hides payloads whole: of a sink that nobody says what is sensitive of.
func MaskWhole() Mask { return Mask{whole: true} }

// Hides reports whether it hides anything.
func (m Mask) Hides() bool { return m.whole || len(m.paths) > 0 }

// NewMask returns a Mask for JSON pointers (RFC 6901) such as /spec/password.
// "*" as a segment stands for every member or element.
func NewMask(pointers []string) (Mask, error) {
	var m Mask
	for _, p := range pointers {
		if !strings.HasPrefix(p, "/") {
			return Mask{}, fmt.Errorf("the sensitive path %q is no JSON pointer; it starts with a slash, as in /spec/password", p)
		}
		segments := strings.Split(p[1:], "/")
		for i := range segments {
			segments[i] = unescape.Replace(segments[i])
		}
		m.paths = append(m.paths, segments)
	}
	return m, nil
}

// Show returns payload as it is shown: as JSON where it is JSON, else as base64. Of
// a payload that is not JSON nothing is shown if there are paths to hide, since they
// can't be found in it: hidden.
func (m Mask) Show(payload []byte) (asJSON json.RawMessage, base64 []byte, hidden bool) {
	isJSON := utf8.Valid(payload) && json.Valid(payload)
	switch {
	case m.whole:
		return nil, nil, true
	case isJSON && len(m.paths) == 0:
		return payload, nil, false
	case isJSON:
		return mask(payload, m.paths), nil, false
	case len(m.paths) > 0:
		return nil, nil, true
	}
	return nil, payload, false
}

// mask returns value, which is valid JSON, with what paths lead to hidden.
func mask(value json.RawMessage, paths [][]string) json.RawMessage {
	for _, p := range paths {
		if len(p) == 0 {
			return json.RawMessage(`"` + Hidden + `"`)
		}
	}
	value = bytes.TrimSpace(value)
	if len(paths) == 0 || len(value) == 0 || value[0] != '{' && value[0] != '[' {
		return value
	}
	d := json.NewDecoder(bytes.NewReader(value))
	d.Token() // the opening brace or bracket
	out := []byte{value[0]}
	for i := 0; d.More(); i++ {
		if i > 0 {
			out = append(out, ',')
		}
		name := fmt.Sprint(i)
		if value[0] == '{' {
			t, _ := d.Token()
			name, _ = t.(string)
			quoted, _ := json.Marshal(name)
			out = append(append(out, quoted...), ':')
		}
		var member json.RawMessage
		if d.Decode(&member) != nil {
			return json.RawMessage(`"` + Hidden + `"`) // can't be, value is valid; and if, then nothing leaks
		}
		out = append(out, mask(member, below(paths, name))...)
	}
	return append(out, value[len(value)-1])
}

// below returns what is left of those paths that go through name.
func below(paths [][]string, name string) [][]string {
	var rest [][]string
	for _, p := range paths {
		if p[0] == name || p[0] == "*" {
			rest = append(rest, p[1:])
		}
	}
	return rest
}
