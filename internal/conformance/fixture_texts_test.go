package conformance

import (
	"bytes"
	"net"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
)

// A typing error in a fixture is told in the words of its file.
func TestUnknownKeysOfFixturesAreToldByName(t *testing.T) {
	for content, want := range map[string]string{
		"confg: {}\n":                    `line 1: unknown key "confg"; did you mean config?`,
		"payloads:\n  creat: {a: 1}\n":   `line 2: unknown key "creat"; did you mean create?`,
		"zzzzzz: 1\n":                    "unknown key \"zzzzzz\"; `pawl plugin test --help` shows them all",
		"payloads: {create: {a: one}}\n": "both create and update are needed",
	} {
		_, err := ParseFixture([]byte(content))
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "type ") {
			t.Errorf("%q: %v, want %q and no more", content, err, want)
		}
	}
}

// Why a real target gave no answer is said where its requests are shown: the
// plugin sees the gate's connection end, and can't know.
func TestGateTellsWhyTheTargetGaveNoAnswer(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	nobody := l.Addr().String()
	_ = l.Close()
	g, err := openGate(proxy(&url.URL{Scheme: "http", Host: nobody}, false), mutates(nil))
	if err != nil {
		t.Fatal(err)
	}
	defer g.close()
	func() {
		defer func() { _ = recover() }() // http.ErrAbortHandler
		g.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("GET", "/a", nil))
	}()
	seen := g.last(1)
	if len(seen) != 1 || !strings.Contains(seen[0].String(), "no answer (the target: dial tcp "+nobody) {
		t.Errorf("it shows %v", seen)
	}
}

// Of a module that does not load only what failed is shown at length.
func TestReportGathersWhatCouldNotBeTried(t *testing.T) {
	r := &Report{Results: []Result{{ID: "opens", Outcome: Failed, Text: "no"}, {ID: "create", Outcome: Skipped, untried: true}, {ID: "drift", Outcome: Skipped, untried: true}}}
	var b bytes.Buffer
	if err := r.WriteText(&b, false); err != nil {
		t.Fatal(err)
	}
	if s := b.String(); strings.Contains(s, "create") || !strings.Contains(s, "skip  2 more checks") {
		t.Errorf("it prints\n%s", s)
	}
}
