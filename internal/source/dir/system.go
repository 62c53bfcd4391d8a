package dir

import (
	"io/fs"
	"os"
)

// fileSystem is what is asked of the system; tests put faults in its place.
type fileSystem struct {
	stat     func(name string) (fs.FileInfo, error)
	lstat    func(name string) (fs.FileInfo, error)
	readDir  func(name string) ([]fs.DirEntry, error)
	readFile func(name string) ([]byte, error) // of ignore files
	open     func(name string) (file, error)
}

// file is an open document.
type file interface {
	Stat() (fs.FileInfo, error)
	Read(p []byte) (int, error)
	Close() error
}

var system = fileSystem{
	stat: os.Stat, lstat: os.Lstat, readDir: os.ReadDir, readFile: os.ReadFile,
	open: func(name string) (file, error) { return os.Open(name) },
}
