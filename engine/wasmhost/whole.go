package wasmhost

import (
	"context"
	"fmt"
	"slices"

	"github.com/pawlsync/pawl/engine/sink"
	"github.com/pawlsync/pawl/engine/wasmhost/abi"
)

// Calls about the whole target: they bear no key, so that none waits for them.

// Poll implements sink.Poller.
func (s *Sink) Poll(ctx context.Context, cursor string) (sink.Changes, sink.Result) {
	a := s.ask(ctx, abi.OpPoll, len(cursor), func(b []byte, timeoutMS uint32) []byte {
		return abi.AppendPollRequest(b, s.name, cursor, timeoutMS)
	})
	return a.changes, a.result.Result
}

// Compare implements sink.Comparer.
func (s *Sink) Compare(ctx context.Context, c *sink.Comparison) (sink.Difference, sink.Result) {
	a := s.ask(ctx, abi.OpCompare, weighComparison(c), func(b []byte, timeoutMS uint32) []byte {
		return abi.AppendCompareRequest(b, s.name, c, timeoutMS)
	})
	return a.difference, a.result.Result
}

// ask runs a call whose message encode makes, of about size bytes.
func (s *Sink) ask(ctx context.Context, op abi.Op, size int, encode func(b []byte, timeoutMS uint32) []byte) answer {
	if !slices.Contains(s.ops, op) {
		return s.hasNo(op)
	}
	c := s.newCall(ctx, op, nil)
	c.encode = encode
	c.weight += int64(size)
	s.submit(c)
	return s.await(c)
}

func (s *Sink) hasNo(op abi.Op) answer {
	return answer{result: abi.Result{Result: sink.Result{
		Status: sink.Rejected, Message: fmt.Sprintf("plugin %q has no op %s", s.plugin.name, op)}}}
}

// weighComparison is about the bytes that c takes in a message.
func weighComparison(c *sink.Comparison) int {
	n := len(c.Nodes) * 64
	for i := range c.Leaves {
		n += 64 + len(c.Leaves[i].Items)*64
	}
	return n
}
