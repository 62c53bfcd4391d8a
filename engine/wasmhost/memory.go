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

// full reports whether n bytes are to be had only when others return theirs.
func (b *memoryBudget) full(n int64) bool {
	used := b.used.Load()
	return used > 0 && used+n > b.limit
}

// errNoMemory is what an instance does not start for: the memory of others.
var errNoMemory = errors.New("no memory for another instance")

// guestMemory is the linear memory of one instance. It refuses to grow beyond
// its limits, which the guest sees as a failed memory.grow, and publishes its size.
type guestMemory struct {
	sink   *Sink
	mapped mapping
	limit  uint64       // bytes; constant once it is instantiated
	held   int64        // bytes taken from the budgets of sink and host
	size   atomic.Int64 // bytes; read by Stats
}

// Allocate implements experimental.MemoryAllocator: each instance has its own
// guestMemory and one memory.
func (m *guestMemory) Allocate(_, most uint64) experimental.LinearMemory {
	m.limit = min(m.limit, most)
	return m
}

// Reallocate implements experimental.LinearMemory.
func (m *guestMemory) Reallocate(size uint64) []byte {
	if size > m.limit {
		m.sink.held(LimitMemory, "")
		return nil
	}
	if more := int64(size); more > m.held {
		if over := m.reserve(more); over != "" {
			m.sink.held(over, "")
			return nil
		}
	}
	buf := m.mapped.grow(size, m.limit)
	if buf != nil {
		m.size.Store(int64(size))
	}
	return buf
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

// Free implements experimental.LinearMemory. wazero calls it when the module is
// closed, by whomever; the memory is the owner's, who releases it when nothing
// touches it any more.
func (*guestMemory) Free() {}

// release gives the memory back; only the instance's owner calls it, at its end.
func (m *guestMemory) release() {
	m.reserve(0)
	m.mapped.release()
	m.size.Store(0)
}
