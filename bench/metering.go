package main

import (
	"context"
	"fmt"
	"time"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/imports/wasi_snapshot_preview1"

	"github.com/pawlsync/pawl/engine/wasmhost/meter"
)

// benchMeter runs a guest that decodes and encodes JSON as it is, metered, and
// as wazero can stop it.
func benchMeter(r *report) error {
	rounds, during := 9, time.Second
	if r.short {
		rounds, during = 3, 200*time.Millisecond
	}
	plain, err := buildGuest(r, ".", "./guests/json")
	if err != nil {
		return err
	}
	metered, err := meter.Rewrite(plain, meter.Limits{})
	if err != nil {
		return err
	}
	var things []func() (float64, error)
	for _, v := range []struct {
		wasm        []byte
		cancellable bool
	}{{plain, false}, {metered, false}, {plain, true}} {
		f, done, err := jsonGuest(r.ctx, v.wasm, v.cancellable)
		if err != nil {
			return err
		}
		defer done()
		things = append(things, func() (float64, error) { return perCall(during, f) })
	}
	got, err := interleave(rounds, things...)
	if err != nil {
		return err
	}
	plainly, ours, theirs := got[0], got[1], got[2]
	r.line("the module has %d KiB, metered %d KiB", len(plain)>>10, len(metered)>>10)
	r.line("1 KiB of JSON decoded and encoded, µs of processor time: %v; metered %v; wazero's cancellable mode %v", plainly, ours, theirs)
	r.under("metered ÷ as it is", ours.over(plainly).median(), 1.35, " ×")
	r.line("metered ÷ as it is: %v ×; wazero's cancellable mode: %v ×", ours.over(plainly), theirs.over(plainly))
	return nil
}

// sliceUnits is what a refill gives: about a millisecond of work, as the host's are.
const sliceUnits = 1_000_000

// jsonGuest instantiates guests/json and returns a call of one round.
func jsonGuest(ctx context.Context, wasm []byte, cancellable bool) (call func() error, done func(), err error) {
	rt := wazero.NewRuntimeWithConfig(ctx, wazero.NewRuntimeConfig().WithCloseOnContextDone(cancellable))
	wasi_snapshot_preview1.MustInstantiate(ctx, rt)
	if _, err := rt.NewHostModuleBuilder(meter.Module).
		NewFunctionBuilder().WithGoFunction(api.GoFunc(func(_ context.Context, stack []uint64) { stack[0] = sliceUnits }), nil, []api.ValueType{api.ValueTypeI64}).Export(meter.Refill).
		NewFunctionBuilder().WithFunc(func() { panic("too deep") }).Export(meter.TooDeep).
		Instantiate(ctx); err != nil {
		return nil, nil, err
	}
	m, err := rt.InstantiateWithConfig(ctx, wasm, wazero.NewModuleConfig().WithStartFunctions("_initialize").WithSysNanotime().WithSysWalltime())
	if err != nil {
		return nil, nil, err
	}
	ctx, cancel := context.WithCancel(ctx) // wazero stops what can end
	round := m.ExportedFunction("round")
	call = func() error {
		res, err := round.Call(ctx, 1)
		if err == nil && len(res) == 1 && res[0] < 1000 {
			err = fmt.Errorf("%d bytes made", res[0])
		}
		return err
	}
	return call, func() { cancel(); rt.Close(context.WithoutCancel(ctx)) }, call()
}
