// Package wholefile writes files that have their name only once they are whole and on
// disk, and that are large: it puts them on disk portion by portion. A file of a
// gigabyte that is flushed at its end alone keeps the disk busy for so long that every
// other flush waits behind it, which for a store means every Put.
package wholefile

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// portionBytes is how much is written before it is put on disk.
const portionBytes = 1 << 20

// File is one that is being written. One goroutine uses it.
type File struct {
	file    *os.File
	path    string
	written int64
	flushed int64 // of written, what was put on disk
}

// Create makes path, which must not be there yet; until Finish it is called path.part.
func Create(path string) (*File, error) {
	if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
		return nil, errors.Join(fmt.Errorf("%s is there already, and is not overwritten; name another file", path), err)
	}
	f, err := os.OpenFile(path+".part", os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return nil, err
	}
	return &File{file: f, path: path}, nil
}

// Write writes b, and now and then waits for the disk.
func (f *File) Write(b []byte) (int, error) {
	n, err := f.file.Write(b)
	f.written += int64(n)
	if err != nil || f.written-f.flushed < portionBytes {
		return n, err
	}
	if err := flush(f.file, f.flushed, f.written-f.flushed); err != nil {
		return n, err
	}
	f.flushed = f.written
	return n, nil
}

// Finish gives the file its name where err is nil, durably; otherwise it removes it,
// and returns err.
func (f *File) Finish(err error) error {
	if err == nil {
		err = f.file.Sync()
	}
	if err = errors.Join(err, f.file.Close()); err == nil {
		err = os.Rename(f.file.Name(), f.path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.file.Name()))
	}
	return syncDir(filepath.Dir(f.path))
}

// syncDir makes a new name durable.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
