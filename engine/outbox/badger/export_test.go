package badger

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/pawlsync/pawl/engine/outbox"
	"github.com/pawlsync/pawl/engine/record"
)

func exportOf(t testing.TB, s *Store, o ExportOptions) []byte {
	t.Helper()
	var b bytes.Buffer
	if _, err := s.Export(t.Context(), &b, o); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func imported(t testing.TB, export []byte) (*Store, Restored) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "store")
	done, err := Import(t.Context(), RestoreOptions{Dir: dir}, bytes.NewReader(export))
	if err != nil {
		t.Fatal(err)
	}
	mustCheck(t, dir)
	return mustOpen(t, testOptions(t, dir)), done
}

// A saga's journal is kept under a name that is no sink's. It is no resource, and an
// export that had it could not be imported.
func TestAnExportHasResourcesAndNoJournals(t *testing.T) {
	s := mustOpen(t, testOptions(t, filepath.Join(t.TempDir(), "store")))
	defer s.Close()
	if err := errors.Join(putNumber(s, keyOf(1), 1).Wait(t.Context()), putNumber(s, record.Key{Sink: "SAGA", Name: "x"}, 2).Wait(t.Context())); err != nil {
		t.Fatal(err)
	}
	again, done := imported(t, exportOf(t, s, ExportOptions{Status: true}))
	defer again.Close()
	if done.Records != 1 {
		t.Errorf("%d records were imported, want the resource alone", done.Records)
	}
}

// R67: an export and its import keep what is desired byte by byte, generations
// included, and on request what is known.
func TestR67_AnImportedStoreIsTheExportedOneInANewEpoch(t *testing.T) {
	s := mustOpen(t, testOptions(t, killedStore(t)))
	defer s.Close()
	odd := []string{`{"a":1}`, ` {"a": 1}`, `null`, ``, `"\u2028<&>"`, "\"\u2028<&>\"", "\xff\x00", "[1,2,\n3]", `"` + "\xff" + `"`, `1e999`, `{"a":1}{"b":2}`}
	for i, payload := range odd {
		d := record.Desired{Payload: []byte(payload), Hash: record.HashOf([]byte(payload))}
		err := s.Update(record.Key{Sink: "odd", Name: fmt.Sprint(i)}, func(outbox.Record) (outbox.Change, error) {
			return outbox.Change{Desired: &d, NewGeneration: true}, nil
		}).Wait(t.Context())
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := s.apply(); err != nil {
		t.Fatal(err)
	}
	want := contents(t, mustReopened(t, s))
	again, done := imported(t, exportOf(t, s, ExportOptions{Status: true}))
	defer again.Close()
	if is := contents(t, again); !reflect.DeepEqual(want, is) {
		t.Errorf("%d records became others: %v", len(want), differing(want, is))
	}
	if info := again.Info(); !info.Lossy || info.Epoch == s.Info().Epoch || info.Revision <= s.Info().Revision+2*claimStep || done.Epoch != info.Epoch {
		t.Errorf("%+v was imported as %+v", s.Info(), info)
	}
	for key, rec := range want {
		rec.Status = record.Status{}
		want[key] = rec
	}
	bare, _ := imported(t, exportOf(t, s, ExportOptions{}))
	defer bare.Close()
	if is := contents(t, bare); !reflect.DeepEqual(want, is) {
		t.Errorf("without statuses, %d records became others: %v", len(want), differing(want, is))
	}
}

// mustReopened is a copy of s as the next process sees it: records as they are encoded.
func mustReopened(t testing.TB, s *Store) *Store {
	t.Helper()
	again := mustOpen(t, testOptions(t, powerCut(t, s)))
	t.Cleanup(func() { mustClose(t, again) })
	return again
}

func TestExportsThatDontFitAreRefused(t *testing.T) {
	s := mustOpen(t, filled(t))
	defer s.Close()
	export := string(exportOf(t, s, ExportOptions{}))
	lines := strings.SplitAfter(export, "\n")
	for _, test := range []struct{ name, export, says string }{
		{"something else", "hello\n", "none of pawl's"},
		{"nothing", "", "none of pawl's"},
		{"one that is cut off", strings.Join(lines[:10], ""), "cut off after line 10"},
		{"a missing line", strings.Join(append(append([]string{}, lines[:5]...), lines[6:]...), ""), "its end says 20"},
		{"a slip of the pen", strings.Replace(export, `"generation"`, `"generatoin"`, 1), "line 2"},
		{"no generation", strings.Replace(export, `"generation"`, `"tombstone":true,"status":null,"suspend":true,"generation":0,"x"`, 1), "line 2"},
		{"a policy that there is not", strings.Replace(export, `"generation"`, `"conflictPolicy":"mine-wins","generation"`, 1), "mine-wins"},
		{"no name", strings.Replace(export, `"key":"key 0"`, `"key":""`, 1), "line 2"},
		{"a newer format", strings.Replace(export, `"format":1`, `"format":9`, 1), "a newer program"},
	} {
		t.Run(test.name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "store")
			_, err := Import(t.Context(), RestoreOptions{Dir: dir}, strings.NewReader(test.export))
			if err == nil || !strings.Contains(err.Error(), test.says) {
				t.Errorf("import: %v; want %q", err, test.says)
			}
			if _, err := os.Stat(dir); !os.IsNotExist(err) {
				t.Errorf("something is left of it: %v", err)
			}
		})
	}
}

// P8: whatever is damaged, what can be read is got out, with what could not be named.
func TestSalvageGetsWhatCanBeRead(t *testing.T) {
	open, closed := damageFixture(t)
	data := func(dir, pattern string) string { return newest(t, filepath.Join(dir, dataName), pattern) }
	for _, test := range []struct {
		name    string
		from    string
		damage  func(dir string)
		atLeast int
		left    string // one of what is left out; "": nothing is
	}{
		{"nothing", closed, func(string) {}, 300, ""},
		{"nothing, killed", open, func(string) {}, 300, ""},
		{"the mark", closed, func(dir string) { remove(t, filepath.Join(dir, markName)) }, 300, ""},
		{"the list of tables", closed, func(dir string) { flip(t, filepath.Join(dir, dataName, "MANIFEST"), 1) }, 300, "the list of tables"},
		{"the key registry", closed, func(dir string) { cutFile(t, filepath.Join(dir, dataName, "KEYREGISTRY"), 3) }, 300, ""},
		{"a table", closed, func(dir string) { flip(t, data(dir, "*.sst"), 60) }, 0, "does not match its checksums"},
		{"a table's end", closed, func(dir string) { cutFile(t, data(dir, "*.sst"), 100) }, 0, "it is cut off"},
		{"a missing table", closed, func(dir string) { remove(t, data(dir, "*.sst")) }, 0, "is missing"},
		{"all of Badger", open, func(dir string) {
			if err := os.RemoveAll(filepath.Join(dir, dataName)); err != nil {
				t.Fatal(err)
			}
			if err := os.Mkdir(filepath.Join(dir, dataName), 0o700); err != nil {
				t.Fatal(err)
			}
		}, 20, ""},
		{"the journal", open, func(dir string) { remove(t, newest(t, dir, "journal/*.log")) }, 250, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			dir := copyDir(t, test.from)
			test.damage(dir)
			before := sums(t, dir)
			var export bytes.Buffer
			done, err := Salvage(t.Context(), dir, nil, &export, ExportOptions{Status: true})
			if err != nil {
				t.Fatal(err)
			}
			if n := done.Export.Resources; n < test.atLeast || test.atLeast == 300 && done.Export.Damaged > 0 {
				t.Errorf("%+v; want at least %d resources", done, test.atLeast)
			}
			if left := strings.Join(done.Left, "\n"); (test.left == "") != (left == "") || !strings.Contains(left, test.left) {
				t.Errorf("left out: %q; want %q", left, test.left)
			}
			if sums(t, dir) != before {
				t.Error("the store was changed")
			}
			again, _ := imported(t, export.Bytes())
			defer mustClose(t, again)
			for key, rec := range contents(t, again) {
				var i int
				if _, err := fmt.Sscanf(key.Name, "key %d", &i); err != nil || number(rec.Desired.Payload) != uint64(i+1) {
					t.Errorf("%s came out as %d, %v", key, number(rec.Desired.Payload), err)
				}
			}
		})
	}
}

// One record that can't be read has a line that says so, and the others are there.
func TestAnExportTellsWhatItCouldNotRead(t *testing.T) {
	opts := filled(t)
	s := mustOpen(t, opts)
	if err := putMarker(s, 7).Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	mustClose(t, s)
	(&disk{t: t, dir: opts.Dir}).Damage(t, keyOf(7))
	s = mustOpen(t, opts)
	defer s.Close()
	again, done := imported(t, exportOf(t, s, ExportOptions{}))
	defer again.Close()
	if n := len(contents(t, again)); n != 19 || len(done.Damaged) != 1 || !strings.Contains(done.Damaged[0], "demo/key 7") {
		t.Errorf("%d records came back; damaged: %q", n, done.Damaged)
	}
}
