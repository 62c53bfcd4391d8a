package wasmhost

import (
	"context"
	"errors"
	"slices"

	"github.com/pawlsync/pawl/engine/wasmhost/abi"
)

// The dispatcher: calls wait here, in order, until number and bytes in flight
// allow them and an instance has room. A call whose key was suspected of a
// fault waits in a list of its own and runs alone in an instance. Lock order:
// Sink.mu, then instance.mu.

// errSinkClosed is what calls end with that meet a closed sink.
var errSinkClosed = errors.New("the sink was closed")

func (s *Sink) submit(c *call) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		c.abandon(errSinkClosed)
		return
	}
	if s.suspects.has(c) {
		c.isolated = true
		s.enqueue(&s.isolated, c, false)
	} else {
		s.enqueue(&s.waiting, c, false)
	}
	s.dispatch()
}

func (s *Sink) enqueue(l *callList, c *call, first bool) {
	c.queued = l
	if first {
		l.pushFront(c)
	} else {
		l.pushBack(c)
	}
}

// abandon ends a call that no instance has: nothing of it was sent, in an
// earlier instance neither, or it would not be here.
func (c *call) abandon(err error) {
	c.answer = unsent(err)
	c.done <- struct{}{}
}

// cancel is called when c's context has ended.
func (s *Sink) cancel(c *call) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case c.queued != nil:
		c.queued.remove(c)
		c.queued = nil
		c.abandon(context.Cause(c.ctx))
		s.dispatch() // it may have been a big one that held up the others
	case c.in != nil:
		c.in.post(event{kind: evCancel, call: c})
	}
}

// dispatch gives waiting calls to instances as long as there is room. s.mu is held.
func (s *Sink) dispatch() {
	for c := s.isolated.head; c != nil && s.fits(c); c = s.isolated.head {
		in := s.roomAlone()
		if in == nil {
			break
		}
		s.assign(in, c)
	}
	for c := s.waiting.head; c != nil && s.fits(c); c = s.waiting.head {
		in := s.room()
		if in == nil {
			break
		}
		s.assign(in, c)
	}
}

func (s *Sink) fits(c *call) bool {
	return s.inFlight == 0 || s.bytes+s.responseBytes.Load()+c.weight <= s.limits.InFlightBytes
}

func (s *Sink) assign(in *instance, c *call) {
	c.queued.remove(c)
	c.queued = nil
	c.in = in
	in.assigned++
	s.inFlight++
	s.bytes += c.weight
	in.post(event{kind: evStart, call: c})
}

// room returns an instance that takes one more call, a new one if need be, or nil.
func (s *Sink) room() *instance {
	most, perInstance := 1, s.limits.MaxCalls
	if s.blocking {
		most, perInstance = s.limits.MaxInstances, 1
	}
	n := 0
	for _, in := range s.instances {
		if in.alone || in.draining {
			continue
		}
		if in.assigned < perInstance {
			return in
		}
		n++
	}
	if n >= most || s.memory.full(s.plugin.startBytes()) {
		return nil
	}
	return s.startInstance(false, s.configureCall())
}

// roomAlone returns the instance for calls that run alone if it has none, a new
// one if there is none yet, or nil.
func (s *Sink) roomAlone() *instance {
	for _, in := range s.instances {
		if in.alone && !in.draining {
			if in.assigned > 0 {
				return nil
			}
			return in
		}
	}
	if s.memory.full(s.plugin.startBytes()) {
		return nil
	}
	return s.startInstance(true, s.configureCall())
}

func (s *Sink) configureCall() *call {
	return s.firstCall(context.Background(), abi.OpConfigure, s.configure)
}

func (s *Sink) firstCall(ctx context.Context, op abi.Op, input []byte) *call {
	return &call{op: op, ctx: ctx, input: input, timeout: s.limits.StartTimeout, done: make(chan struct{}, 1)}
}

// startInstance adds an instance whose first call is first. s.mu is held.
func (s *Sink) startInstance(alone bool, first *call) *instance {
	in := newInstance(s, alone, first)
	s.instances = append(s.instances, in)
	s.owners.Go(in.run)
	return in
}

// boot starts an instance and waits for the answer to its first call.
func (s *Sink) boot(ctx context.Context, op abi.Op, input []byte) (answer, error) {
	first := s.firstCall(ctx, op, input)
	s.mu.Lock()
	first.in = s.startInstance(false, first)
	s.mu.Unlock()
	a := s.await(first)
	if a.fault != nil {
		return answer{}, a.fault
	}
	return a, nil
}

// release takes a delivered call out of the books of its instance.
func (s *Sink) release(in *instance, c *call) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.unassign(in, c)
	s.dispatch()
}

func (s *Sink) unassign(in *instance, c *call) {
	c.in = nil
	in.assigned--
	s.inFlight--
	s.bytes -= c.weight
}

// requeue takes calls that the guest does not hold from in, to be run in
// another instance, before those that wait already.
func (s *Sink) requeue(in *instance, cs []*call) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range slices.Backward(cs) {
		s.unassign(in, c)
		switch {
		case s.closed:
			c.abandon(errSinkClosed)
		case c.ctx.Err() != nil: // its evCancel may have been for the old instance
			c.abandon(context.Cause(c.ctx))
		case c.isolated:
			s.enqueue(&s.isolated, c, true)
		default:
			s.enqueue(&s.waiting, c, true)
		}
	}
	s.dispatch()
}

// block notes that the plugin blocks in host I/O: from now on each instance
// has one call at a time.
func (s *Sink) block() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.blocking = true
}

// drain lets in take no more calls.
func (s *Sink) drain(in *instance) {
	s.mu.Lock()
	defer s.mu.Unlock()
	in.draining = true
	s.dispatch()
}

// ended is called when an instance has gone and its memory is free.
func (s *Sink) ended() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.dispatch()
}

// remove takes in out of the sink if it has no calls.
func (s *Sink) remove(in *instance) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if in.assigned > 0 {
		return false
	}
	s.instances = slices.DeleteFunc(s.instances, func(o *instance) bool { return o == in })
	return true
}

// shut closes the sink for new calls and tells its instances to end.
func (s *Sink) shut() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed {
		s.closed = true
		close(s.shutting)
	}
	for _, l := range []*callList{&s.isolated, &s.waiting} {
		for c := l.head; c != nil; c = l.head {
			l.remove(c)
			c.queued = nil
			c.abandon(errSinkClosed)
		}
	}
	for _, in := range s.instances {
		in.draining = true
		in.post(event{kind: evStop})
	}
}
