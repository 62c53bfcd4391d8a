package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/pawlsync/pawl/engine/wasmhost"
	"github.com/pawlsync/pawl/internal/bundled"
	"github.com/pawlsync/pawl/internal/conformance"
	"github.com/pawlsync/pawl/internal/nearest"
)

// readModule reads the module that an argument names: a file, or where there is
// none a bundled plugin. name is what errors call it.
func readModule(arg string) (wasm []byte, name string, err error) {
	if info, err := os.Stat(arg); err == nil && info.IsDir() {
		file := filepath.Join(arg, filepath.Base(arg)+".wasm")
		return nil, "", fmt.Errorf("%s is a folder; `pawl plugin build %s` makes the file %s of a plugin's project: name that", arg, arg, file)
	}
	wasm, err = os.ReadFile(arg)
	if errors.Is(err, fs.ErrNotExist) {
		if bundledWASM, berr := bundled.Plugin(arg); berr == nil {
			return bundledWASM, arg, nil
		}
		hint := "bundled are " + strings.Join(bundled.Names(), ", ")
		if strings.HasSuffix(arg, ".wasm") {
			hint = "`pawl plugin build` makes one from a project"
		} else if n := nearest.Of(arg, bundled.Names()); n != "" {
			hint = "did you mean " + n + "?"
		}
		return nil, "", noPlugin(fmt.Sprintf("there is neither a file nor a bundled plugin %q; %s", arg, hint))
	}
	return wasm, strings.TrimSuffix(filepath.Base(arg), ".wasm"), err
}

// noPlugin is the error of an argument that names no plugin. To errors.Is it is
// fs.ErrNotExist.
type noPlugin string

func (e noPlugin) Error() string        { return string(e) }
func (e noPlugin) Is(target error) bool { return target == fs.ErrNotExist }

// hostOptions are what the plugin commands run modules with: compiled apart, as
// nobody said that they can be trusted.
func (a *app) hostOptions() wasmhost.Options {
	return wasmhost.Options{Compiler: wasmhost.Compiler{Command: a.compileCommand()}}
}

// fixtureName is what a fixture beside a module is called.
const fixtureName = "fixture.yaml"

// readFixture reads the fixture that a flag names, or the one beside the module,
// or takes the default one. target, if set, is a real target's URL.
func readFixture(flag, module, target string) (*conformance.Fixture, error) {
	f := conformance.DefaultFixture()
	path := flag
	if _, err := os.Stat(module); path == "" && err == nil { // no bundled plugin
		beside := filepath.Join(filepath.Dir(module), fixtureName)
		if _, err := os.Stat(beside); err == nil {
			path = beside
		}
	}
	if path != "" {
		var err error
		if f, err = conformance.ReadFixture(path); err != nil {
			return nil, err
		}
	}
	if target == "" {
		return f, nil
	}
	name, url, named := strings.Cut(target, "=")
	if !named || strings.Contains(name, ":") {
		name, url = f.Upstream.Name, target
	}
	f.Upstream.Name, f.Upstream.URL = name, url
	f.Store = conformance.Store{}
	return f, nil
}
