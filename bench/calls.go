package main

import (
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	extism "github.com/extism/go-sdk"

	"github.com/pawlsync/pawl/engine/sink"
	"github.com/pawlsync/pawl/engine/wasmhost"
)

// benchCall measures one Apply of 1 KiB by an adapter that does nothing, metered
// and with a deadline, beside Extism with a timeout and the least that a guest of
// Extism can do with the same bytes. Both guests are Go.
func benchCall(r *report) error {
	rounds, during := 7, time.Second
	if r.short {
		rounds, during = 3, 200*time.Millisecond
	}
	wasm, err := testGuest(r, "null")
	if err != nil {
		return err
	}
	s, done, err := openGuest(r.ctx, wasmhost.Options{}, wasm, wasmhost.SinkConfig{})
	if err != nil {
		return err
	}
	defer done()
	apply := func(i int) error {
		if res := s.Apply(r.ctx, &sink.Request{Key: key(i), Generation: 1, Payload: payload(i), Conflict: "source-wins"}); res.Status != sink.OK {
			return fmt.Errorf("%s: %s", res.Status, res.Message)
		}
		return nil
	}
	peer, peerByByte, closePeer, err := openExtism(r, 30*time.Second)
	if err != nil {
		return err
	}
	defer closePeer()
	got, err := interleave(rounds,
		func() (float64, error) { return perCall(during, func() error { return apply(1) }) },
		func() (float64, error) {
			used := cpuTime()
			_, n, err := load(64, during, apply)
			return float64((cpuTime() - used).Nanoseconds()) / 1000 / float64(n), err
		},
		func() (float64, error) { return perCall(during, peer) },
		func() (float64, error) { return perCall(during, peerByByte) })
	if err != nil {
		return err
	}
	one, many, theirs, byByte := got[0], got[1], got[2], got[3]
	r.line("processor time of a call in µs: one caller %v; of 64 callers %v; Extism %v, where its guest reads byte by byte %v", one, many, theirs, byByte)
	r.atLeast("Apply of 1 KiB: Extism with a timeout ÷ Pawl, one caller", theirs.over(one).median(), 25, " ×")
	r.line("of 64 callers %v ×; beside a guest that reads byte by byte %v ×", theirs.over(many), byByte.over(one))
	return nil
}

// openExtism returns two ways to call a guest of Extism with 1 KiB.
func openExtism(r *report, timeout time.Duration) (call, byByte func() error, done func(), err error) {
	wasm, err := buildGuest(r, ".", "./guests/extism")
	if err != nil {
		return nil, nil, nil, err
	}
	extism.SetLogLevel(extism.LogLevelError)
	p, err := extism.NewPlugin(r.ctx, extism.Manifest{
		Wasm:    []extism.Wasm{extism.WasmData{Data: wasm}},
		Timeout: uint64(timeout.Milliseconds()),
	}, extism.PluginConfig{EnableWasi: true}, nil)
	if err != nil {
		return nil, nil, nil, fmt.Errorf("extism: %w", err)
	}
	in := payload(1)
	calling := func(export string) error {
		code, out, err := p.CallWithContext(r.ctx, export, in)
		switch {
		case err != nil:
			return fmt.Errorf("extism: %w", err)
		case code != 0 || len(out) != 8 || binary.LittleEndian.Uint64(out) != uint64(len(in)):
			return fmt.Errorf("extism: the guest answered %d, %x", code, out)
		}
		return nil
	}
	call = func() error { return calling("apply") }
	byByte = func() error { return calling("apply_by_byte") }
	return call, byByte, func() { p.Close(r.ctx) }, errors.Join(call(), byByte())
}
