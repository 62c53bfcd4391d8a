package pawl

import (
	"context"
	"strconv"
)

// Poller is an Adapter whose target tells what changed there, so that resources
// which take in what the target has need not be observed one by one. It needs
// Manifest.ReportsContent.
type Poller interface {
	// Poll tells what changed after cursor, which is what an earlier Poll answered;
	// "" is the beginning, where everything counts as changed. It changes nothing, and
	// leaves nothing out: what changes while it runs comes with the next one.
	Poll(ctx context.Context, cursor string) (Changes, error)
}

// Changes are what a Poll tells.
type Changes struct {
	// Seen has the objects that changed, in the order of the target's changes, at most
	// MaxSeen. Of several for one key the last one counts.
	Seen []Seen
	// Cursor is what to ask from next. It is kept once Seen is taken in.
	Cursor string
	// More: there is more, and the next Poll follows at once.
	More bool
	// Reset: the target knows the cursor that it was asked from no more. Seen begins
	// with the whole again, and what it lacks at its end is gone.
	Reset bool
}

// Seen is the state of one object at the target.
type Seen struct {
	Key         string      // of the resource that it is, as Request.Key
	Observation Observation // Exists false: it is gone; else with its Content
}

// MaxSeen bounds Changes.Seen.
const MaxSeen = 10_000

// Comparer is an Adapter whose target can say in few bytes which of many resources
// differ there. Resources are a tree by the bytes of a hash of their keys.
type Comparer interface {
	// Compare says where the target differs from what is asked.
	Compare(ctx context.Context, c *Comparison) (Difference, error)
}

// Comparison asks about some nodes of the tree. Read only, as a Request.
type Comparison struct {
	Sink   string
	Epoch  string        // of the store that asks, as Request.Epoch
	Nodes  []CompareNode // of which the target answers which differ
	Leaves []CompareLeaf // of which it answers which items differ, and what else it has there
}

// CompareNode is the sum of all resources whose hash begins with Prefix.
type CompareNode struct {
	Prefix []byte // whole bytes of the hash; empty: the root
	Count  uint64 // of its items
	Digest []byte // sum of the digests of its items, 16 bytes
}

// CompareLeaf is a node with all its items.
type CompareLeaf struct {
	Prefix []byte
	Items  []CompareItem
}

// CompareItem is one resource: hashes of its key and of all that is desired of it,
// 16 bytes each.
type CompareItem struct{ Key, Content []byte }

// Difference is what a Compare found.
type Difference struct {
	Nodes [][]byte // prefixes of the nodes that differ
	Items [][]byte // key hashes of the leaves' items that differ or are missing
	Extra []string // keys that the target holds below the leaves asked about, and that they lack
}

// poll and compare run the calls about the whole target. The request takes the
// deadline, which the call's context asks it for.

//go:noinline
func (p *plugin) poll(ctx context.Context, input []byte, r *Request, a *answer) {
	a.changes = new(Changes)
	cursor, err := decodePoll(input, r)
	if err != nil {
		a.err = malformed(err)
		return
	}
	ad, ok := p.adapter.(Poller)
	if !ok {
		a.err = notImplemented(OpPoll)
		return
	}
	changes, err := ad.Poll(ctx, cursor)
	switch {
	case err != nil:
		a.err = AsError(err)
	case len(changes.Seen) > MaxSeen:
		a.err = &Error{Status: StatusRejected, Message: "the adapter told of " + strconv.Itoa(len(changes.Seen)) +
			" objects in one poll, more than the " + strconv.Itoa(MaxSeen) + " allowed"}
	default:
		*a.changes = changes
	}
}

//go:noinline
func (p *plugin) compare(ctx context.Context, input []byte, r *Request, a *answer) {
	a.difference = new(Difference)
	c, err := decodeComparison(input, r)
	if err != nil {
		a.err = malformed(err)
		return
	}
	ad, ok := p.adapter.(Comparer)
	if !ok {
		a.err = notImplemented(OpCompare)
		return
	}
	difference, err := ad.Compare(ctx, c)
	if err != nil {
		a.err = AsError(err)
		return
	}
	*a.difference = difference
}

func notImplemented(op Op) *Error {
	return &Error{Status: StatusRejected, Message: "the plugin does not implement operation " + strconv.Itoa(int(op))}
}
