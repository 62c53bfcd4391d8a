package rustsdk_test

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/pawlsync/pawl/test/rustsdk"
)

// TestTheSDKsOwnTests runs those of the codec (on all golden vectors), of the
// executor, of JSON, and of the example, natively.
func TestTheSDKsOwnTests(t *testing.T) {
	if testing.Short() {
		t.Skip("compiles for a minute")
	}
	root, err := rustsdk.Root()
	need(t, err)
	sdk := filepath.Join(root, "sdk", "rust")
	for _, crate := range []string{sdk, filepath.Join(sdk, "examples", "things")} {
		need(t, rustsdk.Test(t.Context(), crate))
	}
}

func TestABuildIsReproducible(t *testing.T) {
	if testing.Short() {
		t.Skip("compiles for a minute")
	}
	wasm := example(t)
	rustc, err := rustsdk.Compiler(t.Context())
	need(t, err)
	root, err := rustsdk.Root()
	need(t, err)
	// The same sources elsewhere, built past the cache.
	dir := filepath.Join(t.TempDir(), "else where")
	if err := os.CopyFS(dir, os.DirFS(filepath.Join(root, "sdk", "rust"))); err != nil {
		t.Fatal(err)
	}
	out := filepath.Join(t.TempDir(), "again.wasm")
	if err := rustsdk.Run(t.Context(), rustc, filepath.Join(dir, "build.sh"), filepath.Join(dir, "examples", "things"), out); err != nil {
		t.Fatal(err)
	}
	again, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(wasm, again) {
		t.Errorf("%d bytes, and %d elsewhere", len(wasm), len(again))
	}
	for _, place := range []string{root, dir} {
		if bytes.Contains(wasm, []byte(place)) || bytes.Contains(again, []byte(place)) {
			t.Errorf("the module names the folder %s", place)
		}
	}
}
