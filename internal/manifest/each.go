package manifest

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
)

// Each yields every document of what ReadPath reads, with one file in memory at a
// time. What can't be read is an Entry that is wrong, and the rest goes on. A folder
// without a file that is read yields nothing.
func Each(path string) iter.Seq[Entry] {
	return func(yield func(Entry) bool) {
		files, err := filesOf(path)
		if err != nil {
			yield(bad(&Error{File: path, What: err.Error()}))
			return
		}
		for _, name := range files {
			content, err := os.ReadFile(name)
			if err != nil {
				if !yield(bad(&Error{File: name, What: unnamed(err).Error()})) {
					return
				}
				continue
			}
			for _, e := range Parse(content, name) {
				if !yield(e) {
					return
				}
			}
		}
	}
}

// EachOf yields every document of one file's content.
func EachOf(r io.Reader, name string) iter.Seq[Entry] {
	return func(yield func(Entry) bool) {
		content, err := io.ReadAll(r)
		if err != nil {
			yield(bad(&Error{File: name, What: err.Error()}))
			return
		}
		for _, e := range Parse(content, name) {
			if !yield(e) {
				return
			}
		}
	}
}

// filesOf returns path, or the files of that folder that are read.
func filesOf(path string) ([]string, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, unnamed(err)
	}
	if !info.IsDir() {
		return []string{path}, nil
	}
	return list(path)
}

// unnamed takes the path, and the system call that means nothing to people, off err.
func unnamed(err error) error {
	if cause, ok := errors.AsType[*fs.PathError](err); ok {
		return cause.Err
	}
	return fmt.Errorf("it can't be read: %w", err)
}

// AsObject is what is wrong with a manifest of Kubernetes where a document is wanted.
func (e *Entry) AsObject() *Error {
	return &Error{File: e.File, Line: e.Line, What: "this is a manifest of Kubernetes",
		Hint: "make it the payload of a document with sink and key; a source of kind dir takes it as it is"}
}
