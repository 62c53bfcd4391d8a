package jsondoc

import (
	"slices"
	"strings"
)

// Owned is the set of fields that a document owns: its leaves, which are all
// values but objects with members. Arrays are atomic. It is kept as 4-byte
// hashes of the leaves' paths, so that it is small and says nothing of their
// values. Two paths share a hash once in 4 billion.
type Owned []byte

const ownedEntryBytes = 4

// Len returns how many fields are owned.
func (o Owned) Len() int { return len(o) / ownedEntryBytes }

// Set makes o ready for questions.
func (o Owned) Set() Set {
	s := make(Set, o.Len())
	for i := range s {
		e := o[i*ownedEntryBytes:]
		s[i] = uint32(e[0])<<24 | uint32(e[1])<<16 | uint32(e[2])<<8 | uint32(e[3])
	}
	slices.Sort(s)
	return s
}

// Set is a set of owned fields, sorted.
type Set []uint32

func (s Set) has(path uint64) bool {
	_, found := slices.BinarySearch(s, uint32(path>>32))
	return found
}

// Digest sums up values at their paths, without regard to order. It tells
// whether something changed; it is no defence against somebody who wants two
// values to look alike.
type Digest uint64

// Own returns the fields that d owns and the digest of their values.
func Own(d *Doc) (Owned, Digest) {
	o := owner{d: d, fields: make(Owned, 0, len(d.nodes)*ownedEntryBytes)}
	o.node(0, pathSeed)
	return o.fields, o.sum
}

type owner struct {
	d      *Doc
	fields Owned
	sum    Digest
}

func (o *owner) node(at int32, path uint64) {
	n := &o.d.nodes[at]
	if n.kind == Object && n.first != 0 {
		for c := n.first; c != 0; c = o.d.nodes[c].next {
			o.node(c, pathOf(path, o.d.nodes[c].hash))
		}
		return
	}
	h := finish(path)
	o.fields = append(o.fields, byte(h>>56), byte(h>>48), byte(h>>40), byte(h>>32))
	o.sum += digestAt(path, o.d, at)
}

// Digest returns the digest of what d holds at the fields of s.
func (s Set) Digest(d *Doc) Digest {
	var sum Digest
	s.digest(d, 0, pathSeed, &sum)
	return sum
}

func (s Set) digest(d *Doc, at int32, path uint64, sum *Digest) {
	if s.has(finish(path)) {
		*sum += digestAt(path, d, at)
	}
	for c := d.nodes[at].firstMember(); c != 0; c = d.nodes[c].next {
		s.digest(d, c, pathOf(path, d.nodes[c].hash), sum)
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
func Compare(desired, observed *Doc, before Set) Difference {
	c := comparer{desired: desired, observed: observed, before: before}
	c.node(0, 0, pathSeed)
	return c.out
}

type comparer struct {
	desired, observed *Doc
	before            Set
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
			c.node(m, o, pathOf(path, c.desired.nodes[m].hash))
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
		c.leftover(m, pathOf(path, c.observed.nodes[m].hash))
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
		c.leftover(m, pathOf(path, c.observed.nodes[m].hash))
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
