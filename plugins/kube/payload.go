package main

import (
	"encoding/base64"
	"strings"
	"unsafe"

	"github.com/pawlsync/pawl/plugins/internal/jsondoc"
	pawl "github.com/pawlsync/pawl/sdk/go"
)

// desired is a manifest.
type desired struct {
	id   identity
	root jsondoc.Value
	body []byte // what is sent of it
}

// parse reads JSON, with memory that lives as long as the values are used.
func parse(text []byte) (jsondoc.Value, error) {
	d, err := jsondoc.Parse(unsafe.String(unsafe.SliceData(text), len(text)))
	if err != nil {
		return jsondoc.Value{}, err
	}
	return d.Root(), nil
}

// serverFields are those of metadata that are the API server's to set.
var serverFields = []string{"managedFields", "resourceVersion", "uid", "creationTimestamp", "generation",
	"deletionTimestamp", "deletionGracePeriodSeconds", "selfLink"}

// readManifest reads a payload. What the API server alone sets is refused; where
// it says nothing, as in the manifests that generators write, it is left out.
func readManifest(payload []byte) (*desired, error) {
	root, err := parse(payload)
	if err != nil {
		return nil, pawl.Rejected("the payload is " + err.Error() + "; a manifest in JSON is expected")
	}
	if root.Kind() != jsondoc.Object {
		return nil, pawl.Rejected("the payload is " + root.Kind().String() + "; a manifest, which is an object, is expected")
	}
	metadata, ok := root.Get("metadata")
	if !ok || metadata.Kind() != jsondoc.Object {
		return nil, pawl.Rejected("the manifest has no metadata")
	}
	d := &desired{root: root, body: payload}
	apiVersion, kind, name := textOf(root, "apiVersion"), textOf(root, "kind"), textOf(metadata, "name")
	switch {
	case apiVersion == "":
		return nil, pawl.Rejected("the manifest has no apiVersion")
	case kind == "":
		return nil, pawl.Rejected("the manifest has no kind")
	case name == "" && textOf(metadata, "generateName") != "":
		return nil, pawl.Rejected("the manifest has generateName: the object would be another one each time; give it a name")
	case name == "":
		return nil, pawl.Rejected("the manifest has no metadata.name")
	}
	group, version, found := strings.Cut(apiVersion, "/")
	if !found {
		group, version = "", apiVersion
	}
	d.id = identity{group, version, kind, textOf(metadata, "namespace"), name}
	if err := d.id.check("the manifest"); err != nil {
		return nil, err
	}
	return d, d.tidy(metadata)
}

// tidy refuses what is not the source's to say, and writes body anew where
// something must not be sent.
func (d *desired) tidy(metadata jsondoc.Value) error {
	rewrite := false
	for _, name := range serverFields {
		v, ok := metadata.Get(name)
		if !ok {
			continue
		}
		if !saysNothing(v) {
			return pawl.Rejected("the manifest sets metadata." + name + ", which only the API server does; leave it out")
		}
		rewrite = true
	}
	if _, ok := metadata.Get("generateName"); ok {
		return pawl.Rejected("the manifest has metadata.generateName beside its name; leave it out")
	}
	if status, ok := d.root.Get("status"); ok {
		if !emptyStatus(status) {
			return pawl.Rejected("the manifest has a status, which is not the source's to say; leave it out")
		}
		rewrite = true
	}
	_, stringData := d.root.Get("stringData")
	stringData = stringData && d.id.secret()
	if !rewrite && !stringData {
		return nil
	}
	if err := d.rewrite(metadata, stringData, addition{}); err != nil {
		return err
	}
	var err error
	d.root, err = parse(d.body)
	return err
}

// noVersion is a resourceVersion that no object ever has: they count from 1.
const noVersion = "9223372036854775807"

// onlyCreates makes what is sent conditional on there being no object. An apply of
// a resourceVersion is refused where the object has another one, in the very
// transaction that would write, and is a creation where there is none. To POST the
// manifest would be as atomic, but it makes us own the fields by another operation
// than later applies do, which could then remove none of them.
func (d *desired) onlyCreates() error {
	metadata, _ := d.root.Get("metadata")
	return d.rewrite(metadata, false, addition{version: noVersion})
}

// addition is what is sent in metadata besides what the manifest says of it.
type addition struct {
	uid, version string // that the object must have; "": it need not
	mark         string // of a saga's step; "": there is none
}

// write writes metadata without what only the server sets, but with what is added.
func (add *addition) write(w *writer, metadata jsondoc.Value) {
	w.key("metadata")
	w.b = append(w.b, '{')
	for k, m := range metadata.Members {
		if !contains(serverFields, k) && (k != "annotations" || add.mark == "") {
			w.key(k)
			w.b = append(w.b, m.Raw()...)
		}
	}
	if add.uid != "" {
		w.text("uid", add.uid)
	}
	if add.version != "" {
		w.text("resourceVersion", add.version)
	}
	if add.mark != "" {
		w.key("annotations")
		w.b = append(w.b, '{')
		if annotations, ok := metadata.Get("annotations"); ok {
			for k, m := range annotations.Members {
				w.key(k)
				w.b = append(w.b, m.Raw()...)
			}
		}
		w.text(markAnnotation, add.mark)
		w.b = append(w.b, '}')
	}
	w.b = append(w.b, '}')
}

// emptyStatus reports whether a status is one of those that generators write.
func emptyStatus(v jsondoc.Value) bool {
	for _, m := range v.Members {
		if !saysNothing(m) && !emptyStatus(m) {
			return false
		}
	}
	return v.Kind() == jsondoc.Object || saysNothing(v)
}

// saysNothing reports whether v is null or empty.
func saysNothing(v jsondoc.Value) bool {
	switch v.Kind() {
	case jsondoc.Null:
		return true
	case jsondoc.String:
		return v.Text() == ""
	case jsondoc.Array:
		for range v.Items {
			return false
		}
		return true
	case jsondoc.Object:
		return hasNoMembers(v)
	}
	return false
}

// rewrite writes body without what only the server sets, but with what is added.
func (d *desired) rewrite(metadata jsondoc.Value, stringData bool, add addition) error {
	w := writer{b: append(make([]byte, 0, len(d.body)+64), '{')}
	for key, v := range d.root.Members {
		switch {
		case key == "status", stringData && (key == "stringData" || key == "data"):
		case key == "metadata":
			add.write(&w, metadata)
		default:
			w.key(key)
			w.b = append(w.b, v.Raw()...)
		}
	}
	if stringData {
		if err := d.data(&w); err != nil {
			return err
		}
	}
	d.body = append(w.b, '}')
	return nil
}

// data writes a Secret's data with what its stringData says: the API server does
// the same, but loses track of whose fields they are.
func (d *desired) data(w *writer) error {
	text, _ := d.root.Get("stringData")
	if text.Kind() != jsondoc.Object {
		return pawl.Rejected("stringData is " + text.Kind().String() + "; an object is expected")
	}
	w.key("data")
	w.b = append(w.b, '{')
	if data, ok := d.root.Get("data"); ok {
		for k, v := range data.Members {
			if _, twice := text.Get(k); !twice {
				w.key(k)
				w.b = append(w.b, v.Raw()...)
			}
		}
	}
	for k, v := range text.Members {
		if v.Kind() != jsondoc.String {
			return pawl.Rejected("stringData." + k + " is " + v.Kind().String() + "; a string is expected")
		}
		w.key(k)
		w.b = append(w.b, '"')
		w.b = base64.StdEncoding.AppendEncode(w.b, []byte(v.Text()))
		w.b = append(w.b, '"')
	}
	w.b = append(w.b, '}')
	return nil
}

// writer writes the members of objects.
type writer struct{ b []byte }

func (w *writer) key(k string) {
	if w.b[len(w.b)-1] != '{' {
		w.b = append(w.b, ',')
	}
	w.b = append(w.b, '"')
	w.b = jsondoc.AppendEscaped(w.b, k)
	w.b = append(w.b, '"', ':')
}

// text writes a member that is a string.
func (w *writer) text(k, text string) {
	w.key(k)
	w.b = append(w.b, '"')
	w.b = jsondoc.AppendEscaped(w.b, text)
	w.b = append(w.b, '"')
}

// textOf is a member's string, or "".
func textOf(v jsondoc.Value, key string) string {
	m, ok := v.Get(key)
	if !ok {
		return ""
	}
	return m.Text()
}

func hasNoMembers(v jsondoc.Value) bool {
	for range v.Members {
		return false
	}
	return true
}

func contains(list []string, s string) bool {
	for _, l := range list {
		if l == s {
			return true
		}
	}
	return false
}
