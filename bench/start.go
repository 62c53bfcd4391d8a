package main

import (
	"path/filepath"
	"strconv"
	"time"

	"github.com/pawlsync/pawl/engine/wasmhost"
	"github.com/pawlsync/pawl/internal/bundled"
)

// benchStart makes the shipped plugins ready as `pawl run` does, in several fresh
// folders twice each: what the second start finds there is compiled.
func benchStart(r *report) error {
	rounds := 5
	if r.short {
		rounds = 2
	}
	names := bundled.Names()
	var cold, warm sample
	for i := range rounds {
		for _, took := range []*sample{&cold, &warm} {
			began := time.Now()
			for _, name := range names {
				if err := makeReady(r, filepath.Join(r.dir, strconv.Itoa(i)), name); err != nil {
					return err
				}
			}
			*took = append(*took, time.Since(began).Seconds())
		}
	}
	r.line("%d plugins ready after, in s: cold %v; warm %v", len(names), cold, warm)
	r.atLeast("all shipped plugins ready, cold ÷ warm", cold.over(warm).median(), 10, " ×")
	r.under("plugin ready, compile cache warm", warm.median()/float64(len(names)), 0.3, " s")
	return nil
}

func makeReady(r *report, cache, name string) error {
	host, err := wasmhost.New(r.ctx, wasmhost.Options{CacheDir: cache})
	if err != nil {
		return err
	}
	wasm, err := bundled.Plugin(name)
	if err != nil {
		return err
	}
	plugin, err := host.LoadTrusted(r.ctx, wasm, name)
	if err != nil {
		return err
	}
	return plugin.Close(r.ctx)
}
