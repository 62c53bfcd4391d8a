package schedule

// idHeap is a 4-ary heap of ids, in chunks, ordered by one of their entries' times
// and then by id. Entries know their place in it.
type idHeap struct {
	chunks [][]uint32
	n      int
}

const (
	heapBits  = 12
	heapChunk = 1 << heapBits
)

func (h *idHeap) get(i int) uint32 { return h.chunks[i>>heapBits][i&(heapChunk-1)] }

func (h *idHeap) set(s *slab, by, i int, id uint32) {
	h.chunks[i>>heapBits][i&(heapChunk-1)] = id
	s.at(id).pos[by] = uint32(i)
}

// first returns the time of the first entry, or never.
func (h *idHeap) first(s *slab, by int) int64 {
	if h.n == 0 {
		return never
	}
	return s.at(h.get(0)).t[by]
}

func (h *idHeap) push(s *slab, by int, id uint32) {
	c := h.n >> heapBits
	if c == len(h.chunks) {
		var chunk []uint32 // a small heap stays small
		if c > 0 {
			chunk = make([]uint32, 0, heapChunk)
		}
		h.chunks = append(h.chunks, chunk)
	}
	h.chunks[c] = append(h.chunks[c], id)
	h.n++
	h.up(s, by, h.n-1, id)
}

// remove takes out id, which is in the heap.
func (h *idHeap) remove(s *slab, by int, id uint32) {
	h.n--
	c := h.n >> heapBits
	last := h.get(h.n)
	h.chunks[c] = h.chunks[c][:h.n&(heapChunk-1)]
	if len(h.chunks) > c+2 { // one spare, lest the edge of a chunk costs an allocation each time
		h.chunks[c+2] = nil
		h.chunks = h.chunks[:c+2]
	}
	e := s.at(id)
	i := int(e.pos[by])
	e.pos[by] = none
	if last != id {
		h.place(s, by, i, last)
	}
}

// fix restores the order after the time of id has changed.
func (h *idHeap) fix(s *slab, by int, id uint32) { h.place(s, by, int(s.at(id).pos[by]), id) }

func (h *idHeap) place(s *slab, by, i int, id uint32) {
	if i = h.up(s, by, i, id); i >= 0 {
		h.down(s, by, i, id)
	}
}

func before(s *slab, by int, a, b uint32) bool {
	ta, tb := s.at(a).t[by], s.at(b).t[by]
	return ta < tb || ta == tb && a < b
}

// up puts id at i or above it, and returns i if it stayed there, else -1.
func (h *idHeap) up(s *slab, by, i int, id uint32) int {
	start := i
	for i > 0 {
		p := (i - 1) / 4
		parent := h.get(p)
		if !before(s, by, id, parent) {
			break
		}
		h.set(s, by, i, parent)
		i = p
	}
	h.set(s, by, i, id)
	if i != start {
		return -1
	}
	return i
}

// down moves id from i to where its children come after it.
func (h *idHeap) down(s *slab, by, i int, id uint32) {
	for {
		c := h.firstOf(s, by, 4*i+1, 4*i+5)
		if c < 0 || !before(s, by, h.get(c), id) {
			break
		}
		h.set(s, by, i, h.get(c))
		i = c
	}
	h.set(s, by, i, id)
}

// firstOf returns which of the places from..to-1 holds what comes first, or -1
// if there is none.
func (h *idHeap) firstOf(s *slab, by, from, to int) int {
	if from >= h.n {
		return -1
	}
	best := from
	for i := from + 1; i < min(to, h.n); i++ {
		if before(s, by, h.get(i), h.get(best)) {
			best = i
		}
	}
	return best
}

func (h *idHeap) bytes() int64 {
	n := int64(cap(h.chunks)) * 24
	for _, c := range h.chunks {
		n += int64(cap(c)) * 4
	}
	return n
}
