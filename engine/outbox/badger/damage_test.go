package badger

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pawlsync/pawl/engine/outbox"
)

// P8: whatever file is damaged, Open and Check say which in plain words, and what to do.
func TestDamageIsToldInPlainWords(t *testing.T) {
	for _, test := range []struct {
		name   string
		damage func(t *testing.T, data string)
		says   string
	}{
		{"the list of tables", func(t *testing.T, data string) { flip(t, filepath.Join(data, "MANIFEST"), 1) }, "MANIFEST, the list of tables, is damaged"},
		{"a missing table", func(t *testing.T, data string) { remove(t, newest(t, data, "*.sst")) }, ".sst is missing"},
		{"a table's block", func(t *testing.T, data string) { flip(t, newest(t, data, "*.sst"), 60) }, ".sst is damaged: what it holds does not match"},
		{"a table's end", func(t *testing.T, data string) { cutFile(t, newest(t, data, "*.sst"), 100) }, ".sst is damaged: it is cut off"},
		{"the key registry", func(t *testing.T, data string) { cutFile(t, filepath.Join(data, "KEYREGISTRY"), 3) }, "KEYREGISTRY, which says how tables are encrypted, is damaged"},
	} {
		t.Run(test.name, func(t *testing.T) {
			opts := filled(t)
			test.damage(t, filepath.Join(opts.Dir, dataName))
			r, err := Check(t.Context(), opts.Dir, nil, nil)
			if err != nil || len(r.Problems) != 1 {
				t.Fatalf("check: %q, %v", r.Problems, err)
			}
			_, err = Open(opts)
			if !errors.Is(err, outbox.ErrDamaged) {
				t.Fatalf("open: %v", err)
			}
			for _, said := range []string{r.Problems[0], err.Error()} {
				for _, want := range []string{test.says, "store restore", "--salvage"} {
					if !strings.Contains(said, want) {
						t.Errorf("%q does not say %q", said, want)
					}
				}
			}
		})
	}
}

func remove(t *testing.T, path string) {
	t.Helper()
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
}
