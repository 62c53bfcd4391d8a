package daemon

import (
	"context"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/pawlsync/pawl/config"
)

// TestWhatAPluginOrAFileRefusesIsToldWithLineAndKey covers what Load can't see:
// Check and Run tell the same, all at once, in the words of the file.
func TestWhatAPluginOrAFileRefusesIsToldWithLineAndKey(t *testing.T) {
	needPlugins(t)
	dir := t.TempDir()
	file := filepath.Join(dir, "pawl.yaml")
	text := `server: {listen: "127.0.0.1:0", token_file: none.token}
store: {path: store, reserve_bytes: 64MiB}
plugins:
  gone: {path: gone.wasm}
  text: {path: pawl.yaml}
upstreams:
  file:
    base_url: http://127.0.0.1:1
    credentials:
      bearer: {file: none.bearer}
  env:
    base_url: http://127.0.0.1:1
    credentials:
      header: {name: X-Key, secret: {env: PAWL_TEST_UNSET}}
    sign:
      standard_webhooks:
        secret: {value: not-base64}
        previous_secret: {value: "whsec_!"}
  tls:
    base_url: https://127.0.0.1:1
    tls: {ca_file: pawl.yaml}
sinks:
  typo:
    plugin: http
    upstreams: [file]
    config: {paht: "/x/{key}"}
  empty:
    plugin: http
    upstreams: [tls]
  alone:
    plugin: http
    config: {path: "/x/{key}"}
  gone: {plugin: gone}
  text: {plugin: text}
`
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	c := load(t, file)
	err := Check(t.Context(), c, options())
	for _, want := range []struct{ line, key, what string }{
		{":1:", "server.token_file", "none.token: no such file or directory; `pawl token new"},
		{":4:", "plugins.gone.path", "gone.wasm"},
		{":5:", "plugins.text.path", "plugin"},
		{":10:", "upstreams.file.credentials.bearer", "none.bearer"},
		{":14:", "upstreams.env.credentials.header.secret", "PAWL_TEST_UNSET is not set"},
		{":17:", "upstreams.env.sign.standard_webhooks.secret", "can't be used"},
		{":18:", "upstreams.env.sign.standard_webhooks.previous_secret", "can't be used"},
		{":21:", "upstreams.tls.tls.ca_file", "pawl.yaml"},
		{":26:", "sinks.typo.config", "paht"},
		{":27:", "sinks.empty.config", "path"},
		{":32:", "sinks.alone.config", "upstream"},
	} {
		if !hasLine(err, file+want.line, want.key+":", want.what) {
			t.Errorf("no line with %s, %s and %q", want.line, want.key, want.what)
		}
	}
	if all, ok := errors.AsType[config.Errors](err); !ok || len(all) != 11 {
		t.Errorf("%d errors, want 11", len(all))
	}
	for _, goName := range []string{"Webhook", "Credentials.", "CAFile", "wasmhost"} {
		if strings.Contains(fmt.Sprint(err), goName) {
			t.Errorf("the message speaks of %s", goName)
		}
	}
	if strings.Contains(fmt.Sprint(err), "not-base64") {
		t.Error("a secret is shown")
	}
	if t.Failed() {
		t.Logf("got:\n%v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	o := options()
	o.Ready = func(Ready) { cancel() }
	if ran := Run(ctx, c, o); fmt.Sprint(ran) != fmt.Sprint(err) {
		t.Errorf("Run says\n%v\nand Check\n%v", ran, err)
	}
}

func hasLine(err error, parts ...string) bool {
	for line := range strings.Lines(fmt.Sprint(err)) {
		all := true
		for _, p := range parts {
			all = all && strings.Contains(line, p)
		}
		if all {
			return true
		}
	}
	return false
}

func TestASagaTemplateThatItsSinksCanNotRunIsToldWithItsLine(t *testing.T) {
	needPlugins(t)
	file := write(t, t.TempDir(), "http://127.0.0.1:1", `
sagas:
  two:
    mode: optimistic
    params: {name: {pattern: "[a-z]+"}}
    steps:
      - {sink: web, key: "a/{{.name}}", verb: create, payload: {}}
      - {sink: web, key: "b/{{.name}}", verb: delete}
`)
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	before, _, _ := strings.Cut(string(text), "    steps:")
	line := fmt.Sprintf("%s:%d:", file, strings.Count(before, "\n")+1)
	err = Check(t.Context(), load(t, file), options())
	if !hasLine(err, line, "sagas.two.steps: ", "step 1 (create web/a/{{.name}}): its sink can't mark what it writes") {
		t.Errorf("no such line at %s:\n%v", line, err)
	}
}

func TestCheckFindsNothingWrongWithWhatStarts(t *testing.T) {
	needPlugins(t)
	dir := t.TempDir()
	c := load(t, write(t, dir, "http://127.0.0.1:1", ""))
	if err := Check(t.Context(), c, options()); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(c.Store.Path); err == nil {
		t.Error("a check made a store")
	}
}

func TestAFolderOfSomethingElseIsNoStore(t *testing.T) {
	for _, c := range []struct {
		name    string
		holds   []string
		refused bool
	}{
		{"empty", nil, false},
		{"a file system of its own", []string{"lost+found"}, false},
		{"a store", []string{"lock", "data", "notes.txt"}, false},
		{"a home", []string{"notes.txt", "photos"}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			for _, name := range c.holds {
				if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			err := wrongStore(&config.Config{Store: config.Store{Path: dir}})
			if refused := len(err) > 0; refused != c.refused {
				t.Errorf("refused %v, want %v: %v", refused, c.refused, err)
			}
			if c.refused && !hasLine(err, "store.path", dir, "notes.txt", "1 more") {
				t.Errorf("%v does not say what the folder holds", err)
			}
		})
	}
}

// TestEveryKeyIsReadByTheDaemon fails for a key that is documented and does
// nothing. It goes by the types: what a field of the configuration is used by.
func TestEveryKeyIsReadByTheDaemon(t *testing.T) {
	fset := token.NewFileSet()
	configPackage := typed(t, fset, "../../config", "github.com/pawlsync/pawl/config", nil, nil)
	used := map[types.Object]bool{}
	info := &types.Info{Uses: map[*ast.Ident]types.Object{}}
	typed(t, fset, ".", "github.com/pawlsync/pawl/internal/daemon", configPackage, info)
	typed(t, fset, "../sagatemplate", "github.com/pawlsync/pawl/internal/sagatemplate", configPackage, info)
	typed(t, fset, "../cli", "github.com/pawlsync/pawl/internal/cli", configPackage, info) // hands the logger over
	for _, o := range info.Uses {
		used[o] = true
	}
	seen := map[reflect.Type]bool{}
	var walk func(reflect.Type)
	walk = func(r reflect.Type) {
		for r.Kind() == reflect.Pointer || r.Kind() == reflect.Map || r.Kind() == reflect.Slice {
			r = r.Elem()
		}
		if r.Kind() != reflect.Struct || seen[r] {
			return
		}
		seen[r] = true
		s := configPackage.Scope().Lookup(r.Name()).Type().Underlying().(*types.Struct)
		for i := range r.NumField() {
			f := r.Field(i)
			if f.Tag.Get("key") == "-" || !f.IsExported() {
				continue
			}
			spread := f.Name == "Defaults" || r == reflect.TypeFor[config.Plugin]() && f.Name == "Limits" // over the sinks, by the loader
			checked := f.Name == "AdminRemote"                                                            // by the configuration's own checks, and a leave only
			if !f.Anonymous && !spread && !checked && !used[s.Field(i)] {
				t.Errorf("%s.%s (%s) is read by nothing in the daemon", r.Name(), f.Name, f.Tag.Get("key"))
			}
			walk(f.Type)
		}
	}
	walk(reflect.TypeFor[config.Config]())
}

// typed checks the types of the package in dir as far as that goes without its
// imports but known.
func typed(t *testing.T, fset *token.FileSet, dir, path string, known *types.Package, info *types.Info) *types.Package {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil || len(names) == 0 {
		t.Fatalf("no source in %s: %v", dir, err)
	}
	var files []*ast.File
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(fset, name, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, f)
	}
	conf := types.Config{Error: func(error) {}, Importer: importer{known}}
	p, _ := conf.Check(path, fset, files, info) // errors are expected: most imports are missing
	return p
}

type importer struct{ known *types.Package }

func (i importer) Import(path string) (*types.Package, error) {
	if i.known != nil && path == i.known.Path() {
		return i.known, nil
	}
	p := types.NewPackage(path, filepath.Base(path))
	p.MarkComplete()
	return p, nil
}
