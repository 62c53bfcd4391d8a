package main

import (
	"strings"

	"github.com/pawlsync/pawl/plugins/internal/jsondoc"
)

// isOurs reports whether an entry of managedFields is that of our applies.
func (a *adapter) isOurs(o *owner) bool {
	return o.apply && o.manager == a.cfg.manager && o.subresource == ""
}

// union returns the fields of both sets, of which either may be the zero Value.
func union(x, y jsondoc.Value) jsondoc.Value {
	switch {
	case x.IsZero():
		return y
	case y.IsZero():
		return x
	}
	var w writer
	w.union(x, y)
	set, err := parse(w.b)
	if err != nil { // it was written a moment ago, from JSON
		return jsondoc.Value{}
	}
	return set
}

func (w *writer) union(x, y jsondoc.Value) {
	w.b = append(w.b, '{')
	inX, inY := x.Find(), y.Find()
	for element, sub := range x.Members {
		w.key(element)
		if other := inY.Get(element); !other.IsZero() {
			w.union(sub, other)
		} else {
			w.b = append(w.b, sub.Raw()...)
		}
	}
	for element, sub := range y.Members {
		if other := inX.Get(element); other.IsZero() {
			w.key(element)
			w.b = append(w.b, sub.Raw()...)
		}
	}
	if hasNoMembers(x) != hasNoMembers(y) { // one of them owns the value itself
		if self := inX.Get("."); self.IsZero() {
			if self = inY.Get("."); self.IsZero() {
				w.key(".")
				w.b = append(w.b, '{', '}')
			}
		}
	}
	w.b = append(w.b, '}')
}

// manifestAt writes a manifest of what an object has at the fields of set,
// conditional on the uid and the resourceVersion of metadata.
func manifestAt(set, object, metadata jsondoc.Value) []byte {
	w := writer{b: []byte{'{'}}
	for _, k := range [...]string{"apiVersion", "kind"} {
		w.text(k, textOf(object, k))
	}
	w.key("metadata")
	w.b = append(w.b, '{')
	for _, k := range [...]string{"name", "namespace", "uid", "resourceVersion"} {
		if text := textOf(metadata, k); text != "" {
			w.text(k, text)
		}
	}
	if m, ok := object.Get("metadata"); ok {
		if sub, ok := set.Get("f:metadata"); ok {
			w.fields(sub, m)
		}
	}
	w.b = append(w.b, '}')
	in := object.Find()
	for element, sub := range set.Members {
		if name, ok := strings.CutPrefix(element, "f:"); ok && name != "metadata" {
			if v := in.Get(name); !v.IsZero() {
				w.key(name)
				w.at(sub, v)
			}
		}
	}
	return append(w.b, '}')
}

// at writes what v has at the fields of set.
func (w *writer) at(set, v jsondoc.Value) {
	switch kind := v.Kind(); {
	case hasNoMembers(set), kind != jsondoc.Object && kind != jsondoc.Array:
		w.b = append(w.b, v.Raw()...)
	case kind == jsondoc.Object:
		w.b = append(w.b, '{')
		w.fields(set, v)
		w.b = append(w.b, '}')
	default:
		w.itemsAt(set, v)
	}
}

// fields writes the members that an object has at the fields of set.
func (w *writer) fields(set, object jsondoc.Value) {
	in := object.Find()
	for element, sub := range set.Members {
		name, ok := strings.CutPrefix(element, "f:")
		if v := in.Get(name); ok && !v.IsZero() {
			w.key(name)
			w.at(sub, v)
		}
	}
}

// itemsAt writes the items that a list has at the fields of set, in their order.
func (w *writer) itemsAt(set, list jsondoc.Value) {
	type wanted struct {
		kind    byte
		is, set jsondoc.Value
	}
	var elements []wanted
	for element, sub := range set.Members {
		if kind := element[0]; len(element) > 1 && (kind == 'k' || kind == 'v') {
			if d, err := jsondoc.Parse(element[2:]); err == nil {
				elements = append(elements, wanted{kind, d.Root(), sub})
			}
		}
	}
	w.b = append(w.b, '[')
	begin := len(w.b)
	for _, item := range list.Items {
		for _, e := range elements {
			if e.kind == 'v' && !jsondoc.Equal(e.is, item) || e.kind == 'k' && !hasKeys(item, e.is) {
				continue
			}
			if len(w.b) > begin {
				w.b = append(w.b, ',')
			}
			if e.kind == 'v' {
				w.b = append(w.b, item.Raw()...)
			} else {
				w.item(e.set, e.is, item)
			}
			break
		}
	}
	w.b = append(w.b, ']')
}

// item writes an item of a list with what tells it apart, and what it has at the
// fields of set.
func (w *writer) item(set, keys, item jsondoc.Value) {
	w.b = append(w.b, '{')
	in := set.Find()
	for k, v := range keys.Members {
		if named := in.Get("f:" + k); named.IsZero() {
			w.key(k)
			w.b = append(w.b, v.Raw()...)
		}
	}
	w.fields(set, item)
	w.b = append(w.b, '}')
}

// ownersAgain writes the managedFields of live as they were in before: our entry,
// and, besides what they own now, whatever others owned that has the same value
// again. It is nil where nothing has to change.
func (a *adapter) ownersAgain(live, before jsondoc.Value) []byte {
	now, past := ownersOf(live), ownersOf(before)
	change := false
	w := writer{b: []byte{'['}}
	entry := func(e *owner, fields string) {
		if len(w.b) > 1 {
			w.b = append(w.b, ',')
		}
		w.b = append(w.b, '{')
		for k, v := range e.entry.Members {
			if w.key(k); k == "fieldsV1" {
				w.b = append(w.b, fields...)
			} else {
				w.b = append(w.b, v.Raw()...)
			}
		}
		w.b = append(w.b, '}')
	}
	for i := range now {
		e := &now[i]
		was := find(past, e)
		fields := e.fields
		switch {
		case a.isOurs(e) && was == nil:
			change = true
			continue
		case a.isOurs(e):
			fields = was.fields
		case was != nil && e.subresource == "":
			fields = union(fields, sameAt(was.fields, live, before))
		}
		change = change || !jsondoc.Equal(fields, e.fields)
		entry(e, fields.Raw())
	}
	for i := range past {
		e := &past[i]
		if find(now, e) != nil || e.subresource != "" {
			continue
		}
		if fields := sameAt(e.fields, live, before); !hasNoMembers(fields) {
			change = true
			entry(e, fields.Raw())
		}
	}
	if !change {
		return nil
	}
	return append(w.b, ']')
}

// find returns the entry of the same owner, or nil.
func find(owners []owner, like *owner) *owner {
	for i := range owners {
		e := &owners[i]
		if e.manager == like.manager && e.apply == like.apply && e.subresource == like.subresource && e.apiVersion == like.apiVersion {
			return e
		}
	}
	return nil
}

// sameAt returns those fields of set at which both objects have the same.
func sameAt(set, live, before jsondoc.Value) jsondoc.Value {
	var w writer
	w.sameAt(set, live, before)
	fields, err := parse(w.b)
	if err != nil { // it was written a moment ago, from JSON
		return jsondoc.Value{}
	}
	return fields
}

func (w *writer) sameAt(set, live, before jsondoc.Value) (found bool) {
	w.b = append(w.b, '{')
	inLive, inBefore := childrenOf(live), childrenOf(before)
	for element, sub := range set.Members {
		begin := len(w.b)
		w.key(element)
		keep := false
		switch {
		case element == ".":
			keep = !live.IsZero() && !before.IsZero()
			w.b = append(w.b, '{', '}')
		case len(element) < 2 || element[1] != ':':
		case hasNoMembers(sub):
			l, b := inLive.at(element), inBefore.at(element)
			keep = !l.IsZero() && !b.IsZero() && same(l, b, element[0] != 'v' && element[0] != 'k')
			w.b = append(w.b, '{', '}')
		default:
			keep = w.sameAt(sub, inLive.at(element), inBefore.at(element))
		}
		if found = found || keep; !keep {
			w.b = w.b[:begin]
		}
	}
	w.b = append(w.b, '}')
	return found
}
