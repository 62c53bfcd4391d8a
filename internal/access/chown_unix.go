//go:build unix

package access

import (
	"io/fs"
	"os"
	"syscall"
)

// chownLike gives f the owner that info tells of, where it is not that already.
func chownLike(f *os.File, info fs.FileInfo) error {
	now, err := f.Stat()
	if err != nil {
		return err
	}
	want, is := info.Sys().(*syscall.Stat_t), now.Sys().(*syscall.Stat_t)
	if want.Uid == is.Uid && want.Gid == is.Gid {
		return nil
	}
	return f.Chown(int(want.Uid), int(want.Gid))
}
