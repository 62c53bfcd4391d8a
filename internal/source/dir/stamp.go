package dir

import "time"

// stamp tells one state of a file from another without reading it. The zero stamp is
// like no file's.
type stamp struct {
	size              int64 // in bytes
	modified, changed int64 // contents, and also what the system notes of it; Unix, in nanoseconds
	id                fileID
}

// fileID is the same for all names of a file; zero where the system has none.
type fileID struct{ device, inode uint64 }

// coarse is the most that file systems round times to. A file could change again within
// it, and have the same stamp.
const coarse = 2 * time.Second

// trusted returns s, or the zero stamp where the file changed so shortly before it was
// read, at now, that a later change could go unseen.
func (s stamp) trusted(now time.Time) stamp {
	if now.UnixNano()-max(s.modified, s.changed) < int64(coarse) {
		return stamp{}
	}
	return s
}

// age is how long ago the contents changed, at now. Clocks of file servers differ, so it
// may be less than 0.
func (s stamp) age(now time.Time) time.Duration { return time.Duration(now.UnixNano() - s.modified) }
