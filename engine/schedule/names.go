package schedule

import (
	"encoding/binary"

	"github.com/pawlsync/pawl/engine/record"
)

// names is an arena for the bytes of names: chunks of blocks, each block a
// multiple of 8 bytes. A freed block goes to the list of its size and is used
// again for a name of that size.
type names struct {
	chunks []*[namesChunk]byte
	used   uint32 // bytes taken of the last chunk
	// free holds per size, in units of 8 bytes, the address+1 of the first free
	// block; its first 4 bytes hold the address+1 of the next.
	free [record.MaxKeyBytes/nameUnit + 1]uint32
}

const (
	nameUnit   = 8
	namesBits  = 13 // units of a chunk
	namesChunk = nameUnit << namesBits
)

func nameUnits(size int) uint32 { return max(1, uint32(size+nameUnit-1)/nameUnit) }

// bytes returns size bytes at addr, which is in units.
func (n *names) bytes(addr uint32, size int) []byte {
	off := (addr & (1<<namesBits - 1)) * nameUnit
	return n.chunks[addr>>namesBits][off : int(off)+size]
}

// put stores name, of at most record.MaxKeyBytes, and returns its address.
func (n *names) put(name string) uint32 {
	addr := n.take(nameUnits(len(name)))
	copy(n.bytes(addr, len(name)), name)
	return addr
}

func (n *names) take(units uint32) uint32 {
	if first := n.free[units]; first != 0 {
		addr := first - 1
		n.free[units] = binary.NativeEndian.Uint32(n.bytes(addr, 4))
		return addr
	}
	if rest := namesChunk - n.used; len(n.chunks) == 0 || rest < units*nameUnit {
		if len(n.chunks) > 0 && rest > 0 { // it's smaller than the largest size
			n.release(n.end(), rest/nameUnit)
		}
		n.chunks = append(n.chunks, new([namesChunk]byte))
		n.used = 0
	}
	addr := n.end()
	n.used += units * nameUnit
	return addr
}

// end is the address of what isn't used of the last chunk.
func (n *names) end() uint32 { return uint32(len(n.chunks)-1)<<namesBits + n.used/nameUnit }

// drop frees the name of that size at addr.
func (n *names) drop(addr uint32, size int) { n.release(addr, nameUnits(size)) }

func (n *names) release(addr, units uint32) {
	binary.NativeEndian.PutUint32(n.bytes(addr, 4), n.free[units])
	n.free[units] = addr + 1
}

func (n *names) size() int64 {
	return int64(len(n.chunks))*namesChunk + int64(cap(n.chunks))*8
}
