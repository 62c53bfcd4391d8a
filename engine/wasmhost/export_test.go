package wasmhost

import (
	"context"

	"github.com/pawlsync/pawl/engine/sink"
	"github.com/pawlsync/pawl/engine/wasmhost/abi"
)

// Start submits a call and returns how to wait for its result, so that a test
// decides on the order in which calls reach the instance.
func (s *Sink) Start(ctx context.Context, op abi.Op, reqs ...*sink.Request) (result func() sink.Result) {
	c := s.newCall(ctx, op, reqs)
	s.submit(c)
	return func() sink.Result { return s.await(c).result.Result }
}

// Gone returns one channel per instance, closed when that instance has ended.
func (s *Sink) Gone() []<-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	var gone []<-chan struct{}
	for _, in := range s.instances {
		gone = append(gone, in.gone)
	}
	return gone
}

// LeaveNothingFree makes guests contend for processors at any load.
func LeaveNothingFree(h *Host) { h.processors.free = 0 }

// HeldBack reports whether the sink has used up its share.
func HeldBack(s *Sink) bool {
	s.host.processors.mu.Lock()
	defer s.host.processors.mu.Unlock()
	return s.account.saved < 0
}
