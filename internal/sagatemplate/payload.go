package sagatemplate

import (
	"encoding/json"
	"errors"

	"github.com/pawlsync/pawl/internal/sagatemplate/form"
)

// chunk is a piece of a payload: JSON as it is, then a text that becomes one
// JSON value. All that makes the payload's shape is in literals, so that no value
// can change it.
type chunk struct {
	literal []byte
	text    form.Text // nil in the last one
}

// chunks cuts a payload at the strings that hold placeholders; nil for none.
func chunks(payload json.RawMessage) ([]chunk, error) {
	if len(payload) == 0 {
		return nil, nil
	}
	if !json.Valid(payload) {
		return nil, errors.New("it is no JSON")
	}
	var out []chunk
	begin := 0 // of the literal
	for i := 0; i < len(payload); {
		if payload[i] != '"' {
			i++
			continue
		}
		end := stringEnd(payload, i)
		text, err := placeholders(payload[i:end])
		if err != nil {
			return nil, err
		}
		if text != nil {
			if isKey(payload[end:]) {
				return nil, errors.New("the keys of a payload are fixed; put placeholders into values")
			}
			out = append(out, chunk{payload[begin:i], text})
			begin = end
		}
		i = end
	}
	return append(out, chunk{literal: payload[begin:]}), nil
}

// stringEnd is where the JSON string that begins at i ends.
func stringEnd(b []byte, i int) int {
	for i++; b[i] != '"'; i++ {
		if b[i] == '\\' {
			i++
		}
	}
	return i + 1
}

// placeholders reads a JSON string as a text; nil where it has nothing to fill in.
func placeholders(quoted []byte) (form.Text, error) {
	var s string
	if err := json.Unmarshal(quoted, &s); err != nil {
		return nil, err
	}
	text, err := form.ParseText(s)
	if err != nil || text.Literal() == s {
		return nil, err
	}
	return text, nil
}

// isKey reports whether what follows a JSON string makes it the key of a member.
func isKey(rest []byte) bool {
	for _, c := range rest {
		if c != ' ' && c != '\t' && c != '\n' && c != '\r' {
			return c == ':'
		}
	}
	return false
}

// fill writes the payload; ok is false if it has more than limit bytes.
func fill(chunks []chunk, values map[string]form.Value, limit int) (payload []byte, ok bool) {
	for _, c := range chunks {
		if len(payload)+len(c.literal)+c.text.Len(values) > limit { // before it takes memory
			return nil, false
		}
		payload = append(payload, c.literal...)
		if c.text != nil {
			payload = append(payload, c.text.Quote(values)...)
		}
	}
	return payload, true
}
