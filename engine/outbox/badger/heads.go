package badger

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/dgraph-io/badger/v4"

	"github.com/pawlsync/pawl/engine/outbox"
	"github.com/pawlsync/pawl/engine/outbox/internal/queue"
	"github.com/pawlsync/pawl/engine/record"
)

// Heads implements outbox.Store. It reads Badger in portions, so that fn may take
// its time and call the store, and puts on top what Badger had not got when it
// began. Of what changes meanwhile it returns the old state or the new one.
func (s *Store) Heads(ctx context.Context, span outbox.Span, fn func(outbox.Head) bool) error {
	if s.isClosed() {
		return outbox.ErrClosed
	}
	if everything := span == (outbox.Span{}); everything && !s.known.complete.Load() {
		return s.meet(ctx, fn)
	}
	waiting := s.overlay.heads(span)
	emit := func(upTo *record.Key) bool { // those that stand before it; nil: all
		for len(waiting) > 0 && (upTo == nil || waiting[0].key.Compare(*upTo) < 0) {
			w := waiting[0]
			waiting = waiting[1:]
			if w.desired != queue.Drop && !fn(outbox.HeadOf(w.key, &w.record)) {
				return false
			}
		}
		return true
	}
	for {
		var part []outbox.Head
		err := s.view(func(txn *badger.Txn) (err error) {
			part, err = readHeads(ctx, txn, span, headsPortion)
			return err
		})
		if err != nil {
			return fmt.Errorf("list: %w", err)
		}
		for i := range part {
			if !emit(&part[i].Key) {
				return nil
			}
			newer := len(waiting) > 0 && waiting[0].key == part[i].Key
			if !newer && !fn(part[i]) {
				return nil
			}
		}
		if len(part) < headsPortion {
			emit(nil)
			return nil
		}
		span.After = &part[len(part)-1].Key
	}
}

// meet lists everything and makes each key known on the way. What is committed
// meanwhile is made known by its commit.
func (s *Store) meet(ctx context.Context, fn func(outbox.Head) bool) error {
	first := outbox.Span{After: &record.Key{}} // before every key
	all := true
	err := s.Heads(ctx, first, func(h outbox.Head) bool {
		s.known.add(h.Key)
		all = fn(h)
		return all
	})
	if err == nil && all {
		s.known.complete.Store(true)
	}
	return err
}

// keyed is an entry with its key.
type keyed struct {
	key record.Key
	*entry
}

// heads returns what the overlay holds of span, in key order.
func (o *overlay) heads(span outbox.Span) []keyed {
	list := o.within(span)
	slices.SortFunc(list, func(a, b keyed) int { return a.key.Compare(b.key) })
	return list
}

func (o *overlay) within(span outbox.Span) (list []keyed) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for key, e := range o.dirty.entries {
		if inSpan(key, span) {
			list = append(list, keyed{key, e})
		}
	}
	if o.applying == nil {
		return list
	}
	for key, e := range o.applying.entries {
		if o.dirty.entries[key] == nil && inSpan(key, span) {
			list = append(list, keyed{key, e})
		}
	}
	return list
}

func inSpan(key record.Key, span outbox.Span) bool {
	return (span.Sink == "" || key.Sink == span.Sink) && strings.HasPrefix(key.Name, span.Prefix) &&
		(span.After == nil || key.Compare(*span.After) > 0)
}

// headsPortion is how many heads are read in one go.
const headsPortion = 4096

// readHeads returns the first heads of span, at most limit. It goes along the
// keys of both halves at once and reads no payload that is in the value log.
func readHeads(ctx context.Context, txn *badger.Txn, span outbox.Span, limit int) ([]outbox.Head, error) {
	desired, status := newCursor(txn, kindDesired, span), newCursor(txn, kindStatus, span)
	defer desired.it.Close()
	defer status.it.Close()
	list := make([]outbox.Head, 0, min(limit, 64))
	for n := 0; len(list) < limit && (desired.valid() || status.valid()); n++ {
		if n%256 == 0 && ctx.Err() != nil {
			return nil, ctx.Err()
		}
		head, err := nextHead(desired, status)
		if err != nil {
			return nil, err
		}
		if strings.HasPrefix(head.Key.Name, span.Prefix) {
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
