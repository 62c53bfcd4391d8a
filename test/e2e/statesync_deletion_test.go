package e2e

import (
	"fmt"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"
)

func (s *stage) syncDeletions(t *testing.T) {
	s.namespace(t, "deletions")
	shop := s.shop(t)
	k := s.keeper(t, shop, s.statesync("deletions", ""))
	for _, policy := range []string{"Retain", "Delete", "AckThenDelete"} {
		name := strings.ToLower(policy)
		s.sync(t, "deletions", name, `"sink":"web","payload":{"a":1},"deletionPolicy":"`+policy+`"`)
		s.wait(t, "deletions", name, "Acked")
	}
	for name, left := range map[string]string{"retain": `{"a":1}`, "delete": "", "ackthendelete": ""} {
		path := syncPath("deletions", name)
		s.remove(t, path)
		s.eventuallyGone(t, path)
		shop.has(t, "deletions/"+name, left)
	}
	eventually(t, "the daemon has no resource left", func() bool { return !strings.Contains(k.cli(t, "list"), "deletions/") })
}

func (s *stage) syncOwed(t *testing.T) {
	s.namespace(t, "owed")
	shop := s.shop(t)
	k := s.keeper(t, shop, s.statesync("owed", ""))
	for _, name := range []string{"deleted", "spared", "kept"} {
		policy := map[string]string{"kept": "Retain"}[name]
		if policy == "" {
			policy = "Delete"
		}
		s.sync(t, "owed", name, `"sink":"web","payload":{"a":1},"deletionPolicy":"`+policy+`"`)
		s.wait(t, "owed", name, "Acked")
	}
	shop.mode(t, "refuse")
	for _, name := range []string{"deleted", "spared", "kept"} {
		s.remove(t, syncPath("owed", name))
	}
	s.eventuallyGone(t, syncPath("owed", "kept")) // nothing is owed for it
	for _, name := range []string{"deleted", "spared"} {
		eventually(t, "it says what it waits for", func() bool {
			return s.get(t, syncPath("owed", name)).condition("Deleted")["reason"] == "Owed"
		})
	}
	// Neither a death of the daemon nor a start of it lets it go.
	k.kill(t, syscall.SIGKILL)
	k.start(t)
	shop.mode(t, "error500")
	eventually(t, "the deletion fails", func() bool {
		message, _ := s.get(t, syncPath("owed", "deleted")).at("status", "lastError").(string)
		return strings.Contains(message, "500")
	})
	// Who gives up says so by the policy.
	s.edit(t, syncPath("owed", "spared"), `{"spec":{"deletionPolicy":"Retain"}}`)
	s.eventuallyGone(t, syncPath("owed", "spared"))
	if !s.exists(t, syncPath("owed", "deleted")) {
		t.Fatal("it was let go though its deletion is owed")
	}
	shop.mode(t, "ok")
	s.eventuallyGone(t, syncPath("owed", "deleted"))
	shop.has(t, "owed/deleted", "")
	shop.has(t, "owed/kept", `{"a":1}`)
	shop.has(t, "owed/spared", `{"a":1}`)
}

// many makes n StateSyncs, and waits until all are acked.
func (s *stage) many(t *testing.T, ns string, n int, policy string) {
	t.Helper()
	s.namespace(t, ns)
	var list strings.Builder
	for i := range n {
		fmt.Fprintf(&list, "%s\n", syncBody(ns, fmt.Sprintf("s%05d", i), fmt.Sprintf(`"sink":"web","payload":{"n":%d},"deletionPolicy":%q,"conflictPolicy":"SourceWins"`, i, policy)))
	}
	s.createAll(t, syncsPath+ns+"/statesyncs", strings.Split(strings.TrimSpace(list.String()), "\n"))
}

// allAcked waits until all StateSyncs of a namespace are acked as they are now.
func (s *stage) allAcked(t *testing.T, ns string) {
	t.Helper()
	tick := time.NewTicker(2 * time.Second)
	defer tick.Stop()
	for ctx, acked := t.Context(), -1; ; {
		_, answer := s.call(t, http.MethodGet, syncsPath+ns+"/statesyncs", "", "")
		list, listed := answer["items"].([]any) // a server that has just begun refuses
		was := acked
		acked = 0
		for _, item := range list {
			o := object(item.(map[string]any))
			if c := o.condition("Acked"); c["status"] == "True" && c["observedGeneration"] == o.at("metadata", "generation") {
				acked++
			}
		}
		switch {
		case listed && acked == len(list):
			return
		case acked != was:
			t.Logf("%d of %d are acked", acked, len(list))
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatal("not all were acked in time")
		}
	}
}

func (s *stage) syncFuse(t *testing.T) {
	shop := s.shop(t)
	s.many(t, "fuse", 40, "Delete")
	k := s.keeper(t, shop, s.statesync("fuse", ", fuse: {at_least: 5, share: 0.1}"))
	s.allAcked(t, "fuse")
	s.kubectl(t, "-n", "fuse", "delete", "statesync", "--all", "--wait=false")
	s.held(t, "fuse", 35)
	if n := shop.count(t); n != 35 {
		t.Errorf("the target has %d objects, want 35", n)
	}
	k.kill(t, syscall.SIGKILL) // a start forgets nothing
	k.start(t)
	s.held(t, "fuse", 35)
	k.confirm(t, "team", 35)
	eventually(t, "all are gone", func() bool { return s.count(t, "fuse") == 0 })
	if n := shop.count(t); n != 0 {
		t.Errorf("the target has %d objects left", n)
	}
}

// held waits until n StateSyncs are left, and say that the fuse holds them.
func (s *stage) held(t *testing.T, ns string, n int) {
	t.Helper()
	eventually(t, fmt.Sprintf("%d are held", n), func() bool {
		out := s.kubectl(t, "-n", ns, "get", "statesync", "-o", `jsonpath={range .items[*]}{.status.phase}{" "}{.status.conditions[?(@.type=="Deleted")].reason}{"\n"}{end}`)
		return strings.Count(out, "\n") == n && strings.Count(out, "Held HeldByFuse") == n
	})
}

func (s *stage) count(t *testing.T, ns string) int {
	t.Helper()
	list, _ := s.get(t, syncsPath+ns+"/statesyncs")["items"].([]any)
	return len(list)
}

// abandon takes the finalizers from what the daemons of other tests have left behind.
func (s *stage) abandon(t *testing.T) {
	t.Helper()
	list, _ := s.get(t, "/apis/pawl.dev/v1alpha1/statesyncs")["items"].([]any)
	for _, item := range list {
		meta := object(item.(map[string]any)["metadata"].(map[string]any))
		s.edit(t, syncPath(meta["namespace"].(string), meta["name"].(string)), `{"metadata":{"finalizers":null}}`)
	}
}

func (s *stage) syncCRDRemoved(t *testing.T) {
	s.abandon(t)
	shop := s.shop(t)
	s.many(t, "removed", 30, "Delete")
	k := s.keeper(t, shop, s.statesync("removed", ""))
	s.allAcked(t, "removed")
	s.kubectl(t, "delete", "crd", "statesyncs.pawl.dev", "--wait=false")
	s.held(t, "removed", 20)
	if n := shop.count(t); n != 20 {
		t.Errorf("the target has %d objects, want the 20 that the fuse holds", n)
	}
	k.confirm(t, "team", 20)
	s.eventuallyGone(t, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/statesyncs.pawl.dev")
	if n := shop.count(t); n != 0 {
		t.Errorf("the target has %d objects left", n)
	}
	eventually(t, "the source says what is missing", func() bool { return strings.Contains(k.source(t, "team").Trouble, "no such kind") })
	s.install(t, crdFile)
	s.sync(t, "removed", "again", `"sink":"web","payload":{"a":1}`)
	s.wait(t, "removed", "again", "Acked")
}
