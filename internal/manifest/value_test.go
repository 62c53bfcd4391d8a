package manifest

import (
	"errors"
	"strings"
	"testing"
)

func TestAValueIsOneDocumentOfEitherKind(t *testing.T) {
	for _, c := range []struct {
		content, want string
		isYAML        bool
	}{
		{`{"a": 1.0,  "b": [2]}`, `{"a": 1.0,  "b": [2]}`, false},
		{"a: 1.0\nb: [x, 2]\n1: true\n", `{"a":1.0,"b":["x",2],"1":true}`, true},
		{"{a: 1}", `{"a":1}`, true},
	} {
		got, isYAML, err := Value([]byte(c.content), "f")
		if err != nil || string(got) != c.want || isYAML != c.isYAML {
			t.Errorf("%q: %s, %v, %v", c.content, got, isYAML, err)
		}
	}
	for content, says := range map[string]string{
		"":                "f: the file is empty",
		"a: 1\n---\nb: 2": "f:2: there is a second document; keep one of them",
		"a: [":            "this is no YAML",
		"a: 1\nb: 01":     "f:2: ",
	} {
		if _, _, err := Value([]byte(content), "f"); !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: %v, want %s", content, err, says)
		}
	}
}
