package manifest

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/pawlsync/pawl/engine/record"
	"github.com/pawlsync/pawl/internal/nearest"
)

// field is one member of a document, from either language.
type field struct {
	name   string
	line   int
	offset int             // of value, in a JSON file
	value  json.RawMessage // not to be kept: its bytes are used for something else afterwards
}

// fieldNames are all that a document may hold.
var fieldNames = []string{"sink", "key", "payload", "payloadBase64", "conflictPolicy", "deletionPolicy", "direction", "retry", "idempotencyKey",
	"suspend", "delete"}

var conflictPolicies = []string{string(record.SourceWins), string(record.TargetWins), string(record.ReportOnly)}

var deletionPolicies = []string{string(record.DeleteTarget), string(record.AckThenDelete), string(record.Retain)}

var directions = []string{string(record.Outbound), string(record.Inbound), string(record.Both)}

// builder makes a Document of fields and collects what is wrong.
type builder struct {
	doc   Document
	lines map[string]int // of the fields seen
	twice bool           // a field was
	wrong Errors
}

// build makes an entry of what a document holds; wrong is what its values could not
// be read for, and whole is all of it as JSON.
func build(file string, line int, fields []field, wrong Errors, whole func() json.RawMessage) Entry {
	b := &builder{doc: Document{File: file, Line: line}, lines: make(map[string]int, len(fields)), wrong: wrong}
	isObject := looksLikeObject(fields)
	for _, f := range fields {
		if first, twice := b.lines[f.name]; twice {
			b.twice = true
			b.fail(f.line, "", "the field %q is there twice, first on line %d", f.name, first)
			continue
		}
		b.lines[f.name] = f.line
		if !isObject {
			b.set(f)
		}
	}
	if !isObject {
		b.check()
	}
	e := Entry{Document: b.doc, Wrong: b.wrong}
	switch {
	case isObject && !b.twice:
		e.Object = whole()
	case len(b.wrong) > 0 && (b.twice || b.doc.Key.Validate() != nil):
		e.Key = record.Key{} // nobody can tell which resource was meant
	}
	return e
}

// looksLikeObject tells a manifest of Kubernetes from a document of Pawl's.
func looksLikeObject(fields []field) bool {
	var apiVersion, kind bool
	for _, f := range fields {
		switch f.name {
		case "apiVersion":
			apiVersion = true
		case "kind":
			kind = true
		case "sink":
			return false
		}
	}
	return apiVersion && kind
}

func (b *builder) fail(line int, hint, format string, args ...any) {
	b.wrong = append(b.wrong, &Error{File: b.doc.File, Line: line, What: fmt.Sprintf(format, args...), Hint: hint})
}

func (b *builder) set(f field) {
	switch f.name {
	case "sink":
		b.doc.Key.Sink = b.text(f)
	case "key":
		b.doc.Key.Name = b.text(f)
	case "payload":
		b.doc.Payload = bytes.Clone(f.value)
	case "payloadBase64":
		raw, err := base64.StdEncoding.DecodeString(b.text(f))
		if err != nil {
			b.fail(f.line, "use the standard alphabet with padding", "payloadBase64 is no base64: %v", err)
		}
		b.doc.Payload, b.doc.Binary = raw, true
	case "conflictPolicy":
		b.doc.Conflict = record.ConflictPolicy(b.word(f, conflictPolicies))
	case "deletionPolicy":
		b.doc.Deletion = record.DeletionPolicy(b.word(f, deletionPolicies))
	case "direction":
		b.doc.Direction = record.Direction(b.word(f, directions))
	case "retry":
		b.doc.Retry = b.retry(f)
	case "idempotencyKey":
		b.doc.IdempotencyKey = b.text(f)
		if err := record.ValidateIdempotencyKey(b.doc.IdempotencyKey); err != nil {
			b.fail(f.line, "", "%v", err)
		}
	case "suspend":
		b.doc.Suspend = b.truth(f)
	case "delete":
		b.doc.Delete = b.truth(f)
	default:
		hint := "there are " + strings.Join(fieldNames, ", ")
		if n := nearest.Of(f.name, fieldNames); n != "" {
			hint = "did you mean " + n + "?"
		}
		b.fail(f.line, hint, "unknown field %q", f.name)
	}
}

func (b *builder) text(f field) string {
	if n := len(f.value); n > 1 && f.value[0] == '"' && isPlain(string(f.value[1:n-1])) { // as most are
		return string(f.value[1 : n-1])
	}
	var s string
	if err := json.Unmarshal(f.value, &s); err != nil {
		b.fail(f.line, "write it in quotes", "%s must be a string, but it is %s", f.name, kindOf(f.value))
	}
	return s
}

func (b *builder) truth(f field) bool {
	var t bool
	if err := json.Unmarshal(f.value, &t); err != nil {
		b.fail(f.line, "", "%s must be true or false, but it is %s", f.name, kindOf(f.value))
	}
	return t
}

func (b *builder) word(f field, allowed []string) string {
	s := b.text(f)
	for _, a := range allowed {
		if s == a {
			return s
		}
	}
	hint := "use " + strings.Join(allowed, ", ")
	if n := nearest.Of(s, allowed); n != "" {
		hint = "did you mean " + n + "?"
	}
	b.fail(f.line, hint, "unknown %s %q", f.name, s)
	return ""
}

// check looks at the document as a whole, unless a field is wrong already.
func (b *builder) check() {
	if len(b.wrong) > 0 {
		return
	}
	_, payload := b.lines["payload"]
	_, encoded := b.lines["payloadBase64"]
	for _, required := range []string{"sink", "key"} {
		if _, ok := b.lines[required]; !ok {
			b.fail(b.doc.Line, "", "the document has no %s", required)
			return
		}
	}
	switch err := b.doc.Key.Validate(); {
	case err != nil:
		b.fail(b.lines["key"], "", "%v", err)
	case b.doc.Delete && (payload || encoded || b.doc.Suspend || b.doc.Conflict != "" || b.doc.Direction != "" ||
		b.doc.Retry != (record.Retry{}) || b.doc.IdempotencyKey != ""):
		b.fail(b.lines["delete"], "leave them out, or take delete away", "a document with delete: true has no payload, conflictPolicy, direction, retry, idempotencyKey and suspend")
	case payload && encoded:
		b.fail(b.lines["payloadBase64"], "keep one", "the document has both payload and payloadBase64")
	case !payload && !encoded && b.doc.Direction == record.Inbound:
		b.doc.Payload = []byte("null") // which is never sent
	case !b.doc.Delete && !payload && !encoded:
		b.fail(b.doc.Line, "write payload, or delete: true to remove the resource; with direction: inbound there need be none", "the document has no payload")
		b.wrong[0].Kept = "write payload, or remove the document if the resource is to go; with direction: inbound there need be none"
	}
}

// kindOf names what a JSON value is, for messages.
func kindOf(v json.RawMessage) string {
	if len(v) == 0 {
		return "nothing"
	}
	switch v[0] {
	case '{':
		return "an object"
	case '[':
		return "a list"
	case '"':
		return "a string"
	case 't', 'f':
		return "the truth value " + string(v)
	case 'n':
		return "null"
	}
	return "the number " + string(v)
}
