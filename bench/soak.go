package main

import (
	"context"
	"fmt"
	"runtime"
	"runtime/debug"
	"slices"
	"sync/atomic"
	"time"

	"github.com/pawlsync/pawl/engine"
	"github.com/pawlsync/pawl/engine/outbox"
	"github.com/pawlsync/pawl/engine/outbox/memory"
	"github.com/pawlsync/pawl/engine/sink"
	"github.com/pawlsync/pawl/engine/wasmhost"
)

// counted counts the calls of a sink.
type counted struct {
	*wasmhost.Sink
	n *atomic.Int64
}

func (c counted) Apply(ctx context.Context, r *sink.Request) sink.Result {
	c.n.Add(1)
	return c.Sink.Apply(ctx, r)
}

// benchSoak keeps 256 callers busy with Put and Wait while the plugin is replaced
// a hundred times, until it was called a million times. The store is one in memory:
// this is about plugins and the engine, and "cycle" and "churn" about the store.
func benchSoak(r *report) error {
	const callers, keys = 256, 1000
	calls, swaps := int64(1_000_000), 100
	if r.short {
		calls, swaps = 100_000, 20
	}
	wasm, err := testGuest(r, "null")
	if err != nil {
		return err
	}
	host, err := wasmhost.New(r.ctx, wasmhost.Options{})
	if err != nil {
		return err
	}
	var applied atomic.Int64
	// version is the same plugin, but with a digest of its own: another file.
	version := func(n int) (counted, *wasmhost.Plugin, error) {
		section := fmt.Appendf([]byte{4}, "note%d", n%2)
		p, err := host.LoadTrusted(r.ctx, slices.Concat(wasm, []byte{0, byte(len(section))}, section), "null")
		if err != nil {
			return counted{}, nil, err
		}
		s, err := p.Open(r.ctx, wasmhost.SinkConfig{Name: sinkName})
		return counted{s, &applied}, p, err
	}
	current, plugin, err := version(0)
	if err != nil {
		return err
	}
	eng, err := engine.Open(r.ctx, engine.Options{
		Store: func(o outbox.Observer) (outbox.Store, error) { return memory.New(memory.Options{Observer: o}), nil },
		Sinks: []engine.SinkOptions{{Name: sinkName, Sink: current, MaxInFlight: 1024}},
	})
	if err != nil {
		return err
	}
	defer func() { eng.Close(r.ctx); plugin.Close(r.ctx) }()

	var stop atomic.Bool
	loaded := make(chan error, 1)
	go func() {
		loaded <- until(&stop, callers, func(i int) error {
			res, err := eng.Put(r.ctx, engine.Put{Key: key(i % keys), Payload: payload(i)})
			if err == nil {
				_, err = eng.Wait(r.ctx, key(i%keys), res.Generation)
			}
			return err
		})
	}()
	// reach waits until there were that many calls.
	reach := func(n int64) error {
		for applied.Load() < n {
			select {
			case err := <-loaded:
				return fmt.Errorf("the load ended after %d calls: %w", applied.Load(), err)
			case <-time.After(time.Millisecond):
			}
		}
		return nil
	}
	var parts [10]struct{ memory, goroutines sample }
	began := time.Now()
	for swap := 1; swap <= swaps; swap++ {
		if err := reach(calls * int64(swap) / int64(swaps+1)); err != nil {
			return err
		}
		next, nextPlugin, err := version(swap)
		if err != nil {
			return err
		}
		retired, err := eng.ReplaceSink(sinkName, next)
		if err != nil {
			return err
		}
		if err := <-retired; err != nil {
			return err
		}
		if err := plugin.Close(r.ctx); err != nil {
			return err
		}
		plugin = nextPlugin
		debug.FreeOSMemory()
		p := &parts[(swap-1)*10/swaps]
		p.memory = append(p.memory, float64(anonymousBytes())/(1<<20))
		p.goroutines = append(p.goroutines, float64(runtime.NumGoroutine()))
		if swap*10%swaps == 0 {
			r.line("part %d of 10: memory in MiB %v, goroutines %v", swap*10/swaps, p.memory, p.goroutines)
		}
	}
	if err := reach(calls); err != nil {
		return err
	}
	stop.Store(true)
	if err := <-loaded; err != nil {
		return err
	}
	r.line("%d calls, %d swaps, in %s", applied.Load(), swaps, time.Since(began).Round(time.Second))
	r.atLeast("calls", float64(applied.Load()), float64(calls), "")
	// What grows in the second half grows for ever.
	r.under("memory, last part ÷ fifth part", parts[9].memory.median()/parts[4].memory.median(), 1.1, " ×")
	r.under("goroutines, last part ÷ fifth part", parts[9].goroutines.median()/parts[4].goroutines.median(), 1.1, " ×")
	return nil
}
