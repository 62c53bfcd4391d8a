package conformance

import (
	"encoding/json"
	"encoding/xml"
	"errors"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pawlsync/pawl/engine/sink"
)

// realTarget is a store of objects that asks for a token, as an author's own
// service would.
type realTarget struct {
	*httptest.Server
	store *store
	mu    sync.Mutex
	paths []string
}

func newRealTarget(t *testing.T) *realTarget {
	r := &realTarget{store: newStore(nil)}
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		if q.Header.Get("Authorization") != "Bearer token-of-the-test" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		r.mu.Lock()
		r.paths = append(r.paths, q.URL.Path)
		r.mu.Unlock()
		http.StripPrefix("/base", r.store).ServeHTTP(w, q)
	}))
	t.Cleanup(r.Close)
	return r
}

// fixture is one for the target, in a file as an author writes it.
func (r *realTarget) fixture(t *testing.T, config string) *Fixture {
	t.Helper()
	token := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(token, []byte("token-of-the-test\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := ParseFixture([]byte(`
config: ` + config + `
key: team/{n}
upstream: {url: "` + r.URL + `/base", bearer_file: ` + token + `}
drift: {method: PUT, path: "/objects/{key}", body: {text: somebody else's, size: 3}}
vanish: {method: DELETE, path: "/objects/{key}"}
`))
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func TestARealTargetTakesTheStoresPlace(t *testing.T) {
	if testing.Short() {
		t.Skip("runs the whole kit; TestARightAdapterPasses does too")
	}
	real := newRealTarget(t)
	r, err := Run(t.Context(), wrongGuest(t), "wrong", Options{Fixture: real.fixture(t, "{}"), Host: hostOptions(t), CallTimeout: patience, Calls: 80})
	if err != nil {
		t.Fatal(err)
	}
	if got := failed(r); len(got) > 0 {
		var text strings.Builder
		_ = r.WriteText(&text, false)
		t.Errorf("%s", &text)
	}
	for _, res := range r.Results {
		if res.Outcome == Skipped && res.ID != "target-adds" {
			t.Errorf("%s was skipped: %s", res.ID, res.Text)
		}
	}
	if left := real.store.snapshot(); len(left) > 0 {
		t.Errorf("left at the target are %q", slices.Sorted(maps.Keys(left)))
	}
	if len(real.store.locks) > 0 {
		t.Errorf("left at the target are the locks %v", real.store.locks)
	}
	for _, p := range real.paths {
		if !strings.HasPrefix(p, "/base/objects/team/") && !strings.HasPrefix(p, "/base/locks/") && !strings.HasPrefix(p, "/base/changes/") {
			t.Errorf("a request went to %s, which the fixture's keys don't lead to", p)
		}
	}
}

func TestAFaultIsFoundAtARealTargetToo(t *testing.T) {
	for _, c := range []struct{ fault, tried, want string }{
		{"drift", "^(drift|update)$", "drift"},
		{"saga-image-window", "^saga-(image|mark)$", "saga-image"},          // by the fixture's vanish
		{"saga-restore-changed", "^saga-(restore|unlock)$", "saga-restore"}, // by its drift
	} {
		real := newRealTarget(t)
		o := Options{Fixture: real.fixture(t, "{fault: "+c.fault+"}"), Host: hostOptions(t), CallTimeout: patience, Filter: regexp.MustCompile(c.tried)}
		r, err := Run(t.Context(), wrongGuest(t), "wrong", o)
		if err != nil {
			t.Fatal(err)
		}
		if got := failed(r); !slices.Equal(got, []string{c.want}) || len(r.Results) != 2 {
			t.Errorf("with the fault %s, of %d checks failed %q, want %s of 2", c.fault, len(r.Results), got, c.want)
		}
	}
}

func TestASkippedCheckSaysWhy(t *testing.T) {
	f := DefaultFixture()
	f.Skip = map[string]string{"update": "it is being written"}
	r, err := Run(t.Context(), wrongGuest(t), "wrong", Options{Fixture: f, Host: hostOptions(t), CallTimeout: patience, Filter: regexp.MustCompile("^update$")})
	if err != nil {
		t.Fatal(err)
	}
	if res := r.Results[0]; res.Outcome != Skipped || !strings.Contains(res.Text, "it is being written") {
		t.Errorf("%+v", res)
	}
}

func TestAModuleThatDoesNotLoadFailsOneCheck(t *testing.T) {
	r, err := Run(t.Context(), []byte("no module"), "text", Options{Host: hostOptions(t), CallTimeout: patience})
	if err != nil {
		t.Fatal(err)
	}
	if got := failed(r); !slices.Equal(got, []string{"opens"}) || r.Count(Passed) != 0 {
		t.Errorf("failed are %q, passed %d", got, r.Count(Passed))
	}
}

func TestAFilterThatMatchesNothingIsAnError(t *testing.T) {
	_, err := Run(t.Context(), nil, "x", Options{Host: hostOptions(t), CallTimeout: patience, Filter: regexp.MustCompile("no such check")})
	if !errors.Is(err, ErrNoCheck) {
		t.Errorf("%v, want ErrNoCheck", err)
	}
}

func TestEveryCheckSaysWhatItWantsAndHowToMendIt(t *testing.T) {
	seen := map[string]bool{}
	id := regexp.MustCompile(`^[a-z0-9]+(-[a-z0-9]+)*$`)
	for _, c := range Checks() {
		if !id.MatchString(c.ID) || seen[c.ID] || c.Run == nil {
			t.Errorf("the check %q: its ID is wrong or not its own, or it does nothing", c.ID)
		}
		seen[c.ID] = true
		for _, text := range []string{c.Wants, c.Fix} {
			if !strings.HasSuffix(text, ".") || len(text) < 20 {
				t.Errorf("the check %q says %q, which is no sentence", c.ID, text)
			}
		}
	}
}

func TestAFixtureSaysWhatIsWrongWithIt(t *testing.T) {
	for _, c := range []struct{ fixture, says string }{
		{"confg: {}", "confg"},
		{"config: 7", "config: needs a mapping"},
		{"config: {1: 2}\n: {", "line 1: did not find expected key"},
		{"key: fixed", `"fixed" has no {n}`},
		{"payloads: {create: {a: 1}}", "both create and update"},
		{"payloads: {create: {a: 1}, update: {a: 1}}", "are the same"},
		{"payloads: {create: {a: 1}, update: {a: 2}, removed: {a: 2}}", "removed is to be update without"},
		{"upstream: {url: localhost}", "upstream.url: needs a URL"},
		{"upstream: {url: 'http://u:p@h/'}", "user information"},
		{"upstream: {url: 'http://h/'}\nstore: {adds: {a: 1}}", "store: belongs to the scripted store"},
		{"upstream: {protocol: http3}", `upstream.protocol: "http3" is none that the kit speaks`},
		{"drift: {method: PUT, path: x}", "drift: needs a method, and a path"},
		{"store: {routes: [{method: GET, path: /v, status: 99}]}", "status 99"},
		{"skip: {nonsense: because}", `no check "nonsense"`},
		{"skip: {update: ''}", "skip: update: say why"},
	} {
		if _, err := ParseFixture([]byte(c.fixture)); !errors.Is(err, ErrFixture) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%q: %v, want ErrFixture that says %q", c.fixture, err, c.says)
		}
	}
	f, err := ParseFixture([]byte("payloads: {create: plain text, update: other text}\nstore: {adds: {n: 12345678901234567890}}"))
	if err != nil || string(f.Payloads.Create) != "plain text" || f.Payloads.Removed != nil {
		t.Errorf("%+v, %v", f, err)
	}
}

func TestFixedAnswersOfTheStore(t *testing.T) {
	f, err := ParseFixture([]byte("store: {routes: [{method: GET, path: /version, status: 201, headers: {X-A: b}, body: {v: 1}}]}"))
	if err != nil {
		t.Fatal(err)
	}
	w := httptest.NewRecorder()
	newStore(f.Store.Routes).ServeHTTP(w, httptest.NewRequest("GET", "/version", nil))
	if w.Code != 201 || w.Header().Get("X-A") != "b" || w.Body.String() != `{"v":1}` {
		t.Errorf("%d %v %q", w.Code, w.Header(), w.Body)
	}
}

func TestTheStoreMergesPatches(t *testing.T) {
	for _, c := range []struct{ document, patch, want string }{
		{`{"a":"b"}`, `{"a":"c"}`, `{"a":"c"}`},
		{`{"a":"b"}`, `{"b":"c"}`, `{"a":"b","b":"c"}`},
		{`{"a":"b","b":"c"}`, `{"a":null}`, `{"b":"c"}`},
		{`{"a":{"b":"c","d":"e"}}`, `{"a":{"b":"f","d":null}}`, `{"a":{"b":"f"}}`},
		{`{"a":[1]}`, `{"a":[2]}`, `{"a":[2]}`},
		{`[1]`, `{"a":"b"}`, `{"a":"b"}`},
		{`{"a":"b"}`, `["c"]`, `["c"]`},
		{``, `{"a":{"b":null}}`, `{"a":{}}`},
	} {
		got, err := merge([]byte(c.document), []byte(c.patch))
		if err != nil || string(got) != c.want {
			t.Errorf("%s with %s: %s, %v; want %s", c.document, c.patch, got, err, c.want)
		}
	}
	if _, err := merge(nil, []byte("{")); err == nil {
		t.Error("a patch that is no JSON was merged")
	}
}

func sampleReport() *Report {
	return &Report{
		Plugin: "x.wasm", Name: "x", Version: "1", SHA256: "0123456789abcdef", Target: "the scripted store", Took: 1234 * time.Millisecond,
		Results: []Result{
			{ID: "create", Outcome: Passed, Took: 10 * time.Millisecond},
			{ID: "batch", Outcome: Skipped, Text: "no batches"},
			{ID: "update", Outcome: Failed, Wants: "This.", Text: "That <happened> & more.\nAnd then.", Fix: "So.",
				Exchanges: []Exchange{{Method: "PUT", Path: "/a", Status: 200}, {Method: "GET", Path: "/a", Fault: "cut"}}},
		},
	}
}

func TestTheReportForPeopleIsShortWhereAllIsWell(t *testing.T) {
	var b strings.Builder
	if err := sampleReport().WriteText(&b, false); err != nil {
		t.Fatal(err)
	}
	const want = `x.wasm (x 1), sha256 0123456789ab, against the scripted store
skip  batch: no batches
FAIL  update
      wanted:   This.
      happened: That <happened> & more.
                And then.
      fix:      So.
      requests: PUT /a → 200
                GET /a → no answer (cut)
1 passed, 1 failed, 1 skipped in 1.23s
`
	if b.String() != want {
		t.Errorf("got:\n%s\nwant:\n%s", &b, want)
	}
	b.Reset()
	_ = sampleReport().WriteText(&b, true)
	if !strings.Contains(b.String(), "ok    create (10ms)\n") {
		t.Errorf("the verbose report leaves out what passed:\n%s", &b)
	}
}

func TestTheReportAsJUnit(t *testing.T) {
	var b strings.Builder
	if err := sampleReport().WriteJUnit(&b); err != nil {
		t.Fatal(err)
	}
	var s junitSuite
	if err := xml.Unmarshal([]byte(b.String()), &s); err != nil {
		t.Fatal(err)
	}
	if s.Tests != 3 || s.Failures != 1 || s.Skipped != 1 || len(s.Cases) != 3 {
		t.Errorf("%+v", s)
	}
	bad := s.Cases[2]
	if bad.Class != "x" || bad.Name != "update" || bad.Failure == nil || !strings.Contains(bad.Failure.Message, "That <happened> & more.") || !strings.Contains(bad.Failure.Text, "wanted:") {
		t.Errorf("the failure is %+v", bad)
	}
	if s.Cases[1].Skipped == nil || s.Cases[0].Failure != nil {
		t.Errorf("%+v", s.Cases)
	}
}

func TestASessionKeepsWhatWasAcked(t *testing.T) {
	s, err := Start(t.Context(), wrongGuest(t), "wrong", "a b", Options{Host: hostOptions(t), CallTimeout: patience})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for _, step := range []struct {
		op, payload string
		want        sink.Status
		requests    int
	}{
		{"observe", `{"x":1}`, sink.NotFound, 1},
		{"apply", `{"x":1}`, sink.OK, 1},
		{"observe", `{"x":2}`, sink.OK, 1},
		{"delete", `{"x":2}`, sink.OK, 2}, // of its uid only, which is looked at
		{"delete", `{"x":2}`, sink.NotFound, 1},
	} {
		c, err := s.Do(t.Context(), step.op, []byte(step.payload))
		if err != nil {
			t.Fatal(err)
		}
		if c.Result.Status != step.want || !c.OK() || len(c.Exchanges) != step.requests {
			t.Errorf("%s: %s, requests %v; want %s and %d of them", step.op, describe(c.Result), c.Exchanges, step.want, step.requests)
		}
		if step.payload == `{"x":2}` && step.op == "observe" && c.Result.Observation.MatchAcked != sink.Yes {
			t.Errorf("the target holds what was acked: %s", describe(c.Result))
		}
	}
	if _, err := s.Do(t.Context(), "destroy", nil); !errors.Is(err, ErrOp) {
		t.Errorf("%v, want ErrOp", err)
	}
	f := DefaultFixture()
	f.Config = json.RawMessage(`{"fault":"opens"}`)
	if _, err := Start(t.Context(), wrongGuest(t), "wrong", "a", Options{Fixture: f, Host: hostOptions(t), CallTimeout: patience}); err == nil {
		t.Error("a config that is refused opened a session")
	}
}
