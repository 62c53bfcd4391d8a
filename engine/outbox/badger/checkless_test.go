package badger

import (
	"os"
	"path/filepath"
	"testing"
)

// TestACheckLeavesEveryFileAsItIs also where a value log file holds nothing but its
// header, which a kill and a restart leave and Badger removes.
func TestACheckLeavesEveryFileAsItIs(t *testing.T) {
	dir := t.TempDir()
	s := mustOpen(t, testOptions(t, dir))
	mustClose(t, s)
	logs, err := filepath.Glob(filepath.Join(dir, dataName, "*.vlog"))
	if err != nil || len(logs) == 0 {
		t.Fatalf("no value log: %v", err)
	}
	header, err := os.ReadFile(logs[len(logs)-1])
	if err != nil || len(header) < 20 {
		t.Fatalf("%d bytes, %v", len(header), err)
	}
	for _, name := range []string{"000001.vlog", "000002.vlog", "000003.vlog"} {
		path := filepath.Join(dir, dataName, name)
		if _, err := os.Stat(path); os.IsNotExist(err) {
			if err := os.WriteFile(path, header[:20], 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	before := sizes(t, dir)
	for range 3 {
		r, err := Check(t.Context(), dir, nil, nil)
		if err != nil || len(r.Problems) > 0 {
			t.Fatalf("a healthy store: %v, %v", r.Problems, err)
		}
		after := sizes(t, dir)
		for name, size := range before {
			if after[name] != size {
				t.Errorf("the check made %s %d bytes long, from %d", name, after[name], size)
			}
		}
	}
}

func sizes(t *testing.T, dir string) map[string]int64 {
	t.Helper()
	all := map[string]int64{}
	files, err := filepath.Glob(filepath.Join(dir, "*", "*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		info, err := os.Stat(f)
		if err != nil {
			t.Fatal(err)
		}
		all[f] = info.Size()
	}
	return all
}
