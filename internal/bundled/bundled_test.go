package bundled

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"testing/fstest"
)

func TestABuiltPluginIsFoundByName(t *testing.T) {
	f := fstest.MapFS{
		"plugins/README.md": {Data: []byte("text")},
		"plugins/http.wasm": {Data: []byte("\x00asm")},
		"plugins/abc.wasm":  {Data: []byte("\x00asm")},
	}
	if got := names(f); len(got) != 2 || got[0] != "abc" || got[1] != "http" {
		t.Fatalf("names = %q", got)
	}
	if b, err := plugin(f, "http"); err != nil || !bytes.Equal(b, []byte("\x00asm")) {
		t.Fatalf("plugin = %q, %v", b, err)
	}
}

func TestAMissingPluginSaysWhatToDo(t *testing.T) {
	empty := fstest.MapFS{"plugins/README.md": {}}
	for name, want := range map[string]string{
		"http":      `run "make plugins"`,
		"htpp":      "bundled are http, kube, pawl, spicedb",
		"":          "bundled are http, kube, pawl, spicedb",
		"../README": "bundled are http, kube, pawl, spicedb",
	} {
		_, err := plugin(empty, name)
		if !errors.Is(err, ErrNotFound) || !strings.Contains(err.Error(), want) {
			t.Errorf("plugin(%q) = %v, want ErrNotFound that says %q", name, err, want)
		}
	}
}

func TestThePlaceholderIsEnoughToBuild(t *testing.T) {
	if _, err := files.Open("plugins/README.md"); err != nil {
		t.Fatal(err)
	}
	for _, n := range Names() {
		if b, err := Plugin(n); err != nil || !bytes.HasPrefix(b, []byte("\x00asm")) {
			t.Errorf("plugin %s is not a wasm module (%v); run \"make plugins\" again", n, err)
		}
	}
}
