package oci

import (
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/opencontainers/go-digest"
)

func TestWhatWasPulledOnceNeedsNoRegistry(t *testing.T) {
	asked := 0
	host := between(t, startRegistry(t, false), func(r *http.Response) error {
		if r.Request.Method == http.MethodGet {
			asked++
		}
		return nil
	}).Host
	m := module("kept")
	ref := mustPush(t, host+"/p:v1", m, Options{}).Ref
	dir := filepath.Join(t.TempDir(), "new", "pulled")
	cached := func(wantAsked bool) {
		t.Helper()
		before := asked
		a, err := Cached(t.Context(), dir, ref, Options{})
		if err != nil || string(a.Module) != string(m) || a.Ref != ref || a.SHA256 != hexSum(m) {
			t.Fatalf("got %+v, %v", a, err)
		}
		if (asked > before) != wantAsked {
			t.Errorf("the registry was asked %d times", asked-before)
		}
	}
	cached(true)
	cached(false)

	_, pinned, _ := strings.Cut(ref, "@")
	manifest := kept{dir}.path(digest.Digest(pinned))
	evil, evilManifest, _, err := pack(module("evil"))
	if err != nil {
		t.Fatal(err)
	}
	for name, spoil := range map[string]func() error{
		"another module":   func() error { return os.WriteFile(kept{dir}.path(digest.FromBytes(m)), module("evil"), 0o600) },
		"another manifest": func() error { return os.WriteFile(manifest, evilManifest, 0o600) },
		"no manifest":      func() error { return os.WriteFile(manifest, evil, 0o600) },
		"module cut off":   func() error { return os.Truncate(kept{dir}.path(digest.FromBytes(m)), 5) },
		"no module":        func() error { return os.Remove(kept{dir}.path(digest.FromBytes(m))) },
	} {
		if err := spoil(); err != nil {
			t.Fatal(err)
		}
		t.Log(name)
		cached(true)
		cached(false)
	}
}

func TestOnlyPinnedReferencesAreKept(t *testing.T) {
	_, err := Cached(t.Context(), t.TempDir(), "127.0.0.1:1/p:v1", Options{}) // nothing listens there
	mustBe(t, "a tag", err, ErrReference, "not pinned")
}

func TestFolderThatCantBeWrittenIsTold(t *testing.T) {
	host := startRegistry(t, false)
	ref := mustPush(t, host+"/p:v1", module("x"), Options{}).Ref
	file := write(t, t.TempDir(), "file", "")
	_, err := Cached(t.Context(), filepath.Join(file, "pulled"), ref, Options{})
	mustBe(t, "below a file", err, ErrCache, file)
}

func TestFileIsReplacedWholeOrNotAtAll(t *testing.T) {
	dir := t.TempDir()
	name := write(t, dir, "plugin.wasm", "before")
	if err := WriteFile(name, []byte("after"), 0o644); err != nil {
		t.Fatal(err)
	}
	if got, _ := os.ReadFile(name); string(got) != "after" {
		t.Errorf("it holds %q", got)
	}
	if err := WriteFile(filepath.Join(name, "below"), nil, 0o644); !errors.Is(err, os.ErrNotExist) && err == nil {
		t.Errorf("below a file: %v", err)
	}
	if err := os.Mkdir(filepath.Join(dir, "folder"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := WriteFile(filepath.Join(dir, "folder"), nil, 0o644); err == nil {
		t.Error("a folder was replaced")
	}
	if left, _ := filepath.Glob(filepath.Join(dir, ".*")); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}
