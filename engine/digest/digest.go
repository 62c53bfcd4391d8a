// Package digest tells two sets of resources apart in few bytes. It is pure.
//
// Each resource is an Item: a hash of its key and a hash of its content. Items are
// the leaves of a tree whose inner nodes are the prefixes, in whole bytes, of the
// hashes of keys; so every node has 256 children. The sum of a node is that of its
// items' digests, modulo 2^128, and their number: equal sums mean equal sets below
// the node, whatever the order in which they came to be.
//
// Two sides that each hold a Tree find what differs by comparing sums from the root
// down, and items where few are left.
package digest

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"math/bits"
	"slices"
	"sort"
)

// HashBytes is the size of a Hash and of a Sum.
const HashBytes = 16

// Hash is the first half of a SHA-256.
type Hash [HashBytes]byte

// Key is the hash of a resource's key.
func Key(name string) Hash {
	h := sha256.Sum256([]byte(name))
	return Hash(h[:HashBytes])
}

// Content shortens the SHA-256 of a content.
func Content(sha [sha256.Size]byte) Hash { return Hash(sha[:HashBytes]) }

// Item is one resource.
type Item struct{ Key, Content Hash }

// Sum is what a node is compared by.
type Sum struct {
	Count  uint64
	Digest Hash // little-endian
}

// add adds an item's digest: a hash of both its halves, so that no two items can
// exchange their contents unseen.
func (s *Sum) add(it *Item) {
	var both [2 * HashBytes]byte
	copy(both[:], it.Key[:])
	copy(both[HashBytes:], it.Content[:])
	h := sha256.Sum256(both[:])
	lo, carry := bits.Add64(binary.LittleEndian.Uint64(s.Digest[:8]), binary.LittleEndian.Uint64(h[:8]), 0)
	hi, _ := bits.Add64(binary.LittleEndian.Uint64(s.Digest[8:]), binary.LittleEndian.Uint64(h[8:16]), carry)
	binary.LittleEndian.PutUint64(s.Digest[:8], lo)
	binary.LittleEndian.PutUint64(s.Digest[8:], hi)
	s.Count++
}

// Tree is a set of items.
type Tree struct {
	items []Item // by key
}

// NewTree returns the tree of items, which it keeps and sorts. No two may have the
// same key.
func NewTree(items []Item) *Tree {
	slices.SortFunc(items, func(a, b Item) int { return bytes.Compare(a.Key[:], b.Key[:]) })
	return &Tree{items: items}
}

// Below returns the items whose key begins with prefix, by key. The caller must not
// change them.
func (t *Tree) Below(prefix []byte) []Item {
	first := sort.Search(len(t.items), func(i int) bool { return bytes.Compare(head(&t.items[i], prefix), prefix) >= 0 })
	rest := t.items[first:]
	return rest[:sort.Search(len(rest), func(i int) bool { return bytes.Compare(head(&rest[i], prefix), prefix) > 0 })]
}

func head(it *Item, prefix []byte) []byte { return it.Key[:min(len(prefix), HashBytes)] }

// Sum is that of the node at prefix.
func (t *Tree) Sum(prefix []byte) Sum {
	var s Sum
	below := t.Below(prefix)
	for i := range below {
		s.add(&below[i])
	}
	return s
}

// Children calls fn with the prefix and sum of each child of a node, those without
// items included. The prefix is fn's to keep.
func (t *Tree) Children(prefix []byte, fn func(prefix []byte, s Sum)) {
	if len(prefix) >= HashBytes {
		return
	}
	below := t.Below(prefix)
	for b := range 256 {
		var s Sum
		for len(below) > 0 && int(below[0].Key[len(prefix)]) == b {
			s.add(&below[0])
			below = below[1:]
		}
		fn(append(slices.Clip(slices.Clone(prefix)), byte(b)), s)
	}
}

// Compare tells what of two lists of items, each by key, only one has, or has with
// another content: differing are those of ours that theirs has not as they are, extra
// those keys that only theirs has.
func Compare(ours, theirs []Item) (differing, extra []Hash) {
	for len(ours) > 0 || len(theirs) > 0 {
		switch order := compareHeads(ours, theirs); {
		case order < 0:
			differing = append(differing, ours[0].Key)
			ours = ours[1:]
		case order > 0:
			extra = append(extra, theirs[0].Key)
			theirs = theirs[1:]
		default:
			if ours[0].Content != theirs[0].Content {
				differing = append(differing, ours[0].Key)
			}
			ours, theirs = ours[1:], theirs[1:]
		}
	}
	return differing, extra
}

func compareHeads(a, b []Item) int {
	switch {
	case len(a) == 0:
		return 1
	case len(b) == 0:
		return -1
	}
	return bytes.Compare(a[0].Key[:], b[0].Key[:])
}
