// Package deploy tests what is in deploy, with the programs that read it there: the
// release that is built, systemd's tools, the image, a Kubernetes API server, and
// Prometheus. It has no code of its own.
package deploy

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/pawlsync/pawl/internal/bundled"
	"github.com/pawlsync/pawl/test/e2e/servers"
)

// version is what the release of the tests is called.
const version = "v0.0.0-test"

// stamps tell the release of the tests what it is.
var stamps = []string{"VERSION=" + version, "COMMIT=0123456789abcdef0123456789abcdef01234567", "DATE=2026-01-02T03:04:05Z"}

// platform is this machine's, as file names of a release have it.
var platform = runtime.GOOS + "-" + runtime.GOARCH

// build is the release of this machine's platform, built once.
var build struct {
	once sync.Once
	dir  string // with what build.sh makes
	err  error
}

func TestMain(m *testing.M) {
	code := m.Run()
	if build.dir != "" {
		_ = os.RemoveAll(build.dir)
	}
	os.Exit(code)
}

// slow leaves a test out of the quick ones, and bounds it.
func slow(t *testing.T) context.Context {
	t.Helper()
	if testing.Short() {
		t.Skip("builds a release, and real servers the first time")
	}
	for _, name := range []string{"http", "kube", "spicedb"} {
		if _, err := bundled.Plugin(name); err != nil {
			if os.Getenv("REQUIRE_PLUGINS") == "1" {
				t.Fatal(err)
			}
			t.Skip(err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 40*time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// release returns the folder with a release of this machine's platform.
func release(t *testing.T) string {
	t.Helper()
	ctx := slow(t)
	build.once.Do(func() {
		if build.dir, build.err = os.MkdirTemp("", "pawl-release-"); build.err == nil {
			build.err = buildRelease(ctx, build.dir, runtime.GOOS+"/"+runtime.GOARCH)
		}
	})
	if build.err != nil {
		t.Fatal(build.err)
	}
	return build.dir
}

// buildRelease runs build.sh as `make release` does.
func buildRelease(ctx context.Context, dir string, platforms ...string) error {
	sbom, err := servers.Build(ctx, "cyclonedx-gomod")
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, "../../deploy/release/build.sh", append([]string{dir}, platforms...)...)
	cmd.Env = append(append(os.Environ(), "SBOM="+sbom), stamps...)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w\n%s", cmd, err, out)
	}
	return nil
}

// unpacked returns the folder that the release's archive holds.
func unpacked(t *testing.T) string {
	t.Helper()
	dir, name := t.TempDir(), "pawl-"+version+"-"+platform
	run(t, "", "tar", "-xzf", filepath.Join(release(t), name+".tar.gz"), "-C", dir)
	return filepath.Join(dir, name)
}

// run runs a program in dir and returns what it prints.
func run(t *testing.T, dir, program string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), program, args...)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", cmd, err, out)
	}
	return string(out)
}

func write(t *testing.T, path, content string) string {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func read(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// program is the released program, running as a daemon.
type program struct {
	pawl    string // its file
	cmd     *exec.Cmd
	address string
	log     *bufio.Scanner
}

// start runs the released program with a configuration until the test ends, and
// returns when it is ready.
func start(t *testing.T, config string, env ...string) *program {
	t.Helper()
	dir := t.TempDir()
	p := &program{pawl: filepath.Join(unpacked(t), "pawl")}
	p.cmd = exec.Command(p.pawl, "run", "--config", write(t, filepath.Join(dir, "pawl.yaml"), config))
	p.cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir}, env...)
	stderr, err := p.cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	p.log = bufio.NewScanner(stderr)
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.cmd.Process.Kill() })
	_, after, _ := strings.Cut(p.until(t, `"msg":"ready"`), `"address":"`)
	p.address, _, _ = strings.Cut(after, `"`)
	return p
}

// until reads the log up to a line that holds part, and returns it.
func (p *program) until(t *testing.T, part string) string {
	t.Helper()
	var seen []string
	for p.log.Scan() {
		if seen = append(seen, p.log.Text()); strings.Contains(p.log.Text(), part) {
			return p.log.Text()
		}
	}
	t.Fatalf("the log ended without %s:\n%s", part, strings.Join(seen, "\n"))
	return ""
}

// stop ends the daemon in good order.
func (p *program) stop(t *testing.T) {
	t.Helper()
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	p.until(t, `"msg":"stopped"`)
	if err := p.cmd.Wait(); err != nil {
		t.Errorf("the daemon ended with %v", err)
	}
}

// freePort returns the address of a port that nobody listens at.
func freePort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}
