package relay

import (
	"bytes"
	"context"
	"fmt"
	"time"

	"github.com/pawlsync/pawl/engine"
	"github.com/pawlsync/pawl/engine/digest"
	"github.com/pawlsync/pawl/internal/relay/wire"
)

// snapshotLife is how long the resources of a sender, as they were when it asked
// about the root, answer for what is below. A change since then looks like a
// difference and costs the sender a look; the next comparison sees it.
const snapshotLife = time.Minute

// listMost is how many items that a leaf does not name may be listed at once.
const listMost = 1000

// snapshotKey is one conversation's view: other mappings see other resources.
type snapshotKey struct{ stream, epoch, sink, prefix, conflict, deletion string }

// snapshot is what the receiver holds for a sender.
type snapshot struct {
	tree  *digest.Tree
	names map[digest.Hash]string // as the sender calls them
	drop  *time.Timer
}

// Compare answers a request of one Comparison.
//
// # Errors
//
// As Receive.
func (r *Receiver) Compare(ctx context.Context, request []byte) ([]byte, error) {
	c, rest, err := r.greet(ctx, request)
	if err != nil {
		return nil, err
	}
	msg, _, err := wire.Next(rest)
	if err != nil {
		return nil, err
	}
	asked, err := wire.ReadComparison(msg)
	if err != nil {
		return nil, err
	}
	welcome, leave, err := r.enter(&c.hello)
	if err != nil {
		return nil, err
	}
	answer := wire.AppendWelcome(nil, welcome)
	if welcome.State != wire.Present {
		return answer, nil
	}
	leave() // nothing is changed
	s, err := r.snapshot(ctx, c, asksRoot(&asked))
	if err != nil {
		return nil, err
	}
	d, err := s.compare(&asked)
	if err != nil {
		return nil, err
	}
	if asksRoot(&asked) && len(d.Nodes)+len(d.Items)+len(d.Extra) == 0 {
		c.sender.Complete()
	}
	r.o.Observer.RelayCompared(c.hello.Sender, len(d.Items)/digest.HashBytes+len(d.Extra))
	return wire.AppendDifference(answer, d), nil
}

// asksRoot reports whether a comparison begins here.
func asksRoot(c *wire.Comparison) bool {
	for _, n := range c.Nodes {
		if len(n.Prefix) == 0 {
			return true
		}
	}
	for _, l := range c.Leaves {
		if len(l.Prefix) == 0 {
			return true
		}
	}
	return false
}

// snapshot returns the sender's resources as they are, or, where a comparison goes
// on, as they were when it began.
func (r *Receiver) snapshot(ctx context.Context, c *conversation, anew bool) (*snapshot, error) {
	h := &c.hello
	key := snapshotKey{c.stream(), h.Epoch, h.Sink, h.Prefix, h.Conflict, h.Deletion}
	r.mu.Lock()
	s := r.snapshots[key]
	r.mu.Unlock()
	if s != nil && !anew {
		return s, nil
	}
	s, err := r.take(ctx, c)
	if err != nil {
		return nil, err
	}
	s.drop = time.AfterFunc(snapshotLife, func() { r.forget(key, s) })
	r.mu.Lock()
	defer r.mu.Unlock()
	if old := r.snapshots[key]; old != nil {
		old.drop.Stop()
	}
	r.snapshots[key] = s
	return s, nil
}

func (r *Receiver) forget(key snapshotKey, s *snapshot) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.snapshots[key] == s {
		delete(r.snapshots, key)
	}
}

// take reads what the receiver holds for a sender. A resource whose policies are not
// those that the sender asks for counts as one of another content.
func (r *Receiver) take(ctx context.Context, c *conversation) (*snapshot, error) {
	s := &snapshot{names: map[digest.Hash]string{}}
	var items []digest.Item
	err := r.o.Engine.Owned(ctx, c.hello.Sender, c.hello.Sink, func(res engine.Resource) bool {
		name, ok := c.keyAtSender(res.Key)
		if !ok || res.Desired.Order.Source != c.stream() {
			return true
		}
		it := digest.Item{Key: digest.Key(name), Content: digest.Content(res.Desired.Hash)}
		if !c.asAsked(&res.Desired) {
			for i := range it.Content {
				it.Content[i] = ^it.Content[i]
			}
		}
		items, s.names[it.Key] = append(items, it), name
		return true
	})
	s.tree = digest.NewTree(items)
	return s, err
}

// compare says what differs.
func (s *snapshot) compare(c *wire.Comparison) (*wire.Difference, error) {
	d := &wire.Difference{}
	for _, n := range c.Nodes {
		if len(n.Prefix) > digest.HashBytes || len(n.Digest) != digest.HashBytes {
			return nil, fmt.Errorf("%w: a node has a prefix of %d bytes and a digest of %d; at most, and exactly, %d are right", ErrMalformed, len(n.Prefix), len(n.Digest), digest.HashBytes)
		}
		if s.tree.Sum(n.Prefix) != (digest.Sum{Count: n.Count, Digest: digest.Hash(n.Digest)}) {
			d.Nodes = append(d.Nodes, n.Prefix)
		}
	}
	for _, l := range c.Leaves {
		theirs, err := readLeaf(&l)
		if err != nil {
			return nil, err
		}
		ours := s.tree.Below(l.Prefix)
		if len(ours) > len(theirs)+listMost && len(l.Prefix) < digest.HashBytes {
			d.Nodes = append(d.Nodes, l.Prefix)
			continue
		}
		differing, extra := digest.Compare(theirs, ours)
		for _, k := range differing {
			d.Items = append(d.Items, k[:]...)
		}
		for _, k := range extra {
			d.Extra = append(d.Extra, s.names[k])
		}
	}
	return d, nil
}

// readLeaf checks what a sender lists: in order, and below the prefix.
func readLeaf(l *wire.Leaf) ([]digest.Item, error) {
	const size = 2 * digest.HashBytes
	if len(l.Prefix) > digest.HashBytes || len(l.Items)%size != 0 {
		return nil, fmt.Errorf("%w: a leaf has a prefix of %d bytes and items of %d; at most %d, and a multiple of %d, are right", ErrMalformed, len(l.Prefix), len(l.Items), digest.HashBytes, size)
	}
	items := make([]digest.Item, len(l.Items)/size)
	for i := range items {
		at := l.Items[i*size:]
		items[i] = digest.Item{Key: digest.Hash(at[:digest.HashBytes]), Content: digest.Hash(at[digest.HashBytes:size])}
		if !bytes.HasPrefix(items[i].Key[:], l.Prefix) || i > 0 && bytes.Compare(items[i-1].Key[:], items[i].Key[:]) >= 0 {
			return nil, fmt.Errorf("%w: the items of a leaf are not in order, or not below it", ErrMalformed)
		}
	}
	return items, nil
}
