package engine

import (
	"time"

	"github.com/pawlsync/pawl/engine/outbox"
	"github.com/pawlsync/pawl/engine/record"
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
	if fl := e.flights[c.Key]; fl != nil {
		fl.overtaken = true
	}
	if c.Removed {
		delete(e.lost, c.Key)
		e.sched.Remove(c.Key)
	} else {
		e.sched.Set(c.Key, e.due(outbox.HeadOf(c.Key, &c.Record), now))
	}
	if c.Removed || c.Record.Desired.Gone {
		e.objects.release(c.Key)
	}
	e.changes.add(c)
	e.answerWaiters(c.Key)
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
