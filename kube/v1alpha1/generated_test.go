package v1alpha1

import (
	"bytes"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/pawlsync/pawl/internal/buildcache"
)

var update = flag.Bool("update", false, "write the generated files anew")

// generated maps what controller-gen writes to where it is kept.
var generated = map[string]string{
	"zz_generated.deepcopy.go": "zz_generated.deepcopy.go",
	"pawl.dev_statesyncs.yaml": "../../deploy/crds/pawl.dev_statesyncs.yaml",
}

func TestGeneratedFilesAreFresh(t *testing.T) {
	program, err := buildcache.Program(t.Context(), "../../tools", "controller-gen", "sigs.k8s.io/controller-tools/cmd/controller-gen")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	cmd := exec.CommandContext(t.Context(), program, "object", "crd", "paths=.", "output:dir="+dir)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for name, path := range generated {
		want, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		if *update {
			if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, want, 0o644); err != nil {
				t.Fatal(err)
			}
			continue
		}
		if got, err := os.ReadFile(path); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s is not what the types say (%v); make it anew with go test ./kube/v1alpha1 -run Fresh -update", path, err)
		}
	}
}
