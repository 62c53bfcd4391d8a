package jsondoc

import (
	"slices"
	"strings"
)

// Owned is the set of fields that a document owns: its leaves, which are all
// values but objects with members. Arrays are atomic. It is kept as sorted
// 4-byte hashes of the leaves' paths, so that it is small and says nothing of
// their values. Two paths share a hash once in 4 billion.
type Owned []byte

const ownedEntryBytes = 4

// Len returns how many fields are owned.
func (o Owned) Len() int { return len(o) / ownedEntryBytes }

func (o Owned) has(path uint64) bool {
	h := uint32(path >> 32)
	lo, hi := 0, o.Len()
	for lo < hi {
		mid := (lo + hi) / 2
		if o.at(mid) < h {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	return lo < o.Len() && o.at(lo) == h
}

func (o Owned) at(i int) uint32 {
	e := o[i*ownedEntryBytes:]
	return uint32(e[0])<<24 | uint32(e[1])<<16 | uint32(e[2])<<8 | uint32(e[3])
}

// Digest sums up values at their paths, without regard to order. It tells
// whether something changed; it is no defence against somebody who wants two
// values to look alike.
type Digest uint64

// Own returns the fields that d owns and the digest of their values.
func Own(d *Doc) (Owned, Digest) {
	hashes := make([]uint32, 0, len(d.nodes))
	var sum Digest
	own(d, 0, pathSeed, &hashes, &sum)
	slices.Sort(hashes)
	o := make(Owned, 0, len(hashes)*ownedEntryBytes)
	for _, h := range hashes {
		o = append(o, byte(h>>24), byte(h>>16), byte(h>>8), byte(h))
	}
	return o, sum
}

func own(d *Doc, at int32, path uint64, hashes *[]uint32, sum *Digest) {
	n := &d.nodes[at]
	if n.kind == Object && n.first != 0 {
		for c := n.first; c != 0; c = d.nodes[c].next {
			own(d, c, pathOf(path, d.nodes[c].key), hashes, sum)
		}
		return
	}
	*hashes = append(*hashes, uint32(finish(path)>>32))
	*sum += digestAt(path, d, at)
}

// Digest returns the digest of what d holds at the fields of o.
func (o Owned) Digest(d *Doc) Digest {
	var sum Digest
	o.digest(d, 0, pathSeed, &sum)
	return sum
}

func (o Owned) digest(d *Doc, at int32, path uint64, sum *Digest) {
	if o.has(finish(path)) {
		*sum += digestAt(path, d, at)
	}
	for c := d.nodes[at].firstMember(); c != 0; c = d.nodes[c].next {
		o.digest(d, c, pathOf(path, d.nodes[c].key), sum)
	}
}

// Difference is what Compare found.
type Difference struct {
	// Paths where observed differs from desired, as JSON pointers; "/" is the
	// document itself. At most MaxPaths; never values.
	Paths []string
	// Differs reports whether there is any.
	Differs bool
	// Found is the digest of what observed holds at the fields that desired owns.
	Found Digest
}

// MaxPaths bounds Difference.Paths.
const MaxPaths = 32

// Compare holds observed against desired at the fields that desired owns, and
// at those of before: one of these that desired does not have any more must be
// gone from observed. Whatever else observed holds is somebody else's.
func Compare(desired, observed *Doc, before Owned) Difference {
	c := comparer{desired: desired, observed: observed, before: before}
	c.node(0, 0, pathSeed)
	return c.out
}

type comparer struct {
	desired, observed *Doc
	before            Owned
	keys              []string // where we are
	out               Difference
}

// node compares a desired value with the observed one at the same path.
func (c *comparer) node(want, have int32, path uint64) {
	w, h := &c.desired.nodes[want], &c.observed.nodes[have]
	if w.kind != Object || h.kind != Object {
		c.out.Found += digestAt(path, c.observed, have)
		if !equal(c.desired, want, c.observed, have) {
			c.differ()
		}
		return
	}
	if w.first == 0 {
		c.out.Found += digestAt(path, c.observed, have)
	}
	f := newFinder(c.observed, have)
	for m := w.first; m != 0; m = c.desired.nodes[m].next {
		key := c.desired.nodes[m].key
		c.keys = append(c.keys, key)
		if o := f.find(key); o != 0 {
			c.node(m, o, pathOf(path, key))
		} else {
			c.differ()
		}
		c.keys = c.keys[:len(c.keys)-1]
	}
	if len(c.before) > 0 {
		c.leftovers(want, have, path)
	}
}

// leftovers looks for members that were owned, are not desired any more and are still there.
func (c *comparer) leftovers(want, have int32, path uint64) {
	f := newFinder(c.desired, want)
	for m := c.observed.nodes[have].first; m != 0; m = c.observed.nodes[m].next {
		key := c.observed.nodes[m].key
		if f.find(key) != 0 {
			continue
		}
		c.keys = append(c.keys, key)
		c.leftover(m, pathOf(path, key))
		c.keys = c.keys[:len(c.keys)-1]
	}
}

func (c *comparer) leftover(have int32, path uint64) {
	if c.before.has(finish(path)) {
		c.differ()
		return
	}
	for m := c.observed.nodes[have].firstMember(); m != 0; m = c.observed.nodes[m].next {
		key := c.observed.nodes[m].key
		c.keys = append(c.keys, key)
		c.leftover(m, pathOf(path, key))
		c.keys = c.keys[:len(c.keys)-1]
	}
}

func (c *comparer) differ() {
	c.out.Differs = true
	if len(c.out.Paths) < MaxPaths {
		c.out.Paths = append(c.out.Paths, pointer(c.keys))
	}
}

var pointerEscapes = strings.NewReplacer("~", "~0", "/", "~1")

// pointer writes keys as a JSON pointer (RFC 6901), and "/" for the document.
func pointer(keys []string) string {
	if len(keys) == 0 {
		return "/"
	}
	var b strings.Builder
	for _, k := range keys {
		b.WriteByte('/')
		if strings.ContainsAny(k, "~/") {
			k = pointerEscapes.Replace(k)
		}
		b.WriteString(k)
	}
	return b.String()
}

func (n *node) firstMember() int32 {
	if n.kind != Object {
		return 0
	}
	return n.first
}
