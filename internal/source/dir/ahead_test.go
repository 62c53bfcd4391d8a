package dir

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/pawlsync/pawl/internal/bubble"
)

// fullOf begins a full set of a source of root.
func fullOf(t *testing.T, root string, change func(*Source)) *full {
	t.Helper()
	s, err := New(Options{Path: root})
	must(t, err)
	if change != nil {
		change(s)
	}
	w := s.notWatching()
	list, err := s.walk(w.add)
	must(t, err)
	return s.full(w, list)
}

func TestFilesAreReadAheadOnlySoFar(t *testing.T) {
	for name, c := range map[string]struct {
		files, padding, batch, most int
	}{
		// Those that wait to be told, and one batch that does not find room among them.
		"files": {files: 2000, batch: batchFiles, most: (aheadBatches + 1) * batchFiles},
		"bytes": {files: 40, padding: 1 << 20, batch: 1, most: aheadBytes >> 20},
	} {
		t.Run(name, func(t *testing.T) {
			root := t.TempDir()
			for i := range c.files {
				write(t, root, fmt.Sprintf("%04d.json", i), fmt.Sprintf(`{"sink": "web", "key": "k%d", "payload": 1}`, i)+strings.Repeat(" ", c.padding))
			}
			bubble.Test(t, func(t *testing.T) {
				var opened atomic.Int64
				f := fullOf(t, root, func(s *Source) {
					s.fs.open = func(name string) (file, error) { opened.Add(1); return system.open(name) }
				})
				told := 0
				for it, err := range f.items(t.Context()) {
					must(t, err)
					if want := fmt.Sprintf("k%d", told); it.Key.Name != want {
						t.Fatalf("told %s, want %s: in the order of the files", it.Key.Name, want)
					}
					if told++; told%10 != 1 {
						continue
					}
					synctest.Wait() // nobody takes more
					taken := (told + c.batch - 1) / c.batch * c.batch
					if n := int(opened.Load()); n > taken+c.most {
						t.Fatalf("%d files were opened when %d were told, want %d more at the most", n, told, c.most)
					}
				}
				if told != c.files {
					t.Errorf("told %d of %d", told, c.files)
				}
			})
		})
	}
}

func TestReadingEndsWhenNobodyWantsMore(t *testing.T) {
	root := t.TempDir()
	for i := range 1000 {
		write(t, root, fmt.Sprintf("%04d.yaml", i), doc(fmt.Sprintf("k%d", i), "1"))
	}
	bubble.Test(t, func(t *testing.T) { // which waits for all that it began
		f := fullOf(t, root, nil)
		for range f.items(t.Context()) {
			synctest.Wait() // files are read as far ahead as may be
			break
		}
		if f.cut != errStopped {
			t.Errorf("cut off by %v", f.cut)
		}
	})
}
