package badger

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"

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

// releaseMapped gives back the memory of what is mapped of the files below dir. The next
// use reads it from the file again. Nothing is lost where a mapping is replaced by other
// memory meanwhile: unlike MADV_DONTNEED, MADV_PAGEOUT keeps what memory holds. A kernel
// that does not know it (before 5.4) keeps the pages.
func releaseMapped(dir string) {
	dir, err := filepath.EvalSymlinks(dir) // maps has no others
	if err != nil {
		return
	}
	maps, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		return
	}
	for line := range strings.Lines(string(maps)) {
		if start, end, ok := mappingBelow(dir, line); ok {
			_, _, _ = unix.Syscall(unix.SYS_MADVISE, start, end-start, unix.MADV_PAGEOUT)
		}
	}
}

// mappingBelow reads a line of /proc/self/maps; ok: it is of a file below dir.
func mappingBelow(dir, line string) (start, end uintptr, ok bool) {
	at, path, ok := strings.Cut(strings.TrimSuffix(line, "\n"), " /")
	if !ok || !strings.HasPrefix("/"+path, dir+"/") {
		return 0, 0, false
	}
	at, _, _ = strings.Cut(at, " ")
	from, to, _ := strings.Cut(at, "-")
	first, err := strconv.ParseUint(from, 16, 64)
	last, err2 := strconv.ParseUint(to, 16, 64)
	return uintptr(first), uintptr(last), err == nil && err2 == nil
}
