package sink

import "context"

// Comparer is a Sink whose target can say in few bytes which of many resources
// differ there. After a start the engine asks it, instead of looking at each. It is
// used where Manifest.Compares.
//
// Both sides arrange their resources as a tree by the bits of a hash of the key, see
// engine/digest. The engine goes down from the root to where they differ.
type Comparer interface {
	Sink
	// Compare says where the target differs from what is asked.
	Compare(ctx context.Context, c *Comparison) (Difference, Result)
}

// Comparison asks about some nodes of the tree.
type Comparison struct {
	// Epoch is the store's: the target begins a new set of books for each.
	Epoch string
	// Nodes are inner nodes: the target answers which of them differ.
	Nodes []Node
	// Leaves are nodes whose items are listed: the target answers which of those
	// differ or are missing there, and what else it has below the node.
	Leaves []Leaf
}

// Node is the sum of all resources whose hash begins with Prefix.
type Node struct {
	Prefix []byte // whole bytes of the hash; empty: the root
	Count  uint64
	Digest []byte // sum of the digests of its items, 16 bytes
}

// Leaf is a node with its items.
type Leaf struct {
	Prefix []byte
	Items  []LeafItem
}

// LeafItem is one resource: hashes of its key and of all that is desired of it, 16
// bytes each.
type LeafItem struct{ Key, Content []byte }

// Difference is what a Comparison found.
type Difference struct {
	Nodes [][]byte // prefixes of the nodes that differ
	Items [][]byte // key hashes of the leaves' items that differ or are missing
	// Extra are the names of keys that the target holds for us, below the leaves
	// asked about, and that they lack.
	Extra []string
}
