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
