package badger

import (
	"bytes"
	"encoding/base64"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/pawlsync/pawl/engine/outbox"
	"github.com/pawlsync/pawl/engine/record"
)

func keyFile(t testing.TB, fill byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "key")
	text := base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{fill}, keyBytes)) + "\n"
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func testKey(t testing.TB, fill byte) *Key {
	t.Helper()
	k, err := ReadKey(keyFile(t, fill))
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// secrets are what must not be found in the folder of a sealed store.
var secrets = []string{"the-name-of-it", "the-payload-of-it", "the-state-of-it", "the-document-of-it"}

// sealedStore makes a sealed store that holds them everywhere: in tables, in the value
// log, in Badger's logs and in the journal alone. It returns what a kill leaves.
func sealedStore(t testing.TB, key *Key) Options {
	t.Helper()
	opts := testOptions(t, t.TempDir())
	opts.Key = key
	s := mustOpen(t, opts)
	put := func(i, size int) {
		name := record.Key{Sink: "demo", Name: "the-name-of-it " + string(rune('a'+i))}
		payload := []byte(strings.Repeat("the-payload-of-it ", size))
		err := s.Update(name, func(outbox.Record) (outbox.Change, error) {
			return outbox.Change{Desired: &record.Desired{Payload: payload, Hash: record.HashOf(payload)}, NewGeneration: true,
				Status: &record.Status{Message: "the-state-of-it"}}, nil
		}).Wait(t.Context())
		if err != nil {
			t.Fatal(err)
		}
	}
	for i := range 8 {
		put(i, 1+i*30)
	}
	if err := s.SetMeta("sink/demo", []byte("the-document-of-it")); err != nil {
		t.Fatal(err)
	}
	mustClose(t, s)
	s = mustOpen(t, opts)
	for i := range 8 {
		put(8+i, 1+i*30)
	}
	if err := s.apply(); err != nil {
		t.Fatal(err)
	}
	s.applyMu.Lock()
	for i := range 8 {
		put(16+i, 1+i*30)
	}
	opts.Dir = copyDir(t, s.opts.Dir)
	copyOne(t, filepath.Join(s.opts.Dir, keysName), filepath.Join(opts.Dir, keysName))
	s.applyMu.Unlock()
	mustClose(t, s)
	return opts
}

// readable lists the files below dir in which a secret can be read.
func readable(t testing.TB, dir string) (found []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := os.ReadFile(path)
		for _, secret := range secrets {
			if bytes.Contains(b, []byte(secret)) {
				found = append(found, filepath.Base(path)+": "+secret)
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// Nothing of a sealed store can be read without its key, names included, nor of its
// backup; with it all is there.
func TestNothingOfASealedStoreIsReadable(t *testing.T) {
	if found := readable(t, sealedStore(t, nil).Dir); len(found) < 6 {
		t.Fatalf("of a store that is not sealed only %q are found; the test looks at too little", found)
	}
	key := testKey(t, 1)
	opts := sealedStore(t, key)
	if found := readable(t, opts.Dir); len(found) > 0 {
		t.Errorf("readable: %q", found)
	}
	s := mustOpen(t, opts)
	all := contents(t, s)
	for name, rec := range all {
		if !strings.HasPrefix(string(rec.Desired.Payload), "the-payload-of-it") {
			t.Errorf("%s: %.40q", name, rec.Desired.Payload)
		}
	}
	if len(all) != 24 {
		t.Errorf("%d records are there, want 24", len(all))
	}
	backup := backupOf(t, s, Since{})
	if err := s.Compact(t.Context()); err != nil {
		t.Fatal(err)
	}
	mustClose(t, s)
	if found := readable(t, opts.Dir); len(found) > 0 {
		t.Errorf("after compaction, readable: %q", found)
	}
	for _, secret := range secrets {
		if bytes.Contains(backup, []byte(secret)) {
			t.Errorf("the backup shows %s", secret)
		}
	}
	r, err := Check(t.Context(), opts.Dir, key, nil)
	if err != nil || len(r.Problems) > 0 || r.Resources != 24 {
		t.Errorf("check: %+v, %v", r, err)
	}
	var export bytes.Buffer
	if done, err := Salvage(t.Context(), opts.Dir, key, &export, ExportOptions{}); err != nil || done.Export.Resources != 24 {
		t.Errorf("salvage: %+v, %v", done, err)
	}
}

// A wrong key, a missing one, and one where none is due are told apart, and change
// nothing.
func TestAWrongKeyIsSaid(t *testing.T) {
	one, other := testKey(t, 1), testKey(t, 2)
	sealed, plain := sealedStore(t, one), sealedStore(t, nil)
	for _, test := range []struct {
		name string
		opts Options
		key  *Key
		says []string
	}{
		{"another key", sealed, other, []string{"sealed with the key " + one.String(), "the one given is " + other.String()}},
		{"no key", sealed, nil, []string{"sealed with the key " + one.String(), "store.encryption_key_file"}},
		{"a key for a store that is not sealed", plain, one, []string{"is not sealed", "backing it up"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			opts := test.opts
			opts.Key, opts.AcceptLoss = test.key, true
			before := sums(t, opts.Dir)
			_, err := Open(opts)
			_, checkErr := Check(t.Context(), opts.Dir, test.key, nil)
			_, salvageErr := Salvage(t.Context(), opts.Dir, test.key, &bytes.Buffer{}, ExportOptions{})
			for _, err := range []error{err, checkErr, salvageErr} {
				if !errors.Is(err, ErrKey) {
					t.Fatalf("%v; want ErrKey", err)
				}
				for _, want := range test.says {
					if !strings.Contains(err.Error(), want) {
						t.Errorf("%q does not say %q", err, want)
					}
				}
			}
			if sums(t, opts.Dir) != before {
				t.Error("the store was changed")
			}
		})
	}
}

// The operator's key is changed without a change of what is stored, and the old one
// opens nothing any more.
func TestTheKeyIsRotated(t *testing.T) {
	one, other := testKey(t, 1), testKey(t, 2)
	opts := sealedStore(t, one)
	s := mustOpen(t, opts)
	want := contents(t, s)
	if err := RotateKey(opts.Dir, one, other); !errors.Is(err, outbox.ErrLocked) {
		t.Errorf("rotate under a running store: %v", err)
	}
	mustClose(t, s)
	if err := RotateKey(opts.Dir, other, one); !errors.Is(err, ErrKey) {
		t.Errorf("rotate with the wrong key: %v", err)
	}
	if err := RotateKey(opts.Dir, one, other); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(opts); !errors.Is(err, ErrKey) {
		t.Errorf("the old key: %v", err)
	}
	opts.Key = other
	s = mustOpen(t, opts)
	defer s.Close()
	if is := contents(t, s); !reflect.DeepEqual(want, is) {
		t.Errorf("%v changed", differing(want, is))
	}
	if info := s.Info(); info.Lossy {
		t.Errorf("%+v", info)
	}
}

// A store is sealed, and no longer so, by way of a backup.
func TestABackupIsRestoredWithAnotherKey(t *testing.T) {
	one, other := testKey(t, 1), testKey(t, 2)
	for _, test := range []struct {
		name         string
		was, becomes *Key
	}{{"sealed", nil, one}, {"sealed anew", one, other}, {"no longer sealed", one, nil}} {
		t.Run(test.name, func(t *testing.T) {
			s := mustOpen(t, sealedStore(t, test.was))
			defer s.Close()
			backup := backupOf(t, s, Since{})
			o := RestoreOptions{Dir: filepath.Join(t.TempDir(), "store"), Key: test.becomes, BackupKey: test.was}
			if _, err := Restore(t.Context(), o, bytes.NewReader(backup)); err != nil {
				t.Fatal(err)
			}
			opts := testOptions(t, o.Dir)
			opts.Key = test.becomes
			again := mustOpen(t, opts)
			defer again.Close()
			if was, is := contents(t, s), contents(t, again); !reflect.DeepEqual(was, is) {
				t.Errorf("%v changed", differing(was, is))
			}
			if found := readable(t, o.Dir); (len(found) == 0) != (test.becomes != nil) {
				t.Errorf("readable: %q", found)
			}
			if test.was == nil {
				return
			}
			for _, key := range []*Key{nil, other} {
				o := RestoreOptions{Dir: filepath.Join(t.TempDir(), "store"), BackupKey: key}
				if _, err := Restore(t.Context(), o, bytes.NewReader(backup)); !errors.Is(err, ErrKey) || !strings.Contains(err.Error(), one.String()) {
					t.Errorf("restore with the key %v: %v", key, err)
				}
			}
			if found, err := VerifyBackup(bytes.NewReader(backup), nil, nil); err != nil || found.End.Records == 0 {
				t.Errorf("its checksums, without its key: %+v, %v", found, err)
			}
		})
	}
}

// What is sealed can't be changed without notice, where a checksum alone would be made
// to fit.
func TestASealedFrameIsTiedToItsPlace(t *testing.T) {
	key := testKey(t, 1)
	f := frame{prev: 1, last: 2, count: 1}
	body := append(make([]byte, frameHeader), "body"...)
	x := key.segmentBox(nonce{1}, 3)
	b := f.finish(body, nonce{1}, x)
	got, _, err := parseFrame(b, nonce{1})
	if err == nil {
		err = got.unseal(b, x)
	}
	if err != nil || string(got.body) != "body" {
		t.Fatalf("%q, %v", got.body, err)
	}
	for _, other := range []*box{key.segmentBox(nonce{2}, 3), key.segmentBox(nonce{1}, 4), testKey(t, 2).segmentBox(nonce{1}, 3)} {
		got, _, _ := parseFrame(b, nonce{1})
		if err := got.unseal(b, other); !errors.Is(err, outbox.ErrDamaged) {
			t.Errorf("in another segment, or with another key: %v", err)
		}
	}
	b[24]++ // prev
	f, _, _ = parseFrame(b, nonce{1})
	f.body = b[frameHeader:]
	if err := f.unseal(b, x); !errors.Is(err, outbox.ErrDamaged) {
		t.Errorf("with another revision: %v", err)
	}
}

func TestKeyFiles(t *testing.T) {
	path := keyFile(t, 1)
	for content, says := range map[string]string{"": "holds no key", "short": "holds no key", strings.Repeat("A", 43): "openssl rand"} {
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := ReadKey(path); !errors.Is(err, ErrKey) || !strings.Contains(err.Error(), says) || content != "" && strings.Contains(err.Error(), content) {
			t.Errorf("%q: %v", content, err)
		}
	}
	if _, err := ReadKey(filepath.Join(path, "no")); err == nil || errors.Is(err, ErrKey) {
		t.Errorf("a file that is not there: %v", err)
	}
}
