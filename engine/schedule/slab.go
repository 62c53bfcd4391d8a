package schedule

import (
	"unsafe"

	"github.com/pawlsync/pawl/engine/record"
)

// none is no entry, or no place in a heap.
const none = ^uint32(0)

// The two times by which entries are ordered.
const (
	byDue = 0 // when it is due; never if it is parked
	byAge = 1 // since when it is unacknowledged, in wall time; 0 if it isn't
)

// Marks of an entry.
const (
	inFlight uint8 = 1 << iota
	held           // the delivery has ended and isn't settled
	removed        // in flight, and goes when that ends
	unsure
)

// entry is one resource. It has no pointer, and 40 bytes.
type entry struct {
	t     [2]int64  // byDue, byAge
	pos   [2]uint32 // place in the heap of that order, or none
	name  uint32    // where names keeps it; for a free entry the next free one
	hash  uint32
	sink  uint32
	size  uint16 // of the name
	phase uint8  // index in phases
	marks uint8  // low nibble: marks; high nibble: class
}

func (e *entry) is(m uint8) bool    { return e.marks&m != 0 }
func (e *entry) class() Class       { return Class(e.marks >> 4) }
func (e *entry) setClass(c Class)   { e.marks = e.marks&0x0f | uint8(c)<<4 }
func (e *entry) waiting() bool      { return e.marks&(inFlight|held) == 0 }
func (e *entry) mark(m uint8)       { e.marks |= m }
func (e *entry) unmark(m uint8)     { e.marks &^= m }
func (e *entry) queued(by int) bool { return e.pos[by] != none }

// phases gives each phase a number. 0 stands for a phase that isn't known.
var phases = append([]record.Phase{""}, record.Phases()...)

func phaseIndex(p record.Phase) uint8 {
	for i, q := range phases {
		if p == q {
			return uint8(i)
		}
	}
	return 0
}

// slab holds entries in chunks, by id. Ids are used again; addresses are stable.
type slab struct {
	chunks []*[slabChunk]entry
	next   uint32 // the first id that was never used
	free   uint32 // the first of a list through entry.name, or none
}

const (
	slabBits  = 12
	slabChunk = 1 << slabBits
)

func (s *slab) at(id uint32) *entry { return &s.chunks[id>>slabBits][id&(slabChunk-1)] }

// take returns a zero entry that is in no heap.
func (s *slab) take() (uint32, *entry) {
	id := s.free
	if id != none {
		s.free = s.at(id).name
	} else {
		id = s.next
		s.next++
		if int(id>>slabBits) == len(s.chunks) {
			s.chunks = append(s.chunks, new([slabChunk]entry))
		}
	}
	e := s.at(id)
	*e = entry{pos: [2]uint32{none, none}}
	return id, e
}

func (s *slab) release(id uint32) {
	*s.at(id) = entry{name: s.free, sink: none}
	s.free = id
}

func (s *slab) bytes() int64 {
	return int64(len(s.chunks))*int64(unsafe.Sizeof([slabChunk]entry{})) + int64(cap(s.chunks))*8
}
