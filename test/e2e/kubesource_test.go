package e2e

import (
	"fmt"
	"strings"
	"syscall"
	"testing"
)

// labelled is a ConfigMap that the source of these tests takes.
func labelled(ns, name, data string) string {
	return strings.Replace(configMap(ns, name, data), `"name":`, `"labels":{"sync":"yes"},"name":`, 1)
}

func (s *stage) configMaps(ns, more string) string {
	return fmt.Sprintf("  maps:\n    kube: {kubernetes: {kubeconfig: %q}, api_version: v1, kind: ConfigMap, namespaces: [%s], label_selector: sync=yes, sink: web%s}\n", s.Kubeconfig, ns, more)
}

func (s *stage) kubeSource(t *testing.T) {
	s.namespace(t, "maps")
	shop := s.shop(t)
	const path = "/api/v1/namespaces/maps/configmaps"
	s.create(t, path, labelled("maps", "a", `{"x":"1"}`))
	s.create(t, path, configMap("maps", "other", `{"x":"1"}`))
	k := s.keeper(t, shop, s.configMaps("maps", `, key: "{{.kind}}-{{.metadata.name}}", payload: /data`))
	becomes := func(name, want string) {
		t.Helper()
		eventually(t, name+" becomes "+want, func() bool { return shop.object(t, "ConfigMap-"+name) == want })
	}
	becomes("a", `{"x":"1"}`)
	s.create(t, path, labelled("maps", "b", `{"y":"2"}`))
	becomes("b", `{"y":"2"}`)
	s.edit(t, configMapPath("maps", "a"), `{"data":{"x":"3"}}`)
	becomes("a", `{"x":"3"}`)
	if n := shop.count(t); n != 2 {
		t.Errorf("the target has %d objects, want 2", n)
	}

	// One that can't be mapped blocks itself alone, and stays as it was.
	s.edit(t, configMapPath("maps", "a"), `{"data":null}`)
	eventually(t, "it is told", func() bool {
		problems := k.source(t, "maps").Problems
		return len(problems) == 1 && problems[0].Place == "ConfigMap maps/a" && strings.Contains(problems[0].Message, "nothing at /data")
	})
	becomes("a", `{"x":"3"}`)
	s.edit(t, configMapPath("maps", "b"), `{"data":{"y":"4"}}`)
	becomes("b", `{"y":"4"}`)
	s.edit(t, configMapPath("maps", "a"), `{"data":{"x":"5"}}`)
	becomes("a", `{"x":"5"}`)

	// What loses its label, or is deleted, is deleted.
	s.edit(t, configMapPath("maps", "a"), `{"metadata":{"labels":{"sync":null}}}`)
	becomes("a", "")
	s.remove(t, configMapPath("maps", "b"))
	becomes("b", "")
}

// A daemon that slept while the server forgot what changed lists again, and sweeps.
func (s *stage) kubeSourceExpired(t *testing.T) {
	s.namespace(t, "expired")
	shop := s.shop(t)
	const path = "/api/v1/namespaces/expired/configmaps"
	for _, name := range []string{"stays", "changes", "goes"} {
		s.create(t, path, labelled("expired", name, `{"x":"1"}`))
	}
	k := s.keeper(t, shop, s.configMaps("expired", `, payload: /data`))
	eventually(t, "all are there", func() bool { return shop.count(t) == 3 })
	if err := k.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	s.edit(t, configMapPath("expired", "changes"), `{"data":{"x":"2"}}`)
	s.remove(t, configMapPath("expired", "goes"))
	s.KillAPI() // its successor's cache begins after what has changed
	if err := s.StartAPI(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := s.Compact(t.Context()); err != nil { // and etcd no longer has it
		t.Fatal(err)
	}
	if err := k.cmd.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	eventually(t, "what vanished is swept, what changed is applied", func() bool {
		return shop.object(t, "expired/goes") == "" && shop.object(t, "expired/changes") == `{"x":"2"}`
	})
	shop.has(t, "expired/stays", `{"x":"1"}`)
}
