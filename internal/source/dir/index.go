package dir

import (
	"hash/maphash"

	"github.com/pawlsync/pawl/engine/record"
	"github.com/pawlsync/pawl/internal/source"
)

// index is what was told.
type index struct {
	files map[string]*known
	// count is how many documents have a key; more than one is a mistake.
	count map[record.Key]uint32
}

func newIndex() *index { return &index{files: map[string]*known{}, count: map[record.Key]uint32{}} }

// known is what is remembered of a file.
type known struct {
	stamp stamp
	sum   uint64 // of its content; 0: it could not be read
	docs  []told
	// blind are the places of what nobody knows the keys of: they may be any.
	blind []string
}

// told is a document.
type told struct {
	key record.Key
	sum uint64 // of what was told; 0: only that it is kept
}

// set puts what is known now, or nil, in the place of what was known of p.
func (x *index) set(p string, k *known) {
	if old := x.files[p]; old != nil {
		for _, d := range old.docs {
			if x.count[d.key]--; x.count[d.key] == 0 {
				delete(x.count, d.key)
			}
		}
	}
	if k == nil {
		delete(x.files, p)
		return
	}
	x.files[p] = k
	for _, d := range k.docs {
		x.count[d.key]++
	}
}

// sumOf is that of what an item wants.
func (s *Source) sumOf(it *source.Item) uint64 {
	var h maphash.Hash
	h.SetSeed(s.seed)
	_, _ = h.Write(it.Payload) // never fails, as none of these
	_ = h.WriteByte(0)
	_, _ = h.WriteString(string(it.Conflict))
	_ = h.WriteByte(0)
	_, _ = h.WriteString(string(it.Deletion))
	_ = h.WriteByte(0)
	_, _ = h.WriteString(string(it.Direction))
	if it.Suspend {
		_ = h.WriteByte(1)
	}
	maphash.WriteComparable(&h, it.Retry)
	maphash.WriteComparable(&h, it.IdempotencyKey)
	return max(h.Sum64(), 1)
}
