package e2e

import (
	"context"
	"encoding/json"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/pawlsync/pawl/internal/buildcache"
	"github.com/pawlsync/pawl/test/e2e/servers"
)

const composeExample = "../../examples/kube-spicedb"

// composed is what the parser of the Compose Specification makes of a file.
type composed struct {
	Services map[string]service
}

type service struct {
	Image, Command string
	Environment    map[string]string
	Healthcheck    struct{ Test []string }
	Ports          []struct {
		HostIP    string `json:"host_ip"`
		Published string
		Target    int
	}
	Volumes []struct{ Source, Target string }
}

// target is the port in the container behind one of the host, 0 where there is none.
func (s *service) target(published string) int {
	for _, p := range s.Ports {
		if p.Published == published {
			return p.Target
		}
	}
	return 0
}

// TestTheExamplesComposeFile holds compose.yaml of the example to what can be known of it
// without a container engine: the specification, pawl.yaml and README.md, and the real SpiceDB.
func TestTheExamplesComposeFile(t *testing.T) {
	if testing.Short() {
		t.Skip("builds the parser and SpiceDB the first time")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Minute)
	defer cancel()
	c := parseCompose(t, ctx)
	version := regexp.MustCompile(`:v\d+\.\d+\.\d+(-\w+)?$`)
	for name, s := range c.Services {
		if !version.MatchString(s.Image) {
			t.Errorf("%s: the image %s is not one version's", name, s.Image)
		}
		if len(s.Healthcheck.Test) < 2 {
			t.Errorf("%s has no health check, for which `up --wait` waits", name)
		}
		for _, p := range s.Ports {
			if p.HostIP != "127.0.0.1" {
				t.Errorf("%s: the port %s is open to %q", name, p.Published, p.HostIP)
			}
		}
	}
	t.Run("it is what the daemon and the README go by", func(t *testing.T) { heldToTheExample(t, c) })
	t.Run("SpiceDB starts by its command", func(t *testing.T) { startedAsComposed(t, ctx, c.Services["spicedb"]) })
}

func parseCompose(t *testing.T, ctx context.Context) *composed {
	t.Helper()
	parser, err := buildcache.Tool(ctx, filepath.Join("tools", "compose"), "github.com/compose-spec/compose-go/v2/cmd")
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(ctx, parser, "--format", "json", "compose.yaml")
	cmd.Dir = composeExample
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil || stderr.Len() > 0 {
		t.Fatalf("%v %s", err, &stderr)
	}
	c := &composed{}
	if err := json.Unmarshal(out, c); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return c
}

// heldToTheExample compares ports, keys and paths with those of the files beside it.
func heldToTheExample(t *testing.T, c *composed) {
	cluster, spicedb := c.Services["cluster"], c.Services["spicedb"]
	var config struct {
		Upstreams struct {
			Cluster struct{ Kubernetes struct{ Kubeconfig string } }
			Spicedb struct {
				BaseURL string `yaml:"base_url"`
			}
		}
	}
	if err := yaml.Unmarshal([]byte(read(t, "pawl.yaml")), &config); err != nil {
		t.Fatal(err)
	}
	readme := read(t, "README.md")
	said := func(pattern string) string {
		m := regexp.MustCompile(pattern).FindStringSubmatch(readme)
		if m == nil {
			t.Fatalf("the README does not say %s", pattern)
		}
		return m[1]
	}
	for what, same := range map[string][2]any{
		"the port of gRPC":        {spicedb.target(after(config.Upstreams.Spicedb.BaseURL, "127.0.0.1:")), 50051},
		"the port of the gateway": {spicedb.target(said(`SPICEDB_HTTP=http://127\.0\.0\.1:(\d+) SPICEDB_KEY=example-key`)), 8443},
		"the cluster's port":      {cluster.target("6443"), 6443}, // which is in the kubeconfig that it writes
		"the preshared key":       {spicedb.Environment["SPICEDB_GRPC_PRESHARED_KEY"], said(`SPICEDB_KEY=(example-\S+)`)},
		"the health check's port": {after(spicedb.Healthcheck.Test[len(spicedb.Healthcheck.Test)-1], "-addr=127.0.0.1:"), "50051"},
		"SpiceDB's version":       {after(spicedb.Image, ":"), pinned(t, "spicedb", "github.com/authzed/spicedb")},
		"the README's kubeconfig": {said(`KUBECONFIG=\$PWD/(\S+)`), config.Upstreams.Cluster.Kubernetes.Kubeconfig},
	} {
		if same[0] != same[1] {
			t.Errorf("%s: %v and %v", what, same[0], same[1])
		}
	}
	here, err := filepath.Abs(composeExample)
	if err != nil || len(cluster.Volumes) != 1 {
		t.Fatal(err, cluster.Volumes)
	}
	inside := strings.TrimPrefix(cluster.Environment["K3S_KUBECONFIG_OUTPUT"], cluster.Volumes[0].Target)
	if got, want := filepath.Join(cluster.Volumes[0].Source, inside), filepath.Join(here, config.Upstreams.Cluster.Kubernetes.Kubeconfig); got != want {
		t.Errorf("the kubeconfig is written to %s, and read from %s", got, want)
	}
}

// startedAsComposed runs the command of the container as a process, on other ports: those
// that the container has are the program's defaults.
func startedAsComposed(t *testing.T, ctx context.Context, s service) {
	program, err := servers.Build(ctx, "spicedb")
	if err != nil {
		t.Fatal(err)
	}
	help, err := exec.CommandContext(ctx, program, "serve", "--help").CombinedOutput()
	for _, port := range []string{`--grpc-addr .*":50051"`, `--http-addr .*":8443"`} {
		if err != nil || !regexp.MustCompile(port).Match(help) {
			t.Errorf("%v: the ports are not SpiceDB's defaults: %s", err, port)
		}
	}
	if strings.ContainsAny(s.Command, `'"\$`) {
		t.Fatalf("a shell's notation, which this test does not know: %s", s.Command)
	}
	ports := freePorts(t, 3)
	z := &zed{&servers.SpiceDB{Address: ports[0], HTTP: "http://" + ports[1], Key: s.Environment["SPICEDB_GRPC_PRESHARED_KEY"]}}
	cmd := exec.CommandContext(t.Context(), program, append(strings.Fields(s.Command),
		"--grpc-addr", ports[0], "--http-addr", ports[1], "--metrics-addr", ports[2])...)
	cmd.Env = os.Environ()
	for name, value := range s.Environment {
		cmd.Env = append(cmd.Env, name+"="+value)
	}
	cmd.Stdout, cmd.Stderr = t.Output(), t.Output()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	defer func() {
		_ = cmd.Process.Kill()
		<-ended
	}()
	eventually(t, "SpiceDB answers", func() bool {
		select {
		case err := <-ended:
			ended <- err
			t.Fatalf("SpiceDB ended: %v", err)
		default:
		}
		status, _ := z.status(t, http.MethodGet, "/healthz", z.Key)
		return status == http.StatusOK
	})
	z.post(t, "/v1/schema/write", map[string]any{"schema": read(t, "schema.zed")})
	z.write(t, "TOUCH", "configmap:garden/watering#owner@user:anne")
	z.expect(t, "configmap:garden/watering", "configmap:garden/watering#owner@user:anne")
	if status, err := z.status(t, http.MethodPost, "/v1/schema/read", "not-"+z.Key); status != http.StatusForbidden {
		t.Errorf("another key is answered with %d, %v", status, err)
	}
}

// status is how the gateway answers an empty request with a key.
func (z *zed) status(t *testing.T, method, path, key string) (int, error) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, z.HTTP+path, strings.NewReader("{}"))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+key)
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, err
	}
	return res.StatusCode, res.Body.Close()
}

// freePorts returns n addresses of the loopback interface that nobody listens on.
func freePorts(t *testing.T, n int) (addresses []string) {
	t.Helper()
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close() // all are held until the last is known, so that they differ
		addresses = append(addresses, l.Addr().String())
	}
	return addresses
}

// read returns a file of the example.
func read(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(composeExample, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// after is what follows sep in s, "" where it is not there.
func after(s, sep string) string {
	_, rest, _ := strings.Cut(s, sep)
	return rest
}

// pinned is the version of a module that the tests build of a server.
func pinned(t *testing.T, tool, module string) string {
	t.Helper()
	mod, err := os.ReadFile(filepath.Join("tools", tool, "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	words := strings.Fields(string(mod))
	i := slices.Index(words, module)
	if i < 0 {
		t.Fatalf("tools/%s does not build %s", tool, module)
	}
	return words[i+1]
}
