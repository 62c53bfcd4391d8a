package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/pawlsync/pawl/test/ops/kit"
)

// program is the daemon's own program, running.
type program struct {
	dir, pawl, socket string
}

// runProgram builds pawl and runs it with upstreams and sinks, in YAML, until the
// test ends.
func runProgram(t *testing.T, targets string) *program {
	t.Helper()
	dir := t.TempDir()
	p := &program{dir: dir, pawl: kit.Pawl(t), socket: filepath.Join(dir, "pawl.sock")}
	config := p.file(t, "pawl.yaml", fmt.Sprintf(`
store: {path: %q, reserve_bytes: 64MiB}
server: {listen: "127.0.0.1:0", socket: %q}
wasm: {cache_dir: %q}
`, filepath.Join(dir, "store"), p.socket, filepath.Join(dir, "wasm"))+targets)
	log, err := os.Create(filepath.Join(dir, "log"))
	if err != nil {
		t.Fatal(err)
	}
	daemon := exec.Command(p.pawl, "run", "--config", config)
	daemon.Stdout, daemon.Stderr = log, log
	if err := daemon.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = daemon.Process.Signal(os.Interrupt)
		if err := daemon.Wait(); err != nil {
			t.Errorf("the daemon ended with %v", err)
		}
		if out, _ := os.ReadFile(log.Name()); t.Failed() {
			t.Logf("%s", out)
		}
		log.Close()
	})
	eventually(t, "the daemon listens", func() bool { _, err := os.Stat(p.socket); return err == nil })
	return p
}

// file writes a file into the program's folder and returns its path.
func (p *program) file(t *testing.T, name, content string) string {
	t.Helper()
	path := filepath.Join(p.dir, name)
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// cli runs a command against the daemon and returns what it prints.
func (p *program) cli(t *testing.T, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), p.pawl, args...)
	cmd.Env = append(os.Environ(), "PAWL_ADDRESS=unix://"+p.socket)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("pawl %q: %v\n%s", args, err, out)
	}
	return string(out)
}
