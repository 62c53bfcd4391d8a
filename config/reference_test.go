package config

import (
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
)

func TestReferenceIsFresh(t *testing.T) { golden(t, "../docs/config.md", Markdown()) }

func TestEveryYAMLBlockInTheDocsLoads(t *testing.T) {
	blocks := regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllStringSubmatch(Markdown(), -1)
	if len(blocks) < 4 {
		t.Fatalf("found %d blocks", len(blocks))
	}
	for _, b := range blocks {
		if _, err := Load(Options{File: write(t, b[1]), Bundled: []string{"http", "kube", "pawl", "spicedb"}}); err != nil {
			t.Errorf("%v\n%s", err, b[1])
		}
	}
}

func TestExampleLoadsAndHasASink(t *testing.T) {
	c := mustLoad(t, Options{File: write(t, Example())})
	if len(c.Sinks) != 1 {
		t.Errorf("sinks = %v", c.Sinks)
	}
}

// The tags are a table that people edit; this is its compiler.
func TestTableOfKeysIsSound(t *testing.T) {
	envs := map[string]string{}
	schema().walk("", nil, func(f *field, path string) {
		if f.pattern != path {
			t.Errorf("%s: pattern %s", path, f.pattern)
		}
		if !strings.HasSuffix(f.doc, ".") || strings.Contains(f.doc, "|") {
			t.Errorf("%s: doc %q is no sentence for a table", path, f.doc)
		}
		if f.kind == kindSection && len(f.children) == 0 {
			t.Errorf("%s: the Go type has no kind", path)
		}
		if !f.kind.leaf() {
			return
		}
		if other, ok := envs[envName(path)]; ok {
			t.Errorf("%s and %s share a variable", path, other)
		}
		envs[envName(path)] = path
		if f.def != "" {
			if _, err := f.parse(f.def); err != nil {
				t.Errorf("%s: default %q: %v", path, f.def, err)
			}
		}
		if numeric := f.kind >= kindInt; numeric && (f.def == "" || f.min == "" || f.max == "") {
			t.Errorf("%s: a number needs default, min and max", path)
		}
		for _, bound := range []string{f.min, f.max} {
			if bound == "" {
				continue
			}
			if _, err := f.parse(bound); err != nil {
				t.Errorf("%s: bound %q: %v", path, bound, err)
			}
		}
		if f.zero != "" {
			if _, err := f.parse("0"); err != nil {
				t.Errorf("%s: 0: %v", path, err)
			}
		}
	})
}

func TestNothingButKeysStandsInTags(t *testing.T) {
	known := []string{"key", "default", "dynamic", "min", "max", "zero", "oneof", "unit", "type", "flag", "inherits", "required", "names", "doc"}
	name := regexp.MustCompile(`(\w+):"`)
	var visit func(rt reflect.Type)
	visit = func(rt reflect.Type) {
		for rt.Kind() == reflect.Pointer || rt.Kind() == reflect.Map || rt.Kind() == reflect.Slice {
			rt = rt.Elem()
		}
		if rt.Kind() != reflect.Struct || rt.PkgPath() != reflect.TypeFor[Config]().PkgPath() {
			return
		}
		for f := range rt.Fields() {
			if !f.IsExported() {
				continue
			}
			if f.Tag.Get("key") == "" {
				t.Errorf("%s.%s has no key", rt, f.Name)
			}
			for _, m := range name.FindAllStringSubmatch(string(f.Tag), -1) {
				if !slices.Contains(known, m[1]) {
					t.Errorf("%s.%s: unknown tag %s", rt, f.Name, m[1])
				}
			}
			visit(f.Type)
		}
	}
	visit(reflect.TypeFor[Config]())
}

func TestReferenceNamesVariablesFlagsAndInheritance(t *testing.T) {
	byKey := map[string]Entry{}
	for _, e := range Reference() {
		byKey[e.Key] = e
	}
	if e := byKey["server.listen"]; e.Env != "PAWL_SERVER_LISTEN" || e.Flag != "listen" || e.Default != "127.0.0.1:7295" {
		t.Errorf("server.listen: %+v", e)
	}
	if e := byKey["sinks.<name>.retry.base"]; e.Env != "PAWL_SINKS_<NAME>_RETRY_BASE" || e.Inherits != "defaults.retry.base" || byKey[e.Inherits].Default != "2s" {
		t.Errorf("sinks.<name>.retry.base: %+v", e)
	}
	if e := byKey["sinks.<name>.config"]; e.Env != "" || e.Type != "object" {
		t.Errorf("sinks.<name>.config: %+v", e)
	}
	if e := byKey["sinks.<name>.plugin"]; !e.Required {
		t.Errorf("sinks.<name>.plugin: %+v", e)
	}
}
