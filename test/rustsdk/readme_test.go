package rustsdk_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pawlsync/pawl/engine/sink"
	"github.com/pawlsync/pawl/test/rustsdk"
)

// TestTheREADMEsPlugin builds the plugin that the README shows, its test at the
// end of it, and applies a resource.
func TestTheREADMEsPlugin(t *testing.T) {
	root, err := rustsdk.Root()
	need(t, err)
	text, err := os.ReadFile(filepath.Join(root, "sdk", "rust", "README.md"))
	need(t, err)
	rust := blocks(string(text), "rust")
	if len(rust) != 3 {
		t.Fatalf("%d blocks of Rust; the first is the plugin, the last its test", len(rust))
	}
	crate := filepath.Join(t.TempDir(), "things")
	need(t, os.MkdirAll(filepath.Join(crate, "src"), 0o700))
	need(t, os.WriteFile(filepath.Join(crate, "Cargo.toml"), []byte(blocks(string(text), "toml")[0]), 0o600))
	need(t, os.WriteFile(filepath.Join(crate, "src", "lib.rs"), []byte(rust[0]+rust[2]), 0o600))
	if !testing.Short() {
		need(t, rustsdk.Test(t.Context(), crate))
	}
	wasm, err := rustsdk.Build(t.Context(), crate)
	need(t, err)
	target := &store{objects: map[string]string{}}
	s := open(t, wasm, serve(t, target, ""), nil)
	if r := s.Apply(t.Context(), request("my first/thing", `{"size":1}`)); r.Status != sink.OK {
		t.Errorf("%+v", r)
	}
	if body, _ := target.at("/objects/my%20first/thing"); body != `{"size":1}` {
		t.Errorf("the target holds %q", body)
	}
	if r := s.Delete(t.Context(), request("my first/thing", "")); r.Status != sink.OK {
		t.Errorf("%+v", r)
	}
	if m := s.Manifest(); m.Observes || !m.Deletes {
		t.Errorf("%+v", m)
	}
}

// blocks are the code blocks of that language.
func blocks(text, language string) (found []string) {
	for _, part := range strings.Split(text, "```"+language+"\n")[1:] {
		code, _, _ := strings.Cut(part, "```")
		found = append(found, code)
	}
	return found
}
