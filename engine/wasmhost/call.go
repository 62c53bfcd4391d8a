package wasmhost

import (
	"context"
	"time"

	"github.com/pawlsync/pawl/engine/sink"
	"github.com/pawlsync/pawl/engine/wasmhost/abi"
)

// call is one op on its way through dispatcher, instance and guest.
type call struct {
	op      abi.Op
	ctx     context.Context
	reqs    []*sink.Request                         // one, or a batch's; empty for calls about no resource
	input   []byte                                  // of configure
	encode  func(b []byte, timeoutMS uint32) []byte // of poll and compare: appends the message
	weight  int64                                   // bytes counted against Limits.InFlightBytes
	timeout time.Duration                           // from when it is entered
	done    chan struct{}                           // capacity 1; signalled once, when answer is complete

	// The list that the call is in: the dispatcher's of waiting calls (under
	// Sink.mu), or its instance's of live ones (the owner's).
	prev, next *call
	in         *instance // under Sink.mu; nil while it waits in the dispatcher
	queued     *callList // the dispatcher's list that it waits in, under Sink.mu
	isolated   bool      // runs alone in its instance (set once, by submit)

	// The rest is the owner's.
	id        int64 // in its instance; 0 before it was entered
	deadline  time.Time
	entry     uint64    // the last entry of the guest that it took part in
	ios       []*hostIO // those whose goroutine or timer has not ended
	maybeSent bool      // some request of it may have reached the target
	restarts  int       // by faults of others
	ended     bool      // for the guest; it is delivered when ios is empty
	answer    answer
}

// answer is how a call ended, by op.
type answer struct {
	manifest *abi.Manifest // of describe
	result   abi.Result
	batch    []sink.Result // of apply_batch, where whole is false
	whole    bool          // of apply_batch: result is for the batch as such
	fault    *Fault        // of status Fault

	changes    sink.Changes    // of poll
	difference sink.Difference // of compare
}

// unsent is the answer of a call that no guest was entered for.
func unsent(why error) answer {
	return answer{result: abi.Result{Result: sink.Result{
		Status: sink.Unreachable, Message: "not sent: " + why.Error(), NotSent: true}}}
}

// key names the call in logs and faults.
func (c *call) key() string {
	if len(c.reqs) == 0 {
		return ""
	}
	return c.reqs[0].Key.Name
}

// waitsForHTTP reports whether a request of the call is under way.
func (c *call) waitsForHTTP() bool {
	for _, io := range c.ios {
		if io.kind == abi.IOHTTP {
			return true
		}
	}
	return false
}

func (c *call) forget(io *hostIO) {
	for i, o := range c.ios {
		if o == io {
			last := len(c.ios) - 1
			c.ios[i], c.ios[last] = c.ios[last], nil
			c.ios = c.ios[:last]
			return
		}
	}
}

// weigh estimates what a call holds in the host beside its result.
func weigh(reqs []*sink.Request) int64 {
	n := int64(512)
	for _, r := range reqs {
		n += int64(len(r.Payload) + len(r.Key.Name))
		if r.Acked != nil {
			n += int64(len(r.Acked.Payload) + len(r.Acked.Adapter))
		}
		for i := range r.Attempted {
			n += int64(len(r.Attempted[i].Payload))
		}
		if r.Run != nil && r.Run.Before != nil {
			n += int64(len(r.Run.Before.Content))
		}
	}
	return n
}

// callList is a doubly linked list through the calls themselves: a call is in
// one list at most.
type callList struct {
	head, tail *call
	n          int
}

func (l *callList) pushBack(c *call) {
	c.prev, c.next = l.tail, nil
	if l.tail == nil {
		l.head = c
	} else {
		l.tail.next = c
	}
	l.tail = c
	l.n++
}

func (l *callList) pushFront(c *call) {
	c.prev, c.next = nil, l.head
	if l.head == nil {
		l.tail = c
	} else {
		l.head.prev = c
	}
	l.head = c
	l.n++
}

func (l *callList) remove(c *call) {
	if c.prev == nil {
		l.head = c.next
	} else {
		c.prev.next = c.next
	}
	if c.next == nil {
		l.tail = c.prev
	} else {
		c.next.prev = c.prev
	}
	c.prev, c.next = nil, nil
	l.n--
}
