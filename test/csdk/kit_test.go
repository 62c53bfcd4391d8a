package csdk_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pawlsync/pawl/engine/wasmhost"
	"github.com/pawlsync/pawl/internal/conformance"
)

func TestTheExamplePassesTheConformanceKit(t *testing.T) {
	if testing.Short() {
		t.Skip("runs the whole kit")
	}
	wasm := example(t)
	base, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	r, err := conformance.Run(t.Context(), wasm, "kv", conformance.Options{
		Host: wasmhost.Options{CacheDir: filepath.Join(base, "pawl-test-wasm")}, Calls: 100})
	if err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	if err := r.WriteText(&text, true); err != nil {
		t.Fatal(err)
	}
	t.Log(&text)
	if r.Count(conformance.Failed) > 0 || r.Count(conformance.Passed) == 0 {
		t.Error("the kit says no")
	}
}
