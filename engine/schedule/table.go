package schedule

import "unsafe"

// table finds entries by hash. It is extendible hashing: a directory, indexed by
// the hash's top bits, of segments with open addressing. A full segment splits in
// two, so growth never moves more than one segment's entries at once.
//
// A hash's bits: the top ones choose the segment, 0 to 9 the slot, 10 to 17 make
// the tag. They overlap only beyond some 14 million entries, which costs no more
// than some compares.
type table struct {
	dir   []*segment
	depth uint8 // len(dir) is 1<<depth
	segs  int
}

const (
	segSlots = 1 << 10
	segFull  = segSlots * 7 / 8
)

// segment has no pointer. A slot is empty where its tag is 0; tags spare most
// looks at entries, each of which is a cache miss.
type segment struct {
	tags  [segSlots]uint8
	ids   [segSlots]uint32
	n     int
	depth uint8 // how many top bits its entries share
}

func tagOf(hash uint32) uint8 { return uint8(hash>>10) | 1 }

func (t *table) init() { t.dir, t.segs = []*segment{{}}, 1 }

func (t *table) segment(hash uint32) *segment { return t.dir[uint64(hash)<<t.depth>>32] }

// insert adds an entry that isn't there.
func (t *table) insert(s *slab, hash, id uint32) {
	g := t.segment(hash)
	for g.n >= segFull {
		t.split(s, g, hash)
		g = t.segment(hash)
	}
	g.insert(hash, id)
}

func (g *segment) insert(hash, id uint32) {
	i := hash % segSlots
	for g.tags[i] != 0 {
		i = (i + 1) % segSlots
	}
	g.tags[i], g.ids[i] = tagOf(hash), id
	g.n++
}

// split replaces g, to which hash belongs, by two segments.
func (t *table) split(s *slab, g *segment, hash uint32) {
	if g.depth == t.depth {
		dir := make([]*segment, 2*len(t.dir))
		for i, g := range t.dir {
			dir[2*i], dir[2*i+1] = g, g
		}
		t.dir = dir
		t.depth++
	}
	half := [2]*segment{{depth: g.depth + 1}, {depth: g.depth + 1}}
	for i, tag := range g.tags {
		if tag == 0 {
			continue
		}
		h := s.at(g.ids[i]).hash
		half[h>>(31-g.depth)&1].insert(h, g.ids[i])
	}
	span := len(t.dir) >> g.depth // directory places that led to g
	first := int(uint64(hash)<<t.depth>>32) &^ (span - 1)
	for i := range span {
		t.dir[first+i] = half[i/(span/2)]
	}
	t.segs++
}

// remove takes out an entry that is there. What follows it moves up, so that no
// search ends early at the hole.
func (t *table) remove(s *slab, hash, id uint32) {
	g := t.segment(hash)
	hole := hash % segSlots
	for g.tags[hole] == 0 || g.ids[hole] != id {
		hole = (hole + 1) % segSlots
	}
	for i := (hole + 1) % segSlots; g.tags[i] != 0; i = (i + 1) % segSlots {
		home := s.at(g.ids[i]).hash % segSlots
		if (i-home)%segSlots >= (i-hole)%segSlots {
			g.tags[hole], g.ids[hole] = g.tags[i], g.ids[i]
			hole = i
		}
	}
	g.tags[hole] = 0
	g.n--
}

func (t *table) bytes() int64 {
	return int64(t.segs)*int64(unsafe.Sizeof(segment{})) + int64(cap(t.dir))*8
}
