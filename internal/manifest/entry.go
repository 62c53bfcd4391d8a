package manifest

import (
	"bytes"
	"encoding/json"
	"path/filepath"
	"strings"
)

// Entry is one document of a file as it was found: whole, or with what is wrong.
type Entry struct {
	// Document is what the file wants. Where Wrong is set it holds File, Line, Delete and,
	// if that much can be read, Key; the zero key says that it can't, and that there may be
	// more documents behind this place.
	Document
	// Object is the document as JSON where it is a manifest of Kubernetes: it has
	// apiVersion and kind, and no sink. Of Document only File and Line are set then. Lists
	// of objects are taken apart. Where Wrong is set it is what can be read of it.
	Object json.RawMessage
	// Wrong is what is wrong with it; nil: nothing.
	Wrong Errors
}

// Parse reads one file's content, and goes on behind what is wrong as far as it can:
// in YAML with the next document. name is for messages. Where it ends in .json the
// content must be JSON; elsewhere what starts like JSON may still be YAML's flow
// style, and is read as that if it is no JSON.
func Parse(content []byte, name string) []Entry {
	content = bytes.TrimPrefix(content, []byte("\xef\xbb\xbf")) // a byte order mark
	mustBeJSON := strings.EqualFold(filepath.Ext(name), ".json")
	start := bytes.TrimLeft(content, " \t\r\n")
	if mustBeJSON || len(start) > 0 && (start[0] == '{' || start[0] == '[') {
		if entries, ok := parseJSON(content, name); ok || mustBeJSON {
			return entries
		}
	}
	return parseYAML(content, name)
}

// bad is an entry of which nothing can be read.
func bad(e *Error) Entry {
	return Entry{Document: Document{File: e.File, Line: e.Line}, Wrong: Errors{e}}
}

// isList reports whether a document is a list of objects of Kubernetes, as kubectl
// get prints it, with its members in items.
func isList(kind string) bool { return strings.HasSuffix(kind, "List") }
