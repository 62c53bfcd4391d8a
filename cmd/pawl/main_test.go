package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/pawlsync/pawl/internal/bundled"
	"github.com/pawlsync/pawl/internal/cli"
)

// TestSignals stops a daemon whose one call to its target never ends.
func TestSignals(t *testing.T) {
	if _, err := bundled.Plugin("http"); err != nil {
		if os.Getenv("REQUIRE_PLUGINS") == "1" {
			t.Fatal(err)
		}
		t.Skip(err)
	}
	pawl := build(t)
	t.Run("SIGTERM ends it in good order within the grace", func(t *testing.T) {
		d := startHung(t, pawl, "1ms")
		d.signal(t, syscall.SIGTERM)
		d.until(t, `"msg":"stopped"`)
		if err := d.cmd.Wait(); err != nil {
			t.Errorf("it ended with %v, want exit code 0", err)
		}
	})
	t.Run("a second signal ends it at once", func(t *testing.T) {
		d := startHung(t, pawl, "1h")
		d.signal(t, syscall.SIGTERM)
		d.until(t, `"msg":"stopping`)
		d.signal(t, syscall.SIGTERM)
		err := d.cmd.Wait()
		exit, ok := errors.AsType[*exec.ExitError](err)
		if !ok || exit.ExitCode() != cli.ExitInterrupted {
			t.Errorf("it ended with %v, want exit code %d", err, cli.ExitInterrupted)
		}
	})
}

// build builds this program.
func build(t *testing.T) (pawl string) {
	t.Helper()
	pawl = filepath.Join(t.TempDir(), "pawl")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", pawl, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return pawl
}

// hung is a daemon with a call in flight that is never answered.
type hung struct {
	cmd *exec.Cmd
	log *bufio.Scanner
}

func startHung(t *testing.T, pawl, grace string) *hung {
	t.Helper()
	called, release := make(chan struct{}, 1), make(chan struct{})
	target := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // so that the server notices when the client goes
		select {
		case called <- struct{}{}:
		default:
		}
		select {
		case <-release:
		case <-r.Context().Done():
		}
	}))
	t.Cleanup(func() { close(release); target.Close() })
	dir := t.TempDir()
	config := fmt.Sprintf(`server: {listen: "127.0.0.1:0", shutdown_grace: %s}
store: {path: store, reserve_bytes: 64MiB}
upstreams: {objects: {base_url: %s, timeout: 5m}}
sinks: {web: {plugin: http, upstreams: [objects], config: {path: "/o/{key}"}, timeout: 5m}}
`, grace, target.URL)
	file := filepath.Join(dir, "pawl.yaml")
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	d := &hung{cmd: exec.CommandContext(t.Context(), pawl, "run", "--config", file)}
	d.cmd.Env = slices.DeleteFunc(os.Environ(), func(kv string) bool { return strings.HasPrefix(kv, "PAWL_") })
	stderr, err := d.cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	d.log = bufio.NewScanner(stderr)
	if err := d.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	_, after, _ := strings.Cut(d.until(t, `"msg":"ready"`), `"address":"`)
	address, _, _ := strings.Cut(after, `"`)
	apply := exec.CommandContext(t.Context(), pawl, "apply", "-f", "-", "--address", address)
	apply.Stdin = strings.NewReader("{sink: web, key: a, payload: 1}")
	if out, err := apply.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	<-called
	return d
}

// until reads the log up to a line that holds part, and returns it.
func (d *hung) until(t *testing.T, part string) string {
	t.Helper()
	var seen []string
	for d.log.Scan() {
		if seen = append(seen, d.log.Text()); strings.Contains(d.log.Text(), part) {
			return d.log.Text()
		}
	}
	t.Fatalf("the log ended without %s:\n%s", part, strings.Join(seen, "\n"))
	return ""
}

func (d *hung) signal(t *testing.T, s os.Signal) {
	t.Helper()
	if err := d.cmd.Process.Signal(s); err != nil {
		t.Fatal(err)
	}
}
