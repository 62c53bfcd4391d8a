package upstream

import (
	"bufio"
	"bytes"
	"context"
	"net/http"
	"path"
	"strings"
	"testing"
)

func TestPathsAreAppendedNeverResolved(t *testing.T) {
	p := place{raw: "/base%20x", decoded: "/base x"}
	for given, want := range map[string]string{
		"/":                 "/base x/",
		"/a":                "/base x/a",
		"/a/":               "/base x/a/",
		"/a/b?c=d&e=/../?f": "/base x/a/b",
		"/%41%2e%42":        "/base x/A.B",
		"/a;v=1/b":          "/base x/a;v=1/b",
		"/...":              "/base x/...",
		"/.hidden":          "/base x/.hidden",
		"/a..b":             "/base x/a..b",
		"/100%25":           "/base x/100%",
		"/a%252Fb":          "/base x/a%2Fb",
		"/%C3%A9":           "/base x/é",
		"/~!$&'()*+,;=:@":   "/base x/~!$&'()*+,;=:@",
		"/q%3Fx%23y":        "/base x/q?x#y",
	} {
		got, err := p.resolve(given)
		if err != nil {
			t.Errorf("resolve(%q): %v", given, err)
			continue
		}
		raw, query, _ := strings.Cut(given, "?")
		if got.decoded != want || got.raw != "/base%20x"+raw || got.query != query {
			t.Errorf("resolve(%q) = %+v, want decoded %q", given, got, want)
		}
	}
}

// refusedPaths are those that some server somewhere reads as another one.
var refusedPaths = []string{
	"", "a", "?a", "http://other.example/a", "*",
	"//", "//other.example/a", "/a//b", "/a//",
	"/.", "/..", "/../a", "/a/../b", "/a/.", "/a/./b",
	"/%2e%2e/a", "/%2E./a", "/.%2e", "/a/%2e/b",
	"/%252e%252e/a", "/..%252fa", "/%25252e%25252e/a",
	"/..;/a", "/..;x=1/a", "/..%3b/a", "/.;x", "/..%20/a",
	"/a%2fb", "/a%2F..%2Fb", "/a\\b", "/a%5cb", "/..%5c..",
	"/a#b", "/a?b#c", "/a b", "/a\tb", "/a\r\nX: y", "/a\x00", "/a%00", "/a%0d%0a", "/a%7f", "/a%c2%85",
	"/é", "/%c0%ae%c0%ae/a", "/%ff", "/%", "/%2", "/%zz", "/a?%", "/a?x y", "/a?x\r\ny", "/a?é",
	"/a\"b", "/<a>", "/a|b", "/{a}", "/a^b", "/a`b", "/[a]",
	"/" + strings.Repeat("a", maxTargetBytes),
}

func TestPathsThatServersReadDifferentlyAreRefused(t *testing.T) {
	u := open(t, "http://127.0.0.1:1/base")
	for _, given := range refusedPaths {
		if f := mustFail(t, u, get(given), FailDenied, false); f.Message == "" || len(f.Message) > 500 {
			t.Errorf("%q: message %q", given, f.Message)
		}
	}
}

func TestPrefixesMatchAtSegmentBordersAfterDecoding(t *testing.T) {
	p := newPlace(mustURL(t, "http://h/base/"), []string{"/v1/objects", "/open/", "/with space"})
	for given, want := range map[string]bool{
		"/v1/objects": true, "/v1/objects/": true, "/v1/objects/a": true, "/v1/%6fbjects/a": true,
		"/open": true, "/open/x": true, "/with%20space/a": true,
		"/v1/objects2": false, "/v1": false, "/": false, "/v1/Objects": false, "/openx": false, "/base/v1/objects": false,
	} {
		if _, err := p.resolve(given); (err == nil) != want {
			t.Errorf("resolve(%q): %v, want allowed: %v", given, err, want)
		}
	}
	all := newPlace(mustURL(t, "http://h"), []string{"/"})
	if _, err := all.resolve("/x"); err != nil {
		t.Errorf(`prefix "/" refuses /x: %v`, err)
	}
}

// FuzzPath: whatever is accepted reaches the server as the base path plus the
// guest's segments, and no server that cleans, decodes twice or cuts parameters
// ends outside of the base.
func FuzzPath(f *testing.F) {
	for _, s := range refusedPaths[:len(refusedPaths)-1] {
		f.Add(s)
	}
	for _, s := range []string{"/a", "/a/b?c", "/%41", "/a;b", "/a%252fb"} {
		f.Add(s)
	}
	c := Config{Name: "target", BaseURL: "http://target.example/base/x"}
	u, err := Open(c, Options{})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, given string) {
		call, err := u.admit(get(given))
		if err != nil {
			return
		}
		u.dress(call)
		var wire bytes.Buffer
		if err := u.request(context.Background(), call).Write(&wire); err != nil {
			t.Fatalf("%q: %v", given, err)
		}
		line, _, _ := strings.Cut(wire.String(), "\r\n")
		if want := "GET /base/x" + given + " HTTP/1.1"; line != want && line != strings.Replace(want, "? ", " ", 1) {
			t.Fatalf("%q is sent as %q", given, line)
		}
		got, err := http.ReadRequest(bufio.NewReader(&wire))
		if err != nil {
			t.Fatalf("%q is no request: %v", given, err)
		}
		if got.URL.Path != call.where.decoded || got.Host != "target.example" || got.URL.Host != "" {
			t.Fatalf("%q: the server reads %q, we meant %q", given, got.URL.Path, call.where.decoded)
		}
		below, ok := strings.CutPrefix(got.URL.Path, "/base/x/")
		if !ok {
			t.Fatalf("%q escapes to %q", given, got.URL.Path)
		}
		for _, reading := range readings(below) {
			if clean := path.Clean("/base/x/" + reading); clean != "/base/x" && !strings.HasPrefix(clean, "/base/x/") {
				t.Fatalf("%q: a server could read %q, which is %q", given, reading, clean)
			}
		}
	})
}

// readings are what odd servers make of a decoded path.
func readings(s string) []string {
	cut := func(s string) string {
		segments := strings.Split(s, "/")
		for i, segment := range segments {
			segments[i], _, _ = strings.Cut(segment, ";")
		}
		return strings.Join(segments, "/")
	}
	slash := strings.ReplaceAll(s, `\`, "/")
	twice := strings.NewReplacer("%2e", ".", "%2E", ".", "%2f", "/", "%2F", "/", "%5c", "/", "%5C", "/").Replace(slash)
	return []string{s, slash, twice, cut(slash), cut(twice)}
}

func TestMethodsAreAllowListed(t *testing.T) {
	u := open(t, "http://127.0.0.1:1", func(c *Config) { c.AllowedMethods = []string{"GET"} })
	for _, m := range []string{"", "PUT", "get", "CONNECT", "TRACE", "PRI", "GET /", "GET\r\nX", "GÉT", strings.Repeat("A", 40)} {
		mustFail(t, u, &Request{Method: m, Path: "/"}, FailDenied, false)
	}
}
