package dir

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
)

// maxFileBytes bounds a file; it is held in memory while it is read.
const maxFileBytes = 64 << 20

// check looks at the file at p before it is opened, which what is no file may mind. It
// returns how many bytes there are, or why there is nothing to be read.
func (s *Source) check(p string) (size int64, err error) {
	name := s.at(p)
	info, err := s.fs.stat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if _, err := s.fs.lstat(name); err == nil {
			return 0, errDangling
		}
		return 0, errGone
	case err != nil:
		return 0, plain(err)
	case info.IsDir():
		return 0, errGone
	case !info.Mode().IsRegular():
		return 0, errNoFile
	}
	return info.Size(), nil
}

// read reads the file at p into buf. check found nothing wrong with it, but anything may
// have come in its place since.
func (l *loader) read(p string) (stamp, error) {
	f, err := l.fs.open(l.at(p))
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return stamp{}, errChanging // it was there a moment ago
		}
		return stamp{}, plain(err)
	}
	defer f.Close()
	before, err := f.stamp()
	if err != nil {
		return stamp{}, plain(err)
	}
	if before.size > maxFileBytes {
		return stamp{}, fmt.Errorf("has more than %d MiB; make several files of it", maxFileBytes>>20)
	}
	if err := l.fill(f, int(before.size)); err != nil {
		return stamp{}, plain(err)
	}
	after, err := f.stamp()
	if err != nil {
		return stamp{}, plain(err)
	}
	if after != before || after.size != int64(len(l.buf)) {
		return stamp{}, errChanging
	}
	return after, nil
}

// fill reads f, which has so many bytes, into buf; mostly at once. One byte more tells
// that it grows, and one that grows has no end.
func (l *loader) fill(f io.Reader, size int) error {
	l.buf = slices.Grow(l.buf[:0], size+1)
	for {
		n, err := f.Read(l.buf[len(l.buf) : size+1])
		l.buf = l.buf[:len(l.buf)+n]
		if errors.Is(err, io.EOF) || err == nil && len(l.buf) >= size {
			return nil
		}
		if err != nil {
			return err
		}
	}
}
