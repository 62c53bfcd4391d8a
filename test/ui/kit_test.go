package ui

import (
	"bufio"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/pawlsync/pawl/internal/bundled"
)

// patience is how long anything may take that has no reason to take long. It is no
// claim, but the end of a test that hangs.
const patience = 2 * time.Minute

// browser returns Chromium's path, and the folder with the modules that drive it, which
// is made where it is not there.
func browser(t *testing.T) (chromium, modules string) {
	t.Helper()
	if testing.Short() {
		t.Skip("builds a daemon and starts a browser")
	}
	for _, program := range []string{"node", "npm"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("%v: the page can't be tested without (apt-get install nodejs npm)", err)
		}
	}
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			chromium = path
			break
		}
	}
	if chromium == "" {
		t.Skip("there is no Chromium to test the page with (apt-get install chromium)")
	}
	wanted, err := os.ReadFile("package.json")
	must(t, err)
	cache, err := os.UserCacheDir()
	must(t, err)
	sum := sha256.Sum256(wanted)
	modules = filepath.Join(cache, "pawl-test-ui", hex.EncodeToString(sum[:8]))
	if _, err := os.Stat(filepath.Join(modules, "node_modules", "playwright-core")); err == nil {
		return chromium, modules
	}
	must(t, os.MkdirAll(modules, 0o755))
	must(t, os.WriteFile(filepath.Join(modules, "package.json"), wanted, 0o644))
	install := exec.Command("npm", "install", "--ignore-scripts", "--no-audit", "--no-fund", "--no-package-lock")
	install.Dir = modules
	if out, err := install.CombinedOutput(); err != nil {
		t.Skipf("what drives the browser can't be had: %v\n%s", err, out)
	}
	return chromium, modules
}

// programs are the daemon and a target in a folder of their own.
type programs struct{ dir, url, target, token string }

// config has two sinks, one of which nobody answers, and a source.
const config = `
server: {listen: "127.0.0.1:0", socket: SOCKET, ACCESS}
store: {path: store, reserve_bytes: 64MiB}
wasm: {cache_dir: wasm}
upstreams:
  target: {base_url: TARGET}
  nobody: {base_url: "http://127.0.0.1:1"}
sinks:
  web:
    plugin: http
    upstreams: [target]
    config: {path: "/objects/{key}"}
    conflict_policy: report-only
    retry: {base: 1s}
  mirror:
    plugin: http
    upstreams: [nobody]
    config: {path: "/objects/{key}"}
sources:
  manifests:
    dir: {path: manifests}
    deletion_policy: delete
    fuse: {share: 0.1, at_least: 1}
`

// start runs both. With a token, the daemon asks for one, and knows one that may read.
func start(t *testing.T, withToken bool) *programs {
	t.Helper()
	if _, err := bundled.Plugin("http"); err != nil {
		if os.Getenv("REQUIRE_PLUGINS") == "1" {
			t.Fatal(err)
		}
		t.Skip(err)
	}
	p := &programs{dir: t.TempDir()}
	build := exec.Command("go", "build", "-o", p.dir+"/", "../../cmd/pawl", "../../examples/quickstart/target")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	must(t, os.Mkdir(filepath.Join(p.dir, "manifests"), 0o755))
	for _, name := range []string{"attic", "bath", "cellar", "den", "hall", "kitchen"} {
		p.write(t, "manifests/"+name+".yaml", "sink: web\nkey: house/"+name+"/light\npayload: {on: true, level: 5}\n")
	}
	out := p.run(t, "target", "-listen", "127.0.0.1:0", "-dir", filepath.Join(p.dir, "objects"))
	p.target = p.address(t, out, "listening on ")
	access := ""
	if withToken {
		file := filepath.Join(p.dir, "tokens")
		token, err := exec.Command(filepath.Join(p.dir, "pawl"), "token", "new", "--name", "reader", "--scope", "read", "--file", file).Output()
		must(t, err)
		p.token, access = strings.TrimSpace(string(token)), "token_file: "+file
	}
	p.write(t, "pawl.yaml", strings.NewReplacer("TARGET", p.target, "SOCKET", filepath.Join(p.dir, "pawl.sock"), "ACCESS", access).Replace(config))
	p.run(t, "pawl", "run", "-c", filepath.Join(p.dir, "pawl.yaml"))
	p.url = p.address(t, &tail{path: filepath.Join(p.dir, "pawl.log")}, `"address":"`)
	return p
}

// address reads on until a line has an address behind prefix.
func (p *programs) address(t *testing.T, out io.Reader, prefix string) string {
	t.Helper()
	lines := bufio.NewReader(out)
	for end := time.Now().Add(patience); time.Now().Before(end); {
		line, err := lines.ReadString('\n')
		if _, rest, ok := strings.Cut(line, prefix); ok {
			return rest[:strings.IndexAny(rest, "\",")]
		}
		if err != nil && !errors.Is(err, io.EOF) {
			t.Fatal(err)
		}
	}
	t.Fatalf("no line has %s", prefix)
	return ""
}

// tail reads what comes to be written to a file.
type tail struct {
	path string
	file *os.File
}

func (f *tail) Read(b []byte) (int, error) {
	if f.file == nil {
		file, err := os.Open(f.path)
		if err != nil {
			return 0, err
		}
		f.file = file
	}
	return f.file.Read(b)
}

// run runs a program until the test ends, and returns what it prints.
func (p *programs) run(t *testing.T, name string, args ...string) io.Reader {
	t.Helper()
	cmd := exec.Command(filepath.Join(p.dir, name), args...)
	out, err := cmd.StdoutPipe()
	must(t, err)
	log := filepath.Join(p.dir, name+".log")
	cmd.Stderr, err = os.Create(log)
	must(t, err)
	must(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		_ = cmd.Wait()
		if text, err := os.ReadFile(log); err == nil && t.Failed() {
			t.Logf("%s:\n%s", name, text)
		}
	})
	return out
}

func (p *programs) write(t *testing.T, name, text string) {
	t.Helper()
	must(t, os.WriteFile(filepath.Join(p.dir, name), []byte(text), 0o600))
}

// ask sends one request that has to be answered with success.
func ask(t *testing.T, method, url, body string, header ...string) string {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	must(t, err)
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	response, err := http.DefaultClient.Do(r)
	must(t, err)
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	must(t, err)
	if response.StatusCode >= 300 {
		t.Fatalf("%s %s: %s %s", method, url, response.Status, text)
	}
	return string(text)
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
