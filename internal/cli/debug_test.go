package cli

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pawlsync/pawl/internal/api"
)

// packedBundle is a bundle as a daemon sends it, with an index or without.
func packedBundle(t *testing.T, index string) []byte {
	t.Helper()
	var out bytes.Buffer
	packed := gzip.NewWriter(&out)
	files := tar.NewWriter(packed)
	for name, content := range map[string]string{"sinks.json": "[]\n", api.BundleIndexName: index} {
		if content == "" {
			continue
		}
		if err := files.WriteHeader(&tar.Header{Name: api.BundleDir + name, Mode: 0o600, Size: int64(len(content))}); err != nil {
			t.Fatal(err)
		}
		if _, err := files.Write([]byte(content)); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(files.Close(), packed.Close()); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

const bundleIndex = `{"keys": true, "members": [
	{"name": "sinks.json", "what": "the state of every sink", "bytes": 3},
	{"name": "store.json", "what": "figures", "error": "it is closed"}]}`

// serveBundle answers with content, and reports the newest query.
func serveBundle(t *testing.T, content []byte) (address string, query *string) {
	t.Helper()
	query = new(string)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		*query = r.URL.RequestURI()
		_, _ = w.Write(content)
	}))
	t.Cleanup(srv.Close)
	return srv.URL, query
}

func TestABundleIsWrittenWholeForItsOwnerAlone(t *testing.T) {
	content := packedBundle(t, bundleIndex)
	address, query := serveBundle(t, content)
	t.Chdir(t.TempDir())
	stdout, stderr, code := run(t, address, "", "debug", "bundle", "--keys")
	const file = "pawl-debug-20260304T120000Z.tar.gz"
	if code != ExitDone || *query != "/v1/debug/bundle?keys=true" {
		t.Fatalf("exit code %d after %s:\n%s", code, *query, stderr)
	}
	if got, err := os.ReadFile(file); err != nil || !bytes.Equal(got, content) {
		t.Errorf("the file has %d bytes of %d, %v", len(got), len(content), err)
	}
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("others may read it: %v, %v", info.Mode(), err)
	}
	for _, want := range []string{file + ": 3 files, 3 B", "sinks.json", "the state of every sink", "store.json could not be had: it is closed", "keys and texts of errors", "Read it before you send it"} {
		if !strings.Contains(stdout, want) {
			t.Errorf("%q is not said:\n%s", want, stdout)
		}
	}
}

func TestABundleOverwritesNothing(t *testing.T) {
	address, _ := serveBundle(t, packedBundle(t, bundleIndex))
	file := filepath.Join(t.TempDir(), "mine")
	if err := os.WriteFile(file, []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, stderr, code := run(t, address, "", "debug", "bundle", "-f", file)
	if got, err := os.ReadFile(file); code == ExitDone || string(got) != "mine" || err != nil || !strings.Contains(stderr, "not overwritten") {
		t.Errorf("exit code %d, the file has %q, %v:\n%s", code, got, err, stderr)
	}
}

func TestABundleGoesToStandardOutputAlone(t *testing.T) {
	content := packedBundle(t, bundleIndex)
	address, query := serveBundle(t, content)
	stdout, stderr, code := run(t, address, "", "debug", "bundle", "-f", "-")
	if code != ExitDone || stdout != string(content) || *query != "/v1/debug/bundle" {
		t.Errorf("exit code %d, %d bytes of %d, asked %s", code, len(stdout), len(content), *query)
	}
	if !strings.Contains(stderr, "Read it before you send it") {
		t.Errorf("standard error says:\n%s", stderr)
	}
}

func TestABundleThatIsNotWholeLeavesNoFile(t *testing.T) {
	whole := packedBundle(t, bundleIndex)
	damaged := bytes.Clone(whole)
	damaged[len(damaged)-5] ^= 1 // of the length, behind the checksum
	for name, content := range map[string][]byte{
		"cut off": whole[:len(whole)-1], "damaged": damaged, "without an index": packedBundle(t, ""), "something else": []byte("hello"),
	} {
		address, _ := serveBundle(t, content)
		file := filepath.Join(t.TempDir(), "bundle")
		_, stderr, code := run(t, address, "", "debug", "bundle", "-f", file)
		if code != ExitError || !strings.Contains(stderr, "not whole") {
			t.Errorf("%s: exit code %d\n%s", name, code, stderr)
		}
		for _, left := range []string{file, file + ".part"} {
			if _, err := os.Stat(left); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("%s: %s is left", name, left)
			}
		}
	}
}

func TestWithoutADaemonTheBundleSaysWhatToGatherInstead(t *testing.T) {
	d := newFakeDaemon(t)
	d.Close()
	file := filepath.Join(t.TempDir(), "bundle")
	_, stderr, code := run(t, d.URL, "", "debug", "bundle", "-f", file)
	if code != ExitUnreachable {
		t.Errorf("exit code %d, want %d", code, ExitUnreachable)
	}
	for _, want := range []string{"journalctl", "pawl config show", "pawl store check", "kill -QUIT"} {
		if !strings.Contains(stderr, want) {
			t.Errorf("%q is not said:\n%s", want, stderr)
		}
	}
	if _, err := os.Stat(file + ".part"); !errors.Is(err, fs.ErrNotExist) {
		t.Error("a file is left")
	}
}
