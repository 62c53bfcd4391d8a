package trace

import (
	"container/list"
	"sync"
	"time"

	otel "go.opentelemetry.io/otel/trace"

	"github.com/pawlsync/pawl/engine/record"
)

// memory is which trace the change belongs to that is owed to a resource's target: one
// entry for a resource, of sampled traces alone. It is bounded, and lost with the process.
type memory struct {
	mu    sync.Mutex
	most  int
	byKey map[record.Key]*list.Element
	order list.List // of *change, the oldest first
}

// change is what is remembered of a Put or Delete until it is owed no more.
type change struct {
	key   record.Key
	span  otel.SpanContext
	since time.Time // when the wait for a delivery began; zero: the change is not durable yet. Under memory.mu
}

func newMemory(most int) *memory { return &memory{most: most, byKey: map[record.Key]*list.Element{}} }

// remember makes c the newest change of its key, and returns the one that it replaces,
// or nil.
func (m *memory) remember(c *change) (before *change) {
	m.mu.Lock()
	defer m.mu.Unlock()
	before = m.drop(m.byKey[c.key])
	if m.order.Len() >= m.most {
		m.drop(m.order.Front())
	}
	m.byKey[c.key] = m.order.PushBack(c)
	return before
}

// drop forgets e, nil for none, and returns what it was; m.mu is held.
func (m *memory) drop(e *list.Element) *change {
	if e == nil {
		return nil
	}
	c := m.order.Remove(e).(*change)
	delete(m.byKey, c.key)
	return c
}

// overtake forgets the change of key: a newer one, which nobody follows, takes its place.
func (m *memory) overtake(key record.Key) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.drop(m.byKey[key])
}

// forget forgets c, unless a newer change of its key took its place.
func (m *memory) forget(c *change) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if e := m.byKey[c.key]; e != nil && e.Value == c {
		m.drop(e)
	}
}

// of returns the change that is owed to key's target, and since when it waits.
func (m *memory) of(key record.Key) (c *change, since time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if e := m.byKey[key]; e != nil {
		c = e.Value.(*change)
		return c, c.since
	}
	return nil, time.Time{}
}

// wait notes that c waits for a delivery from now on.
func (m *memory) wait(c *change, now time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	c.since = now
}
