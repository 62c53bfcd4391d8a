package cli

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"

	asm "github.com/pawlsync/pawl/internal/wasmasm"
)

func TestPluginInspectTellsWhatAPluginClaimsOfSagas(t *testing.T) {
	takesPart := asm.Manifest(0)
	for _, f := range []struct {
		number protowire.Number
		value  uint64
	}{{3, 8}, {3, 9}, {11, 4}, {11, 5}, {12, 1}, {13, 1}} { // ops unlock and restore; undoable apply and delete; lock; mark
		takesPart = protowire.AppendVarint(protowire.AppendTag(takesPart, f.number, protowire.VarintType), f.value)
	}
	for name, c := range map[string]struct {
		manifest              []byte
		ops, claims, undoable []string
	}{
		"one that takes part": {takesPart, []string{"observe", "apply", "delete", "apply_batch", "unlock", "restore"},
			[]string{"finds_by_key", "lock", "mark"}, []string{"apply", "delete"}},
		"another": {asm.Manifest(0), []string{"observe", "apply", "delete", "apply_batch"}, []string{"finds_by_key"}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "p.wasm")
			if err := os.WriteFile(file, asm.Guest{Manifest: c.manifest}.Bytes(), 0o600); err != nil {
				t.Fatal(err)
			}
			stdout, stderr, code := author(t, "", "plugin", "inspect", file, "-o", "json")
			var got inspectedPlugin
			if err := json.Unmarshal([]byte(stdout), &got); err != nil || code != ExitDone || got.Manifest == nil {
				t.Fatalf("exit code %d, %v\n%s%s", code, err, stdout, stderr)
			}
			m := got.Manifest
			if !slices.Equal(m.Ops, c.ops) || !slices.Equal(m.Claims, c.claims) || !slices.Equal(m.Undoable, c.undoable) {
				t.Errorf("%+v", m)
			}
		})
	}
}
