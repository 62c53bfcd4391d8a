package dir

import (
	"errors"
	"fmt"
	"io/fs"
)

var (
	errNoDir    = errors.New("is no directory")
	errNoFile   = errors.New("is no regular file")
	errChanging = errors.New("changes all the time; it is read when it has been quiet for a moment. Write another file and rename it over this one")
	errEmpty    = errors.New("is empty, as a file is that was cut off; delete it if its resources are to go, or write a comment (#) into it")
	errDelete   = errors.New("delete: true means nothing in a source; remove the document, and its resource goes")
	errDangling = errors.New("is a link that leads nowhere")
	errGone     = errors.New("is gone") // inside this package alone
	errReplaced = errors.New("another directory is in its place, or it was unmounted, while it was read")
	errRestless = errors.New("changes faster than it can be read; what is missing is not taken for deleted until it is quiet")
)

// ignoreError says that nobody knows what is left out of a directory.
type ignoreError struct{ err error }

func (e *ignoreError) Error() string { return ignoreFile + " can't be read: " + e.err.Error() }
func (e *ignoreError) Unwrap() error { return e.err }

// unreadable is what stands where a file or a directory can't be read.
func unreadable(p string, err error) error { return fmt.Errorf("%s can't be read: %w", p, err) }

// plain takes the name of the system's call off an error: it means nothing to people,
// and the path is told beside it.
func plain(err error) error {
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		return e.Err
	}
	return err
}
