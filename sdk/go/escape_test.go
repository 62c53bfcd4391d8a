package pawl

import (
	"net/url"
	"testing"
)

func TestKeysAreEscapedForPathsAndQueries(t *testing.T) {
	for _, c := range []struct{ key, path, segment string }{
		{"", "", ""},
		{"plain-1.2_3~x", "plain-1.2_3~x", "plain-1.2_3~x"},
		{"team/a b", "team/a%20b", "team%2Fa%20b"},
		{"ü/🚀", "%C3%BC/%F0%9F%9A%80", "%C3%BC%2F%F0%9F%9A%80"},
		{"50%?x=1&y#z+", "50%25%3Fx%3D1%26y%23z%2B", "50%25%3Fx%3D1%26y%23z%2B"},
		{`a\b"c:@`, "a%5Cb%22c%3A%40", "a%5Cb%22c%3A%40"},
	} {
		if got := EscapePath(c.key); got != c.path {
			t.Errorf("EscapePath(%q) is %q, want %q", c.key, got, c.path)
		}
		if got := EscapeSegment(c.key); got != c.segment {
			t.Errorf("EscapeSegment(%q) is %q, want %q", c.key, got, c.segment)
		}
	}
}

func FuzzEscapedKeysReadBackAsTheyWere(f *testing.F) {
	f.Add("team/a b%2F\x00ü")
	f.Fuzz(func(t *testing.T, key string) {
		if u, err := url.Parse("http://h/" + EscapePath(key)); err != nil || u.Path != "/"+key || u.RawQuery != "" || u.Fragment != "" {
			t.Errorf("the path of %q reads as %+v, %v", key, u, err)
		}
		if got, err := url.QueryUnescape(EscapeSegment(key)); err != nil || got != key {
			t.Errorf("the query value of %q reads as %q, %v", key, got, err)
		}
	})
}
