package wasmhost_test

import (
	"context"
	"sync"
	"testing"

	"github.com/pawlsync/pawl/engine/sink"
	"github.com/pawlsync/pawl/engine/wasmhost"
)

// BenchmarkNullCall is the cost of a call that does no I/O, by concurrency.
func BenchmarkNullCall(b *testing.B) {
	p := load(b, newHost(b, nil), "null", goGuest(b, "null"))
	s := open(b, p, wasmhost.SinkConfig{})
	payload := string(make([]byte, 1024))
	for _, n := range []struct {
		name    string
		callers int
	}{{"1", 1}, {"16", 16}, {"256", 256}} {
		b.Run(n.name, func(b *testing.B) {
			b.ReportAllocs()
			var wg sync.WaitGroup
			for i := range n.callers {
				wg.Go(func() {
					r := request("k", payload)
					for range b.N/n.callers + min(1, max(0, b.N%n.callers-i)) {
						if res := s.Apply(context.Background(), r); res.Status != sink.OK {
							b.Error(res.Message)
							return
						}
					}
				})
			}
			wg.Wait()
		})
	}
}
