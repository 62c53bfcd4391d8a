package engine

import (
	"errors"

	"github.com/pawlsync/pawl/engine/digest"
	"github.com/pawlsync/pawl/engine/sink"
)

// Bounds of a descent.
const (
	leafMost    = 512    // items of a node that are listed instead of being divided further
	nodesAtOnce = 2048   // asked about in one comparison
	itemsAtOnce = 4096   // listed in one comparison
	asksMost    = 20_000 // comparisons; more than any set needs whose keys are hashed
)

// descent goes from the root of a tree down to where a target differs.
type descent struct {
	tree  *digest.Tree
	epoch string

	nodes  []sink.Node // to be asked about
	leaves []sink.Leaf

	differing map[digest.Hash]bool // found so far
	extra     []string
}

// run asks until nothing is left to be asked about.
func (d *descent) run(ask func(*sink.Comparison) (sink.Difference, error)) error {
	d.node(nil, d.tree.Sum(nil))
	for asks := 0; len(d.nodes)+len(d.leaves) > 0; asks++ {
		if asks == asksMost {
			return errors.New("the target goes on to differ, whatever it is asked about")
		}
		c, leaves := d.next()
		found, err := ask(c)
		if err != nil {
			return err
		}
		for _, prefix := range found.Nodes {
			wasLeaf, asked := leaves[string(prefix)]
			if !asked {
				return errors.New("the target answers about what it was not asked")
			}
			delete(leaves, string(prefix))
			d.differs(prefix, wasLeaf)
		}
		for _, key := range found.Items {
			if len(key) == digest.HashBytes {
				d.differing[digest.Hash(key)] = true
			}
		}
		d.extra = append(d.extra, found.Extra...)
	}
	return nil
}

// next takes what fits into one comparison, and returns of each prefix in it whether
// it is a leaf.
func (d *descent) next() (*sink.Comparison, map[string]bool) {
	c := &sink.Comparison{Epoch: d.epoch}
	asked := map[string]bool{}
	n := min(len(d.nodes), nodesAtOnce)
	c.Nodes, d.nodes = d.nodes[:n], d.nodes[n:]
	for i := range c.Nodes {
		asked[string(c.Nodes[i].Prefix)] = false
	}
	items := 0
	for len(d.leaves) > 0 && len(c.Leaves) < nodesAtOnce && items+len(d.leaves[0].Items) <= itemsAtOnce {
		items += len(d.leaves[0].Items)
		asked[string(d.leaves[0].Prefix)] = true
		c.Leaves, d.leaves = append(c.Leaves, d.leaves[0]), d.leaves[1:]
	}
	return c, asked
}

// differs goes on below a node that differs: with its items where they are few, else
// with its children, as where the target has too much there to list it.
func (d *descent) differs(prefix []byte, divide bool) {
	below := d.tree.Below(prefix)
	if !divide && len(below) <= leafMost {
		leaf := sink.Leaf{Prefix: prefix, Items: make([]sink.LeafItem, len(below))}
		for i := range below {
			leaf.Items[i] = sink.LeafItem{Key: below[i].Key[:], Content: below[i].Content[:]}
		}
		d.leaves = append(d.leaves, leaf)
		return
	}
	d.tree.Children(prefix, d.node)
}

func (d *descent) node(prefix []byte, s digest.Sum) {
	d.nodes = append(d.nodes, sink.Node{Prefix: prefix, Count: s.Count, Digest: s.Digest[:]})
}
