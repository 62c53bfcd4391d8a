package dir

import (
	"io/fs"
	"syscall"
)

// stampOf reads what tells one state of a file from another.
func stampOf(info fs.FileInfo) stamp {
	s := stamp{size: info.Size(), modified: info.ModTime().UnixNano()}
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		s.changed = st.Ctim.Nano()
		s.id = fileID{uint64(st.Dev), st.Ino}
	}
	return s
}
