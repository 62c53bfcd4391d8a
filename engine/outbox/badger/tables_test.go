package badger

import (
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dgraph-io/badger/v4"

	"github.com/pawlsync/pawl/engine/outbox"
)

// A kill while Badger writes a table leaves a part of it, which the MANIFEST
// does not name.
func TestUnfinishedTablesAreNoObstacle(t *testing.T) {
	opts := filled(t)
	for name, size := range map[string]int{"000998.sst": 0, "000999.sst": 1 << 20} {
		if err := os.WriteFile(filepath.Join(opts.Dir, dataName, name), make([]byte, size), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	mustCheck(t, opts.Dir)
	s := mustOpen(t, opts)
	if rec, err := s.Get(keyOf(3)); err != nil || number(rec.Desired.Payload) != 4 {
		t.Errorf("key 3 is at %d, %v", number(rec.Desired.Payload), err)
	}
	mustClose(t, s)
	if left := append(glob(t, opts.Dir, "data/00099?.sst"), glob(t, opts.Dir, asideName)...); len(left) > 0 {
		t.Errorf("%v is left", left)
	}
}

// A MANIFEST that lost its end names fewer tables. Badger would remove the
// others before anybody knows that something is missing.
func TestALostEndOfTheManifestTakesNoTableAlong(t *testing.T) {
	for name, harm := range map[string]func(t *testing.T, path string, b []byte) error{
		"its last entry is missing": func(t *testing.T, path string, b []byte) error {
			return os.WriteFile(path, b[:lastManifestEntry(t, b)], 0o600)
		},
		"its last entry is torn": func(_ *testing.T, path string, b []byte) error {
			return os.WriteFile(path, b[:len(b)-1], 0o600)
		},
		"it is missing": func(_ *testing.T, path string, _ []byte) error { return os.Remove(path) },
	} {
		t.Run(name, func(t *testing.T) {
			opts := filled(t)
			s := mustOpen(t, opts)
			if err := putNumber(s, keyOf(3), 99).Wait(t.Context()); err != nil {
				t.Fatal(err)
			}
			mustClose(t, s)
			path := filepath.Join(opts.Dir, dataName, badger.ManifestFilename)
			whole, err := os.ReadFile(path)
			if err == nil {
				err = harm(t, path, whole)
			}
			if err != nil {
				t.Fatal(err)
			}
			for range 2 {
				_, err := Open(opts)
				if aside := filepath.Join(opts.Dir, asideName); !errors.Is(err, outbox.ErrLost) || !strings.Contains(err.Error(), aside) {
					t.Fatalf("open = %v, want ErrLost and %s", err, aside)
				}
			}
			// With its end, and the tables, all is back.
			for _, from := range glob(t, opts.Dir, asideName+"/*.sst") {
				if err := os.Rename(from, filepath.Join(opts.Dir, dataName, filepath.Base(from))); err != nil {
					t.Fatal(err)
				}
			}
			if err := os.WriteFile(path, whole, 0o600); err != nil {
				t.Fatal(err)
			}
			checkLedger(t, opts.Dir, map[int]uint64{3: 99, 4: 5})
		})
	}
}

func lastManifestEntry(t *testing.T, b []byte) int {
	t.Helper()
	const header, entryHeader = 8, 8
	last, at := 0, header
	for at < len(b) {
		last = at
		at += entryHeader + int(binary.BigEndian.Uint32(b[at:]))
	}
	if last == 0 {
		t.Fatal("the MANIFEST names nothing")
	}
	return last
}

func glob(t testing.TB, dir, pattern string) []string {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(dir, pattern))
	if err != nil {
		t.Fatal(err)
	}
	return paths
}
