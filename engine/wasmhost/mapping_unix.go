//go:build unix

package wasmhost

import "golang.org/x/sys/unix"

// mapping is memory that the operating system gives: zero, at one place however
// it grows, and given back at once when it is released. On Go's heap a guest
// that grows would be copied, in a way that holds up the whole process, and what
// it leaves behind would double the heap until the next collection.
type mapping struct {
	all    []byte // address space; only the first usable bytes can be touched
	usable uint64
}

// grow returns the first size bytes; nil: the system does not give so many.
// most is the largest size that will ever be asked for.
func (m *mapping) grow(size, most uint64) []byte {
	if m.all == nil {
		all, err := unix.Mmap(-1, 0, int(max(most, 1)), unix.PROT_NONE, unix.MAP_PRIVATE|unix.MAP_ANON)
		if err != nil {
			return nil
		}
		m.all = all
	}
	if size > m.usable {
		if err := unix.Mprotect(m.all[m.usable:size], unix.PROT_READ|unix.PROT_WRITE); err != nil {
			return nil
		}
		m.usable = size
	}
	return m.all[:size:size]
}

// release gives the memory back. Nobody may hold any of it any more.
func (m *mapping) release() {
	if m.all != nil {
		_ = unix.Munmap(m.all) // it is what Mmap returned
	}
	*m = mapping{}
}
