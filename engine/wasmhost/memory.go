package wasmhost

import (
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/tetratelabs/wazero/experimental"
)

const pageBytes = 64 << 10

// memoryBudget bounds the sum of several memories.
type memoryBudget struct {
	limit int64 // bytes
	used  atomic.Int64
}

// take reserves n bytes more, or returns n where it is negative; false: there
// are not so many.
func (b *memoryBudget) take(n int64) bool {
	if b.used.Add(n) > b.limit && n > 0 {
		b.used.Add(-n)
		return false
	}
	return true
}

// errNoMemory is what an instance does not start for: the memory of others.
var errNoMemory = errors.New("no memory for another instance")

// guestMemory is the linear memory of one instance. It refuses to grow beyond
// its limits, which the guest sees as a failed memory.grow, and publishes its size.
type guestMemory struct {
	sink  *Sink
	buf   []byte
	limit uint64
	held  int64        // bytes taken from the budgets of sink and host
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
		m.sink.held(LimitMemory, "")
		return nil
	}
	if size > uint64(cap(m.buf)) {
		grown := min(max(size, uint64(cap(m.buf))*3/2), m.limit)
		if over := m.reserve(int64(grown)); over != "" {
			grown = size
			if over = m.reserve(int64(size)); over != "" {
				m.sink.held(over, "")
				return nil
			}
		}
		buf := make([]byte, len(m.buf), grown)
		copy(buf, m.buf)
		m.buf = buf
	}
	m.buf = m.buf[:size]
	m.size.Store(int64(size))
	return m.buf
}

// reserve makes the budgets hold n bytes for this memory, or says which does
// not have so many.
func (m *guestMemory) reserve(n int64) Limit {
	more := n - m.held
	if !m.sink.memory.take(more) {
		return LimitSinkMemory
	}
	if !m.sink.host.memories.take(more) {
		m.sink.memory.take(-more)
		return LimitHostMemory
	}
	m.held = n
	return ""
}

// begin reserves what a module's memory starts with: wazero can't be told no.
func (m *guestMemory) begin(n int64) error {
	if over := m.reserve(n); over != "" {
		m.sink.held(over, "")
		return fmt.Errorf("%w: it starts with %d bytes, and the limit %s is reached", errNoMemory, n, over)
	}
	return nil
}

// Free implements experimental.LinearMemory.
func (m *guestMemory) Free() {
	m.reserve(0)
	m.buf = nil
	m.size.Store(0)
}
