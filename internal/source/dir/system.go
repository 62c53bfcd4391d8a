package dir

import (
	"io"
	"io/fs"
	"os"
)

// fileSystem is what is asked of the system; tests put faults in its place.
type fileSystem struct {
	stat     func(name string) (fs.FileInfo, error)
	lstat    func(name string) (fs.FileInfo, error)
	readDir  func(name string) ([]fs.DirEntry, error)
	readFile func(name string) ([]byte, error) // of ignore files
	open     func(name string) (file, error)   // does not wait at a pipe
}

// file is an open document.
type file interface {
	io.ReadCloser
	// stamp returns errNoFile where it is no regular file.
	stamp() (stamp, error)
}

var system = fileSystem{stat: os.Stat, lstat: os.Lstat, readDir: os.ReadDir, readFile: os.ReadFile, open: openFile}
