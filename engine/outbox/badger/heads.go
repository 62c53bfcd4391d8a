package badger

import (
	"bytes"
	"context"

	"github.com/dgraph-io/badger/v4"

	"github.com/pawlsync/pawl/engine/outbox"
	"github.com/pawlsync/pawl/engine/record"
)

// headsPortion is how many heads are read in one go.
const headsPortion = 4096

// readHeads returns the first heads of span, at most limit. It goes along the
// keys of both halves at once and reads no payload that is in the value log.
func readHeads(ctx context.Context, txn *badger.Txn, span outbox.Span, limit int) ([]outbox.Head, error) {
	desired, status := newCursor(txn, kindDesired, span), newCursor(txn, kindStatus, span)
	defer desired.it.Close()
	defer status.it.Close()
	list := make([]outbox.Head, 0, min(limit, 64))
	for len(list) < limit && (desired.valid() || status.valid()) {
		if len(list)%256 == 0 && ctx.Err() != nil {
			return nil, ctx.Err()
		}
		head, err := nextHead(desired, status)
		if err != nil {
			return nil, err
		}
		if len(head.Key.Name) >= len(span.Prefix) && head.Key.Name[:len(span.Prefix)] == span.Prefix {
			list = append(list, head)
		}
	}
	return list, ctx.Err()
}

// nextHead takes the smaller of two keys, or both where they are equal.
func nextHead(desired, status *cursor) (head outbox.Head, err error) {
	order := bytes.Compare(desired.name(), status.name())
	switch {
	case !status.valid():
		order = -1
	case !desired.valid():
		order = 1
	}
	from := desired
	if order > 0 {
		from = status
	}
	if head.Key, err = parseKey(from.it.Item().Key()); err != nil {
		return head, err
	}
	if order <= 0 {
		err = desiredHead(desired.it.Item(), &head)
		desired.it.Next()
	}
	if order >= 0 && err == nil {
		item := status.it.Item()
		err = item.Value(func(value []byte) error {
			head.Status, err = openStatus(item.Key(), value)
			return err
		})
		status.it.Next()
	}
	return head, err
}

// desiredHead reads what stands beside the value, and the value where that is
// at hand: small ones, and those that are gone, which have no payload.
func desiredHead(item *badger.Item, head *outbox.Head) error {
	flags := item.UserMeta()
	head.Generation = item.ExpiresAt() - neverExpires
	head.Tombstone = flags&flagTombstone != 0
	head.Gone = flags&flagGone != 0
	head.Suspend = flags&flagSuspend != 0
	if item.ValueSize() >= valueThreshold && !head.Gone {
		return nil
	}
	return item.Value(func(value []byte) error {
		d, err := openDesired(item.Key(), value)
		head.WaitingSince, head.GoneUntil = d.WaitingSince, d.GoneUntil
		return err
	})
}

// cursor goes along the keys of one kind.
type cursor struct {
	it *badger.Iterator
}

func newCursor(txn *badger.Txn, kind byte, span outbox.Span) *cursor {
	opts := badger.DefaultIteratorOptions
	opts.PrefetchValues = false
	opts.Prefix = []byte{kind, 0}
	if span.Sink != "" {
		opts.Prefix = appendKey(nil, kind, record.Key{Sink: span.Sink, Name: span.Prefix})
	}
	c := &cursor{it: txn.NewIterator(opts)}
	seek := opts.Prefix
	if span.After != nil {
		// The smallest key behind it.
		if after := append(appendKey(nil, kind, *span.After), 0); bytes.Compare(after, seek) > 0 {
			seek = after
		}
	}
	c.it.Seek(seek)
	return c
}

func (c *cursor) valid() bool { return c.it.Valid() }

// name is the key without its kind.
func (c *cursor) name() []byte {
	if !c.valid() {
		return nil
	}
	return c.it.Item().Key()[1:]
}
