//go:build unix

package wasmhost

import (
	"fmt"
	"io/fs"
	"os"
	"syscall"
)

// checkOwner refuses a folder that somebody else owns or may enter. It is not
// repaired: whoever could write to it may have planted code there.
func checkOwner(dir string, st fs.FileInfo) error {
	if sys, ok := st.Sys().(*syscall.Stat_t); ok && int(sys.Uid) != os.Geteuid() {
		return fmt.Errorf("%w: %s belongs to user %d, not to this process's user %d", ErrCacheDir, dir, sys.Uid, os.Geteuid())
	}
	if perm := st.Mode().Perm(); perm&0o077 != 0 {
		return fmt.Errorf("%w: %s has mode %04o, so that others can reach it; it must be 0700", ErrCacheDir, dir, perm)
	}
	return nil
}
