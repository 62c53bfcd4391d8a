package engine

// What belongs to the desired state, and to no resource, is kept beside it as a small
// document: how much a source has deleted of late, which life of a sender is the
// present one.

const notePrefix = "note/"

// Note returns the document of that name, nil if there is none.
//
// # Errors
//
// ErrClosed; the store's.
func (e *Engine) Note(name string) ([]byte, error) {
	if err := e.open(); err != nil {
		return nil, &Error{Op: "read note " + name, Err: err}
	}
	value, err := e.store.Meta(notePrefix + name)
	if err != nil {
		return nil, &Error{Op: "read note " + name, Err: err}
	}
	return value, nil
}

// SetNote replaces the document of that name, of at most 64 KiB; nil removes it. It
// is durable when SetNote returns.
//
// # Errors
//
// ErrClosed; the store's.
func (e *Engine) SetNote(name string, value []byte) error {
	if err := e.open(); err != nil {
		return &Error{Op: "write note " + name, Err: err}
	}
	if err := e.store.SetMeta(notePrefix+name, value); err != nil {
		return &Error{Op: "write note " + name, Err: err}
	}
	return nil
}
