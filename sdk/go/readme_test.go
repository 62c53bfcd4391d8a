package pawl

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// What the README leaves out.
const (
	testImports = `import (
	"net/http"
	"testing"

	pawl "github.com/pawlsync/pawl/sdk/go"
	"github.com/pawlsync/pawl/sdk/go/pawltest"
)

var myHandler = http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})

`
	configureImports = `import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	pawl "github.com/pawlsync/pawl/sdk/go"
)

var _ pawl.Configurer = (*adapter)(nil)

`
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
		"adapter_test.go": "package main\n\n" + testImports + block("```go\n(func TestApply.*?)```"),
		// A package of its own, since there it is another adapter.
		"configured/adapter.go": "package configured\n\n" + configureImports + block("```go\n(type adapter struct {\n.*?)```"),
	} {
		if err := os.MkdirAll(filepath.Join(dir, filepath.Dir(name)), 0o700); err != nil {
			t.Fatal(err)
		}
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
	run("go test ./...")
	run("go vet ./...")
	if _, err := os.Stat(filepath.Join(dir, "things.wasm")); err != nil {
		t.Error(err)
	}
}
