package server

import "sync"

// answers are bytes on their way to a client. Clients that send a whole batch
// before they read any answer would otherwise wait for a server that waits for
// them, as soon as the sockets' buffers are full.
type answers struct {
	mu      sync.Mutex
	moved   sync.Cond
	waiting []byte
	spare   []byte // what take returned before the last time
	closed  bool
	failed  bool
}

func newAnswers() *answers {
	a := &answers{}
	a.moved.L = &a.mu
	return a
}

// add appends b; it waits while more than answersBytes wait already. After fail
// it drops b.
func (a *answers) add(b []byte) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for len(a.waiting) > answersBytes && !a.failed {
		a.moved.Wait()
	}
	if !a.failed {
		a.waiting = append(a.waiting, b...)
	}
	a.moved.Broadcast()
}

// take waits for bytes and returns all that are there, valid until the next
// call; nil: there will be no more.
func (a *answers) take() []byte {
	a.mu.Lock()
	defer a.mu.Unlock()
	for len(a.waiting) == 0 && !a.closed {
		a.moved.Wait()
	}
	if len(a.waiting) == 0 {
		return nil
	}
	b := a.waiting
	a.waiting, a.spare = a.spare[:0], b
	a.moved.Broadcast()
	return b
}

// close says that no more is added.
func (a *answers) close() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.closed = true
	a.moved.Broadcast()
}

// fail says that nobody takes any more.
func (a *answers) fail() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.failed = true
	a.moved.Broadcast()
}
