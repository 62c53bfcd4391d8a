package main

import (
	"context"
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/pawlsync/pawl/internal/bubble"
	"github.com/pawlsync/pawl/test/e2e/servers"
)

// example gives the servers time to be built the first time, and returns the
// program pawl and a copy of the example's folder.
func example(t *testing.T) (ctx context.Context, pawl, dir string) {
	t.Helper()
	if testing.Short() {
		t.Skip("real servers are slow to build and to start")
	}
	for _, name := range []string{"kube", "spicedb"} {
		_, err := os.Stat(filepath.Join("..", "..", "..", "internal", "bundled", "plugins", name+".wasm"))
		switch {
		case err != nil && os.Getenv("REQUIRE_PLUGINS") == "1":
			t.Fatal(err)
		case err != nil:
			t.Skipf("the %s plugin is not built; run: make plugins", name)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Minute)
	t.Cleanup(cancel)
	pawl, dir = filepath.Join(t.TempDir(), "pawl"), t.TempDir()
	build := exec.CommandContext(ctx, "go", "build", "-o", pawl, "../../../cmd/pawl")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, name := range []string{"pawl.yaml", "schema.zed", "README.md", "resources/cluster.yaml", "resources/permissions.yaml"} {
		content, err := os.ReadFile(filepath.Join("..", name))
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, content, 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	return ctx, pawl, dir
}

func TestTheDemoArrives(t *testing.T) {
	ctx, pawl, dir := example(t)
	d := &demo{pawl: pawl, dir: dir}
	if err := d.run(ctx); err != nil {
		log, _ := os.ReadFile(filepath.Join(dir, ".demo", "run", "daemon.log"))
		t.Fatalf("%v\n%s", err, log)
	}
}

// What the demo goes by must not take one thing for another.
func TestMissing(t *testing.T) {
	got := map[string]any{"data": map[string]any{"a": "1", "b": "2"}, "metadata": map[string]any{"uid": "x"}}
	for _, c := range []struct {
		want map[string]any
		at   string
	}{
		{map[string]any{"data": map[string]any{"a": "1"}}, ""},
		{map[string]any{"data": map[string]any{"a": "2"}}, "/data/a"},
		{map[string]any{"data": map[string]any{"c": nil}}, "/data/c"},
		{map[string]any{"data": map[string]any{"a": map[string]any{}}}, "/data/a"},
		{map[string]any{"data": "1"}, "/data"},
	} {
		if at := missing(got, c.want, ""); at != c.at {
			t.Errorf("%v: differs at %q, want %q", c.want, at, c.at)
		}
	}
}

// Who waits for minutes is told so, and who does not is not.
func TestBuildsAreToldWhenTheyAreSlow(t *testing.T) {
	for _, c := range []struct {
		takes time.Duration
		want  []string // in each line
	}{
		{time.Second / 2, nil},
		{40 * time.Second, []string{"Building etcd", "after 16s", "after 31s", "is built, in 40s"}},
	} {
		bubble.Test(t, func(t *testing.T) {
			var said strings.Builder
			err := told(&said, "etcd", func() error { time.Sleep(c.takes); return nil })
			lines := slices.Collect(strings.Lines(said.String()))
			if err != nil || len(lines) != len(c.want) {
				t.Fatalf("a build of %s: %v, told as %q", c.takes, err, lines)
			}
			for i, want := range c.want {
				if !strings.Contains(lines[i], want) {
					t.Errorf("line %d is %q, want %q in it", i, lines[i], want)
				}
			}
		})
	}
}

var shell = regexp.MustCompile("(?ms)^```sh\\n(.*?)^```$")

// script is the README's commands from its third step on: those before it build
// pawl and name the servers, which the test does.
func script(t *testing.T, dir string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, steps, found := strings.Cut(string(text), "\n## 3. ")
	if !found {
		t.Fatal("the README has no third step")
	}
	s := "set -eu\n"
	for _, m := range shell.FindAllStringSubmatch(steps, -1) {
		if strings.HasPrefix(m[1], "docker ") {
			continue // ends what the second step started
		}
		s += m[1]
	}
	return s
}

func TestTheReadmeWordForWord(t *testing.T) {
	ctx, pawl, dir := example(t)
	for _, tool := range []string{"bash", "kubectl", "curl", "jq"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skip(err)
		}
	}
	state := filepath.Join(dir, ".demo")
	if err := os.Mkdir(state, 0o755); err != nil {
		t.Fatal(err)
	}
	kube, err := servers.StartKube(ctx, state)
	if err != nil {
		t.Fatal(err)
	}
	defer kube.Stop()
	db, err := servers.StartSpiceDB(ctx, state)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Stop()
	l, err := net.Listen("tcp", "127.0.0.1:0") // the usual port may be taken
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}

	cmd := exec.CommandContext(ctx, "bash", "-c", script(t, dir))
	cmd.Dir = dir
	cmd.Env = append(environment(), "PATH="+filepath.Dir(pawl)+":"+os.Getenv("PATH"),
		"KUBECONFIG="+kube.Kubeconfig, "KUBECACHEDIR="+filepath.Join(state, "kubectl"), "SPICEDB_HTTP="+db.HTTP, "SPICEDB_KEY="+db.Key,
		"PAWL_UPSTREAMS_SPICEDB_BASE_URL=http://"+db.Address, "PAWL_SERVER_LISTEN="+address, "PAWL_ADDRESS=http://"+address)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // with the daemon, which it leaves where it fails
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	out, err := os.Create(filepath.Join(state, "said")) // a pipe would be held open by the daemon
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	cmd.Stdout, cmd.Stderr = out, out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }()
	ending, stop := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() { // as a cluster's controller manager
		defer close(ended)
		_ = (&cluster{Kube: kube}).endNamespaces(ending)
	}()
	err = cmd.Wait()
	stop()
	<-ended
	said, _ := os.ReadFile(out.Name())
	if err != nil {
		log, _ := os.ReadFile(filepath.Join(state, "pawl.log"))
		t.Fatalf("%v\n%s\n%s", err, said, log)
	}
	// What the text promises, in the order in which it does.
	rest := string(said)
	for _, want := range []string{
		"4 of 4 resources acknowledged",
		`"roses":"every second day"`,
		"HAS_PERMISSION\nPERMISSIONSHIP_NO_PERMISSION\n",
		"configmap/watering patched",
		`"writtenAt"`,
		`"roses":"every second day"`,
		"HAS_PERMISSION\nPERMISSIONSHIP_NO_PERMISSION\n",
		"Acked",
		": Committed\n",
		"orchard   Active",
		"\nPERMISSIONSHIP_HAS_PERMISSION\n",
		"namespace/meadow created\n",
		"saga make-meadow: RolledBack\n",
		"nothing of saga make-meadow is left: step 2 (create cluster/v1/Namespace/meadow): already-exists: it exists already\nexit code 6\n",
		"meadow   Active",
		"\nPERMISSIONSHIP_NO_PERMISSION\n",
		"Saga make-meadow", "rolled back", "undone", "refused",
		": Committed\nPERMISSIONSHIP_NO_PERMISSION\n",
		`namespace "meadow" deleted`,
		"4 of 4 resources gone\nPERMISSIONSHIP_NO_PERMISSION\n",
	} {
		_, after, found := strings.Cut(rest, want)
		if !found {
			t.Fatalf("after all before it, the output lacks %q:\n%s", want, said)
		}
		rest = after
	}
}
