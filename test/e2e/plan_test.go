package e2e

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
)

// exits runs a command that ends with that exit code and returns what it prints.
func (p *program) exits(t *testing.T, code int, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), p.pawl, args...)
	cmd.Env = append(os.Environ(), "PAWL_ADDRESS=unix://"+p.socket)
	out, err := cmd.CombinedOutput()
	got := 0
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		got = exit.ExitCode()
	} else if err != nil {
		t.Fatal(err)
	}
	if got != code {
		t.Errorf("pawl %q: exit code %d, want %d\n%s", args, got, code, out)
	}
	return string(out)
}

// plans are made on a real API server, which counts what is written: nothing.
func (c *cluster) plans(t *testing.T) {
	const ns = "plan"
	c.namespace(t, ns)
	p := runProgram(t, fmt.Sprintf(`
upstreams:
  cluster: {kind: kubernetes, kubernetes: {kubeconfig: %q}}
sinks:
  cluster: {plugin: kube, upstreams: [cluster], drift_interval: 1h}
`, c.Kubeconfig))
	document := func(name, rest string) string {
		return fmt.Sprintf("---\nsink: cluster\nkey: v1/ConfigMap/%s/%s\n%s\n", ns, name, rest)
	}
	holds := func(name, data string) string {
		return document(name, "payload: "+configMap(ns, name, data))
	}
	p.cli(t, "apply", "--wait", "-f", p.file(t, "before.yaml", holds("same", `{"a":"1"}`)+holds("newer", `{"a":"1"}`)+holds("edited", `{"a":"1"}`)+holds("gone", `{"a":"1"}`)))
	c.edit(t, configMapPath(ns, "edited"), `{"data":{"a":"by hand"}}`)

	before, err := c.snapshot(t.Context(), ns)
	if err != nil {
		t.Fatal(err)
	}
	after := p.file(t, "after.yaml", holds("same", `{"a":"1"}`)+holds("newer", `{"a":"2"}`)+holds("edited", `{"a":"1"}`)+holds("fresh", `{"a":"1"}`)+document("gone", "delete: true"))
	got := p.exits(t, 2, "plan", "-f", after)
	for _, line := range []string{
		"~ cluster/v1/ConfigMap/plan/newer: update\n    ~ /data/a\n", "~ cluster/v1/ConfigMap/plan/edited: update\n    ~ /data/a\n",
		"+ cluster/v1/ConfigMap/plan/fresh: create\n", "- cluster/v1/ConfigMap/plan/gone: delete\n",
		"5 resources: 1 to create, 2 to update, 1 to delete, 1 unchanged.\n",
	} {
		if !strings.Contains(got, line) {
			t.Errorf("there is no %q in\n%s", line, got)
		}
	}
	got = p.exits(t, 2, "diff", "--sink", "cluster")
	if want := "~ cluster/v1/ConfigMap/plan/edited: differs, changed by somebody else\n    ~ /data/a\n4 resources: 1 different, 3 the same.\n"; got != want {
		t.Errorf("got:\n%s\nwant:\n%s", got, want)
	}
	p.exits(t, 0, "diff", "cluster/v1/ConfigMap/plan/same")
	if strings.Contains(got, "by hand") {
		t.Errorf("a value is shown:\n%s", got)
	}
	now, err := c.snapshot(t.Context(), ns)
	if err != nil {
		t.Fatal(err)
	}
	if now.writes != before.writes || !maps.Equal(now.versions, before.versions) {
		t.Errorf("%d writes became %d, versions %v became %v", before.writes, now.writes, before.versions, now.versions)
	}
	if got := p.exits(t, 1, "plan", "-f", p.file(t, "wrong.yaml", document("same", "payload: "+configMap("other", "same", `{}`)))); !strings.Contains(got, "! cluster/v1/ConfigMap/plan/same: refused by the target") {
		t.Errorf("an object of another name:\n%s", got)
	}

	p.cli(t, "apply", "--wait", "-f", after)
	p.exits(t, 2, "diff", "--all") // what was edited is stored already, and its check is not due
	p.cli(t, "retry", "cluster/v1/ConfigMap/plan/edited")
	eventually(t, "the drift is corrected", func() bool { return c.get(t, configMapPath(ns, "edited")).at("data", "a") == "1" })
	p.exits(t, 0, "diff", "--all")
	p.exits(t, 0, "plan", "-f", after)
}

// store is an HTTP object store that counts what is asked.
type store struct {
	mu      sync.Mutex
	objects map[string]json.RawMessage
	writes  int
}

func (s *store) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch r.Method {
	case http.MethodGet:
		if o, ok := s.objects[r.URL.Path]; ok {
			w.Write(o)
			return
		}
		w.WriteHeader(http.StatusNotFound)
	case http.MethodPut:
		var o json.RawMessage
		if json.NewDecoder(r.Body).Decode(&o) != nil {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		s.objects[r.URL.Path] = o
		s.writes++
	case http.MethodDelete:
		delete(s.objects, r.URL.Path)
		s.writes++
	}
}

func TestPlansAndDifferencesOverHTTP(t *testing.T) {
	if testing.Short() {
		t.Skip("it builds the program")
	}
	s := &store{objects: map[string]json.RawMessage{}}
	hs := httptest.NewServer(s)
	defer hs.Close()
	p := runProgram(t, fmt.Sprintf(`
upstreams:
  web: {base_url: %q}
sinks:
  web: {plugin: http, upstreams: [web], drift_interval: 1h, config: {path: "/objects/{key}"}}
`, hs.URL))
	p.cli(t, "apply", "--wait", "-f", p.file(t, "before.json", `{"sink":"web","key":"same","payload":{"a":1}}{"sink":"web","key":"edited","payload":{"a":1}}{"sink":"web","key":"gone","payload":{"a":1}}`))
	s.mu.Lock()
	s.objects["/objects/edited"] = json.RawMessage(`{"a":2}`)
	writes := s.writes
	s.mu.Unlock()
	after := p.file(t, "after.json", `{"sink":"web","key":"same","payload":{"a":1}}{"sink":"web","key":"edited","payload":{"a":3}}{"sink":"web","key":"gone","delete":true}{"sink":"web","key":"fresh","payload":{"a":1}}`)
	got := p.exits(t, 2, "plan", "-f", after)
	if !strings.HasSuffix(got, "4 resources: 1 to create, 1 to update, 1 to delete, 1 unchanged.\n") {
		t.Error(got)
	}
	if got := p.exits(t, 2, "diff", "--all"); !strings.HasPrefix(got, "~ web/edited: differs, changed by somebody else\n") || !strings.HasSuffix(got, "3 resources: 1 different, 2 the same.\n") {
		t.Error(got)
	}
	s.mu.Lock()
	if s.writes != writes || len(s.objects) != 3 {
		t.Errorf("%d writes became %d: %v", writes, s.writes, s.objects)
	}
	s.mu.Unlock()
	p.cli(t, "apply", "--wait", "-f", after)
	p.exits(t, 0, "plan", "-f", after)
	p.exits(t, 0, "diff", "--all")
	hs.Close()
	if got := p.exits(t, 1, "plan", "-f", after); !strings.Contains(got, "? web/same: can't tell: unreachable") {
		t.Error(got)
	}
}
