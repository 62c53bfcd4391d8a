package deploy

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"iter"
	"math/big"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/pawlsync/pawl/test/e2e/servers"
)

const overlay = "../../deploy/kustomize/overlays/example"

// lines are the lines of a text, the empty ones left out.
func lines(text string) iter.Seq[string] {
	return func(yield func(string) bool) {
		for line := range strings.Lines(text) {
			if line = strings.TrimSpace(line); line != "" && !yield(line) {
				return
			}
		}
	}
}

// kubectl returns the program.
func kubectl(ctx context.Context, t *testing.T) string {
	t.Helper()
	program, err := servers.Build(ctx, "kubectl")
	if err != nil {
		t.Fatal(err)
	}
	return program
}

// statefulSet is what these tests look at.
type statefulSet struct {
	Kind string
	Spec struct {
		Template struct {
			Metadata map[string]any
			Spec     map[string]any
		}
	}
}

// rendered is the StatefulSet of the overlay.
func rendered(t *testing.T, program string) statefulSet {
	t.Helper()
	d := yaml.NewDecoder(strings.NewReader(run(t, "", program, "kustomize", overlay)))
	for {
		var s statefulSet
		if err := d.Decode(&s); err != nil {
			t.Fatalf("the overlay has no StatefulSet: %v", err)
		}
		if s.Kind == "StatefulSet" {
			return s
		}
	}
}

// What docs/install.md says to do, on a real API server: each object is taken, with every
// field known, in a namespace that enforces the standard "restricted".
func TestAClusterTakesTheOverlayAsTheDocsSay(t *testing.T) {
	ctx := slow(t)
	program := kubectl(ctx, t)
	kube, err := servers.StartKube(ctx, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(kube.Stop)
	dir := t.TempDir()
	certificate(t, dir, "pawl.pawl.svc")
	if err := os.Symlink(absolute(t, "../../deploy"), filepath.Join(dir, "deploy")); err != nil {
		t.Fatal(err)
	}
	env := []string{"KUBECONFIG=" + kube.Kubeconfig, "PATH=" + filepath.Dir(program) + ":" + os.Getenv("PATH"), "HOME=" + dir}
	out := shell(t, dir, blocks(t, "../../docs/install.md", "sh kubernetes"), env...)
	for _, want := range []string{"statefulset.apps/pawl created", "networkpolicy.networking.k8s.io/pawl created", "poddisruptionbudget.policy/pawl created", "role.rbac.authorization.k8s.io/pawl created"} {
		if !strings.Contains(out, want) {
			t.Errorf("the output lacks %q:\n%s", want, out)
		}
	}
	t.Run("no field is unknown to it", func(t *testing.T) {
		out := shell(t, dir, "kubectl apply --dry-run=server --validate=strict -k deploy/kustomize/overlays/example 2>&1", env...)
		if strings.Contains(out, "Warning") {
			t.Errorf("it warns:\n%s", out)
		}
	})
	t.Run("the pod may run there", func(t *testing.T) {
		pod := map[string]any{"apiVersion": "v1", "kind": "Pod", "metadata": map[string]any{"name": "pawl-0", "namespace": "pawl"}}
		spec := rendered(t, program).Spec.Template.Spec
		spec["volumes"] = append(spec["volumes"].([]any), map[string]any{"name": "state", "emptyDir": map[string]any{}})
		pod["spec"] = spec
		text, err := yaml.Marshal(pod)
		if err != nil {
			t.Fatal(err)
		}
		create := "kubectl create --dry-run=server --validate=strict -f pod.yaml"
		write(t, filepath.Join(dir, "pod.yaml"), string(text))
		shell(t, dir, create, env...)
		delete(spec, "securityContext") // else the namespace would enforce nothing
		if text, err = yaml.Marshal(pod); err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(dir, "pod.yaml"), string(text))
		cmd := exec.CommandContext(ctx, "bash", "-c", create)
		cmd.Dir, cmd.Env = dir, append(os.Environ(), env...)
		if out, err := cmd.CombinedOutput(); err == nil || !strings.Contains(string(out), `violates PodSecurity "restricted`) {
			t.Errorf("a pod that might be root: %v\n%s", err, out)
		}
	})
	t.Run("it may do what its sink needs, and nothing else", func(t *testing.T) {
		for _, c := range []struct{ ask, want string }{
			{"get configmaps -n apps", "yes"}, {"create configmaps -n apps", "yes"}, {"patch configmaps -n apps", "yes"}, {"delete configmaps -n apps", "yes"},
			{"list configmaps -n apps", "no"}, {"get secrets -n apps", "no"}, {"create pods -n apps", "no"},
			{"get configmaps -n default", "no"}, {"get configmaps -n pawl", "no"}, {"get secrets -n pawl", "no"}, {"'*' '*' -A", "no"},
		} {
			out := shell(t, dir, "kubectl auth can-i "+c.ask+" --as=system:serviceaccount:pawl:pawl 2>/dev/null || true", env...)
			if strings.TrimSpace(out) != c.want {
				t.Errorf("may it %s? %s", c.ask, out)
			}
		}
	})
}

// The released program takes the overlay's configuration together with the variables of
// the pod, and has the files where the pod mounts them.
func TestTheProgramTakesWhatThePodGivesIt(t *testing.T) {
	ctx := slow(t)
	spec := rendered(t, kubectl(ctx, t)).Spec.Template.Spec
	container := spec["containers"].([]any)[0].(map[string]any)
	mounts := map[string]bool{}
	for _, m := range container["volumeMounts"].([]any) {
		mounts[m.(map[string]any)["mountPath"].(string)] = true
	}
	cmd := exec.CommandContext(ctx, filepath.Join(unpacked(t), "pawl"), "config", "check", "--file-only", filepath.Join(overlay, "pawl.yaml"))
	for _, v := range container["env"].([]any) {
		name, value := v.(map[string]any)["name"].(string), v.(map[string]any)["value"].(string)
		cmd.Env = append(cmd.Env, name+"="+value)
		if strings.HasPrefix(value, "/") && !mounts[filepath.Dir(value)] {
			t.Errorf("%s is %s, and nothing is mounted there: %v", name, value, mounts)
		}
	}
	cmd.Env = append(cmd.Env, "HOME=/")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	if len(cmd.Env) < 6 {
		t.Errorf("the pod sets %v alone", cmd.Env)
	}
}

// certificate writes tls.crt, tls.key and ca.crt, of an authority of its own.
func certificate(t *testing.T, dir, name string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, DNSNames: []string{name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	crt := string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
	write(t, filepath.Join(dir, "tls.crt"), crt)
	write(t, filepath.Join(dir, "ca.crt"), crt)
	write(t, filepath.Join(dir, "tls.key"), string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private})))
}

// The component for the operator of Prometheus looks for what the base has: kubectl can't
// say, since the cluster of these tests does not know the operator's kinds.
func TestTheOperatorFindsTheServiceOfTheBase(t *testing.T) {
	program := kubectl(slow(t), t)
	dir := t.TempDir()
	var text strings.Builder
	for section, path := range map[string]string{"resources": "base", "components": "components/prometheus-operator"} {
		relative, err := filepath.Rel(dir, absolute(t, filepath.Join("../../deploy/kustomize", path)))
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&text, "%s: [%q]\n", section, relative)
	}
	write(t, filepath.Join(dir, "kustomization.yaml"), text.String())
	type object struct {
		Kind     string
		Metadata struct {
			Namespace string
			Labels    map[string]string
		}
		Spec struct {
			Ports     []struct{ Name string }
			Selector  map[string]any
			Endpoints []struct{ Port string }
			Groups    []struct{ Rules []alert }
		}
	}
	found := map[string]object{}
	for d := yaml.NewDecoder(strings.NewReader(run(t, "", program, "kustomize", dir))); ; {
		var o object
		if err := d.Decode(&o); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		found[o.Kind] = o
	}
	service, monitor, rules := found["Service"], found["ServiceMonitor"], found["PrometheusRule"]
	for _, o := range []object{service, monitor, rules} {
		if o.Metadata.Namespace != "pawl" {
			t.Errorf("the %s is in namespace %q", o.Kind, o.Metadata.Namespace)
		}
	}
	labels, _ := monitor.Spec.Selector["matchLabels"].(map[string]any)
	for name, value := range labels {
		if service.Metadata.Labels[name] != value {
			t.Errorf("it looks for %s=%v, and the Service has %v", name, value, service.Metadata.Labels)
		}
	}
	if len(labels) == 0 || len(monitor.Spec.Endpoints) != 1 || len(service.Spec.Ports) != 1 || monitor.Spec.Endpoints[0].Port != service.Spec.Ports[0].Name {
		t.Errorf("it scrapes %+v of a Service with %+v", monitor.Spec, service.Spec.Ports)
	}
	if len(rules.Spec.Groups) != 1 || len(rules.Spec.Groups[0].Rules) != len(alerts(t)) {
		t.Errorf("it has %d groups", len(rules.Spec.Groups))
	}
}
