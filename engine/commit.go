package engine

import (
	"time"

	"github.com/pawlsync/pawl/engine/outbox"
	"github.com/pawlsync/pawl/engine/record"
	"github.com/pawlsync/pawl/engine/schedule"
)

// Committed implements outbox.Observer: changes have become durable. It plans
// each resource anew, and tells those who watch or wait.
func (e *Engine) Committed(changes []outbox.Committed) {
	now := time.Now()
	e.mu.Lock()
	for i := range changes {
		e.committed(&changes[i], now)
	}
	e.changes.wake()
	e.mu.Unlock()
	e.wakeDispatcher()
}

func (e *Engine) committed(c *outbox.Committed, now time.Time) {
	if c.Key.Sink == journalSink {
		return
	}
	e.flights.committed(c.Key, c.Removed)
	if c.Removed {
		e.sched.Remove(c.Key)
	} else {
		e.sched.Set(c.Key, e.replan(c, now))
	}
	e.intake.set(c.Key, !c.Removed && c.Record.Desired.Exists() && e.rulesOf(c.Key).TakesIn(&c.Record.Desired))
	if c.Removed || c.Record.Desired.Gone {
		e.objects.release(c.Key)
	}
	e.changes.add(c)
	e.waiters.wake(c.Key)
}

// replan plans a resource after a commit. One of which nothing became owed is looked
// at no later than was planned: a source that counts on without changing anything
// must not put drift checks off for ever (R33).
func (e *Engine) replan(c *outbox.Committed, now time.Time) schedule.Plan {
	p := e.due(outbox.HeadOf(c.Key, c.Record), now)
	old, ok := e.sched.Lookup(c.Key)
	checks := p.Class == schedule.Check && old.Class == schedule.Check && p.Phase == old.Phase
	if ok && checks && !old.InFlight && !old.Held && old.At.Before(p.At) && !old.At.IsZero() {
		p.At = old.At
	}
	return p
}

// CommitDone implements outbox.Observer.
func (e *Engine) CommitDone(changes, records int, took time.Duration, err error) {
	e.obs.CommitDone(changes, records, took, err)
}

// objects tells which resource owns which object of a target, for adapters that
// report the object's identity (R37). It takes no memory for others.
type objects struct {
	owner map[record.Key]string // sink and object identity → name of the resource
	owned map[record.Key]string // resource → object identity
}

func newObjects() objects {
	return objects{owner: map[record.Key]string{}, owned: map[record.Key]string{}}
}

// claim gives object to key, unless another resource owns it: its name is
// returned then.
func (o *objects) claim(key record.Key, object string) (contender string) {
	if object == "" {
		return ""
	}
	at := record.Key{Sink: key.Sink, Name: object}
	if name, ok := o.owner[at]; ok && name != key.Name {
		return name
	}
	o.release(key)
	o.owner[at], o.owned[key] = key.Name, object
	return ""
}

func (o *objects) release(key record.Key) {
	if object, ok := o.owned[key]; ok {
		delete(o.owner, record.Key{Sink: key.Sink, Name: object})
		delete(o.owned, key)
	}
}
