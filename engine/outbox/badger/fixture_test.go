package badger

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"strconv"
	"testing"
	"time"

	"github.com/pawlsync/pawl/engine/outbox"
	"github.com/pawlsync/pawl/engine/record"
)

var writeFixture = flag.Bool("write-fixture", false, "write the fixture of the current format to testdata")

// sizeRecord is a file's whole size in a fixture, where the zeros at its end are left out.
const sizeRecord = "PAWL.size"

// pack writes the folder dir as a fixture.
func pack(t testing.TB, dir, path string) {
	t.Helper()
	var b bytes.Buffer
	z, _ := gzip.NewWriterLevel(&b, gzip.BestCompression)
	w := tar.NewWriter(z)
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		name, _ := filepath.Rel(dir, path)
		held := bytes.TrimRight(content, "\x00")
		err = w.WriteHeader(&tar.Header{Name: name, Mode: 0o600, Size: int64(len(held)),
			PAXRecords: map[string]string{sizeRecord: strconv.Itoa(len(content))}})
		return errors.Join(err, second(w.Write(held)))
	})
	if err := errors.Join(err, w.Close(), z.Close(), os.WriteFile(path, b.Bytes(), 0o644)); err != nil {
		t.Fatal(err)
	}
}

// unpack makes a folder of a fixture.
func unpack(t testing.TB, path string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return dir
		}
		if err != nil {
			t.Fatal(err)
		}
		b, err := io.ReadAll(r)
		to := filepath.Join(dir, h.Name)
		size, _ := strconv.ParseInt(h.PAXRecords[sizeRecord], 10, 64)
		err = errors.Join(err, os.MkdirAll(filepath.Dir(to), 0o700), os.WriteFile(to, b, 0o600), os.Truncate(to, size))
		if err != nil {
			t.Fatal(err)
		}
	}
}

// fixtureTime is the time of all that the fixtures hold.
var fixtureTime = time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC)

// fixtureRecords are what the fixtures of all formats hold, but for generations.
func fixtureRecords() map[record.Key]outbox.Record {
	list := map[record.Key]outbox.Record{}
	for i := range 40 {
		d := record.Desired{Payload: content(uint64(i)), Hash: record.HashOf(content(uint64(i))), Owner: "git", PutAt: fixtureTime,
			WaitingSince: fixtureTime, Conflict: record.ReportOnly, Order: record.Order{Source: "git", Epoch: "e", Number: uint64(i)}}
		st := record.Status{Phase: record.AckedPhase, UpdatedAt: fixtureTime, Acked: &record.Acked{Hash: d.Hash, At: fixtureTime, Target: "t"}}
		switch {
		case i%10 == 7:
			d.Payload, d.Hash, d.Tombstone = nil, record.Hash{}, true
		case i%10 == 8:
			d = record.Desired{Gone: true, GoneUntil: fixtureTime, Order: d.Order}
			st = record.Status{}
		case i%10 == 9:
			d.Suspend = true
		}
		list[keyOf(i)] = outbox.Record{Desired: d, Status: st}
	}
	return list
}

// TestAStoreOfEveryFormatGoesOn opens what older programs left behind when they were
// killed: tables, logs, and a journal that Badger had not got. Each fixture was made
// by the last program of its format, with -write-fixture.
func TestAStoreOfEveryFormatGoesOn(t *testing.T) {
	current := fmt.Sprintf("testdata/format-%d.tar.gz", formatNumber)
	if *writeFixture {
		pack(t, killedStore(t), current)
	}
	paths, err := filepath.Glob("testdata/format-*.tar.gz")
	if err != nil || len(paths) != formatNumber {
		t.Fatalf("%d fixtures for %d formats, %v", len(paths), formatNumber, err)
	}
	for i, path := range paths {
		t.Run(filepath.Base(path), func(t *testing.T) {
			opts := testOptions(t, unpack(t, path))
			for again := range 2 { // of the current format the second time
				s := mustOpen(t, opts)
				if info := s.Info(); again == 0 && info.FormatFrom != i+1 || again == 1 && info.FormatFrom != formatNumber || info.Lossy {
					t.Errorf("open %d: %+v", again, info)
				}
				wantFixture(t, s)
				mustClose(t, s)
			}
			mustCheck(t, opts.Dir)
		})
	}
}

// wantFixture checks that s holds what killedStore put, all of it and no more.
func wantFixture(t *testing.T, s *Store) {
	t.Helper()
	want := fixtureRecords()
	err := s.Heads(t.Context(), outbox.Span{}, func(h outbox.Head) bool {
		rec, err := s.Get(h.Key)
		expected, ok := want[h.Key]
		expected.Desired.Generation = rec.Desired.Generation
		if err != nil || !ok || rec.Desired.Generation == 0 || !reflect.DeepEqual(rec, expected) {
			t.Errorf("%s: got %+v, %v; want %+v", h.Key, rec, err, expected)
		}
		delete(want, h.Key)
		return true
	})
	doc, metaErr := s.Meta("sink/demo")
	if err != nil || len(want) > 0 || metaErr != nil || string(doc) != fixtureDocument {
		t.Errorf("%v, %d records are missing, document %q, %v", err, len(want), doc, metaErr)
	}
}

const fixtureDocument = `{"suspended":"Operator"}`

// killedStore makes a store with something in every kind of file, and returns what a
// kill leaves of it.
func killedStore(t testing.TB) (dir string) {
	opts := testOptions(t, t.TempDir())
	s := mustOpen(t, opts)
	records := fixtureRecords()
	change := func(i int, c outbox.Change) {
		t.Helper()
		err := s.Update(keyOf(i), func(outbox.Record) (outbox.Change, error) { return c, nil }).Wait(t.Context())
		if err != nil {
			t.Fatal(err)
		}
	}
	put := func(from, to int) {
		for i := from; i < to; i++ {
			r := records[keyOf(i)]
			change(i, outbox.Change{Desired: &r.Desired, Status: &r.Status, NewGeneration: true})
		}
	}
	for i := range 45 {
		change(i, outbox.Change{Desired: &record.Desired{Payload: content(uint64(i + 1000))}, NewGeneration: true})
	}
	put(0, 15)
	if err := s.SetMeta("sink/demo", []byte(fixtureDocument)); err != nil {
		t.Fatal(err)
	}
	mustClose(t, s)
	s = mustOpen(t, opts)
	defer mustClose(t, s)
	put(15, 30)
	for i := 40; i < 45; i++ {
		change(i, outbox.Change{Remove: true})
	}
	if err := s.apply(); err != nil {
		t.Fatal(err)
	}
	s.applyMu.Lock()
	defer s.applyMu.Unlock()
	put(30, 40)
	return copyDir(t, opts.Dir)
}
