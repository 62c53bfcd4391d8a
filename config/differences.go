package config

import (
	"reflect"
	"slices"
	"strconv"
)

// Differences lists the keys whose values differ between two configurations,
// sorted; of something that only one of them has, its own key alone.
func Differences(a, b *Config) []string {
	var out []string
	differ(reflect.ValueOf(a).Elem(), reflect.ValueOf(b).Elem(), schema(), "", func(path string) { out = append(out, path) })
	slices.Sort(out)
	return out
}

// differ compares a and b, the Go values of section f at path.
func differ(a, b reflect.Value, f *field, path string, found func(path string)) {
	for _, c := range f.children {
		p, x, y := join(path, c.key), a.FieldByIndex(c.index), b.FieldByIndex(c.index)
		switch c.kind {
		case kindSection:
			differ(x, y, c, p, found)
		case kindOptional:
			if x.IsNil() != y.IsNil() {
				found(p)
			} else if !x.IsNil() {
				differ(x.Elem(), y.Elem(), c, p, found)
			}
		case kindTable:
			differTables(x, y, c, p, found)
		case kindSeries:
			for i := range max(x.Len(), y.Len()) {
				if at := join(p, strconv.Itoa(i+1)); i < min(x.Len(), y.Len()) {
					differ(x.Index(i), y.Index(i), c, at, found)
				} else {
					found(at)
				}
			}
		default:
			if !reflect.DeepEqual(x.Interface(), y.Interface()) {
				found(p)
			}
		}
	}
}

func differTables(a, b reflect.Value, f *field, path string, found func(path string)) {
	names := map[string]reflect.Value{}
	for _, table := range []reflect.Value{a, b} {
		for _, k := range table.MapKeys() {
			names[k.String()] = k
		}
	}
	for name, k := range names {
		x, y := a.MapIndex(k), b.MapIndex(k)
		if !x.IsValid() || !y.IsValid() {
			found(join(path, name))
			continue
		}
		differ(x, y, f, join(path, name), found)
	}
}
