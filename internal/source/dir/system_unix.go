//go:build linux || darwin

package dir

import (
	"io"
	"io/fs"
	"syscall"
)

// descriptor is an open file as the system has it. An os.File asks of each whether it can
// be waited for, which takes more than to read a document.
type descriptor int

func openFile(name string) (file, error) {
	fd, err := uninterrupted(func() (int, error) {
		return syscall.Open(name, syscall.O_RDONLY|syscall.O_CLOEXEC|syscall.O_NONBLOCK, 0)
	})
	return descriptor(fd), err
}

func (d descriptor) Read(p []byte) (int, error) {
	n, err := uninterrupted(func() (int, error) { return syscall.Read(int(d), p) })
	switch {
	case err != nil:
		return 0, err
	case n == 0 && len(p) > 0:
		return 0, io.EOF
	}
	return n, nil
}

func (d descriptor) Close() error { return syscall.Close(int(d)) }

func (d descriptor) stamp() (stamp, error) {
	var st syscall.Stat_t
	_, err := uninterrupted(func() (int, error) { return 0, syscall.Fstat(int(d), &st) })
	if err == nil && st.Mode&syscall.S_IFMT != syscall.S_IFREG {
		err = errNoFile
	}
	return stampOfStat(&st), err
}

// uninterrupted calls the system until no signal comes between.
func uninterrupted(call func() (int, error)) (int, error) {
	for {
		if n, err := call(); err != syscall.EINTR {
			return n, err
		}
	}
}

// stampOf reads what tells one state of a file from another.
func stampOf(info fs.FileInfo) stamp {
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		return stampOfStat(st)
	}
	return stamp{size: info.Size(), modified: info.ModTime().UnixNano()}
}
