package badger

import (
	"os"

	"golang.org/x/sys/unix"
)

// fdatasync makes a file's data durable, and of its metadata what is needed to
// read them.
func fdatasync(f *os.File) error {
	for {
		err := unix.Fdatasync(int(f.Fd()))
		if err != unix.EINTR {
			return err
		}
	}
}

// nextData returns where data begins at or after offset: end where only a hole
// follows, offset where the file system can't tell.
func nextData(f *os.File, offset, end int64) int64 {
	switch next, err := unix.Seek(int(f.Fd()), offset, unix.SEEK_DATA); err {
	case nil:
		return next
	case unix.ENXIO:
		return end
	}
	return offset
}
