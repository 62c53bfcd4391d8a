package dir

import (
	"bufio"
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

func TestAChangedFileReachesTheTargetAndABadOneIsToldWithItsLine(t *testing.T) {
	if testing.Short() {
		t.Skip("builds and runs two programs")
	}
	if _, err := bundled.Plugin("http"); err != nil {
		if os.Getenv("REQUIRE_PLUGINS") == "1" {
			t.Fatal(err)
		}
		t.Skip(err)
	}
	p := start(t)
	for name, want := range map[string]string{
		"greeting": `{"text":"Hello, world"}`, "farewell": `{"text":"Good night"}`,
		"house/kitchen/light": `{"on": true, "brightness": 80}`, "house/hall/light": `{"on": false, "brightness": 0}`,
	} {
		p.targetHas(t, name, want)
	}
	p.targetHas(t, "house/garden/light", "") // it is a draft
	if out := p.pawl(t, "plan", "--source", "manifests", "-f", filepath.Join(p.dir, "manifests")); out != "4 resources: 4 unchanged.\n" {
		t.Errorf("the plan of what is there already, without the draft, is\n%s", out)
	}

	p.edit(t, "greeting.yaml", "Hello, world", "Hello, you")
	p.targetHas(t, "greeting", `{"text":"Hello, you"}`)

	p.edit(t, "greeting.yaml", "text: Good night", "text: [")
	p.says(t, "greeting.yaml:9", "web/farewell", "this is no YAML")
	p.edit(t, "house/lights.json", `"brightness": 80`, `"brightness": 20`)
	p.targetHas(t, "house/kitchen/light", `{"on": true, "brightness": 20}`)
	p.targetHas(t, "farewell", `{"text":"Good night"}`)

	p.edit(t, "greeting.yaml", "text: [", "text: Good morning")
	p.targetHas(t, "farewell", `{"text":"Good morning"}`)
	if out := p.pawl(t, "source", "status", "manifests"); strings.Contains(out, "can't be taken") {
		t.Errorf("a mistake that was corrected stands:\n%s", out)
	}
	p.edit(t, "greeting.yaml", "---\nsink: web\nkey: farewell\npayload:\n  text: Good morning\n", "") // what is gone from its file is gone
	p.targetHas(t, "farewell", "")
	p.targetHas(t, "greeting", `{"text":"Hello, you"}`)

	house := filepath.Join(p.dir, "manifests", "house")
	must(t, os.Rename(filepath.Join(p.dir, "manifests", "greeting.yaml"), filepath.Join(house, "greeting.yaml")))
	must(t, os.Rename(house, filepath.Join(p.dir, "house"))) // all at once; what leaves nothing is held,
	p.says(t, "3 deletions", "the source's full set is empty")
	p.targetHas(t, "greeting", `{"text":"Hello, you"}`)
	p.targetHas(t, "house/hall/light", `{"on": false, "brightness": 0}`)
	p.pawl(t, "source", "confirm", "manifests", "--yes") // until somebody says so
	p.targetHas(t, "greeting", "")
	p.targetHas(t, "house/hall/light", "")
}

// programs are the daemon and its target, in a copy of the example.
type programs struct{ dir, bin, socket, url string }

func start(t *testing.T) *programs {
	t.Helper()
	p := &programs{dir: t.TempDir(), bin: t.TempDir()}
	p.socket = filepath.Join(p.bin, "pawl.sock")
	build := exec.Command("go", "build", "-o", p.bin+"/", "../../cmd/pawl", "../../examples/quickstart/target")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	must(t, os.CopyFS(p.dir, os.DirFS("../../examples/sources/dir")))
	out := p.run(t, "target", "-listen", "127.0.0.1:0", "-dir", t.TempDir())
	line, err := bufio.NewReader(out).ReadString('\n')
	must(t, err)
	_, rest, _ := strings.Cut(line, "listening on ")
	p.url, _, _ = strings.Cut(rest, ",")

	file := filepath.Join(p.dir, "pawl.yaml")
	config, err := os.ReadFile(file)
	must(t, err)
	text := strings.Replace(string(config), "http://127.0.0.1:7399", p.url, 1)
	must(t, os.WriteFile(file, []byte("server: {listen: \"127.0.0.1:0\", socket: "+p.socket+"}\nwasm: {cache_dir: "+filepath.Join(p.bin, "wasm")+"}\n"+text), 0o644))
	p.run(t, "pawl", "run", "-c", file)
	return p
}

// run runs a program until the test ends, and returns what it prints.
func (p *programs) run(t *testing.T, name string, args ...string) io.Reader {
	t.Helper()
	cmd := exec.Command(filepath.Join(p.bin, name), args...)
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

func (p *programs) pawl(t *testing.T, args ...string) string {
	t.Helper()
	cmd := exec.Command(filepath.Join(p.bin, "pawl"), args...)
	cmd.Env = append(os.Environ(), "PAWL_ADDRESS=unix://"+p.socket)
	out, _ := cmd.CombinedOutput() // it fails as long as the daemon does not listen
	return string(out)
}

// edit changes a file as an editor does, with another one that takes its place.
func (p *programs) edit(t *testing.T, name, from, to string) {
	t.Helper()
	path := filepath.Join(p.dir, "manifests", name)
	content, err := os.ReadFile(path)
	must(t, err)
	if !strings.Contains(string(content), from) {
		t.Fatalf("%s has no %q", name, from)
	}
	must(t, os.WriteFile(path+".tmp", []byte(strings.Replace(string(content), from, to, 1)), 0o644))
	must(t, os.Rename(path+".tmp", path))
}

// targetHas waits until the target has an object; "": until it has none.
func (p *programs) targetHas(t *testing.T, name, want string) {
	t.Helper()
	eventually(t, func() error {
		resp, err := http.Get(p.url + "/objects/" + name)
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		if err != nil || want == "" && resp.StatusCode == http.StatusNotFound || string(body) == want {
			return err
		}
		return errors.New(name + " is " + resp.Status + " " + string(body))
	})
}

// says waits until the status of the source has one line with all of words.
func (p *programs) says(t *testing.T, words ...string) {
	t.Helper()
	eventually(t, func() error {
		out := p.pawl(t, "source", "status", "manifests")
	lines:
		for line := range strings.Lines(out) {
			for _, w := range words {
				if !strings.Contains(line, w) {
					continue lines
				}
			}
			return nil
		}
		return errors.New("the status is\n" + out)
	})
}

// eventually polls until fn returns nil, for as long as there is patience.
func eventually(t *testing.T, fn func() error) {
	t.Helper()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(patience); ; <-tick.C {
		err := fn()
		if err == nil {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("gave up: %v", err)
		}
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
