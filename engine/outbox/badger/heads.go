package badger

import (
	"bytes"
	"context"
	"errors"
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
	return s.heads(ctx, span, func(h *readHead) bool { return fn(h.Head) })
}

func (s *Store) heads(ctx context.Context, span outbox.Span, fn func(*readHead) bool) error {
	waiting := s.overlay.heads(span)
	emit := func(upTo *record.Key) bool { // those that stand before it; nil: all
		for len(waiting) > 0 && (upTo == nil || waiting[0].key.Compare(*upTo) < 0) {
			w := waiting[0]
			waiting = waiting[1:]
			if w.desired != queue.Drop && !fn(&readHead{Head: outbox.HeadOf(w.key, w.record), hasStatus: true}) {
				return false
			}
		}
		return true
	}
	var part headsPart // whose memory all portions share
	for portion := headsFirst; ; portion = min(4*portion, headsPortion) {
		err := s.view(func(txn *badger.Txn) (err error) {
			part, err = readHeads(ctx, txn, span, portion, part.heads[:0])
			return errors.Join(err, part.damage) // and is run again: the collector may have been at it
		})
		if errors.Is(err, outbox.ErrDamaged) && ctx.Err() == nil {
			err = nil // it is told with the records
		}
		if err != nil {
			return fmt.Errorf("list: %w", err)
		}
		for i := range part.heads {
			head := &part.heads[i]
			if !emit(&head.Key) {
				return nil
			}
			newer := len(waiting) > 0 && waiting[0].key == head.Key
			if !newer && !fn(head) {
				return nil
			}
		}
		if len(part.heads) < portion {
			emit(nil)
			return nil
		}
		last := part.heads[len(part.heads)-1].Key // not where the next portion stands
		span.After = &last
	}
}

// meet lists everything and makes each key known on the way. What is committed
// meanwhile is made known by its commit.
func (s *Store) meet(ctx context.Context, fn func(outbox.Head) bool) error {
	first := outbox.Span{After: &record.Key{}} // before every key
	all := true
	err := s.heads(ctx, first, func(h *readHead) bool {
		s.known.add(h.Key, h.hasStatus)
		if h.Status.Reason == record.ReasonDamaged {
			s.log.Error("a record can't be read; the others go on", "sink", h.Key.Sink, "key", h.Key.Name, "error", h.Status.Message,
				"hint", "forget the resource, which discards the record, and put it again; or restore a backup")
		}
		all = fn(h.Head)
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

// How many heads are read in one go: few at first, since a page may want no more.
const (
	headsFirst   = 256
	headsPortion = 4096
)

// readHead is a head as it was read.
type readHead struct {
	outbox.Head
	hasStatus bool // Badger has one, or may have
}

// headsPart is what one look at Badger yields.
type headsPart struct {
	heads  []readHead
	damage error // of one of them, or of what is none; wraps outbox.ErrDamaged
}

// readHeads appends the first heads of span, at most limit, to heads, which is empty.
// It goes along the keys of both halves at once and reads no payload that is in the
// value log.
func readHeads(ctx context.Context, txn *badger.Txn, span outbox.Span, limit int, heads []readHead) (headsPart, error) {
	desired, status := newCursor(txn, kindDesired, span), newCursor(txn, kindStatus, span)
	defer desired.it.Close()
	defer status.it.Close()
	part := headsPart{heads: heads}
	for n := 0; len(part.heads) < limit && (desired.valid() || status.valid()); n++ {
		if n%256 == 0 && ctx.Err() != nil {
			return part, ctx.Err()
		}
		head, err := nextHead(desired, status)
		if err != nil {
			part.damage = err
			if head.Key == (record.Key{}) { // it is none of ours, and Check says so
				continue
			}
			head.Status = record.Status{Generation: head.Generation, Phase: record.Failed, Reason: record.ReasonDamaged, Message: err.Error()}
		}
		if strings.HasPrefix(head.Key.Name, span.Prefix) {
			part.heads = append(part.heads, head)
		}
	}
	return part, ctx.Err()
}

// nextHead takes the smaller of two keys, or both where they are equal. With an
// error, which wraps outbox.ErrDamaged, comes what could be read.
func nextHead(desired, status *cursor) (head readHead, err error) {
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
	var errs []error
	if head.Key, err = parseKey(from.it.Item().Key()); err != nil {
		from.it.Next()
		return head, err
	}
	if order <= 0 {
		errs = append(errs, desiredHead(desired.it.Item(), &head.Head))
		desired.it.Next()
	}
	if order >= 0 {
		item := status.it.Item()
		head.hasStatus = true
		errs = append(errs, readValue(item, func(value []byte) error {
			head.Status, err = openStatus(item.Key(), value)
			return err
		}))
		status.it.Next()
	}
	return head, errors.Join(errs...)
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
	return readValue(item, func(value []byte) error {
		d, err := openDesired(item.Key(), value)
		head.WaitingSince, head.GoneUntil = d.WaitingSince, d.GoneUntil
		return err
	})
}

// readValue hands item's value to fn. Where Badger can't read it that is damage too.
func readValue(item *badger.Item, fn func([]byte) error) error {
	err := item.Value(fn)
	if err != nil && !errors.Is(err, outbox.ErrDamaged) {
		err = unreadable(item.Key(), err.Error())
	}
	return err
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
