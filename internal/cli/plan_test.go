package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pawlsync/pawl/engine"
	"github.com/pawlsync/pawl/engine/outbox"
	"github.com/pawlsync/pawl/engine/outbox/memory"
	"github.com/pawlsync/pawl/engine/record"
	"github.com/pawlsync/pawl/engine/saga"
	"github.com/pawlsync/pawl/engine/sink"
	"github.com/pawlsync/pawl/internal/api"
	"github.com/pawlsync/pawl/internal/server"
)

// shelf is a target in memory that tells where an object differs, and what it has.
type shelf struct {
	mu      sync.Mutex
	objects map[string]string
	writes  int
	away    bool
}

func (s *shelf) Manifest() sink.Manifest {
	return sink.Manifest{Name: "shelf", Observes: true, Deletes: true, ApplyConfirms: true, ApplyIdempotent: true, ReportsContent: true}
}

func (s *shelf) Close(context.Context) error { return nil }

func (s *shelf) Observe(_ context.Context, r *sink.Request) sink.Result {
	s.mu.Lock()
	defer s.mu.Unlock()
	content, ok := s.objects[r.Key.Name]
	switch {
	case s.away:
		return sink.Result{Status: sink.Unreachable, Message: "connection refused"}
	case strings.HasPrefix(r.Key.Name, "bad"):
		return sink.Result{Status: sink.Rejected, Message: "such a key is not taken"}
	case !ok:
		return sink.Result{Status: sink.NotFound}
	}
	o := &sink.Observation{Exists: true, Content: []byte(content), MatchDesired: sink.TriOf(content == string(r.Payload))}
	if o.MatchDesired == sink.No {
		for _, path := range []string{"name", "password", "old"} {
			if strings.Contains(content, path) || strings.Contains(string(r.Payload), path) {
				o.Differing = append(o.Differing, "/"+path)
			}
		}
	}
	return sink.Result{Status: sink.OK, Observation: o}
}

func (s *shelf) Apply(_ context.Context, r *sink.Request) sink.Result {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.objects[r.Key.Name] = string(r.Payload)
	s.writes++
	return sink.Result{Status: sink.OK, Observation: &sink.Observation{Exists: true}}
}

func (s *shelf) Delete(_ context.Context, r *sink.Request) sink.Result {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.objects, r.Key.Name)
	s.writes++
	return sink.Result{Status: sink.OK}
}

func (s *shelf) set(key, content string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.objects[key] = content; content == "" {
		delete(s.objects, key)
	}
}

// shelves starts an API over a real engine with the sinks web, and report, which only
// reports drift and whose target has a. What is given is stored and acknowledged at web.
func shelves(t *testing.T, acked map[string]string) (web *shelf, e *engine.Engine, address string) {
	web, e = shelfEngine(t, acked)
	return web, e, serveShelves(t, server.Options{Engine: e})
}

func shelfEngine(t *testing.T, acked map[string]string) (web *shelf, e *engine.Engine) {
	t.Helper()
	web = &shelf{objects: map[string]string{}}
	e, err := engine.Open(t.Context(), engine.Options{
		Sinks: []engine.SinkOptions{{Name: "web", Sink: web}, {Name: "report", Sink: &shelf{objects: map[string]string{"a": `{"name":"x"}`}}, Conflict: record.ReportOnly}},
		Store: func(o outbox.Observer) (outbox.Store, error) {
			return memory.Open(memory.NewDisk(), memory.Options{Observer: o})
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close(context.Background()) })
	for name, content := range acked {
		key := record.Key{Sink: "web", Name: name}
		if _, err := e.Put(t.Context(), engine.Put{Key: key, Payload: []byte(content)}); err != nil {
			t.Fatal(err)
		}
		if r, err := e.Wait(t.Context(), key, 0); err != nil || !r.Done {
			t.Fatalf("%s: %+v %v", key, r, err)
		}
	}
	return web, e
}

func serveShelves(t *testing.T, o server.Options) (address string) {
	t.Helper()
	o.Sagas, o.Sensitive = saga.New(saga.Options{}), map[string][]string{"web": {"/password"}}
	s, err := server.New(o)
	if err != nil {
		t.Fatal(err)
	}
	hs := httptest.NewServer(s.Handler())
	t.Cleanup(hs.Close)
	return hs.URL
}

const aliceHas = `{"name":"Alice","password":"s3cret"}`

func TestPlanSaysWhatApplyWouldChange(t *testing.T) {
	web, _, address := shelves(t, map[string]string{"alice": aliceHas, "bob": `{"name":"Bob"}`, "carol": `1`})
	web.set("bob", `{"name":"Rob","password":"gu3ss","old":1}`)
	before := web.writes
	dir := t.TempDir()
	for name, content := range map[string]string{
		"a.yaml": "sink: web\nkey: alice\npayload: " + aliceHas + "\n---\nsink: web\nkey: bob\npayload: {name: Robert, password: n3w}\n---\nsink: web\nkey: carol\ndelete: true\n",
		"b.json": `{"sink":"web","key":"dora","payload":1} {"sink":"web","key":"nobody","delete":true} {"sink":"report","key":"a","payload":{"name":"y"}}`,
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	stdout, stderr, code := run(t, address, "", "plan", "-f", dir)
	const want = `~ web/bob: update
    ~ /name
    ~ /password
    - /old
- web/carol: delete
+ web/dora: create
= report/a: left as it is (changed by somebody else, and the conflict policy is to report that only)
    ~ /name
6 resources: 1 to create, 1 to update, 1 to delete, 2 unchanged, 1 left as they are.
`
	if stdout != want || stderr != "" || code != ExitChanges {
		t.Errorf("exit code %d, stderr %q\ngot:\n%s\nwant:\n%s", code, stderr, stdout, want)
	}
	if web.writes != before {
		t.Error("the target was written to")
	}
	stdout, _, _ = run(t, address, "", "plan", "-f", dir, "--all", "--values")
	for _, line := range []string{"  web/alice: unchanged\n", `    ~ /name: "Rob" -> "Robert"`, `    ~ /password: "***" -> "***"`, "    - /old: 1\n"} {
		if !strings.Contains(stdout, line) {
			t.Errorf("there is no %q in\n%s", line, stdout)
		}
	}
}

func TestPlanExitsByWhatItFound(t *testing.T) {
	web, _, address := shelves(t, map[string]string{"alice": aliceHas})
	const same = `{"sink":"web","key":"alice","payload":` + aliceHas + `}`
	for _, row := range []struct {
		name, stdin, says string
		args              []string
		code              int
	}{
		{"nothing would change", same, "1 resource: 1 unchanged.", nil, ExitDone},
		{"something would", `{"sink":"web","key":"bob","payload":1}`, "1 resource: 1 to create.", nil, ExitChanges},
		{"a sink that is not there", same + `{"sink":"wbe","key":"bob","payload":1}`, `stdin:1: wbe/bob: there is no sink wbe; did you mean "web"?`, nil, ExitError},
		{"the target refuses", `{"sink":"web","key":"bad/1","payload":1}`, "! web/bad/1: refused by the target: such a key is not taken", nil, ExitError},
		{"one document is wrong", same + "\n" + `{"sink":"web","kye":"bob","payload":1}`, `stdin:2: unknown field "kye"; did you mean key?`, nil, ExitError},
		{"a key is there twice", same + "\n" + same, "stdin:2: web/alice is there twice, first at stdin:1; keep one of them", nil, ExitError},
		{"a manifest of Kubernetes", "apiVersion: v1\nkind: ConfigMap\n", "this is a manifest of Kubernetes", nil, ExitError},
		{"nothing at all", "", "standard input holds no resource", nil, ExitError},
		{"a file that is not there", "", "nowhere.yaml: no such file or directory", []string{"plan", "-f", "nowhere.yaml"}, ExitError},
		{"wrong usage is an error, and no change", "", "nothing to plan", []string{"plan"}, ExitError},
		{"a flag that is not there", "", "did you mean --file?", []string{"plan", "--fil", "x"}, ExitError},
		{"a slip", "", "did you mean `pawl plan -f res`?", []string{"plan", "res"}, ExitError},
	} {
		args := row.args
		if args == nil {
			args = []string{"plan", "-f", "-"}
		}
		stdout, stderr, code := run(t, address, row.stdin, args...)
		if row.name == "nothing at all" && stdout != "" {
			t.Errorf("%s: it counts what is not there: %s", row.name, stdout)
		}
		if code != row.code || !strings.Contains(stdout+stderr, row.says) {
			t.Errorf("%s: exit code %d, want %d and %q\n%s%s", row.name, code, row.code, row.says, stdout, stderr)
		}
	}
	web.mu.Lock()
	web.away = true
	web.mu.Unlock()
	stdout, _, code := run(t, address, same, "plan", "-f", "-")
	if code != ExitError || !strings.Contains(stdout, "? web/alice: can't tell: unreachable: connection refused") {
		t.Errorf("a target that is away: exit code %d\n%s", code, stdout)
	}
	if _, stderr, code := run(t, "http://127.0.0.1:1", same, "plan", "-f", "-"); code != ExitError || !strings.Contains(stderr, "no daemon") {
		t.Errorf("no daemon: exit code %d, %s", code, stderr)
	}
}

func TestPlanAsJSONHasEveryDocumentAndASummary(t *testing.T) {
	_, _, address := shelves(t, map[string]string{"alice": aliceHas})
	in := `{"sink":"web","key":"alice","payload":` + aliceHas + `}` + "\n" + `{"sink":"web","key":"bob","payload":1}` + "\n" + `{"sink":"wbe","key":"x","payload":1}` + "\n{}"
	stdout, _, code := run(t, address, in, "plan", "-f", "-", "-o", "json")
	var out struct {
		Items []struct {
			File      string
			FileLine  int
			Sink, Key string
			Action    string
			Error     *api.Problem
		}
		Summary map[string]int
	}
	if err := json.Unmarshal([]byte(stdout), &out); err != nil || code != ExitError {
		t.Fatalf("exit code %d, %v in %s", code, err, stdout)
	}
	got := ""
	for _, i := range out.Items {
		got += fmt.Sprintf("%s:%d %s/%s %s %v; ", i.File, i.FileLine, i.Sink, i.Key, i.Action, i.Error != nil)
	}
	if want := "stdin:1 web/alice none false; stdin:2 web/bob create false; stdin:3 wbe/x refused true; stdin:4 /  true; "; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if s := out.Summary; s["unchanged"] != 1 || s["create"] != 1 || s["refused"] != 1 || s["wrong"] != 1 || s["update"] != 0 {
		t.Error(s)
	}
}

func TestPlanOfManyDocumentsTellsATerminalHowFarItIs(t *testing.T) {
	_, _, address := shelves(t, nil)
	var in strings.Builder
	const n = 10_000
	for i := range n {
		fmt.Fprintf(&in, `{"sink":"web","key":"k%d","payload":%d}`+"\n", i, i)
	}
	clock := now
	var out, errs bytes.Buffer
	s := Streams{In: strings.NewReader(in.String()), Out: &out, Err: &errs, ErrTerminal: true, Env: []string{"PAWL_ADDRESS=" + address},
		Now: func() time.Time { clock = clock.Add(time.Millisecond); return clock }}
	if code := Main(t.Context(), []string{"plan", "-f", "-"}, s, api.Version{}); code != ExitChanges {
		t.Fatalf("exit code %d: %s", code, errs.String())
	}
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	if len(lines) != n+1 || lines[0] != "+ web/k0: create" || lines[n-1] != "+ web/k9999: create" || lines[n] != "10000 resources: 10000 to create." {
		t.Errorf("%d lines, the last is %s", len(lines), lines[len(lines)-1])
	}
	if told := errs.String(); !strings.Contains(told, "resources looked at so far") || !strings.HasSuffix(told, "\r\x1b[K") {
		t.Errorf("progress: %.200q", told)
	}
}

func TestDiffSaysHowTargetsStand(t *testing.T) {
	web, e, address := shelves(t, map[string]string{"alice": aliceHas, "bob": `{"name":"Bob"}`, "carol": `1`})
	web.set("bob", `{"name":"Rob","old":1}`)
	web.set("carol", "")
	if _, err := e.Put(t.Context(), engine.Put{Key: record.Key{Sink: "report", Name: "a"}, Payload: []byte(`{"name":"y"}`)}); err != nil {
		t.Fatal(err)
	}
	stdout, stderr, code := run(t, address, "", "diff", "--all")
	const want = `~ report/a: differs, changed by somebody else (the conflict policy is to report that only)
    ~ /name
~ web/bob: differs, changed by somebody else
    ~ /name
    - /old
+ web/carol: missing at the target
4 resources: 2 different, 1 missing, 1 the same.
`
	if stdout != want || stderr != "" || code != ExitChanges {
		t.Errorf("exit code %d, stderr %q\ngot:\n%s\nwant:\n%s", code, stderr, stdout, want)
	}
	for _, row := range []struct {
		args []string
		says string
		code int
	}{
		{[]string{"diff", "web/alice"}, "1 resource: 1 the same.\n", ExitDone},
		{[]string{"diff", "--sink", "web"}, "3 resources: 1 different, 1 missing, 1 the same.\n", ExitChanges},
		{[]string{"diff", "--sink", "web", "--prefix", "al"}, "1 resource: 1 the same.\n", ExitDone},
		{[]string{"diff", "--prefix", "zz"}, "no resources\n", ExitDone},
		{[]string{"diff", "web/none", "web/alice"}, "web/none: not found", ExitError},
		{[]string{"diff", "--sink", "wbe"}, `did you mean "web"?`, ExitError},
		{[]string{"diff", "web"}, `"web" names no resource; write SINK/KEY, or --sink web for all of that sink`, ExitError},
		{[]string{"diff", "web/none/"}, "for all whose keys begin so give --sink web --prefix none/", ExitError},
		{[]string{"diff"}, "nothing to compare", ExitError},
		{[]string{"diff", "web/alice", "--all"}, "but not both", ExitError},
		{[]string{"diff", "--sink", "web", "--all"}, "--all is every resource", ExitError},
		{[]string{"diff", "alice"}, "write SINK/KEY", ExitError},
		{[]string{"diff", "web/bob", "--values"}, `~ /name: "Rob" -> "Bob"`, ExitChanges},
	} {
		stdout, stderr, code := run(t, address, "", row.args...)
		if code != row.code || !strings.Contains(stdout+stderr, row.says) {
			t.Errorf("%v: exit code %d, want %d and %q\n%s%s", row.args, code, row.code, row.says, stdout, stderr)
		}
	}
	if err := e.SuspendSink(t.Context(), "web"); err != nil {
		t.Fatal(err)
	}
	stdout, _, code = run(t, address, "", "diff", "web/alice", "-o", "json")
	if code != ExitError || !strings.Contains(stdout, `"why": "its sink is suspended (Operator)"`) || !strings.Contains(stdout, `"unknown": 1`) {
		t.Errorf("a suspended sink: exit code %d\n%s", code, stdout)
	}
}

func TestDiffOfInboundFindsNoDifference(t *testing.T) {
	web, e, address := shelves(t, nil)
	web.set("a", `{"name":"theirs"}`)
	key := record.Key{Sink: "web", Name: "a"}
	if _, err := e.Put(t.Context(), engine.Put{Key: key, Payload: []byte(`null`), Direction: record.Inbound}); err != nil {
		t.Fatal(err)
	}
	if _, err := e.Wait(t.Context(), key, 0); err != nil {
		t.Fatal(err)
	}
	web.set("a", `{"name":"changed"}`)
	for _, args := range [][]string{{"diff", "--all"}, {"diff", "web/a"}} {
		if stdout, stderr, code := run(t, address, "", args...); code != ExitDone || stdout != "1 resource: 1 the same.\n" || stderr != "" {
			t.Errorf("%v: exit code %d\n%s%s", args, code, stdout, stderr)
		}
	}
	if stdout, _, code := run(t, address, "", "diff", "web/a", "-o", "json"); code != ExitDone || !strings.Contains(stdout, `"why": "inbound: nothing is ever sent"`) {
		t.Errorf("exit code %d\n%s", code, stdout)
	}
}
