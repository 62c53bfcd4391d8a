//go:build !linux && !darwin

package dir

import (
	"io/fs"
	"os"
)

type osFile struct{ *os.File }

func openFile(name string) (file, error) {
	f, err := os.Open(name)
	return osFile{f}, err
}

func (f osFile) stamp() (stamp, error) {
	info, err := f.Stat()
	if err != nil {
		return stamp{}, err
	}
	if !info.Mode().IsRegular() {
		return stamp{}, errNoFile
	}
	return stampOf(info), nil
}

// stampOf reads what tells one state of a file from another. That of a file which was
// replaced by one of the same size and time is the same here.
func stampOf(info fs.FileInfo) stamp {
	return stamp{size: info.Size(), modified: info.ModTime().UnixNano()}
}
