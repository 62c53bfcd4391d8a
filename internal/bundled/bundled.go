// Package bundled holds the plugins that come with Pawl.
//
// They are built from the module plugins/ by make, which puts them into the
// folder plugins/ beside this file before the daemon is built. A program built
// without that step works, and says what is missing when a plugin is asked for.
package bundled

import (
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
)

//go:embed plugins
var files embed.FS

// ErrNotFound is the error of Plugin for a plugin that this binary does not hold.
var ErrNotFound = errors.New("no such bundled plugin")

// Known names the plugins that a full build holds, sorted.
func Known() []string { return []string{"http", "kube", "pawl", "spicedb"} }

// Names returns the plugins that this binary holds, sorted.
func Names() []string { return names(files) }

// Plugin returns the wasm module of a plugin. The caller must not change it.
func Plugin(name string) ([]byte, error) { return plugin(files, name) }

func names(f fs.FS) []string {
	found, err := fs.Glob(f, "plugins/*.wasm")
	if err != nil { // the pattern is a constant and valid
		return nil
	}
	for i, p := range found {
		found[i] = strings.TrimSuffix(strings.TrimPrefix(p, "plugins/"), ".wasm")
	}
	slices.Sort(found)
	return found
}

func plugin(f fs.FS, name string) ([]byte, error) {
	if slices.Contains(names(f), name) {
		return fs.ReadFile(f, "plugins/"+name+".wasm")
	}
	if slices.Contains(Known(), name) {
		return nil, fmt.Errorf("%w: this binary was built without the plugin %q; run \"make plugins\" and build again", ErrNotFound, name)
	}
	return nil, fmt.Errorf("%w: %q; bundled are %s", ErrNotFound, name, strings.Join(Known(), ", "))
}
