// Package ocitest runs a real OCI registry for tests.
package ocitest

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/pawlsync/pawl/internal/buildcache"
)

var listening = regexp.MustCompile(`listening on (127\.0\.0\.1:\d+)`)

// Start runs the reference registry on loopback for as long as the test takes
// and returns its host:port. Where htpasswd is not empty, it asks for one of the
// users in there (lines of USER:BCRYPT). The test is one of a package two folders
// below the root. It is skipped under -short, and where the registry can't be
// built, unless REQUIRE_PLUGINS=1.
func Start(t *testing.T, htpasswd string) string {
	t.Helper()
	if testing.Short() {
		t.Skip("a real registry takes minutes to build")
	}
	program, err := buildcache.Tool(t.Context(), "../../test/registry", "github.com/distribution/distribution/v3/cmd/registry")
	if err != nil {
		if os.Getenv("REQUIRE_PLUGINS") == "1" {
			t.Fatal(err)
		}
		t.Skip("no registry to test against: ", err)
	}
	cmd := exec.CommandContext(t.Context(), program, "serve", configure(t, htpasswd))
	cmd.Env = append(os.Environ(), "OTEL_TRACES_EXPORTER=none")
	log, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	var said strings.Builder
	for lines := bufio.NewScanner(log); lines.Scan(); {
		fmt.Fprintln(&said, lines.Text())
		if m := listening.FindStringSubmatch(lines.Text()); m != nil {
			go func() { _, _ = io.Copy(io.Discard, log) }()
			return m[1]
		}
	}
	t.Fatalf("the registry did not start:\n%s", said.String())
	return ""
}

// configure writes the registry's configuration and returns its file.
func configure(t *testing.T, htpasswd string) string {
	t.Helper()
	dir := t.TempDir()
	write := func(name, content string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	config := fmt.Sprintf("version: 0.1\nlog: {level: info}\nstorage: {filesystem: {rootdirectory: %q}}\nhttp: {addr: \"127.0.0.1:0\", secret: test}\n", filepath.Join(dir, "data"))
	if htpasswd != "" {
		config += fmt.Sprintf("auth: {htpasswd: {realm: test, path: %q}}\n", write("htpasswd", htpasswd))
	}
	return write("config.yml", config)
}
