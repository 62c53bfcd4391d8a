package e2e

import (
	"fmt"
	"os/exec"
	"strings"
	"testing"
)

// program is an operator's way: the daemon with a kubeconfig, pawl's commands, and
// kubectl where there is one.
func (c *cluster) program(t *testing.T) {
	c.namespace(t, "program")
	p := runProgram(t, fmt.Sprintf(`
upstreams:
  cluster: {kind: kubernetes, kubernetes: {kubeconfig: %q}}
sinks:
  cluster:
    plugin: kube
    upstreams: [cluster]
    drift_interval: 1s
    sensitive: [/data]
`, c.Kubeconfig))
	secret := p.file(t, "secret.yaml", `
sink: cluster
key: v1/Secret/program/s
payload:
  apiVersion: v1
  kind: Secret
  metadata: {name: s, namespace: program}
  data: {token: aHVzaC1odXNo}
`)
	p.cli(t, "apply", "-f", secret, "--wait")
	const path = "/api/v1/namespaces/program/secrets/s"
	if o := c.get(t, path); o.at("data", "token") != "aHVzaC1odXNo" {
		t.Fatalf("%v", o)
	}
	if kubectl, err := exec.LookPath("kubectl"); err == nil {
		out, err := exec.CommandContext(t.Context(), kubectl, "--kubeconfig", c.Kubeconfig, "-n", "program", "patch", "secret", "s",
			"--type=merge", "-p", `{"data":{"token":"aGFja2Vk"}}`).CombinedOutput()
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	} else {
		c.edit(t, path, `{"data":{"token":"aGFja2Vk"}}`)
	}
	eventually(t, "the drift is corrected", func() bool { return c.get(t, path).at("data", "token") == "aHVzaC1odXNo" })
	for _, words := range []string{"aHVzaC1odXNo", "aGFja2Vk"} {
		if out := p.cli(t, "explain", "cluster/v1/Secret/program/s"); strings.Contains(out, words) {
			t.Errorf("explain shows a value:\n%s", out)
		}
	}
	p.cli(t, "delete", "cluster/v1/Secret/program/s", "--wait")
	if c.exists(t, path) {
		t.Error("it is still there")
	}
}
