//go:build unix

package cli

import (
	"bytes"
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/pawlsync/pawl/internal/api"
)

// A hangup ends other programs; this one reads its configuration again, at once.
func TestAHangupMakesTheDaemonReadItsConfigurationAgain(t *testing.T) {
	file := filepath.Join(t.TempDir(), "pawl.yaml")
	write := func(format string) {
		t.Helper()
		text := "server: {listen: \"127.0.0.1:0\"}\nstore: {path: store, reserve_bytes: 64MiB}\nlog: {format: " + format + "}\n"
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("json")
	log, stderr := io.Pipe()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan int, 1)
	go func() {
		ended <- Main(ctx, []string{"run", "-c", file}, Streams{In: &bytes.Buffer{}, Out: io.Discard, Err: stderr, Env: []string{"HOME=" + t.TempDir()}}, api.Version{})
		stderr.Close()
	}()
	seen := ""
	until := func(part string) {
		t.Helper()
		for b := make([]byte, 4096); !strings.Contains(seen, part); {
			n, err := log.Read(b)
			if seen += string(b[:n]); err != nil {
				t.Fatalf("the log ended without %q:\n%s", part, seen)
			}
		}
	}
	until(`"ready"`)
	write("text")
	if err := syscall.Kill(os.Getpid(), syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	until("needs a restart")
	until("log.format")
	cancel()
	_, _ = io.Copy(io.Discard, log)
	if code := <-ended; code != ExitDone {
		t.Errorf("exit code %d\n%s", code, seen)
	}
}
