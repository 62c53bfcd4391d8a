package e2e

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pawlsync/pawl/internal/api"
	"github.com/pawlsync/pawl/test/e2e/servers"
	"github.com/pawlsync/pawl/test/ops/kit"
)

// stage is a cluster with the CRD, and the programs that play on it.
type stage struct {
	*cluster
	bin string // folder of the programs pawl and target
}

const crdFile = "../../deploy/crds/pawl.dev_statesyncs.yaml"

// newStage starts an API server, builds the programs, and installs the CRD.
func newStage(t *testing.T) *stage {
	t.Helper()
	if testing.Short() {
		t.Skip("real servers are slow to build and to start")
	}
	if _, err := exec.LookPath("kubectl"); err != nil {
		t.Skip("kubectl is not installed")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Minute)
	defer cancel()
	s := &stage{bin: filepath.Dir(kit.Pawl(t))}
	kit.Build(t, "target", "./examples/quickstart/target")
	k, err := servers.StartKube(ctx, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(k.Stop)
	s.cluster = &cluster{Kube: k}
	s.install(t, crdFile)
	return s
}

// install applies a CRD and waits until it is served, which is later than it says so.
func (s *stage) install(t *testing.T, file string) {
	t.Helper()
	s.kubectl(t, "apply", "-f", file)
	s.kubectl(t, "wait", "--for=condition=Established", "crd/statesyncs.pawl.dev", "--timeout=60s")
	eventually(t, "StateSyncs are served", func() bool {
		status, _ := s.call(t, http.MethodGet, "/apis/pawl.dev/v1alpha1/statesyncs", "", "")
		return status == http.StatusOK
	})
}

// kubectl runs kubectl as the administrator and returns what it prints.
func (s *stage) kubectl(t *testing.T, args ...string) string {
	t.Helper()
	out, err := s.tryKubectl(t, args...)
	if err != nil {
		t.Fatalf("kubectl %q: %v\n%s", args, err, out)
	}
	return out
}

func (s *stage) tryKubectl(t *testing.T, args ...string) (string, error) {
	cmd := exec.CommandContext(t.Context(), "kubectl", append([]string{"--kubeconfig", s.Kubeconfig}, args...)...)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// shop is the quick start's target, running.
type shop struct{ url string }

func (s *stage) shop(t *testing.T) *shop {
	t.Helper()
	cmd := exec.Command(filepath.Join(s.bin, "target"), "-listen", "127.0.0.1:0", "-dir", t.TempDir())
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(line, "listening on ")
	address, _, _ := strings.Cut(rest, ",")
	return &shop{address}
}

// mode makes the target answer, or fail: ok, refuse, error500.
func (s *shop) mode(t *testing.T, mode string) {
	t.Helper()
	res, err := http.Post(s.url+"/control", "application/json", strings.NewReader(`{"mode":"`+mode+`"}`))
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
}

// object returns what the target has under a key; "" is nothing.
func (s *shop) object(t *testing.T, key string) string {
	t.Helper()
	res, err := http.Get(s.url + "/objects/" + url.PathEscape(key))
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	body, _ := io.ReadAll(res.Body)
	if res.StatusCode == http.StatusNotFound {
		return ""
	}
	if res.StatusCode != http.StatusOK {
		t.Fatalf("GET %s: %s: %s", key, res.Status, body)
	}
	return string(body)
}

// shopStats is what the target counts.
type shopStats struct {
	Objects int `json:"objects"`
	Keys    map[string]struct {
		Gets int `json:"gets"`
		Puts int `json:"puts"`
	} `json:"keys"`
}

func (s *shop) stats(t *testing.T) (out shopStats) {
	t.Helper()
	res, err := http.Get(s.url + "/control/stats")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if err := json.NewDecoder(res.Body).Decode(&out); err != nil {
		t.Fatal(err)
	}
	return out
}

// count is how many objects the target has.
func (s *shop) count(t *testing.T) int {
	t.Helper()
	return s.stats(t).Objects
}

// requests is how often an object was asked for or put.
func (s *shop) requests(t *testing.T, key string) int {
	t.Helper()
	k := s.stats(t).Keys[key]
	return k.Gets + k.Puts
}

// keeper is a daemon that can be killed and started again.
type keeper struct {
	program
	config string
	log    string
	cmd    *exec.Cmd
}

// keeper runs pawl with sources, in YAML, and the sink web at a shop, which looks often
// whether all is as desired.
func (s *stage) keeper(t *testing.T, at *shop, sources string) *keeper {
	t.Helper()
	return s.keeperThatLooks(t, "1s", at, sources)
}

func (s *stage) keeperThatLooks(t *testing.T, every string, at *shop, sources string) *keeper {
	t.Helper()
	dir := t.TempDir()
	k := &keeper{program: program{dir: dir, pawl: filepath.Join(s.bin, "pawl"), socket: filepath.Join(dir, "pawl.sock")}, log: filepath.Join(dir, "log")}
	k.config = k.file(t, "pawl.yaml", fmt.Sprintf(`
store: {path: %q, reserve_bytes: 64MiB}
server: {listen: "127.0.0.1:0", socket: %q}
wasm: {cache_dir: %q}
upstreams: {shop: {base_url: %q}}
sinks:
  web:
    plugin: http
    upstreams: [shop]
    config: {path: "/objects/{key}"}
    drift_interval: %s
    poll_interval: %s
    startup_check: false
    retry: {base: 100ms, max: 1s}
    breaker: {probe_base: 100ms, probe_max: 500ms}
sources:
`, filepath.Join(dir, "store"), k.socket, filepath.Join(s.bin, "wasm"), at.url, every, every)+sources)
	k.start(t)
	t.Cleanup(func() {
		k.kill(t, os.Interrupt)
		if out, _ := os.ReadFile(k.log); t.Failed() {
			t.Logf("%s", out)
		}
	})
	return k
}

// statesync is a source of the StateSyncs of one namespace.
func (s *stage) statesync(ns, more string) string {
	return fmt.Sprintf("  team: {statesync: {kubernetes: {kubeconfig: %q}, namespaces: [%s]}%s}\n", s.Kubeconfig, ns, more)
}

func (k *keeper) start(t *testing.T) {
	t.Helper()
	log, err := os.OpenFile(k.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	_ = os.Remove(k.socket)
	k.cmd = exec.Command(k.pawl, "run", "--config", k.config)
	k.cmd.Stdout, k.cmd.Stderr = log, log
	if err := k.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the daemon listens", func() bool { _, err := os.Stat(k.socket); return err == nil })
}

// kill ends the daemon by a signal.
func (k *keeper) kill(t *testing.T, sig os.Signal) {
	t.Helper()
	_ = k.cmd.Process.Signal(sig)
	_ = k.cmd.Wait()
}

const syncsPath = "/apis/pawl.dev/v1alpha1/namespaces/"

func syncPath(ns, name string) string { return syncsPath + ns + "/statesyncs/" + name }

// sync is a StateSync with that spec, in JSON without its braces.
func syncBody(ns, name, spec string) string {
	return fmt.Sprintf(`{"apiVersion":"pawl.dev/v1alpha1","kind":"StateSync","metadata":{"namespace":%q,"name":%q},"spec":{%s}}`, ns, name, spec)
}

func (s *stage) sync(t *testing.T, ns, name, spec string) {
	t.Helper()
	s.create(t, syncsPath+ns+"/statesyncs", syncBody(ns, name, spec))
}

// wait waits as a user does, with kubectl: condition is "Acked", or "Acked=False".
func (s *stage) wait(t *testing.T, ns, name, condition string) {
	t.Helper()
	out, err := s.tryKubectl(t, "-n", ns, "wait", "--for=condition="+condition, "statesync/"+name, "--timeout=90s")
	if err != nil {
		shown, _ := s.tryKubectl(t, "-n", ns, "get", "statesync", name, "-o", "yaml")
		t.Fatalf("%s is not %s: %s\n%s", name, condition, out, shown)
	}
}

// condition returns one condition of an object; nil: it has none of that type.
func (o object) condition(kind string) object {
	list, _ := o.at("status", "conditions").([]any)
	for _, item := range list {
		if c := object(item.(map[string]any)); c["type"] == kind {
			return c
		}
	}
	return nil
}

func (s *stage) eventuallyGone(t *testing.T, path string) {
	t.Helper()
	eventually(t, path+" is gone", func() bool { return !s.exists(t, path) })
}

// jsonEqual compares two texts as JSON.
func jsonEqual(a, b string) bool {
	var x, y bytes.Buffer
	if json.Compact(&x, []byte(a)) != nil || json.Compact(&y, []byte(b)) != nil {
		return a == b
	}
	return x.String() == y.String()
}

// has checks what the target has under a key; "" is nothing.
func (s *shop) has(t *testing.T, key, want string) {
	t.Helper()
	if got := s.object(t, key); !jsonEqual(got, want) {
		t.Fatalf("the target has %q under %s, want %q", got, key, want)
	}
}

// put changes an object behind pawl's back.
func (s *shop) put(t *testing.T, key, body string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPut, s.url+"/objects/"+url.PathEscape(key), strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	if res.StatusCode > 299 {
		t.Fatalf("PUT %s: %s", key, res.Status)
	}
}

// call sends a request to the daemon's API and decodes the answer into out, unless
// that is nil.
func (k *keeper) call(t *testing.T, method, path, body string, out any) {
	t.Helper()
	c := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", k.socket)
	}}}
	req, err := http.NewRequestWithContext(t.Context(), method, "http://pawl/v1/sources"+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	res, err := c.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	answer, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode > 299 {
		t.Fatalf("%s %s: %s: %v: %s", method, path, res.Status, err, answer)
	}
	if out != nil {
		if err := json.Unmarshal(answer, out); err != nil {
			t.Fatal(err)
		}
	}
}

// source is what the daemon says of a source.
func (k *keeper) source(t *testing.T, name string) (out api.Source) {
	t.Helper()
	k.call(t, http.MethodGet, "/"+name, "", &out)
	return out
}

// rescan has a source tell all, and waits until it has.
func (k *keeper) rescan(t *testing.T, name string) {
	t.Helper()
	before := k.source(t, name).FullAt
	k.call(t, http.MethodPost, "/"+name+"/rescan", "", nil)
	eventually(t, name+" tells all", func() bool { return k.source(t, name).FullAt.After(before) })
}

// confirm lets go what the fuse holds: n deletions.
func (k *keeper) confirm(t *testing.T, name string, n int) {
	t.Helper()
	var held struct {
		Total  int
		Digest string
	}
	eventually(t, fmt.Sprintf("%d deletions are held", n), func() bool {
		k.call(t, http.MethodGet, "/"+name+"/held", "", &held)
		return held.Total == n
	})
	k.call(t, http.MethodPost, "/"+name+"/confirm", fmt.Sprintf(`{"digest":%q}`, held.Digest), nil)
}
