package main

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pawlsync/pawl/engine/sink"
	"github.com/pawlsync/pawl/engine/upstream"
	"github.com/pawlsync/pawl/engine/wasmhost"
	"github.com/pawlsync/pawl/internal/bundled"
)

// gate is an upstream that keeps every request until it is opened, and then
// answers all: so it needs no sockets, and nothing depends on time.
type gate struct {
	want    int64
	waiting atomic.Int64
	full    chan struct{} // closed when want requests wait
	open    chan struct{}
}

func newGate(want int) *gate {
	return &gate{want: int64(want), full: make(chan struct{}), open: make(chan struct{})}
}

func (*gate) Name() string    { return "target" }
func (*gate) Kind() string    { return "http" }
func (*gate) BaseURL() string { return "http://target" }

func (g *gate) Do(ctx context.Context, _ *upstream.Request) (*upstream.Response, *upstream.Failure) {
	if g.waiting.Add(1) == g.want {
		close(g.full)
	}
	select {
	case <-g.open:
		return &upstream.Response{Status: 204}, nil
	case <-ctx.Done():
		return nil, &upstream.Failure{Kind: upstream.FailCancelled, Message: "cancelled"}
	}
}

// parkAll holds 10,000 calls of 1 KiB in one instance: of the shipped Go adapter,
// and of an example adapter in Rust.
func parkAll(r *report) error {
	wasm, err := bundled.Plugin("http")
	if err != nil {
		return err
	}
	if err := parkOne(r, "Go", wasm, `{"path":"/objects/{key}"}`, 128); err != nil {
		return err
	}
	if wasm, err = buildRust(r, "../sdk/rust/examples/things"); err != nil {
		return err
	}
	if wasm == nil {
		r.line("no Rust compiler for wasm here: nothing is said of Rust")
		return nil
	}
	return parkOne(r, "Rust", wasm, `{}`, 32)
}

func parkOne(r *report, language string, wasm []byte, config string, wantMiB float64) error {
	const calls = 10_000
	g := newGate(calls)
	s, done, err := openGuest(r.ctx, wasmhost.Options{}, wasm, wasmhost.SinkConfig{
		Config: []byte(config), Upstreams: []wasmhost.Upstream{g},
		Limits: wasmhost.Limits{MaxCalls: calls, CallTimeout: 10 * time.Minute, SinkIOs: calls},
	})
	if err != nil {
		return err
	}
	defer done()
	ctx, cancel := context.WithCancelCause(r.ctx)
	defer cancel(nil)
	var wg sync.WaitGroup
	for i := range calls {
		wg.Go(func() {
			if res := s.Apply(ctx, &sink.Request{Key: key(i), Generation: 1, Payload: payload(i), Conflict: "source-wins"}); res.Status != sink.OK {
				cancel(fmt.Errorf("call %d of %s: %s: %s", i, language, res.Status, res.Message))
			}
		})
	}
	select {
	case <-g.full:
	case <-ctx.Done():
	}
	parked := s.Stats()
	close(g.open)
	wg.Wait()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	after := s.Stats()
	r.line("%s: %d calls parked in %d instance(s); guest memory %.1f MiB, when all were answered %.1f MiB",
		language, parked.InFlight, parked.Instances, float64(parked.MemoryBytes)/(1<<20), float64(after.MemoryBytes)/(1<<20))
	if parked.Instances != 1 {
		return fmt.Errorf("%d instances of %s", parked.Instances, language)
	}
	r.under(fmt.Sprintf("guest memory of 10,000 parked calls, %s", language), float64(after.MemoryBytes)/(1<<20), wantMiB, " MiB")
	return nil
}
