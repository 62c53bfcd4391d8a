package wasmhost

import (
	"sync/atomic"

	"github.com/tetratelabs/wazero/experimental"
)

const pageBytes = 64 << 10

// guestMemory is the linear memory of one instance. It refuses to grow beyond
// limit, which the guest sees as a failed memory.grow, and publishes its size.
type guestMemory struct {
	buf   []byte
	limit uint64
	size  atomic.Int64 // bytes; read by Stats
}

// Allocate implements experimental.MemoryAllocator: each instance has its own
// guestMemory and one memory.
func (m *guestMemory) Allocate(_, most uint64) experimental.LinearMemory {
	m.limit = min(m.limit, most)
	return m
}

// Reallocate implements experimental.LinearMemory. It grows by half at least,
// so that a guest that grows page by page is not copied each time.
func (m *guestMemory) Reallocate(size uint64) []byte {
	if size > m.limit {
		return nil
	}
	if size > uint64(cap(m.buf)) {
		grown := min(max(size, uint64(cap(m.buf))*3/2), m.limit)
		buf := make([]byte, len(m.buf), grown)
		copy(buf, m.buf)
		m.buf = buf
	}
	m.buf = m.buf[:size]
	m.size.Store(int64(size))
	return m.buf
}

// Free implements experimental.LinearMemory.
func (m *guestMemory) Free() {
	m.buf = nil
	m.size.Store(0)
}
