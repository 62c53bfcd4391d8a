package pawl

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// The plugin of the README is built as a reader would build it, but offline and
// with this checkout's SDK.
func TestThePluginOfTheREADMEBuilds(t *testing.T) {
	if testing.Short() {
		t.Skip("builds a plugin")
	}
	text, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	here, err := filepath.Abs(".")
	if err != nil {
		t.Fatal(err)
	}
	block := func(pattern string) string {
		found := regexp.MustCompile("(?s)" + pattern).FindStringSubmatch(string(text))
		if found == nil {
			t.Fatalf("README.md has nothing like %q", pattern)
		}
		return found[1]
	}
	dir := t.TempDir()
	for name, content := range map[string]string{
		"main.go":         block("```go\n(.*?)```"),
		"go.mod":          strings.Replace(block("```\n(module .*?)```"), "../pawl/sdk/go", here, 1),
		"adapter_test.go": "package main\n\nimport (\n\t\"net/http\"\n\t\"testing\"\n\n\tpawl \"github.com/pawlsync/pawl/sdk/go\"\n\t\"github.com/pawlsync/pawl/sdk/go/pawltest\"\n)\n\nvar myHandler http.Handler = http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})\n\n" + block("```go\n(func TestApply.*?)```"),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	run := func(command string, env ...string) {
		t.Helper()
		words := strings.Fields(command)
		cmd := exec.CommandContext(t.Context(), words[0], words[1:]...)
		cmd.Dir, cmd.Env = dir, append(os.Environ(), append(env, "GOPROXY=off", "GOFLAGS=-mod=readonly")...)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%s: %v\n%s", command, err, out)
		}
	}
	run("go build -buildmode=c-shared -o things.wasm .", "GOOS=wasip1", "GOARCH=wasm")
	run("go test .")
	if _, err := os.Stat(filepath.Join(dir, "things.wasm")); err != nil {
		t.Error(err)
	}
}
