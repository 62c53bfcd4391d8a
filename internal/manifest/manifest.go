// Package manifest reads desired state from YAML and JSON files.
//
// A file holds any number of documents: YAML documents parted by ---, JSON
// values one after the other, or lists of either. Each document is one resource:
//
//	sink: web                      # required
//	key: users/alice               # required
//	payload: {name: Alice}         # any value; or payloadBase64 for bytes that are no JSON; none with direction: inbound
//	conflictPolicy: source-wins    # optional: source-wins, target-wins or report-only
//	deletionPolicy: delete         # optional: delete, ack-then-delete or retain
//	direction: outbound            # optional: outbound, inbound or both
//	suspend: false                 # optional: store it, but call nothing
//	delete: true                   # instead of a payload: the resource is to go
//
// The payload of a JSON document is kept byte for byte. That of a YAML document
// becomes JSON with its keys in their order, as strings whatever they are, and its
// numbers as written. A number with a 0 in front is refused.
//
// Read and ReadPath want all documents to be right. Parse tells of each by itself.
package manifest

import (
	"errors"
	"fmt"
	"strings"

	"github.com/pawlsync/pawl/engine/record"
)

// Document is one resource as a file wants it.
type Document struct {
	File string // as it was named
	Line int    // where the document starts, from 1

	Key            record.Key
	Payload        []byte
	Binary         bool                  // Payload came as payloadBase64 and may be no JSON
	Conflict       record.ConflictPolicy // empty: the sink's
	Deletion       record.DeletionPolicy // empty: the sink's
	Direction      record.Direction      // empty: the sink's
	Retry          record.Retry          // zero fields: the sink's
	IdempotencyKey string                // empty: the store's
	Suspend        bool
	Delete         bool // Payload, Direction, Retry, IdempotencyKey and Suspend are not set then
}

// ErrInvalid is what every Error and Errors of this package is, for errors.Is.
var ErrInvalid = errors.New("invalid manifest")

// Error is one thing that is wrong in a file.
type Error struct {
	File string
	Line int    // from 1; 0: unknown
	What string // what is wrong
	Hint string // what to do, or what was probably meant; may be ""
	// Kept is Hint where files say all that there is to be, as those of a source do, and
	// a resource goes with its document; "": Hint is right there too.
	Kept string
}

// Error reads "web.yaml:3: unknown field "sinc"; did you mean sink?".
func (e *Error) Error() string {
	s := e.File
	if e.Line > 0 {
		s = fmt.Sprintf("%s:%d", e.File, e.Line)
	}
	s += ": " + e.What
	if e.Hint != "" {
		s += "; " + e.Hint
	}
	return s
}

// in says where e belongs: into file, and below so many lines of it.
func (e *Error) in(file string, before int) *Error {
	e.File = file
	if e.Line > 0 {
		e.Line += before
	}
	return e
}

// Is reports whether target is ErrInvalid.
func (e *Error) Is(target error) bool { return target == ErrInvalid }

// Errors is all that is wrong, in the order of files and lines.
type Errors []*Error

// Error has one line for each of them.
func (es Errors) Error() string {
	lines := make([]string, len(es))
	for i, e := range es {
		lines[i] = e.Error()
	}
	return strings.Join(lines, "\n")
}

// Is reports whether target is ErrInvalid.
func (es Errors) Is(target error) bool { return target == ErrInvalid }
