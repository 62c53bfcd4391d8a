package engine_test

import (
	"context"
	"testing"
	"time"

	"github.com/pawlsync/pawl/engine"
	"github.com/pawlsync/pawl/engine/outbox"
	"github.com/pawlsync/pawl/engine/record"
	"github.com/pawlsync/pawl/engine/sink"
)

// staleStore lets something happen between the reading of heads and their being handed
// out, as it does in a store that reads many in one go.
type staleStore struct {
	outbox.Store
	meanwhile func() // is called once
}

func (s *staleStore) Heads(ctx context.Context, span outbox.Span, fn func(outbox.Head) bool) error {
	return s.Store.Heads(ctx, span, func(h outbox.Head) bool {
		if do := s.meanwhile; do != nil {
			s.meanwhile = nil
			do()
		}
		return fn(h)
	})
}

// readsStale is inBubble with such a store.
func readsStale(t *testing.T, test func(b *bench, s *staleStore)) {
	stale := &staleStore{}
	inBubble(t, func(o *engine.Options) {
		inner := o.Store
		o.Store = func(obs outbox.Observer) (s outbox.Store, err error) {
			stale.Store, err = inner(obs)
			return stale, err
		}
	}, func(b *bench) { test(b, stale) })
}

func orderOf(n uint64) record.Order { return record.Order{Source: "s", Epoch: "e", Number: n} }

func (b *bench) putOrdered(n uint64) {
	b.t.Helper()
	_, err := b.Put(b.t.Context(), engine.Put{Key: web("a"), Payload: []byte(`1`), Order: orderOf(n)})
	b.must(err)
}

// deleteOrdered deletes so that the order is remembered.
func (b *bench) deleteOrdered(n uint64) {
	b.t.Helper()
	_, err := b.Delete(b.t.Context(), engine.Delete{Key: web("a"), Order: orderOf(n)})
	b.must(err)
}

func TestWhatIsPutAgainWhileItsSinkIsAddedIsDelivered(t *testing.T) {
	readsStale(t, func(b *bench, s *staleStore) {
		b.putOrdered(1)
		b.settle()
		b.deleteOrdered(2)
		b.settle()
		b.want("a", "gone")
		b.remove()
		b.target.always(sink.Result{Status: sink.Retry})
		s.meanwhile = func() { // the head that was read says that it is gone
			b.putOrdered(3)
			b.settle()
		}
		b.add(next(b.target, nil), nil)
		if s.meanwhile != nil {
			t.Fatal("no head was read")
		}
		b.target.script(nil)
		b.after(time.Hour)
		b.want("a", "Acked")
		b.wantTarget("a", `1`)
	})
}

func TestWhatIsDeletedWhileItsSinkIsRemovedIsNoOrphan(t *testing.T) {
	readsStale(t, func(b *bench, s *staleStore) {
		b.putOrdered(1)
		b.settle()
		b.target.slow(10 * time.Second)
		b.deleteOrdered(2)
		b.after(time.Second)
		s.meanwhile = func() { b.after(time.Minute) } // the head that was read is of a deletion that is owed
		b.remove()
		if s.meanwhile != nil {
			t.Fatal("no head was read")
		}
		b.want("a", "gone")
		if sinks := b.Sinks(); len(sinks) != 0 {
			t.Errorf("something is missed: %+v", sinks)
		}
	})
}
