package cli

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pawlsync/pawl/engine/outbox"
	"github.com/pawlsync/pawl/engine/outbox/badger"
	"github.com/pawlsync/pawl/engine/record"
	"github.com/pawlsync/pawl/internal/api"
)

// storeKit runs commands on stores in a folder.
type storeKit struct {
	*testing.T
	dir string
}

func newStoreKit(t *testing.T) *storeKit { return &storeKit{t, t.TempDir()} }

func (k *storeKit) path(name string) string { return filepath.Join(k.dir, name) }

// pawl runs a command that has to end with code, and returns all that it said.
func (k *storeKit) pawl(code int, args ...string) string {
	k.Helper()
	stdout, stderr, got := run(k.T, "", "", args...)
	if got != code {
		k.Fatalf("pawl %s: exit code %d, want %d\n%s%s", strings.Join(args, " "), got, code, stdout, stderr)
	}
	return stdout + stderr
}

func (k *storeKit) wants(said string, parts ...string) {
	k.Helper()
	for _, part := range parts {
		if !strings.Contains(said, part) {
			k.Errorf("%q is not said in:\n%s", part, said)
		}
	}
}

// put puts one resource into the store of a folder.
func (k *storeKit) put(dir, name string, payload []byte) {
	k.Helper()
	s, err := badger.Open(badger.Options{Dir: dir, ReserveBytes: -1})
	if err != nil {
		k.Fatal(err)
	}
	defer s.Close()
	err = s.Update(record.Key{Sink: "web", Name: name}, func(outbox.Record) (outbox.Change, error) {
		return outbox.Change{Desired: &record.Desired{Payload: payload, Hash: record.HashOf(payload)}, NewGeneration: true}, nil
	}).Wait(k.Context())
	if err != nil {
		k.Fatal(err)
	}
}

func (k *storeKit) key(name string, fill byte) string {
	k.Helper()
	path := k.path(name)
	if err := os.WriteFile(path, []byte(base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{fill}, 32))), 0o600); err != nil {
		k.Fatal(err)
	}
	return path
}

func TestStoreBackupAndRestore(t *testing.T) {
	k := newStoreKit(t)
	dir, full, more, again := newStore(t), k.path("full"), k.path("more"), k.path("again")
	k.wants(k.pawl(ExitDone, "store", "backup", dir, "-o", full), full+": full", "1 resource")
	k.put(dir, "b", []byte(`{"n":1}`))
	k.wants(k.pawl(ExitDone, "store", "backup", dir, "-o", more, "--since", full), "increment from revision", "2 resources")
	k.wants(k.pawl(ExitDone, "store", "check", more), "increment", "nothing is wrong")
	k.wants(k.pawl(ExitDone, "store", "restore", full, more, "--into", again), "2 records", "suspended until", "pawl resume --sink")
	k.wants(k.pawl(ExitDone, "store", "check", again), "it was restored at", "2 resources", "nothing is wrong")
	k.wants(k.pawl(ExitDone, "store", "stats", again), "it was restored at", "2 resources", "web")

	k.wants(k.pawl(ExitError, "store", "restore", full, "--into", again), "nothing is overwritten")
	k.wants(k.pawl(ExitError, "store", "backup", dir, "-o", full), "is not overwritten")
	k.wants(k.pawl(ExitError, "store", "restore", more, "--into", k.path("x")), "give the full backup first")
	k.wants(k.pawl(ExitNotFound, "store", "restore", k.path("no"), "--into", k.path("x")), "no such file")
	k.wants(k.pawl(ExitNotFound, "store", "backup", k.path("x"), "-o", k.path("y")), "there is none")
	k.wants(k.pawl(ExitUsage, "store", "backup", dir), "needs -o FILE")
	for _, name := range []string{"x", "y", "y.part"} {
		if _, err := os.Stat(k.path(name)); !os.IsNotExist(err) {
			t.Errorf("%s was left behind: %v", name, err)
		}
	}

	piped, stderr, code := run(t, "", "", "store", "backup", dir, "-o", "-")
	if code != ExitDone || stderr != "" {
		t.Fatalf("a backup to standard output: exit code %d, %s", code, stderr)
	}
	if _, stderr, code := run(t, "", piped, "store", "restore", "-", "--into", k.path("piped")); code != ExitDone {
		t.Errorf("a restore of standard input: exit code %d, %s", code, stderr)
	}
	if err := os.WriteFile(k.path("cut"), []byte(piped[:len(piped)-9]), 0o600); err != nil {
		t.Fatal(err)
	}
	k.wants(k.pawl(ExitError, "store", "check", k.path("cut")), "it is cut off")
}

func TestStoreExportImportAndSalvage(t *testing.T) {
	k := newStoreKit(t)
	dir, export, again := newStore(t), k.path("export"), k.path("again")
	k.put(dir, "b", []byte(`{"n":1}`))
	lines := strings.Split(strings.TrimSpace(k.pawl(ExitDone, "store", "export", dir)), "\n")
	if len(lines) != 4 || !strings.Contains(lines[2], `"payload":{"n":1}`) {
		t.Errorf("exported:\n%s", strings.Join(lines, "\n"))
	}
	k.wants(k.pawl(ExitDone, "store", "export", dir, "--status", "-o", export), "2 resources")
	k.wants(k.pawl(ExitDone, "store", "import", export, "--into", again), "2 records")
	k.wants(k.pawl(ExitDone, "store", "check", again), "2 resources", "nothing is wrong")

	if n := damage(t, dir); n == 0 {
		t.Fatal("nothing was damaged")
	}
	k.wants(k.pawl(ExitError, "store", "backup", dir, "-o", k.path("damaged")), "what is desired of web/a can't be read")
	k.wants(k.pawl(ExitError, "store", "export", dir, "-o", k.path("damaged.ndjson")), "1 record can't be read")
	if err := os.Remove(filepath.Join(dir, "data", "MANIFEST")); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "data", "MANIFEST"), []byte("nonsense"), 0o600); err != nil {
		t.Fatal(err)
	}
	k.wants(k.pawl(ExitError, "store", "export", dir), "MANIFEST, the list of tables, is damaged", "--salvage")
	salvaged := k.path("salvaged")
	k.wants(k.pawl(ExitError, "store", "export", "--salvage", dir, "-o", salvaged), "left out: the list of tables", filepath.Join(dir, "data"), "1 resource")
	k.wants(k.pawl(ExitError, "store", "import", salvaged, "--into", k.path("left")), "1 record", "web/a can't be read")
	k.wants(k.pawl(ExitDone, "store", "check", k.path("left")), "1 resource", "nothing is wrong")
}

func TestStoreKeys(t *testing.T) {
	k := newStoreKit(t)
	dir, full, sealed := newStore(t), k.path("full"), k.path("sealed")
	one, two := k.key("one", 1), k.key("two", 2)
	k.pawl(ExitDone, "store", "backup", dir, "-o", full)
	k.pawl(ExitDone, "store", "restore", full, "--into", sealed, "--encryption-key-file", one)
	k.wants(k.pawl(ExitDone, "store", "stats", sealed, "--encryption-key-file", one), "it is sealed with the key")
	k.wants(k.pawl(ExitError, "store", "check", sealed), "none is given")
	k.wants(k.pawl(ExitError, "store", "check", sealed, "--encryption-key-file", two), "the one given is")
	k.wants(k.pawl(ExitDone, "store", "rotate-key", sealed, "--encryption-key-file", one, "--new-encryption-key-file", two), "sealed with the key")
	k.wants(k.pawl(ExitError, "store", "check", sealed, "--encryption-key-file", one), "the one given is")
	k.wants(k.pawl(ExitDone, "store", "check", sealed, "--encryption-key-file", two), "nothing is wrong")
	k.wants(k.pawl(ExitUsage, "store", "rotate-key", sealed), "needs --new-encryption-key-file")

	backup := k.path("sealed-backup")
	k.wants(k.pawl(ExitDone, "store", "backup", sealed, "--encryption-key-file", two, "-o", backup), "sealed with the key")
	k.wants(k.pawl(ExitDone, "store", "check", backup), "nothing is wrong")
	k.wants(k.pawl(ExitError, "store", "restore", backup, "--into", k.path("plain")), "give that key's file")
	k.pawl(ExitDone, "store", "restore", backup, "--into", k.path("plain"), "--backup-key-file", two)
	k.wants(k.pawl(ExitDone, "store", "check", k.path("plain")), "nothing is wrong")
}

func TestStoreCompactAndStatsOfAFolder(t *testing.T) {
	k := newStoreKit(t)
	dir := newStore(t)
	var before, after api.StoreDetails
	if err := json.Unmarshal([]byte(k.pawl(ExitDone, "store", "stats", dir, "-o", "json")), &before); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal([]byte(k.pawl(ExitDone, "store", "compact", dir, "-o", "json")), &after); err != nil {
		t.Fatal(err)
	}
	if before.Resources != 1 || after.Resources != 1 || before.GarbageBytes != -1 || after.GarbageBytes < 0 || len(after.Sinks) != 1 {
		t.Errorf("before %+v\nafter %+v", before, after)
	}
	k.wants(k.pawl(ExitUnreachable, "store", "stats", "--address", "127.0.0.1:1"), "no daemon answers")
}
