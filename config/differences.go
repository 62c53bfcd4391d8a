package config

import (
	"bytes"
	"encoding/json"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Difference is a key whose values differ between two configurations; of something that
// only one of them has, its own key alone. A secret reads "[redacted]" in both.
type Difference struct {
	Key  string // path: "sinks.web.timeout"
	From string // the value as YAML in one line; "" where there is none
	To   string
	// Added and Removed: only the second, or only the first configuration has it.
	Added, Removed bool
}

// Compare lists what differs between two configurations, by key.
func Compare(a, b *Config) []Difference {
	var out []Difference
	differ(reflect.ValueOf(a).Elem(), reflect.ValueOf(b).Elem(), schema(), "", func(path string, x, y reflect.Value) {
		d := Difference{Key: path, Added: !x.IsValid(), Removed: !y.IsValid()}
		if !d.Added && !d.Removed {
			d.From, d.To = oneLine(x), oneLine(y)
		}
		out = append(out, d)
	})
	slices.SortFunc(out, func(a, b Difference) int { return strings.Compare(a.Key, b.Key) })
	return out
}

// Differences lists the keys of Compare.
func Differences(a, b *Config) []string {
	var out []string
	for _, d := range Compare(a, b) {
		out = append(out, d.Key)
	}
	return out
}

// oneLine is a leaf's value as people write it.
func oneLine(v reflect.Value) string {
	switch x := v.Interface().(type) {
	case Sensitive:
		return x.String()
	case json.RawMessage:
		var out bytes.Buffer
		if json.Compact(&out, x) != nil {
			return string(x)
		}
		return out.String()
	}
	n := leafNode(v)
	if n == nil {
		return ""
	}
	text, err := yaml.Marshal(n)
	if err != nil {
		return n.Value
	}
	return strings.TrimSpace(string(text))
}

// differ compares a and b, the Go values of section f at path. found gets the zero Value
// for what is not there.
func differ(a, b reflect.Value, f *field, path string, found func(path string, x, y reflect.Value)) {
	var none reflect.Value
	for _, c := range f.children {
		p, x, y := join(path, c.key), a.FieldByIndex(c.index), b.FieldByIndex(c.index)
		switch c.kind {
		case kindSection:
			differ(x, y, c, p, found)
		case kindOptional:
			switch {
			case x.IsNil() && y.IsNil():
			case x.IsNil():
				found(p, none, y)
			case y.IsNil():
				found(p, x, none)
			default:
				differ(x.Elem(), y.Elem(), c, p, found)
			}
		case kindTable:
			differTables(x, y, c, p, found)
		case kindSeries:
			for i := range max(x.Len(), y.Len()) {
				switch at := join(p, strconv.Itoa(i+1)); {
				case i >= x.Len():
					found(at, none, y.Index(i))
				case i >= y.Len():
					found(at, x.Index(i), none)
				default:
					differ(x.Index(i), y.Index(i), c, at, found)
				}
			}
		default:
			if !reflect.DeepEqual(x.Interface(), y.Interface()) {
				found(p, x, y)
			}
		}
	}
}

func differTables(a, b reflect.Value, f *field, path string, found func(path string, x, y reflect.Value)) {
	names := map[string]reflect.Value{}
	for _, table := range []reflect.Value{a, b} {
		for _, k := range table.MapKeys() {
			names[k.String()] = k
		}
	}
	for name, k := range names {
		x, y := a.MapIndex(k), b.MapIndex(k)
		if !x.IsValid() || !y.IsValid() {
			found(join(path, name), x, y)
			continue
		}
		differ(x, y, f, join(path, name), found)
	}
}
