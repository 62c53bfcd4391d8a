package source

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/pawlsync/pawl/engine"
	"github.com/pawlsync/pawl/engine/record"
)

// HandOver makes what from owns to's own, "" being nobody: of all sinks where sink is
// "", and names that begin with prefix. Nothing changes at the targets. What to's next
// full set lacks is deleted then, as far as its fuse allows; it is asked for one. It returns how many
// changed hands.
//
// # Errors
//
// ErrSame; ErrUnknown, ErrNotConfigured or ErrDeclares where to is neither configured nor
// "", and ErrUnknown where from owns nothing and is not configured; those of the engine,
// with what was handed over before.
func (m *Manager) HandOver(ctx context.Context, from, to, sink, prefix string) (handed int, err error) {
	if from == to {
		return 0, fmt.Errorf("%w: %q", ErrSame, from)
	}
	var giver, taker *inlet
	if to != "" {
		if taker, err = m.taker(ctx, to); err != nil {
			return 0, err
		}
	}
	if giver, err = m.alone(from); err == nil {
		defer giver.turn.Unlock()
	}
	var keys []record.Key
	owns := 0
	err = m.engine.Owners(ctx, func(key record.Key, owner string) bool {
		if owner == from {
			owns++
			if (sink == "" || key.Sink == sink) && strings.HasPrefix(key.Name, prefix) {
				keys = append(keys, key)
			}
		}
		return true
	})
	if err != nil {
		return 0, err
	}
	if owns == 0 && giver == nil {
		return 0, fmt.Errorf("%w: %q, and no resource is its own", ErrUnknown, from)
	}
	done, err := m.handAll(ctx, keys, from, to)
	for _, key := range done {
		giver.lose(key)
		taker.gain(key)
	}
	m.askAgain(taker, done)
	m.mu.Lock()
	if _, stranger := m.strangers[from]; stranger {
		if m.strangers[from] = owns - len(done); owns == len(done) {
			delete(m.strangers, from)
		}
	}
	m.mu.Unlock()
	m.log.Info("operator", "op", "hand over", "from", from, "to", to, "sink", sink, "prefix", prefix, "resources", len(done))
	return len(done), err
}

// taker is the source, or the sender that may not have sent yet, that takes over.
func (m *Manager) taker(ctx context.Context, name string) (*inlet, error) {
	s, err := m.Sender(ctx, name)
	if errors.Is(err, ErrUndeclared) {
		return m.find(name)
	}
	if err != nil {
		return nil, err
	}
	return s.in, nil
}

// handAll hands many over, so many at once that they share commits, and returns those
// that changed hands.
func (m *Manager) handAll(ctx context.Context, keys []record.Key, from, to string) (done []record.Key, err error) {
	const atOnce = 1000
	for len(keys) > 0 && err == nil {
		some := keys[:min(atOnce, len(keys))]
		errs := make([]error, len(some))
		var all sync.WaitGroup
		for i, key := range some {
			all.Go(func() { errs[i] = m.engine.HandOver(ctx, key, from, to) })
		}
		all.Wait()
		for i, e := range errs {
			switch {
			case e == nil:
				done = append(done, some[i])
			case errors.Is(e, engine.ErrNotFound), errors.Is(e, engine.ErrOwned): // gone, or somebody else's, meanwhile
			case err == nil:
				err = e
			}
		}
		keys = keys[len(some):]
	}
	return done, err
}

// askAgain makes the new owner of keys, and whoever was refused one of them, tell all
// that they have: what they were told of the old owner holds no longer.
func (m *Manager) askAgain(taker *inlet, keys []record.Key) {
	if len(keys) == 0 {
		return
	}
	for _, in := range m.all() {
		asks := in == taker
		in.mu.Lock()
		for _, key := range keys {
			if in.problems[key].Refused {
				delete(in.problems, key)
				asks = true
			}
		}
		asks = asks && in.running
		in.mu.Unlock()
		if asks {
			in.spec.Source.Rescan()
		}
	}
}

// lose takes key off the books; a nil inlet is nobody's.
func (in *inlet) lose(key record.Key) {
	if in == nil {
		return
	}
	in.mu.Lock()
	defer in.mu.Unlock()
	in.owned.remove(key)
	delete(in.held, key)
	in.mended(false)
}

// gain puts key on the books. A full set that is under way may have told it before:
// it is not taken for lacking in that one.
func (in *inlet) gain(key record.Key) {
	if in == nil {
		return
	}
	in.mu.Lock()
	defer in.mu.Unlock()
	in.owned.put(key, mark{set: in.set})
}
