package config

import (
	"encoding/json"
	"reflect"
	"strings"
	"time"

	"github.com/pawlsync/pawl/engine/record"
)

// kind sorts keys by what may be written there.
type kind uint8

const (
	kindSection  kind = iota // a mapping with fixed keys
	kindOptional             // the same, absent unless something in it is set
	kindTable                // a mapping from names that people choose to sections
	kindSeries               // a list of sections, which go by their numbers, from 1
	kindObject               // any mapping; kept as JSON
	kindScalar               // a string, a number or a boolean; kept as JSON
	kindList                 // a list of strings
	kindString
	kindPath
	kindSecret
	kindBool
	kindInt
	kindFloat
	kindDuration
	kindBytes
)

var kindNames = [...]string{
	"section", "section", "names", "list of sections", "object", "value", "list of strings", "string", "path", "string", "boolean",
	"whole number", "number", "duration", "size",
}

func (k kind) String() string { return kindNames[k] }

// leaf reports whether a value, not further keys, stands at k, so that a
// variable or a flag can set it.
func (k kind) leaf() bool { return k >= kindList }

// field is one key of the configuration, read from the tags of its Go field.
type field struct {
	key      string
	pattern  string // the whole path: "sinks.<name>.timeout"
	index    []int  // for reflect.Value.FieldByIndex of the struct it is in
	kind     kind
	elem     reflect.Type // of a table and a series: what is in it; of an optional section: its struct
	children []*field     // in the order of the Go fields
	required bool
	inherits bool // an unset one takes the value of the same key elsewhere; see inherited
	oneof    []string
	words    bool // of a table: its names are identifiers

	def, dynamic, min, max, zero, unit, flag, doc string
}

// schema builds the tree of all keys.
func schema() *field {
	return &field{kind: kindSection, children: fieldsOf(reflect.TypeFor[Config](), "", nil, false)}
}

// fieldsOf reads the keys of struct type t, which stands at path prefix.
func fieldsOf(t reflect.Type, prefix string, index []int, inherits bool) []*field {
	var out []*field
	for sf := range t.Fields() {
		key := sf.Tag.Get("key")
		at := append(index[:len(index):len(index)], sf.Index...)
		switch {
		case key == "" || key == "-":
			continue
		case key == ",inline":
			out = append(out, fieldsOf(sf.Type, prefix, at, inherits || sf.Tag.Get("inherits") != "")...)
			continue
		}
		out = append(out, fieldOf(sf, prefix+key, at, inherits))
	}
	return out
}

func fieldOf(sf reflect.StructField, path string, index []int, inherits bool) *field {
	tag := sf.Tag
	inherits = inherits || tag.Get("inherits") != ""
	f := &field{
		key: tag.Get("key"), pattern: path, index: index, kind: kindOf(sf), inherits: inherits,
		required: tag.Get("required") != "", words: tag.Get("names") != "",
		def: tag.Get("default"), dynamic: tag.Get("dynamic"),
		min: tag.Get("min"), max: tag.Get("max"), zero: tag.Get("zero"),
		unit: tag.Get("unit"), flag: tag.Get("flag"), doc: tag.Get("doc"),
	}
	if words := tag.Get("oneof"); words != "" {
		f.oneof = strings.Split(words, "|")
	}
	switch f.kind {
	case kindSection:
		f.children = fieldsOf(sf.Type, path+".", nil, inherits)
	case kindOptional:
		f.elem = sf.Type.Elem()
		f.children = fieldsOf(f.elem, path+".", nil, inherits)
	case kindTable, kindSeries:
		f.elem = sf.Type.Elem()
		f.children = fieldsOf(f.elem, path+"."+f.kind.anyName()+".", nil, inherits)
	}
	return f
}

func kindOf(sf reflect.StructField) kind {
	switch sf.Type {
	case reflect.TypeFor[time.Duration]():
		return kindDuration
	case reflect.TypeFor[Bytes]():
		return kindBytes
	case reflect.TypeFor[Sensitive]():
		return kindSecret
	case reflect.TypeFor[json.RawMessage]():
		if sf.Tag.Get("type") == "scalar" {
			return kindScalar
		}
		return kindObject
	case reflect.TypeFor[record.ConflictPolicy](), reflect.TypeFor[record.DeletionPolicy]():
		return kindString
	}
	switch sf.Type.Kind() {
	case reflect.Pointer:
		return kindOptional
	case reflect.Map:
		return kindTable
	case reflect.Slice:
		if sf.Type.Elem().Kind() == reflect.Struct {
			return kindSeries
		}
		return kindList
	case reflect.Bool:
		return kindBool
	case reflect.Int:
		return kindInt
	case reflect.Float64:
		return kindFloat
	case reflect.String:
		if sf.Tag.Get("type") == "path" {
			return kindPath
		}
		return kindString
	}
	return kindSection
}

// child finds a key of f.
func (f *field) child(key string) *field {
	for _, c := range f.children {
		if c.key == key {
			return c
		}
	}
	return nil
}

// keys lists the names of f's children.
func (f *field) keys() []string {
	out := make([]string, len(f.children))
	for i, c := range f.children {
		out[i] = c.key
	}
	return out
}

// anyName stands for the names of a table, or the numbers of a series; "" where
// there are none.
func (k kind) anyName() string {
	switch k {
	case kindTable:
		return "<name>"
	case kindSeries:
		return "<n>"
	}
	return ""
}

// walk visits f's descendants in order, a section before what is in it. names
// gives the names of the table or series at a path; a nil names visits each
// once, with the name anyName.
func (f *field) walk(path string, names func(path string) []string, visit func(f *field, path string)) {
	for _, c := range f.children {
		at := join(path, c.key)
		visit(c, at)
		name := c.kind.anyName()
		if name == "" {
			c.walk(at, names, visit)
			continue
		}
		all := []string{name}
		if names != nil {
			all = names(at)
		}
		for _, name := range all {
			c.walk(join(at, name), names, visit)
		}
	}
}

func join(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}

// parent is path without its last key; "" for a top-level one.
func parent(path string) string {
	return path[:max(strings.LastIndexByte(path, '.'), 0)]
}
