package config

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	"github.com/spf13/viper"
	"go.yaml.in/yaml/v3"
)

// fileMaxBytes bounds the configuration file.
const fileMaxBytes = 4 << 20

// Options says where Load looks. The zero value reads nothing but the file
// that it finds in the usual places.
type Options struct {
	// File is the file to read. Defaults to PAWL_CONFIG of Env, else to the first
	// that exists of ./pawl.yaml, $XDG_CONFIG_HOME/pawl/pawl.yaml (or
	// ~/.config/pawl/pawl.yaml) and /etc/pawl/pawl.yaml, else to none, which is no error.
	File string
	// Env is the environment as os.Environ gives it. Defaults to an empty one.
	Env []string
	// Flags maps key paths ("store.path") to values that override all else.
	Flags map[string]string
	// Bundled names the plugins that exist without being declared. Defaults to http.
	Bundled []string
}

// Load reads the configuration and checks all of it.
//
// # Errors
//
// What is wrong with the configuration comes as Errors, all of it at once. A
// file that can't be read is the error of the file system, with the file's name.
func Load(o Options) (*Config, error) {
	if o.Bundled == nil {
		o.Bundled = []string{"http"}
	}
	env := environment(o.Env)
	name := findFile(o.File, env)
	if name == "" {
		return load("", nil, env, o)
	}
	data, err := readFile(name)
	if err != nil {
		return nil, err
	}
	return load(name, data, env, o)
}

func findFile(file string, env map[string]string) string {
	if file != "" {
		return file
	}
	if named := env["PAWL_CONFIG"]; named != "" {
		return named
	}
	for _, name := range places(env) {
		if _, err := os.Stat(name); !errors.Is(err, fs.ErrNotExist) {
			return name
		}
	}
	return ""
}

// Places lists where Load looks for a file when it is told of none, in that
// order; env is as in Options.
func Places(env []string) []string { return places(environment(env)) }

func places(env map[string]string) []string {
	var out []string
	for _, dir := range []string{".", userDir(env, "XDG_CONFIG_HOME", ".config"), "/etc/pawl"} {
		if dir != "" {
			out = append(out, filepath.Join(dir, "pawl.yaml"))
		}
	}
	return out
}

func readFile(name string) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, fmt.Errorf("reading the configuration: %w", err)
	}
	defer f.Close() // read only: nothing to lose
	data, err := io.ReadAll(io.LimitReader(f, fileMaxBytes+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("reading the configuration: %w", err)
	case len(data) > fileMaxBytes:
		return nil, Errors{{File: name, What: fmt.Sprintf("the file has more than %s", Bytes(fileMaxBytes))}}
	}
	return data, nil
}

// loader carries one Load.
type loader struct {
	file    string
	env     map[string]string
	bundled []string
	schema  *field

	// layers is asked for the value that counts at each path. It gets Go values,
	// already parsed and checked, since a bad value is an error even where another
	// layer overrides it. Variables are set as overrides, not bound: viper reads
	// the process's environment only.
	layers  *viper.Viper
	origins map[string]origin          // of sections, names and leaves that somebody wrote
	items   map[string][]*yaml.Node    // of lists that the file gives and nothing overrides
	names   map[string][]string        // of each table and series, by its path, in the order of the file
	objects map[string]json.RawMessage // free-form; kept from viper, which folds the case of keys
	trees   map[string]*yaml.Node      // what they were made of
	nodes   int                        // values in objects so far
	badKeys map[string]bool            // paths with an error, left out of further checks
	errs    Errors
}

func load(name string, data []byte, env map[string]string, o Options) (*Config, error) {
	l := &loader{
		file: name, env: env, bundled: o.Bundled, schema: schema(), layers: viper.New(),
		origins: map[string]origin{}, items: map[string][]*yaml.Node{}, names: map[string][]string{},
		objects: map[string]json.RawMessage{}, trees: map[string]*yaml.Node{}, badKeys: map[string]bool{},
	}
	if doc := l.parseFile(data); doc != nil {
		if err := l.layers.MergeConfigMap(l.section(l.schema, doc, "")); err != nil {
			return nil, fmt.Errorf("layering the configuration: %w", err)
		}
	} else if len(l.errs) > 0 {
		return nil, l.errs // no YAML: nothing else can be said
	}
	for _, plugin := range l.bundled {
		if !slices.Contains(l.names["plugins"], plugin) {
			l.names["plugins"] = append(l.names["plugins"], plugin)
		}
	}
	unknown := l.setVariables()
	l.setFlags(o.Flags)
	l.setDefaults()

	c := &Config{File: name, origins: l.origins, bundled: l.bundled}
	l.fill(reflect.ValueOf(c).Elem(), l.schema, "")
	l.reportUnknown(unknown, c)
	l.check(c)
	if len(l.errs) > 0 {
		return nil, l.errs.Sorted()
	}
	return c, nil
}

// tableNames is how schema.walk learns the names of a table or series.
func (l *loader) tableNames(path string) []string { return l.names[path] }

// setFlags puts what the command line says over all else.
func (l *loader) setFlags(flags map[string]string) {
	leaves := map[string]*field{}
	var paths []string
	l.schema.walk("", l.tableNames, func(f *field, path string) {
		if f.kind.leaf() {
			leaves[path] = f
			paths = append(paths, path)
		}
	})
	for path, text := range flags {
		f := leaves[path]
		if f == nil {
			l.fail(origin{source: "flag " + path}, "", "there is no such key", didYouMean(path, paths))
			continue
		}
		source := "flag " + path
		if f.flag != "" {
			source = "--" + f.flag
		}
		l.override(f, path, text, origin{source: source})
	}
}

// override sets the leaf at path from a variable or a flag.
func (l *loader) override(f *field, path, text string, o origin) {
	v, err := f.parse(text)
	if err != nil {
		l.failLeaf(o, path, err)
		return
	}
	l.layers.Set(path, v)
	l.origins[path] = o
	delete(l.items, path)
	for p := parent(path); p != ""; p = parent(p) { // an optional section now exists
		if _, ok := l.origins[p]; !ok {
			l.origins[p] = o
		}
	}
}

// setDefaults gives every leaf that nobody set its default. What is inherited
// comes last, and sinks after the plugins, whose limits they take over.
func (l *loader) setDefaults() {
	l.schema.walk("", l.tableNames, func(f *field, path string) {
		if !f.kind.leaf() || f.inherits {
			return
		}
		text := f.def
		switch path {
		case "store.path":
			text = stateDir(l.env)
		case "wasm.cache_dir":
			text = cacheDir(l.env)
		}
		if text == "" {
			return // the Go zero value
		}
		v, err := f.parse(text)
		if err != nil { // a default of ours is always right: a test sees to it. One from the environment may not be
			l.fail(l.where(path), path, "the default "+shown(text)+" "+err.Error(), "set the key")
			return
		}
		l.layers.SetDefault(path, v)
	})
	l.schema.walk("", l.tableNames, func(f *field, path string) {
		if f.kind.leaf() && f.inherits {
			l.layers.SetDefault(path, l.layers.Get(inheritedFrom(path, l.plugin)))
		}
	})
}

// plugin is the plugin of a sink; "" for one that is not declared.
func (l *loader) plugin(sink string) string {
	name, _ := l.layers.Get("sinks." + sink + ".plugin").(string)
	if !slices.Contains(l.names["plugins"], name) {
		return ""
	}
	return name
}

// inheritedFrom is where the key of a sink or a plugin at path is looked up next:
// the limits of a sink at its plugin, all others in the defaults block. plugin
// returns the plugin of a sink, or "".
func inheritedFrom(path string, plugin func(sink string) string) string {
	parts := strings.SplitN(path, ".", 3) // table, name, key
	if parts[0] == "sinks" && strings.HasPrefix(parts[2], "limits.") {
		if p := plugin(parts[1]); p != "" {
			return "plugins." + p + "." + parts[2]
		}
	}
	return inherited(path)
}

// inherited is where the key of a sink or a plugin at path is looked up last.
func inherited(path string) string { return "defaults." + strings.SplitN(path, ".", 3)[2] }

// fill sets v, the Go value of section f at path.
func (l *loader) fill(v reflect.Value, f *field, path string) {
	for _, c := range f.children {
		p := join(path, c.key)
		target := v.FieldByIndex(c.index)
		switch c.kind {
		case kindSection:
			l.fill(target, c, p)
		case kindOptional:
			if _, set := l.origins[p]; set {
				target.Set(reflect.New(c.elem))
				l.fill(target.Elem(), c, p)
			}
		case kindTable:
			target.Set(reflect.MakeMap(target.Type()))
			for _, name := range l.names[p] {
				e := reflect.New(c.elem).Elem()
				l.fill(e, c, join(p, name))
				target.SetMapIndex(reflect.ValueOf(name), e)
			}
		case kindSeries:
			names := l.names[p]
			target.Set(reflect.MakeSlice(target.Type(), len(names), len(names)))
			for i, name := range names {
				l.fill(target.Index(i), c, join(p, name))
			}
		case kindObject, kindScalar:
			if raw := l.objects[p]; raw != nil {
				target.SetBytes(raw)
			}
		default:
			if value := l.layers.Get(p); value != nil {
				target.Set(reflect.ValueOf(value).Convert(target.Type()))
			}
		}
	}
}

// fail notes an error at o.
func (l *loader) fail(o origin, path, what, hint string) {
	e := &Error{Key: path, What: what, Hint: hint, Source: o.source}
	if o.source == "" {
		e.File, e.Line, e.Column = l.file, o.line, o.column
	}
	l.badKeys[path] = true
	l.errs = append(l.errs, e)
}

// failLeaf notes an error of field.parse.
func (l *loader) failLeaf(o origin, path string, err error) {
	var p *problem
	if !errors.As(err, &p) {
		p = &problem{what: err.Error()}
	}
	l.fail(o, path, p.what, p.hint)
}

// where finds the place to report path at.
func (l *loader) where(path string) origin { return nearestOrigin(l.origins, path) }
