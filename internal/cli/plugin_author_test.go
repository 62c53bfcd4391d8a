package cli

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/pawlsync/pawl/internal/api"
	"github.com/pawlsync/pawl/internal/conformance"
	"github.com/pawlsync/pawl/internal/scaffold"
)

// author runs a command as on the machine of an author, with compilers to find.
func author(t *testing.T, stdin string, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	var out, errs bytes.Buffer
	code = Main(t.Context(), args, Streams{In: strings.NewReader(stdin), Out: &out, Err: &errs, Env: os.Environ()}, api.Version{})
	return out.String(), errs.String(), code
}

// needs skips a test where something is missing that a fresh clone may lack; it
// fails it where the tests are told to require all.
func needs(t *testing.T, ok bool, what string) {
	t.Helper()
	switch {
	case ok:
	case os.Getenv("REQUIRE_PLUGINS") == "1":
		t.Fatalf("%s is missing", what)
	default:
		t.Skipf("%s is missing", what)
	}
}

func newProject(t *testing.T, name, lang string) (dir string) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), name)
	_, stderr, code := author(t, "", "plugin", "new", name, "--lang", lang, "--dir", dir)
	needs(t, !strings.Contains(stderr, scaffold.ErrNotBuiltIn.Error()), "the archive of the SDK")
	if code != ExitDone {
		t.Fatalf("plugin new: exit code %d, %s", code, stderr)
	}
	return dir
}

// An author's way in each language: from nothing to a plugin that passes the kit.
func TestANewProjectPassesTheKit(t *testing.T) {
	if testing.Short() {
		t.Skip("builds plugins")
	}
	compilers := map[string][]string{"go": {"go"}, "rust": {"rustc"}, "c": {"clang", "wasm-ld"}}
	for _, lang := range scaffold.Languages() {
		t.Run(lang, func(t *testing.T) {
			for _, c := range compilers[lang] {
				_, err := exec.LookPath(c)
				needs(t, err == nil, c)
			}
			dir := newProject(t, "my-thing", lang)
			stdout, stderr, code := author(t, "", "plugin", "build", dir, "-o", "json")
			needs(t, !strings.Contains(stderr, "no rustc with the target"), "Rust's wasm target")
			var built builtPlugin
			if err := json.Unmarshal([]byte(stdout), &built); err != nil || code != ExitDone {
				t.Fatalf("plugin build: %v, exit code %d\n%s", err, code, stderr)
			}
			junit := filepath.Join(dir, "report.xml")
			stdout, stderr, code = author(t, "", "plugin", "test", built.File, "--junit", junit)
			if code != ExitDone || !strings.Contains(stdout, " 0 failed") {
				t.Errorf("plugin test: exit code %d\n%s%s", code, stdout, stderr)
			}
			if report, err := os.ReadFile(junit); err != nil || strings.Count(string(report), "<testcase ") != len(conformance.Checks()) {
				t.Errorf("the JUnit report: %v\n%s", err, report)
			}
			again, stderr, code := author(t, "", "plugin", "build", dir, "-o", "json")
			if code != ExitDone || again != stdoutOf(t, built) {
				t.Errorf("built again: %s%s, exit code %d; want the same as %+v", again, stderr, code, built)
			}
			stdout, stderr, code = author(t, `{"text":"by hand"}`, "plugin", "run", built.File, "apply", "observe", "delete", "--payload", "-", "--key", "k", "-v")
			if code != ExitDone || !strings.Contains(stdout, "/objects/k → 201") || !strings.Contains(stdout, `{"text":"by hand"}`) {
				t.Errorf("plugin run: exit code %d\n%s%s", code, stdout, stderr)
			}
			stdout, stderr, code = author(t, "", "plugin", "inspect", built.File)
			if code != ExitDone || !strings.Contains(stdout, built.SHA256) || !strings.Contains(stdout, "my-thing 1.0.0") {
				t.Errorf("plugin inspect: exit code %d\n%s%s", code, stdout, stderr)
			}
		})
	}
}

// stdoutOf is what `pawl plugin build -o json` prints of a plugin.
func stdoutOf(t *testing.T, p builtPlugin) string {
	t.Helper()
	raw, err := json.MarshalIndent(p, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	return string(raw) + "\n"
}

func TestPluginNewRefuses(t *testing.T) {
	full := t.TempDir()
	if err := os.WriteFile(filepath.Join(full, "x"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args []string
		code int
		says string
	}{
		{[]string{"Things"}, ExitUsage, "lower-case letters"},
		{[]string{"things", "--lang", "rst"}, ExitUsage, "did you mean --lang rust?"},
		{[]string{"things", "--lang", "fortran"}, ExitUsage, "go, rust, c"},
		{[]string{"things", "--dir", full}, ExitError, "not empty"},
		{nil, ExitUsage, "takes NAME"},
	} {
		_, stderr, code := author(t, "", append([]string{"plugin", "new"}, c.args...)...)
		if code != c.code || !strings.Contains(stderr, c.says) {
			t.Errorf("plugin new %q: exit code %d, %swant %d and %q", c.args, code, stderr, c.code, c.says)
		}
	}
}

func TestPluginBuildSaysWhatIsWrong(t *testing.T) {
	write := func(files map[string]string) string {
		dir := t.TempDir()
		for name, content := range files {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		return dir
	}
	for _, c := range []struct {
		name string
		dir  string
		code int
		says string
	}{
		{"no folder", filepath.Join(t.TempDir(), "no"), ExitNotFound, "no such file"},
		{"an empty folder", t.TempDir(), ExitError, "neither go.mod, Cargo.toml nor a Makefile"},
		{"Go that does not compile", write(map[string]string{"go.mod": "module x", "main.go": "package main\nfunc main() { nonsense() }"}), ExitError, "undefined: nonsense"},
		{"Rust without the SDK", write(map[string]string{"Cargo.toml": "[package]\nname = \"x\"\n[dependencies]\n"}), ExitError, "where is the SDK?"},
		{"Rust with other crates", write(map[string]string{"Cargo.toml": "[dependencies]\npawl = { path = \"p\" }\nserde = \"1\"\n[profile.release]\nlto = true\n"}), ExitError, "depends on pawl, serde: build it with `cargo build"},
		{"C without the SDK", write(map[string]string{"Makefile": "all:\n"}), ExitError, "where is the SDK?"},
		{"C without a source", write(map[string]string{"Makefile": "PAWL = pawl-sdk\n"}), ExitError, "no source in C"},
	} {
		_, stderr, code := author(t, "", "plugin", "build", c.dir)
		if code != c.code || !strings.Contains(stderr, c.says) {
			t.Errorf("%s: exit code %d, %swant %d and %q", c.name, code, stderr, c.code, c.says)
		}
	}
}

func TestPluginTestSaysWhatIsWrong(t *testing.T) {
	dir := t.TempDir()
	text, fixture := filepath.Join(dir, "text.wasm"), filepath.Join(dir, "wrong.yaml")
	for path, content := range map[string]string{text: "hello", fixture: "confg: {}"} {
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		args []string
		code int
		says string // on either stream
	}{
		{[]string{"test", filepath.Join(dir, "no.wasm")}, ExitNotFound, "neither a file nor a bundled plugin"},
		{[]string{"test", text}, ExitError, "FAIL  opens"},
		{[]string{"test", text, "--fixture", fixture}, ExitError, "confg"},
		{[]string{"test", text, "--fixture", filepath.Join(dir, "no.yaml")}, ExitNotFound, "no.yaml"},
		{[]string{"test", text, "--run", "("}, ExitUsage, "no regular expression"},
		{[]string{"test", text, "--run", "nonsense"}, ExitError, "--list"},
		{[]string{"test", text, "--upstream", "nowhere"}, ExitError, "upstream.url"},
		{[]string{"test"}, ExitUsage, "takes FILE"},
		{[]string{"test", "--list", text}, ExitUsage, "takes no argument"},
		{[]string{"run", text, "observe"}, ExitError, "no core WebAssembly module"},
		{[]string{"run", text}, ExitUsage, "at least one OP"},
		{[]string{"run", text, "aply"}, ExitUsage, "did you mean apply?"},
		{[]string{"run", text, "observe", "--key", ""}, ExitError, "the key is empty"},
		{[]string{"run", text, "observe", "--config", fixture}, ExitError, "is no JSON object"},
		{[]string{"inspect", text}, ExitError, "no core WebAssembly module"},
	} {
		stdout, stderr, code := author(t, "", append([]string{"plugin"}, c.args...)...)
		if code != c.code || !strings.Contains(stdout+stderr, c.says) {
			t.Errorf("plugin %q: exit code %d\n%s%swant %d and %q", c.args, code, stdout, stderr, c.code, c.says)
		}
	}
}

func TestPluginTestListsItsChecks(t *testing.T) {
	stdout, _, code := author(t, "", "plugin", "test", "--list", "-o", "json")
	var list struct{ Items []listedCheck }
	if err := json.Unmarshal([]byte(stdout), &list); err != nil || code != ExitDone {
		t.Fatalf("%v, exit code %d", err, code)
	}
	if len(list.Items) != len(conformance.Checks()) || !slices.ContainsFunc(list.Items, func(c listedCheck) bool { return c.ID == "replay" && c.Wants != "" && c.Fix != "" }) {
		t.Errorf("%s", stdout)
	}
}
