package main

import (
	"strconv"
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
	inLive, inOther := childrenOf(live), childrenOf(other)
	for element, sub := range set.Members {
		if element == "." {
			w.leaf(live, other, false)
			continue
		}
		if len(element) < 2 || element[1] != ':' {
			continue // nothing that this version of the API writes
		}
		w.path = append(w.path, element)
		l, o := inLive.at(element), inOther.at(element)
		if hasNoMembers(sub) {
			w.leaf(l, o, element[0] != 'v' && element[0] != 'k')
		} else {
			w.walk(sub, l, o)
		}
		w.path = w.path[:len(w.path)-1]
	}
}

// children finds what a value has at elements of a set.
type children struct {
	v       jsondoc.Value
	members jsondoc.Members
	items   map[string][]jsondoc.Value // of a list with keys, by the value of one of them; of a set, by the value
	key     string                     // the one by which items are found
}

func childrenOf(v jsondoc.Value) children { return children{v: v, members: v.Find()} }

func (c *children) at(element string) jsondoc.Value {
	kind, name := element[0], element[2:]
	if kind == 'f' {
		return c.members.Get(name)
	}
	if c.v.IsZero() || c.v.Kind() != jsondoc.Array {
		return jsondoc.Value{}
	}
	if kind == 'i' {
		for i, item := range c.v.Items {
			if strconv.Itoa(i) == name {
				return item
			}
		}
		return jsondoc.Value{}
	}
	d, err := jsondoc.Parse(name)
	if err != nil {
		return jsondoc.Value{}
	}
	want := d.Root()
	for _, item := range c.candidates(want) {
		if kind == 'v' && jsondoc.Equal(want, item) || kind == 'k' && hasKeys(item, want) {
			return item
		}
	}
	return jsondoc.Value{}
}

// candidates are the items that may be the one that is wanted.
func (c *children) candidates(want jsondoc.Value) []jsondoc.Value {
	if c.items == nil {
		for c.key = range want.Members {
			break
		}
		c.items = map[string][]jsondoc.Value{}
		for _, item := range c.v.Items {
			text := c.text(item)
			c.items[text] = append(c.items[text], item)
		}
	}
	text := c.text(want)
	if found := c.items[text]; found != nil || text == "" {
		return found
	}
	return c.items[""] // which leave that key to its default
}

// text is what items are told apart by.
func (c *children) text(v jsondoc.Value) string {
	if c.key != "" {
		key, ok := v.Get(c.key)
		if !ok {
			return ""
		}
		v = key
	}
	if v.Kind() == jsondoc.String {
		return v.Text()
	}
	return v.Raw()
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
	entry       jsondoc.Value // as it is written
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
		owners = append(owners, owner{textOf(e, "manager"), textOf(e, "operation") == "Apply", textOf(e, "subresource"), textOf(e, "apiVersion"), fields, e})
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
	in := findIn(sets)
	for k, v := range want.Members {
		switch k {
		case "apiVersion", "kind":
		case "metadata":
			before := len(w.b)
			w.key("f:metadata")
			w.b = append(w.b, '{')
			below, empty := findIn(in.at("f:metadata")), true
			for mk, mv := range v.Members {
				if mk != "name" && mk != "namespace" {
					w.member("f:"+mk, mv, below.at("f:"+mk))
					empty = false
				}
			}
			if w.b = append(w.b, '}'); empty {
				w.b = w.b[:before]
			}
		default:
			w.member("f:"+k, v, in.at("f:"+k))
		}
	}
	w.b = append(w.b, '}')
	set, err := parse(w.b)
	if err != nil { // it was written a moment ago, from JSON
		return jsondoc.Value{}
	}
	return set
}

// sets are sets of several owners, of the same value.
type sets []jsondoc.Members

func findIn(of []jsondoc.Value) sets {
	in := make(sets, len(of))
	for i := range of {
		in[i] = of[i].Find()
	}
	return in
}

// at descends in all sets.
func (in sets) at(element string) (out []jsondoc.Value) {
	for i := range in {
		if sub := in[i].Get(element); !sub.IsZero() {
			out = append(out, sub)
		}
	}
	return out
}

// member writes an element with the set of what v says.
func (w *writer) member(element string, v jsondoc.Value, of []jsondoc.Value) {
	if v.Kind() == jsondoc.Null {
		return // which is to say nothing
	}
	w.key(element)
	w.b = append(w.b, '{')
	switch v.Kind() {
	case jsondoc.Object:
		if !atomic(of) {
			w.members(v, of)
		}
	case jsondoc.Array:
		w.items(v, of)
	}
	w.b = append(w.b, '}')
}

func (w *writer) members(v jsondoc.Value, of []jsondoc.Value) {
	in := findIn(of)
	for k, m := range v.Members {
		w.member("f:"+k, m, in.at("f:"+k))
	}
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
func (w *writer) items(list jsondoc.Value, of []jsondoc.Value) {
	kind, keys := listKind(of)
	var index itemIndex
	if kind == 'k' {
		index = indexItems(of, keys)
	}
	for _, item := range list.Items {
		switch {
		case kind == 'v':
			w.key("v:" + item.Raw())
			w.b = append(w.b, '{', '}')
		case kind == 'k' && item.Kind() == jsondoc.Object:
			w.key(keyOf(item, keys))
			w.b = append(w.b, `{".":{}`...)
			w.members(item, index.of(item))
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

// itemIndex finds the sets of all owners of an item with keys.
type itemIndex struct {
	by    children // knows how items are told apart
	items map[string][]ownedItem
}

type ownedItem struct{ keys, set jsondoc.Value }

func indexItems(of []jsondoc.Value, keys jsondoc.Value) itemIndex {
	x := itemIndex{items: map[string][]ownedItem{}}
	for x.by.key = range keys.Members {
		break
	}
	for _, s := range of {
		for element, sub := range s.Members {
			if !strings.HasPrefix(element, "k:") {
				continue
			}
			if d, err := jsondoc.Parse(element[2:]); err == nil {
				text := x.by.text(d.Root())
				x.items[text] = append(x.items[text], ownedItem{d.Root(), sub})
			}
		}
	}
	return x
}

func (x *itemIndex) of(item jsondoc.Value) (out []jsondoc.Value) {
	for _, o := range x.items[x.by.text(item)] {
		if hasKeys(item, o.keys) {
			out = append(out, o.set)
		}
	}
	return out
}
