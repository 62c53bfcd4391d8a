package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"encoding/pem"
	"flag"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pawlsync/pawl/engine/record"
	"github.com/pawlsync/pawl/internal/api"
)

var update = flag.Bool("update", false, "rewrite the golden files in testdata and docs/cli.md")

// now is when all tests happen.
var now = time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)

// run runs one command against a daemon at address and returns what a person
// would see: standard output, standard error, exit code.
func run(t *testing.T, address, stdin string, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	var out, errs bytes.Buffer
	s := Streams{In: strings.NewReader(stdin), Out: &out, Err: &errs, Env: []string{"PAWL_ADDRESS=" + address}, Now: func() time.Time { return now }}
	code = Main(t.Context(), args, s, api.Version{Version: "v1.2.3", Commit: "abcdef0", Go: "go1.26", OS: "linux", Arch: "amd64"})
	return out.String(), errs.String(), code
}

// fakeDaemon is a fake API server with a few resources.
type fakeDaemon struct {
	*httptest.Server
	mu        sync.Mutex
	resources map[string]api.Resource
	status    api.DaemonStatus
	calls     []string // method, path, key
	bodies    []string // of sagas
}

func newFakeDaemon(t *testing.T) *fakeDaemon {
	d := &fakeDaemon{resources: map[string]api.Resource{}}
	for _, r := range sampleResources() {
		d.resources[r.Sink+"/"+r.Key] = r
	}
	d.status = sampleStatus()
	d.Server = httptest.NewServer(d)
	t.Cleanup(d.Close)
	return d
}

func sampleResources() []api.Resource {
	ago := func(d time.Duration) time.Time { return now.Add(-d) }
	return []api.Resource{
		{Sink: "web", Key: "users/alice", Generation: 12, PutAt: ago(90 * time.Second), Payload: json.RawMessage(`{"name":"Alice"}`), Conflict: record.SourceWins,
			Status: api.Status{Generation: 12, Phase: record.AckedPhase, UpdatedAt: ago(88 * time.Second),
				Acked:   &api.Acked{Generation: 12, Target: "http://127.0.0.1:7399", Ref: "/objects/users/alice", At: ago(88 * time.Second)},
				History: []api.Transition{{At: ago(88 * time.Second), Phase: record.AckedPhase, Generation: 12, TookSeconds: 0.0042}}}},
		{Sink: "web", Key: "users/bob", Generation: 14, PutAt: ago(3 * time.Hour), Suspend: true,
			Status: api.Status{Generation: 14, Phase: record.Failed, Reason: record.ReasonRejected, Message: "422: the name is taken", Attempts: 1, UpdatedAt: ago(time.Hour)}},
		{Sink: "web", Key: "users/carol", Generation: 15, Tombstone: true, PutAt: ago(3 * 24 * time.Hour),
			Status: api.Status{Generation: 15, Phase: record.Pending, Reason: record.ReasonUnreachable, Message: "connection refused", Attempts: 2, NextAt: now.Add(4 * time.Second), UpdatedAt: ago(time.Minute)}},
	}
}

func sampleStatus() api.DaemonStatus {
	return api.DaemonStatus{
		Version: "v1.2.3", StartedAt: now.Add(-3 * time.Hour), Resources: 3,
		Headlines: []string{"Sink web: the target does not answer. It is probed in 4s."},
		Counts:    map[record.Phase]int{record.AckedPhase: 1, record.Failed: 1, record.Pending: 1},
		Store:     api.Store{Directory: "/var/lib/pawl", Epoch: "e", Revision: 15, Bytes: 5 << 20, FreeBytes: 9 << 30},
		Sinks: []api.Sink{
			{Name: "hooks", Configured: true, Plugin: "http v1.2.3", Breaker: "closed", Counts: map[record.Phase]int{}},
			{Name: "web", Configured: true, Plugin: "http v1.2.3", Breaker: "open", NextProbe: now.Add(4 * time.Second), OldestUnacked: now.Add(-3 * time.Hour),
				Counts:    map[record.Phase]int{record.AckedPhase: 1, record.Failed: 1, record.Pending: 1},
				LastError: "connection refused", LastErrorStatus: "unreachable", LastErrorAt: now.Add(-time.Minute)},
		},
	}
}

func (d *fakeDaemon) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	d.mu.Lock()
	defer d.mu.Unlock()
	key := r.URL.Query().Get("key")
	d.calls = append(d.calls, strings.TrimSpace(r.Method+" "+r.URL.Path+" "+key))
	switch path := r.URL.Path; {
	case path == "/v1/status":
		answer(w, d.status)
	case path == "/v1/sinks":
		answer(w, api.SinkList{Items: d.status.Sinks})
	case path == "/v1/resources":
		d.list(w, r)
	case path == "/v1/watch":
		d.watch(w, r)
	case path == "/v1/batch":
		d.batch(w, r)
	case path == "/v1/saga-templates":
		answer(w, api.SagaTemplateList{Items: []api.SagaTemplate{{Name: "create-namespace", Description: "A namespace and its owner.", Mode: "pessimistic",
			Params: []api.SagaParam{{Name: "namespace", Type: "string", Required: true}, {Name: "tier", Type: "string"}}, Steps: make([]api.SagaTemplateStep, 2)}}})
	case strings.HasPrefix(path, "/v1/sagas"):
		d.saga(w, r, strings.Split(strings.TrimPrefix(path, "/v1/sagas"), "/"))
	case strings.HasPrefix(path, "/v1/sources"):
		d.source(w, r, strings.Split(strings.TrimPrefix(path, "/v1/sources"), "/"))
	case strings.HasPrefix(path, "/v1/sinks/"):
		d.sink(w, r, strings.Split(strings.TrimPrefix(path, "/v1/sinks/"), "/"), key)
	default:
		refuse(w, api.NewProblem(404, api.CodeNoRoute, "no such route", ""))
	}
}

func (d *fakeDaemon) sink(w http.ResponseWriter, r *http.Request, path []string, key string) {
	sink := path[0]
	if sink != "web" {
		refuse(w, api.NewProblem(404, api.CodeUnknownSink, fmt.Sprintf("there is no sink %q", sink), "did you mean web?"))
		return
	}
	if path[1] != "resource" { // suspend, resume
		w.WriteHeader(http.StatusNoContent)
		return
	}
	found, ok := d.resources[sink+"/"+key]
	if !ok {
		refuse(w, api.NewProblem(404, api.CodeNotFound, fmt.Sprintf("there is no resource %s/%s", sink, key), "see `pawl list web`"))
		return
	}
	verb := r.Method
	if len(path) == 3 {
		verb = path[2]
	}
	switch verb {
	case "GET":
		if r.URL.Query().Get("payload") != "true" {
			found.Payload = nil
		}
		answer(w, found)
	case "DELETE":
		delete(d.resources, sink+"/"+key) // its target is quick
		answer(w, api.PutResult{Generation: 20, Changed: true})
	case "wait":
		answer(w, waitResult(&found))
	case "explain":
		answer(w, api.Explanation{Text: "web/" + key + " is to have generation 12. The target confirmed it. Nothing is to be done but to look for drift now and then.",
			Resource: found, Sink: d.status.Sinks[1]})
	default:
		w.WriteHeader(http.StatusNoContent)
	}
}

func waitResult(r *api.Resource) api.WaitResult {
	st := &r.Status
	return api.WaitResult{Done: st.Phase == record.AckedPhase, TimedOut: st.Phase == record.Pending,
		Phase: st.Phase, Reason: st.Reason, Message: st.Message, Generation: r.Generation}
}

func (d *fakeDaemon) list(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	page := api.Page{Items: []api.Resource{}, Token: "token"}
	for _, s := range sampleResources() {
		res, ok := d.resources[s.Sink+"/"+s.Key]
		phases := q["phase"]
		if !ok || !strings.HasPrefix(res.Key, q.Get("prefix")) || len(phases) > 0 && !strings.Contains(strings.Join(phases, ","), string(res.Status.Phase)) {
			continue
		}
		res.Payload, res.Status.History = nil, nil
		page.Items = append(page.Items, res)
	}
	answer(w, page)
}

// watch streams two events and then refuses to go on.
func (d *fakeDaemon) watch(w http.ResponseWriter, r *http.Request) {
	if r.URL.Query().Get("from") != "token" {
		refuse(w, api.NewProblem(410, api.CodeWatchExpired, "the token is foreign", "list again"))
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	bob := d.resources["web/users/bob"]
	bob.Payload, bob.Status.History = nil, nil
	raw, _ := json.Marshal(api.WatchEvent{Resource: bob})
	fmt.Fprintf(w, "event: resource\nid: token-2\ndata: %s\n\n", raw)
	fmt.Fprint(w, "event: removed\nid: token-3\ndata: {\"removed\":true,\"resource\":{\"sink\":\"web\",\"key\":\"users/carol\"}}\n\n")
	raw, _ = json.Marshal(api.NewProblem(410, api.CodeWatchExpired, "the watch fell behind", "list again"))
	fmt.Fprintf(w, "event: reset\ndata: %s\n\n", raw)
}

func (d *fakeDaemon) batch(w http.ResponseWriter, r *http.Request) {
	dec, enc := json.NewDecoder(r.Body), json.NewEncoder(w)
	for n := 1; ; n++ {
		var line api.BatchLine
		if dec.Decode(&line) != nil {
			return
		}
		a := api.BatchAnswer{Line: n}
		old, known := d.resources[line.Sink+"/"+line.Key]
		switch {
		case line.Sink != "web":
			a.Error = api.NewProblem(404, api.CodeUnknownSink, fmt.Sprintf("there is no sink %q", line.Sink), "did you mean web?")
		case known && string(old.Payload) == string(line.Payload):
			a.PutResult = &api.PutResult{Generation: old.Generation}
		default:
			a.PutResult = &api.PutResult{Generation: uint64(20 + n), Changed: true, Replaced: known && old.Status.Phase == record.Pending}
			d.resources[line.Sink+"/"+line.Key] = api.Resource{Sink: line.Sink, Key: line.Key, Generation: uint64(20 + n), Payload: line.Payload,
				Status: api.Status{Generation: uint64(20 + n), Phase: record.AckedPhase}}
		}
		_ = enc.Encode(a)
	}
}

func answer(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(v)
}

func refuse(w http.ResponseWriter, p *api.Problem) {
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(p.Status)
	_ = json.NewEncoder(w).Encode(p)
}

// golden compares got with testdata/name.golden; -update rewrites it.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name+".golden")
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s differs; if that is right, run: go test ./internal/cli -run Golden -update\ngot:\n%s\nwant:\n%s", path, got, want)
	}
}

// transcript runs commands and writes them down as a terminal would show them.
func transcript(t *testing.T, d *fakeDaemon, stdin string, commands ...[]string) string {
	t.Helper()
	var b strings.Builder
	for _, args := range commands {
		stdout, stderr, code := run(t, d.URL, stdin, args...)
		fmt.Fprintf(&b, "$ pawl %s\n%s", strings.Join(args, " "), stdout)
		if stderr != "" {
			fmt.Fprintf(&b, "(stderr)\n%s", stderr)
		}
		fmt.Fprintf(&b, "(exit code %d)\n\n", code)
	}
	return regexp.MustCompile(`127\.0\.0\.1:\d+`).ReplaceAllString(b.String(), "127.0.0.1:7295")
}

func TestGoldenLooking(t *testing.T) {
	d := newFakeDaemon(t)
	golden(t, "look", transcript(t, d, "",
		[]string{"list"},
		[]string{"list", "web/users/b"},
		[]string{"list", "--phase", "failed", "-o", "json"},
		[]string{"list", "web/nothing"},
		[]string{"get", "web/users/alice", "--payload"},
		[]string{"get", "web/users/carol"},
		[]string{"get", "web/users/nobody", "web/users/carol", "wep/users/carol"},
		[]string{"get", "web/users/alice", "--payload", "-o", "yaml"},
		[]string{"explain", "web/users/alice"},
		[]string{"status"},
		[]string{"version"},
		[]string{"version", "-o", "yaml"},
	))
}

func TestGoldenApplying(t *testing.T) {
	const docs = `sink: web
key: users/alice
payload: {"name":"Alice"}
---
sink: web
key: users/dave
payload: {"name":"Dave"}
---
sink: web
key: users/carol
payload: {"name":"Carol"}
---
sink: web
key: users/bob
delete: true
---
sink: web
key: users/nobody
delete: true
---
sink: wep
key: users/alice
payload: {}
`
	d := newFakeDaemon(t)
	golden(t, "apply", transcript(t, d, docs,
		[]string{"apply", "-f", "-", "--dry-run"},
		[]string{"apply", "-f", "-"},
		[]string{"apply", "-f", "-", "-q", "-o", "json"},
		[]string{"apply", "--force", "web/users/alice"},
	)+transcript(t, d, "# nothing\n", []string{"apply", "-f", "-"}))
	wantOrder := []string{"GET /v1/sinks", "POST /v1/batch", "DELETE /v1/sinks/web/resource users/bob", "DELETE /v1/sinks/web/resource users/nobody", "POST /v1/batch"}
	if got := strings.Join(d.calls[:5], "\n"); got != strings.Join(wantOrder, "\n") {
		t.Errorf("the order of the documents is not kept:\n%s", got)
	}
}

func TestGoldenApplySendsNothingOfAWrongFile(t *testing.T) {
	d := newFakeDaemon(t)
	golden(t, "apply_wrong", transcript(t, d, "sink: web\nkey: a\npayload: 1\n---\nsink: web\nkee: b\npayload: 1\n", []string{"apply", "-f", "-"}))
	if len(d.calls) > 0 {
		t.Errorf("calls were made: %v", d.calls)
	}
}

func TestGoldenWaiting(t *testing.T) {
	d := newFakeDaemon(t)
	golden(t, "wait", transcript(t, d, "sink: web\nkey: users/dave\npayload: 1\n",
		[]string{"apply", "-f", "-", "--wait"},
		[]string{"wait", "web/users/alice"},
		[]string{"wait", "web/users/alice", "web/users/bob"},
		[]string{"wait", "web/users/bob", "-o", "json"},
		[]string{"wait", "--all", "web/users/b"},
		[]string{"wait", "--all", "web/users/d"},
		[]string{"wait", "web/users/carol", "--timeout", "20ms"},
		[]string{"wait", "web/users/nobody"},
		[]string{"wait", "web/users/nobody", "--generation", "3"},
		[]string{"wait", "web/users/nobody", "web/users/alice"},
		[]string{"wait", "--gone", "web/users/nobody"},
		[]string{"wait", "--gone", "web/users/alice", "web/users/nobody"},
		[]string{"wait", "--gone", "wep/users/nobody"},
		[]string{"wait", "web/users/carol", "--generation", "999", "--timeout", "20ms"},
	))
}

func TestGoldenOperating(t *testing.T) {
	d := newFakeDaemon(t)
	golden(t, "operate", transcript(t, d, "",
		[]string{"retry", "web/users/bob", "web/users/alice"},
		[]string{"accept", "web/users/bob"},
		[]string{"force", "web/users/bob"},
		[]string{"forget", "web/users/bob"},
		[]string{"suspend", "web/users/bob"},
		[]string{"suspend", "--sink", "web"},
		[]string{"resume", "--sink", "web", "web/users/bob"},
		[]string{"resume", "--sink", "wep"},
		[]string{"delete", "web/users/alice", "--policy", "retain"},
		[]string{"retry", "web/users/nobody"},
		[]string{"forget", "web/users/nobody", "web/users/bob", "wep/users/bob"},
		[]string{"suspend", "web/users/nobody", "--sink", "web"},
		[]string{"delete", "web/users/nobody", "web/users/carol", "--wait"},
	))
}

func TestGoldenWrongUsageSaysWhatWasMeant(t *testing.T) {
	d := newFakeDaemon(t)
	golden(t, "usage", transcript(t, d, "",
		[]string{"aply"},
		[]string{"aply", "-f", "x"},
		[]string{"frobnicate"},
		[]string{"config", "chek"},
		[]string{"list", "--phse", "Failed"},
		[]string{"list", "--phase", "Faild"},
		[]string{"list", "-o", "xml"},
		[]string{"list", "web", "hooks"},
		[]string{"get"},
		[]string{"get", "alice"},
		[]string{"get", "Web/alice"},
		[]string{"apply"},
		[]string{"apply", "resources/"},
		[]string{"apply", "--force"},
		[]string{"apply", "-f", "nowhere.yaml"},
		[]string{"wait"},
		[]string{"wait", "--all", "--generation", "3"},
		[]string{"suspend"},
		[]string{"resume", "web"},
		[]string{"retry", "web"},
		[]string{"completion", "csh"},
		[]string{"status", "now"},
		[]string{"wait", "web/a", "--timeout", "1"},
		[]string{"wait", "web/a", "--timeout", "-5s"},
		[]string{"list", "--limit", "-1"},
		[]string{"apply", "--force", "web/a", "--dry-run"},
		[]string{"apply", "--force", "web/a", "-o", "json"},
		[]string{"delete", "web/a", "--policy", "retian"},
		[]string{"help", "nope"},
		[]string{"help", "lst"},
		[]string{"help", "config", "chek"},
	))
	if len(d.calls) > 0 {
		t.Errorf("wrong usage reached the daemon: %v", d.calls)
	}
}

func TestNoDaemonSaysHowToStartOne(t *testing.T) {
	d := newFakeDaemon(t)
	d.Close()
	_, stderr, code := run(t, d.URL, "", "status")
	if code != ExitUnreachable || !strings.Contains(stderr, "pawl run") {
		t.Errorf("exit code %d, stderr %s; want %d and a word on `pawl run`", code, stderr, ExitUnreachable)
	}
}

func TestADryRunDoesWithoutADaemonAndSaysSo(t *testing.T) {
	d := newFakeDaemon(t)
	d.Close()
	stdout, stderr, code := run(t, d.URL, "{sink: web, key: a, payload: 1}\n", "apply", "-f", "-", "--dry-run")
	if code != ExitDone || !strings.Contains(stdout, "1 checked") || !strings.Contains(stderr, "whether the sinks exist was not checked") {
		t.Errorf("exit code %d\n%s%s", code, stdout, stderr)
	}
}

func TestWithoutADaemonManyResourcesGetOneError(t *testing.T) {
	d := newFakeDaemon(t)
	d.Close()
	for _, args := range [][]string{{"get", "web/a", "web/b"}, {"retry", "web/a", "web/b"}, {"delete", "web/a", "web/b"}, {"wait", "web/a", "web/b"}} {
		if _, stderr, code := run(t, d.URL, "", args...); code != ExitUnreachable || strings.Count(stderr, "pawl: ") != 1 {
			t.Errorf("%v: exit code %d\n%s", args, code, stderr)
		}
	}
}

func TestHelpOfACommandIsItsHelp(t *testing.T) {
	stdout, _, code := run(t, "", "", "help", "config", "check")
	if code != ExitDone || !strings.Contains(stdout, "--file-only") {
		t.Errorf("exit code %d\n%s", code, stdout)
	}
	if stdout, _, code = run(t, "", "", "help"); code != ExitDone || !strings.Contains(stdout, "Exit codes:") {
		t.Errorf("of the root: exit code %d\n%s", code, stdout)
	}
}

func TestInterruptionIsQuiet(t *testing.T) {
	d := newFakeDaemon(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var out, errs bytes.Buffer
	code := Main(ctx, []string{"list"}, Streams{Out: &out, Err: &errs, Env: []string{"PAWL_ADDRESS=" + d.URL}}, api.Version{})
	if code != ExitInterrupted || errs.Len() > 0 {
		t.Errorf("exit code %d, stderr %q; want %d and silence", code, errs.String(), ExitInterrupted)
	}
}

func TestTheTokenIsSent(t *testing.T) {
	var got []string
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got = append(got, r.Header.Get("Authorization"))
		answer(w, api.SinkList{})
	}))
	defer srv.Close()
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte("from-file\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"list"}, {"list", "--token-file", file}} {
		var out bytes.Buffer
		Main(t.Context(), args, Streams{Out: &out, Err: &out, Env: []string{"PAWL_TOKEN=from-env", "PAWL_ADDRESS=" + srv.URL}}, api.Version{})
	}
	if want := "Bearer from-env,Bearer from-file"; strings.Join(got, ",") != want {
		t.Errorf("sent %v, want %s", got, want)
	}
}

func TestTheDaemonsCertificateMustBeTrusted(t *testing.T) {
	srv := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { answer(w, api.Page{Items: []api.Resource{}}) }))
	defer srv.Close()
	srv.Config.ErrorLog = log.New(io.Discard, "", 0)
	ca := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: srv.Certificate().Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name string
		args []string
		code int
		want string
	}{
		{"by the system's authorities", nil, ExitUnreachable, "certificate"},
		{"by --ca-file", []string{"--ca-file", ca}, ExitDone, "no resources"},
		{"a certificate without its key", []string{"--ca-file", ca, "--cert-file", ca}, ExitError, "--key-file"},
		{"a file that is no certificate", []string{"--ca-file", "cli_test.go"}, ExitError, "no PEM certificate"},
	} {
		stdout, stderr, code := run(t, srv.URL, "", append([]string{"list"}, c.args...)...)
		if code != c.code || !strings.Contains(stdout+stderr, c.want) {
			t.Errorf("%s: exit code %d, %s%s; want %d and %q", c.name, code, stdout, stderr, c.code, c.want)
		}
	}
}

func TestGoldenWatching(t *testing.T) {
	d := newFakeDaemon(t)
	stdout, stderr, code := run(t, d.URL, "", "watch", "web/users", "--initial")
	golden(t, "watch", stdout+"(stderr)\n"+stderr+fmt.Sprintf("(exit code %d)\n", code))
	stdout, _, _ = run(t, d.URL, "", "watch", "-o", "json", "--from", "token")
	for line := range strings.Lines(stdout) {
		var e api.WatchEvent
		if err := json.Unmarshal([]byte(line), &e); err != nil || e.Token == "" {
			t.Errorf("%q is no event on a line of its own: %v", line, err)
		}
	}
}

func TestColoursOnATerminalOnly(t *testing.T) {
	d := newFakeDaemon(t)
	for _, c := range []struct {
		name     string
		terminal bool
		env      string
		want     bool
	}{{"a pipe", false, "", false}, {"a terminal", true, "", true}, {"NO_COLOR", true, "NO_COLOR=1", false}, {"a dumb terminal", true, "TERM=dumb", false}} {
		for _, command := range []string{"list", "status"} {
			var out bytes.Buffer
			Main(t.Context(), []string{command}, Streams{Out: &out, Err: &out, OutTerminal: c.terminal, Width: 60,
				Env: []string{"PAWL_ADDRESS=" + d.URL, c.env}, Now: func() time.Time { return now }}, api.Version{})
			if got := strings.Contains(out.String(), "\x1b["); got != c.want {
				t.Errorf("%s on %s: colours %v, want %v", command, c.name, got, c.want)
			}
		}
	}
}

func TestCompletionOffersSinksThenKeys(t *testing.T) {
	d := newFakeDaemon(t)
	for typed, want := range map[string]string{"w": "web/\n", "web/users/a": "web/users/alice\n"} {
		stdout, _, _ := run(t, d.URL, "", "__complete", "get", typed)
		if !strings.HasPrefix(stdout, want) {
			t.Errorf("completing %q offers %q, want %q first", typed, stdout, want)
		}
	}
}
