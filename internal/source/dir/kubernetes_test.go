package dir

import (
	"strings"
	"testing"
)

const manifests = `apiVersion: v1
kind: Namespace
metadata:
  name: garden
---
apiVersion: v1
kind: List
items:
- apiVersion: apps/v1
  kind: Deployment
  metadata: {name: web, namespace: garden}
  spec: {replicas: 2}
- apiVersion: rbac.authorization.k8s.io/v1
  kind: ClusterRole
  metadata: {name: reader}
---
sink: other
key: o
payload: {apiVersion: v1, kind: NotMeant}
---
apiVersion: v1
kind: ConfigMap
metadata: {generateName: x-}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: bad, namespace: garden}
data: 017
`

func TestManifestsOfKubernetesGoToTheirSinkAsTheyAre(t *testing.T) {
	root, d := t.TempDir(), newDesk(t)
	write(t, root, "all.yaml", manifests)
	write(t, root, "one.json", `{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": "garden"}}`)
	run(t, root, d, func(s *Source) { s.objects = &objects{sink: "cluster"} })
	d.wants(
		`cluster/v1/Namespace/garden={"apiVersion":"v1","kind":"Namespace","metadata":{"name":"garden"}}`,
		`cluster/apps/v1/Deployment/garden/web={"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"web","namespace":"garden"},"spec":{"replicas":2}}`,
		`cluster/rbac.authorization.k8s.io/v1/ClusterRole/reader={"apiVersion":"rbac.authorization.k8s.io/v1","kind":"ClusterRole","metadata":{"name":"reader"}}`,
		`other/o={"apiVersion":"v1","kind":"NotMeant"}`,
		`cluster/v1/ConfigMap/garden/a={"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": "garden"}}`)
	d.says("all.yaml:21", "the manifest has generateName")
	d.says("cluster/v1/ConfigMap/garden/bad", "all.yaml:28 a number with a 0 in front")
}

func TestATemplateMakesTheKeysOfManifests(t *testing.T) {
	root, d := t.TempDir(), newDesk(t)
	write(t, root, "all.yaml", strings.Split(manifests, "---")[0])
	write(t, root, "b.yaml", "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web, namespace: garden}\n")
	s, err := New(Options{Path: root, Kubernetes: &Kubernetes{Sink: "cluster", Key: "{{.kind}}.{{.version}}.{{.group}}:{{.namespace}}/{{.name}}"}})
	must(t, err)
	run(t, root, d, func(to *Source) { to.objects = s.objects })
	d.wants(`cluster/Namespace.v1.:/garden={"apiVersion":"v1","kind":"Namespace","metadata":{"name":"garden"}}`,
		`cluster/Deployment.v1.apps:garden/web={"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"web","namespace":"garden"}}`)
	for template, says := range map[string]string{
		"{{.kind}}": "all objects would have the same key", "{{.nmae}}": `a manifest has no "nmae"; there are group, version, kind, namespace, name`, "{{name}}": "did you mean {{.name}}?",
	} {
		if _, err := New(Options{Path: root, Kubernetes: &Kubernetes{Key: template}}); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", template, err)
		}
	}
}
