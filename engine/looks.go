package engine

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/pawlsync/pawl/engine/record"
)

// look is one Preview's time with a resource: no other call about it is made
// meanwhile, since a sink is never called twice at a time for one resource (P3).
type look struct {
	after *flight       // the delivery that was under way already, which it waits for
	done  chan struct{} // closed when the look is over
}

// looks are the resources that are being looked at. Deliveries that depart after a
// look began wait for its end, the look for the one that departed before: neither
// waits for the other in turn.
type looks struct {
	n     atomic.Int64 // len(byKey), so that deliveries pay for a lock only when there is a look
	mu    sync.Mutex   // comes before that of flights
	byKey map[record.Key]*look
}

// begin waits until nobody calls about key, and keeps it that way until end.
func (l *looks) begin(ctx context.Context, key record.Key, flights *flights) (end func(), err error) {
	for {
		l.mu.Lock()
		other := l.byKey[key]
		if other == nil {
			break
		}
		l.mu.Unlock()
		select {
		case <-other.done:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	mine := &look{done: make(chan struct{})}
	l.byKey[key] = mine
	l.n.Add(1) // before flights are read: one that departs later sees it
	mine.after = flights.of(key)
	l.mu.Unlock()
	end = func() {
		l.mu.Lock()
		delete(l.byKey, key)
		l.n.Add(-1)
		l.mu.Unlock()
		close(mine.done)
	}
	if mine.after == nil {
		return end, nil
	}
	select {
	case <-mine.after.landed:
		return end, nil
	case <-ctx.Done():
		end()
		return nil, ctx.Err()
	}
}

// over returns what is closed when the look at key that f has to wait for ends; nil
// where there is none. Any look is, where f is nil.
func (l *looks) over(key record.Key, f *flight) <-chan struct{} {
	if l.n.Load() == 0 {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if there := l.byKey[key]; there != nil && (f == nil || there.after != f) {
		return there.done
	}
	return nil
}
