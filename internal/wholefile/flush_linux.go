package wholefile

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// flush puts a range of f on disk and lets go of its memory, which the store has better
// use for. It is no fsync: whether the file is found after a power cut is for Finish.
// A file system that knows no such thing gets all at the end.
func flush(f *os.File, offset, length int64) error {
	const writeAndWait = unix.SYNC_FILE_RANGE_WAIT_BEFORE | unix.SYNC_FILE_RANGE_WRITE | unix.SYNC_FILE_RANGE_WAIT_AFTER
	err := unix.SyncFileRange(int(f.Fd()), offset, length, writeAndWait)
	if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ESPIPE) || errors.Is(err, unix.ENOSYS) {
		return nil
	}
	if err != nil {
		// Not for Finish to find: the kernel tells of a failed write once.
		return &os.PathError{Op: "write", Path: f.Name(), Err: err}
	}
	_ = unix.Fadvise(int(f.Fd()), offset, length, unix.FADV_DONTNEED)
	return nil
}
