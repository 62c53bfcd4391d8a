package sagatemplate

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/pawlsync/pawl/engine/saga"
)

const fuzzed = `
sinks: {a: {plugin: http}, b: {plugin: http}}
sagas:
  t:
    params:
      name: {pattern: "[a-zA-Z0-9_|=-]+"}
      free: {max_length: 65536}
      n: {type: integer}
      b: {type: boolean}
    steps:
      - {sink: a, key: "x/{{.name}}", verb: create, payload: {r: ["doc:{{.name}}#owner@user:{{.name}}"]}}
      - {sink: b, key: "y/{{.name}}/{{.n}}", verb: upsert, payload: {k: {free: "{{.free}}", n: "{{.n}}", l: ["{{.b}}", '{{"{{"}} {{.n}}']}, other: [1, ~]}}
`

// shape is a JSON value with its strings, numbers and booleans left out.
func shape(v any) any {
	switch v := v.(type) {
	case map[string]any:
		out := map[string]any{}
		for k, e := range v {
			out[k] = shape(e)
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, e := range v {
			out[i] = shape(e)
		}
		return out
	case nil:
		return nil
	case string:
		return "string"
	case bool:
		return "boolean"
	}
	return "number"
}

// No values change what a template writes to, how, or the shape of what it writes.
func FuzzValuesChangeNothingButValues(f *testing.F) {
	s := newSet(f, fuzzed)
	const wantShapes = `{"r":["string"]} {"k":{"free":"string","l":["boolean","string"],"n":"number"},"other":["number",null]}`
	for _, seed := range []string{"", "a", `","x":{"`, "a#owner@user:eve", "{{.n}}", `{{"{{"}}`, "\x00", "\u2028</script>", "\\", "\xff", "..", "x/y"} {
		f.Add(seed, seed, int64(len(seed)), true)
	}
	f.Fuzz(func(t *testing.T, name, free string, n int64, b bool) {
		params, err := json.Marshal(map[string]any{"name": name, "free": free, "n": n, "b": b})
		if err != nil {
			t.Fatal(err)
		}
		got, err := s.Expand("t", params)
		if err != nil {
			return // refused
		}
		if a, b := got.Steps[0], got.Steps[1]; len(got.Steps) != 2 || a.Key.Sink != "a" || a.Verb != saga.Create || b.Key.Sink != "b" || b.Verb != saga.Upsert ||
			strings.Count(a.Key.Name, "/") != 1 || strings.Count(b.Key.Name, "/") != 2 {
			t.Fatalf("%s: %+v", params, got.Steps)
		}
		var shapes []string
		var values []any
		for _, st := range got.Steps {
			var v any
			dec := json.NewDecoder(bytes.NewReader(st.Payload))
			dec.UseNumber()
			if err := dec.Decode(&v); err != nil || dec.More() {
				t.Fatalf("%s: %s: %v", params, st.Payload, err)
			}
			js, err := json.Marshal(shape(v))
			if err != nil {
				t.Fatal(err)
			}
			shapes, values = append(shapes, string(js)), append(values, v)
		}
		if g := strings.Join(shapes, " "); g != wantShapes {
			t.Fatalf("%s: shape %s", params, g)
		}
		grant := values[0].(map[string]any)["r"].([]any)[0].(string)
		for _, sign := range []struct {
			sign string
			n    int
		}{{":", 2}, {"#", 1}, {"@", 1}, {"[", 0}, {"*", 0}} {
			if strings.Count(grant, sign.sign) != sign.n {
				t.Fatalf("%s: grant %q", params, grant)
			}
		}
		k := values[1].(map[string]any)["k"].(map[string]any)
		if utf8.ValidString(free) && k["free"] != free {
			t.Fatalf("free = %q, want %q", k["free"], free)
		}
		again, err := s.Expand("t", params)
		if err != nil || !bytes.Equal(again.Steps[1].Payload, got.Steps[1].Payload) {
			t.Fatalf("the same parameters gave %s, then %s", got.Steps[1].Payload, again.Steps[1].Payload)
		}
	})
}

// Parameters are read whatever they are, and never end in a panic.
func FuzzParams(f *testing.F) {
	s := newSet(f, fuzzed)
	for _, seed := range []string{``, `{}`, `{"name":"a","free":"","n":1,"b":true}`, `{"name":[{}]}`, `{"n":-0}`, `{"a":1,"a":2}`, `[`, `{"\ud800":"\ud800"}`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, params []byte) {
		got, err := s.Expand("t", params)
		if (err == nil) != (len(got.Steps) == 2) {
			t.Fatalf("%+v and %v", got, err)
		}
	})
}
