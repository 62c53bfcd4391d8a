package engine

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strconv"
	"strings"

	"github.com/pawlsync/pawl/engine/outbox"
	"github.com/pawlsync/pawl/engine/record"
)

// Watch yields the newest state of every resource that changes, in the order of
// the commits (R64). Where a resource changes faster than its watcher reads, the
// states in between are left out; no state comes twice. It ends with ctx, or
// with an error as its last value: ErrWatchExpired when From, or a watcher that
// fell too far behind, can't be served without a gap: list again, and watch from
// the list's token.
func (e *Engine) Watch(ctx context.Context, o WatchOptions) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		among, err := o.among()
		if err != nil {
			yield(Event{}, &Error{Op: "watch", Err: err, Hint: "give page and next of a page of a list"})
			return
		}
		latest := e.store.Info().Revision
		next, err := e.changes.position(o.From, latest, e.lock())
		if err != nil {
			yield(Event{}, &Error{Op: "watch", Err: err, Hint: "list again and watch from the token of the list"})
			return
		}
		e.count(&e.changes.watchers, 1)
		defer e.count(&e.changes.watchers, -1)
		for {
			batch, more, err := e.changes.after(&next, among, e.lock())
			for _, c := range batch {
				if !yield(e.event(c), nil) {
					return
				}
			}
			if err != nil {
				if errors.Is(err, ErrWatchExpired) {
					yield(Event{}, &Error{Op: "watch", Err: err, Hint: "list again and watch from the token of the list"})
				} else {
					yield(Event{}, &Error{Op: "watch", Err: err})
				}
				return
			}
			if len(batch) > 0 {
				continue
			}
			select {
			case <-more:
			case <-ctx.Done():
				return
			}
		}
	}
}

// among is what a watcher wants to see: keys within bounds that are nil where there are
// none.
type among struct {
	sink, prefix string
	after, upTo  *record.Key
}

func (o *WatchOptions) among() (among, error) {
	after, err := parsePage(o.Page)
	if err != nil {
		return among{}, err
	}
	upTo, err := parsePage(o.Next)
	return among{o.Sink, o.Prefix, after, upTo}, err
}

func (a *among) has(k record.Key) bool {
	return (a.sink == "" || k.Sink == a.sink) && strings.HasPrefix(k.Name, a.prefix) &&
		(a.after == nil || k.Compare(*a.after) > 0) && (a.upTo == nil || k.Compare(*a.upTo) <= 0)
}

// lock takes the engine's mutex and returns its release.
func (e *Engine) lock() (unlock func()) {
	e.mu.Lock()
	return e.mu.Unlock
}

func (e *Engine) count(n *int, by int) {
	e.mu.Lock()
	*n += by
	e.mu.Unlock()
}

func (e *Engine) event(c change) Event {
	ev := Event{Removed: c.removed, Token: token(e.changes.epoch, c.revision)}
	ev.Resource.Key = c.key
	if !c.removed {
		ev.Resource = e.view(c.key, c.record)
	}
	return ev
}

// token names a position in a store's life.
func token(epoch string, revision uint64) string {
	return epoch + "." + strconv.FormatUint(revision, 10)
}

// change is one committed state in the ring; its record has no payloads.
type change struct {
	key        record.Key
	revision   uint64
	removed    bool
	superseded bool // a newer state of the key follows
	record     outbox.Record
}

// ring holds the newest changes, for watchers that read at their own pace. It is
// guarded by Engine.mu; methods that take unlock call it.
type ring struct {
	epoch    string
	entries  []change              // by position modulo its length
	first    uint64                // position of the oldest entry held
	end      uint64                // position after the newest
	floor    uint64                // revision before the oldest change that can be told
	newest   map[record.Key]uint64 // position of a key's newest entry
	more     chan struct{}         // closed when something was added
	grew     bool
	done     bool
	watchers int
}

func newRing(size int, epoch string, revision uint64) ring {
	return ring{epoch: epoch, entries: make([]change, size), floor: revision, newest: map[record.Key]uint64{}, more: make(chan struct{})}
}

// add appends a change; wake tells the watchers.
func (r *ring) add(c *outbox.Committed) {
	size := uint64(len(r.entries))
	if r.end-r.first == size {
		old := &r.entries[r.first%size]
		r.floor = old.revision
		if !old.superseded {
			delete(r.newest, old.key)
		}
		r.first++
	}
	if at, ok := r.newest[c.Key]; ok {
		r.entries[at%size].superseded = true
		r.entries[at%size].record = outbox.Record{}
	}
	n := &r.entries[r.end%size]
	*n = change{key: c.Key, revision: c.Revision, removed: c.Removed || c.Record.Desired.Gone}
	if !n.removed {
		n.record = withoutPayloads(*c.Record)
	}
	r.newest[c.Key] = r.end
	r.end++
	r.grew = true
}

// wake lets waiting watchers read.
func (r *ring) wake() {
	if r.grew {
		r.grew = false
		close(r.more)
		r.more = make(chan struct{})
	}
}

func (r *ring) close() {
	r.done = true
	close(r.more)
	r.more = make(chan struct{})
}

// position finds where a watch from a token starts; latest is the newest durable
// revision.
func (r *ring) position(from string, latest uint64, unlock func()) (uint64, error) {
	defer unlock()
	if from == "" {
		return r.end, nil
	}
	epoch, number, ok := strings.Cut(from, ".")
	revision, err := strconv.ParseUint(number, 10, 64)
	if !ok || err != nil {
		return 0, fmt.Errorf("%w: %q is no token", ErrWatchExpired, from)
	}
	switch {
	case epoch != r.epoch:
		return 0, fmt.Errorf("%w: it is of another store, or of an earlier life of this one", ErrWatchExpired)
	case revision > latest:
		return 0, fmt.Errorf("%w: revision %d is still to come, the newest is %d", ErrWatchExpired, revision, latest)
	case revision < r.floor:
		return 0, fmt.Errorf("%w: changes since revision %d are no longer kept, only those after %d", ErrWatchExpired, revision, r.floor)
	}
	at := r.first
	for at < r.end && r.entries[at%uint64(len(r.entries))].revision <= revision {
		at++
	}
	return at, nil
}

// watchBatch bounds how much a watcher reads under the lock.
const watchBatch = 256

// after reads what follows next, and moves it on. With nothing to read, more is
// closed when there is.
func (r *ring) after(next *uint64, want among, unlock func()) (batch []change, more <-chan struct{}, err error) {
	defer unlock()
	if *next < r.first {
		return nil, nil, fmt.Errorf("%w: the watcher fell behind by more than %d changes", ErrWatchExpired, len(r.entries))
	}
	for *next < r.end && len(batch) < watchBatch {
		c := &r.entries[*next%uint64(len(r.entries))]
		*next++
		if !c.superseded && want.has(c.key) {
			batch = append(batch, *c)
		}
	}
	if r.done && len(batch) == 0 {
		err = ErrClosed
	}
	return batch, r.more, err
}

// withoutPayloads drops what watchers don't see and memory can't hold.
func withoutPayloads(rec outbox.Record) outbox.Record {
	rec.Desired.Payload = nil
	st := &rec.Status
	if a := st.Acked; a != nil && (a.Payload != nil || a.Adapter != nil) {
		slim := *a
		slim.Payload, slim.Adapter = nil, nil
		st.Acked = &slim
	}
	if st.Observed != nil {
		slim := *st.Observed
		slim.Content = nil
		st.Observed = &slim
	}
	if len(st.Attempted) > 0 {
		list := make([]record.Attempt, len(st.Attempted))
		copy(list, st.Attempted)
		for i := range list {
			list[i].Payload = nil
		}
		st.Attempted = list
	}
	return rec
}
