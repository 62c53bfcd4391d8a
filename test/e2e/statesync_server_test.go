package e2e

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// createAll creates objects, 16 at a time.
func (s *stage) createAll(t *testing.T, path string, bodies []string) {
	t.Helper()
	var wait sync.WaitGroup
	todo := make(chan string)
	for range 16 {
		wait.Go(func() {
			for body := range todo {
				if status, answer, err := s.send(t.Context(), http.MethodPost, path, "application/json", body); err != nil || status != http.StatusCreated {
					t.Errorf("%d %v %s", status, err, answer)
				}
			}
		})
	}
	for _, body := range bodies {
		todo <- body
	}
	close(todo)
	wait.Wait()
}

func (s *stage) syncMany(t *testing.T) {
	shop := s.shop(t)
	k := s.keeperThatLooks(t, "10m", shop, "  team: {statesync: {kubernetes: {kubeconfig: \""+s.Kubeconfig+"\"}, namespaces: [many], writes_per_second: 1000}}\n")
	began := time.Now()
	s.many(t, "many", 2000, "Delete")
	created := time.Since(began)
	s.allAcked(t, "many")
	t.Logf("2,000 StateSyncs: created in %v, all acked after %v", created, time.Since(began))
	if n := shop.count(t); n != 2000 {
		t.Errorf("the target has %d objects", n)
	}

	// A daemon that starts again writes to none of them.
	newest := s.newest(t, "many")
	k.kill(t, syscall.SIGKILL)
	began = time.Now()
	k.start(t)
	eventually(t, "the set was told", func() bool { return k.source(t, "team").FullItems == 2000 })
	t.Logf("started again and told all after %v", time.Since(began))
	s.edit(t, syncPath("many", "s00000"), `{"spec":{"payload":{"n":-1}}}`)
	s.wait(t, "many", "s00000", "Acked")
	if n := s.newer(t, "many", newest); n > 1 {
		t.Errorf("%d StateSyncs were written after a start that changed one", n)
	}
}

// newest returns the resource versions of all StateSyncs, by name.
func (s *stage) newest(t *testing.T, ns string) map[string]string {
	t.Helper()
	out := map[string]string{}
	list, _ := s.get(t, syncsPath+ns+"/statesyncs")["items"].([]any)
	for _, item := range list {
		o := object(item.(map[string]any))
		out[o.at("metadata", "name").(string)] = o.version()
	}
	return out
}

// newer counts those that have been written since.
func (s *stage) newer(t *testing.T, ns string, than map[string]string) int {
	t.Helper()
	n := 0
	for name, version := range s.newest(t, ns) {
		if than[name] != version {
			n++
		}
	}
	return n
}

func (s *stage) syncServerDies(t *testing.T) {
	shop := s.shop(t)
	k := s.keeper(t, shop, s.statesync("dies", ""))
	s.many(t, "dies", 200, "Delete")
	s.KillAPI() // in the middle of finalizers and statuses
	eventually(t, "the source says so", func() bool { return strings.Contains(k.source(t, "team").Trouble, "does not answer") })
	before := shop.count(t)
	if err := s.StartAPI(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.allAcked(t, "dies")
	if n := shop.count(t); n != 200 || before > n {
		t.Errorf("the target has %d objects, and had %d while the server was dead", n, before)
	}
	eventually(t, "the trouble is over", func() bool { return !strings.Contains(k.source(t, "team").Trouble, "does not answer") })

	// What is changed and deleted right after its return is followed as well.
	s.KillAPI()
	if err := s.StartAPI(t.Context()); err != nil {
		t.Fatal(err)
	}
	eventually(t, "a change is taken", func() bool {
		status, _ := s.call(t, http.MethodPatch, syncPath("dies", "s00007"), "application/merge-patch+json", `{"spec":{"payload":{"n":-7}}}`)
		return status == http.StatusOK
	})
	s.wait(t, "dies", "s00007", "Acked")
	shop.has(t, "dies/s00007", `{"n":-7}`)
	s.remove(t, syncPath("dies", "s00008"))
	s.eventuallyGone(t, syncPath("dies", "s00008"))
	if n := shop.count(t); n != 199 {
		t.Errorf("the target has %d objects, want 199", n)
	}
}

// olderCRD is a CRD as an earlier version may have been: fields and rules are missing.
func olderCRD(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(crdFile)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	skip := -1 // deeper lines than this are left out
	for _, line := range strings.Split(string(text), "\n") {
		depth := len(line) - len(strings.TrimLeft(line, " "))
		if skip >= 0 && (depth > skip || depth == skip && strings.HasPrefix(line[depth:], "- ")) {
			continue
		}
		skip = -1
		switch {
		case strings.TrimSpace(line) == "desiredHash:", strings.TrimSpace(line) == "suspend:", strings.TrimSpace(line) == "x-kubernetes-validations:":
			skip = depth
			continue
		}
		out = append(out, line)
	}
	path := filepath.Join(t.TempDir(), "crd.yaml")
	if err := os.WriteFile(path, []byte(strings.Join(out, "\n")), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func (s *stage) syncUpgrade(t *testing.T) {
	s.install(t, olderCRD(t))
	s.namespace(t, "upgrade")
	shop := s.shop(t)
	s.keeper(t, shop, s.statesync("upgrade", ""))
	s.sync(t, "upgrade", "u", `"sink":"web","conflictPolicy":"SourceWins","payload":{"a":1},"suspend":true`)
	s.wait(t, "upgrade", "u", "Acked") // the field suspend is none yet
	path := syncPath("upgrade", "u")
	if o := s.get(t, path); o.at("status", "desiredHash") != nil || o.at("status", "phase") != "Acked" {
		t.Fatalf("status of the older CRD: %v", o["status"])
	}
	s.quiet(t, "upgrade", "u", shop)
	s.install(t, crdFile)
	s.edit(t, path, `{"spec":{"payload":{"a":2}}}`)
	s.wait(t, "upgrade", "u", "Acked")
	shop.has(t, "upgrade/u", `{"a":2}`)
	eventually(t, "the new field is written", func() bool { return s.get(t, path).at("status", "desiredHash") != nil })
	s.edit(t, path, `{"spec":{"suspend":true}}`)
	s.wait(t, "upgrade", "u", "Suspended")
}

// bind gives the user "limited" a ClusterRole in a namespace.
func (s *stage) bind(t *testing.T, ns, role string) {
	t.Helper()
	s.kubectl(t, "-n", ns, "create", "rolebinding", role, "--clusterrole="+role, "--user=limited")
}

func (s *stage) unbind(t *testing.T, ns, role string) {
	t.Helper()
	s.remove(t, "/apis/rbac.authorization.k8s.io/v1/namespaces/"+ns+"/rolebindings/"+role)
}

func (s *stage) syncRights(t *testing.T) {
	s.namespace(t, "rights")
	s.namespace(t, "team") // of the example's binding
	s.kubectl(t, "apply", "-f", "../../examples/sources/statesync/rbac.yaml")
	shop := s.shop(t)
	k := s.keeper(t, shop, fmt.Sprintf("  team: {statesync: {kubernetes: {kubeconfig: %q, context: limited}, namespaces: [rights]}}\n", s.Kubeconfig))
	forbidden := func() bool { return strings.Contains(k.source(t, "team").Trouble, "forbids") }
	eventually(t, "the source says that it has no rights", forbidden)
	s.sync(t, "rights", "r", `"sink":"web","deletionPolicy":"Delete","payload":{"a":1}`)
	s.bind(t, "rights", "pawl-statesync")
	s.wait(t, "rights", "r", "Acked")
	eventually(t, "the trouble is over", func() bool { return !forbidden() })

	// What needs a right that is missing waits alone.
	s.sync(t, "rights", "secret", `"sink":"web","payloadFrom":{"secretKeyRef":{"name":"s","key":"k"}}`)
	s.refusedAs(t, "rights", "secret", "PayloadUnreadable", "forbids")
	s.create(t, "/api/v1/namespaces/rights/secrets", `{"apiVersion":"v1","kind":"Secret","metadata":{"namespace":"rights","name":"s"},"stringData":{"k":"{}"}}`)
	s.bind(t, "rights", "pawl-statesync-secrets")
	s.wait(t, "rights", "secret", "Acked")
	s.edit(t, syncPath("rights", "r"), `{"spec":{"conflictPolicy":"SourceWins","payload":{"a":2}}}`)
	s.wait(t, "rights", "r", "Acked")

	// Rights that are taken away delete nothing, even over a start.
	s.unbind(t, "rights", "pawl-statesync")
	k.kill(t, syscall.SIGKILL)
	k.start(t)
	eventually(t, "the source says that it has no rights any more", forbidden)
	shop.has(t, "rights/r", `{"a":2}`)
	s.edit(t, syncPath("rights", "r"), `{"spec":{"payload":{"a":3}}}`)
	s.bind(t, "rights", "pawl-statesync")
	s.wait(t, "rights", "r", "Acked")
	shop.has(t, "rights/r", `{"a":3}`)
}
