package main

import (
	"strings"

	"github.com/pawlsync/pawl/plugins/internal/jsondoc"
)

// A set of fields is written as the API writes it in managedFields (FieldsV1): an
// object whose members are "f:NAME" for the member of an object, "k:KEYS" for the
// item of a list that has these keys, "v:VALUE" for an item of a set, "i:N" for an
// item by its place, and "." for the object or item itself. An element without
// members owns the value whole: a scalar, or a list or an object that is atomic.

// walker goes over a set of fields, and beside it over two documents.
type walker struct {
	// leaf is told of every field of the set, in order, with what each document
	// has there; the zero Value where it has nothing. whole: the value is owned as
	// it is; else it is only owned that there is one.
	leaf func(live, other jsondoc.Value, whole bool)
	path []string
}

// walk goes over set below live and other, of which either may be missing.
func (w *walker) walk(set, live, other jsondoc.Value) {
	for element, sub := range set.Members {
		if element == "." {
			w.leaf(live, other, false)
			continue
		}
		w.path = append(w.path, element)
		l, o := child(live, element), child(other, element)
		switch {
		case !hasNoMembers(sub):
			w.walk(sub, l, o)
		default:
			w.leaf(l, o, element[0] != 'v' && element[0] != 'k')
		}
		w.path = w.path[:len(w.path)-1]
	}
}

// child returns what v has at an element of a set.
func child(v jsondoc.Value, element string) jsondoc.Value {
	if v.IsZero() || len(element) < 2 || element[1] != ':' {
		return jsondoc.Value{}
	}
	kind, name := element[0], element[2:]
	if kind == 'f' {
		m, _ := v.Get(name)
		return m
	}
	if v.Kind() != jsondoc.Array {
		return jsondoc.Value{}
	}
	if kind == 'i' {
		for i, item := range v.Items {
			if decimal(i) == name {
				return item
			}
		}
		return jsondoc.Value{}
	}
	key, err := jsondoc.Parse(name)
	if err != nil {
		return jsondoc.Value{}
	}
	for _, item := range v.Items {
		if kind == 'v' && jsondoc.Equal(key.Root(), item) || kind == 'k' && hasKeys(item, key.Root()) {
			return item
		}
	}
	return jsondoc.Value{}
}

// hasKeys reports whether an item of a list is the one of those keys. A key that
// the item leaves to its default can't say otherwise.
func hasKeys(item, keys jsondoc.Value) bool {
	if item.Kind() != jsondoc.Object {
		return false
	}
	found := false
	for k, want := range keys.Members {
		have, ok := item.Get(k)
		if ok && !jsondoc.Equal(have, want) {
			return false
		}
		found = found || ok
	}
	return found
}

// pathOf writes where elements lead to as people do: /spec/containers[name=app]/image.
func pathOf(elements []string) string {
	if len(elements) == 0 {
		return "/"
	}
	var b strings.Builder
	for _, e := range elements {
		kind, name := e[0], e[2:]
		if kind == 'f' {
			b.WriteByte('/')
			b.WriteString(pointerEscapes.Replace(name))
			continue
		}
		b.WriteByte('[')
		key, err := jsondoc.Parse(name)
		switch {
		case kind == 'k' && err == nil:
			first := true
			for k, v := range key.Root().Members {
				if !first {
					b.WriteByte(',')
				}
				first = false
				b.WriteString(k + "=")
				if b.WriteString(v.Text()); v.Kind() != jsondoc.String {
					b.WriteString(v.Raw())
				}
			}
		case kind == 'i':
			b.WriteString(name)
		default:
			b.WriteByte('*') // of a set the item is a value, which is not shown
		}
		b.WriteByte(']')
	}
	return b.String()
}

var pointerEscapes = strings.NewReplacer("~", "~0", "/", "~1")

// owner is one entry of managedFields.
type owner struct {
	manager     string
	apply       bool // by server-side apply
	subresource string
	apiVersion  string
	fields      jsondoc.Value
}

// ownersOf reads an object's managedFields.
func ownersOf(live jsondoc.Value) (owners []owner) {
	metadata, _ := live.Get("metadata")
	if metadata.IsZero() {
		return nil
	}
	entries, _ := metadata.Get("managedFields")
	if entries.IsZero() {
		return nil
	}
	for _, e := range entries.Items {
		fields, _ := e.Get("fieldsV1")
		if fields.IsZero() {
			continue
		}
		owners = append(owners, owner{textOf(e, "manager"), textOf(e, "operation") == "Apply", textOf(e, "subresource"), textOf(e, "apiVersion"), fields})
	}
	return owners
}

// ours is what our last Apply owns, as far as nobody took it over since; the
// zero Value where nothing says that we ever applied.
func ours(owners []owner, manager string) jsondoc.Value {
	for _, o := range owners {
		if o.apply && o.manager == manager && o.subresource == "" {
			return o.fields
		}
	}
	return jsondoc.Value{}
}

// setOf writes the set of the fields that a manifest says something of. What
// kinds of lists and objects there are it learns from the sets of all owners,
// where anybody owns them; else lists are atomic, and objects are not.
func setOf(want jsondoc.Value, owners []owner) jsondoc.Value {
	sets := make([]jsondoc.Value, len(owners))
	for i := range owners {
		sets[i] = owners[i].fields
	}
	w := writer{b: []byte{'{'}}
	for k, v := range want.Members {
		switch k {
		case "apiVersion", "kind":
		case "metadata":
			w.key("f:metadata")
			w.b = append(w.b, '{')
			for mk, mv := range v.Members {
				if mk != "name" && mk != "namespace" {
					w.member("f:"+mk, mv, below(below(sets, "f:metadata"), "f:"+mk))
				}
			}
			w.b = append(w.b, '}')
		default:
			w.member("f:"+k, v, below(sets, "f:"+k))
		}
	}
	w.b = append(w.b, '}')
	set, err := parse(w.b)
	if err != nil { // it was written a moment ago, from JSON
		return jsondoc.Value{}
	}
	return set
}

// below descends in all sets.
func below(sets []jsondoc.Value, element string) (out []jsondoc.Value) {
	for _, s := range sets {
		if sub, ok := s.Get(element); ok {
			out = append(out, sub)
		}
	}
	return out
}

// member writes an element with the set of what v says.
func (w *writer) member(element string, v jsondoc.Value, sets []jsondoc.Value) {
	if v.Kind() == jsondoc.Null {
		return // which is to say nothing
	}
	w.key(element)
	w.b = append(w.b, '{')
	switch v.Kind() {
	case jsondoc.Object:
		if !atomic(sets) {
			for k, m := range v.Members {
				w.member("f:"+k, m, below(sets, "f:"+k))
			}
		}
	case jsondoc.Array:
		w.items(v, sets)
	}
	w.b = append(w.b, '}')
}

// atomic reports whether who owns the value owns it whole.
func atomic(sets []jsondoc.Value) bool {
	for _, s := range sets {
		if !hasNoMembers(s) {
			return false
		}
	}
	return len(sets) > 0
}

// items writes the items of a list, unless it is atomic.
func (w *writer) items(list jsondoc.Value, sets []jsondoc.Value) {
	kind, keys := listKind(sets)
	for _, item := range list.Items {
		switch {
		case kind == 'v':
			w.key("v:" + item.Raw())
			w.b = append(w.b, '{', '}')
		case kind == 'k' && item.Kind() == jsondoc.Object:
			element := keyOf(item, keys)
			w.key(element)
			w.b = append(w.b, `{".":{}`...)
			subs := itemSets(sets, item)
			for k, m := range item.Members {
				w.member("f:"+k, m, below(subs, "f:"+k))
			}
			w.b = append(w.b, '}')
		}
	}
}

// listKind tells lists whose items have keys from sets and from atomic lists (0).
func listKind(sets []jsondoc.Value) (kind byte, keys jsondoc.Value) {
	for _, s := range sets {
		for element := range s.Members {
			if strings.HasPrefix(element, "v:") {
				return 'v', keys
			}
			if strings.HasPrefix(element, "k:") {
				if d, err := jsondoc.Parse(element[2:]); err == nil {
					return 'k', d.Root()
				}
			}
		}
	}
	return 0, keys
}

// keyOf is the element of an item, by those of the keys that it has.
func keyOf(item, keys jsondoc.Value) string {
	w := writer{b: []byte("k:{")}
	for k := range keys.Members {
		if v, ok := item.Get(k); ok {
			w.key(k)
			w.b = append(w.b, v.Raw()...)
		}
	}
	return string(append(w.b, '}'))
}

// itemSets are the sets of all owners of an item with keys.
func itemSets(sets []jsondoc.Value, item jsondoc.Value) (out []jsondoc.Value) {
	for _, s := range sets {
		for element, sub := range s.Members {
			if !strings.HasPrefix(element, "k:") {
				continue
			}
			if d, err := jsondoc.Parse(element[2:]); err == nil && hasKeys(item, d.Root()) {
				out = append(out, sub)
			}
		}
	}
	return out
}
