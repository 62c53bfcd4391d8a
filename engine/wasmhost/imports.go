package wasmhost

import (
	"context"
	"log/slog"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"

	"github.com/pawlsync/pawl/engine/wasmhost/abi"
	"github.com/pawlsync/pawl/engine/wasmhost/meter"
)

// hostFunc is a function that guests may import. call finds its parameters on
// the stack and leaves its result in stack[0]; it runs on the owner's
// goroutine, within an entry, and ends the entry by violate where the guest
// breaks the contract.
type hostFunc struct {
	name    string
	params  []api.ValueType
	results []api.ValueType
	call    func(in *instance, stack []uint64)
}

const (
	i32 = api.ValueTypeI32
	i64 = api.ValueTypeI64
)

// pawlFuncs is the module pawl_v1.
var pawlFuncs = []hostFunc{
	{"input_len", types(), types(i32), inputLen},
	{"input_read", types(i32), types(), inputRead},
	{"result", types(i64, i32, i32), types(i32), importResult},
	{"io_start", types(i64, i32, i32, i32), types(i64), ioStart},
	{"io_cancel", types(i64), types(), ioCancel},
	{"io_call", types(i64, i32, i32, i32), types(i32), ioCall},
	{"log", types(i64, i32, i32, i32), types(), importLog},
}

// meterFuncs is what package meter makes modules import; they can't themselves.
var meterFuncs = []hostFunc{
	{meter.Refill, types(), types(i64), refill},
	{meter.TooDeep, types(), types(), tooDeep},
}

func types(ts ...api.ValueType) []api.ValueType { return ts }

// linkHost offers the host's modules to the plugin of rt.
func linkHost(ctx context.Context, rt wazero.Runtime) error {
	for _, m := range []struct {
		name string
		fs   []hostFunc
	}{{hostModule, pawlFuncs}, {wasiModule, wasiFuncs}, {meter.Module, meterFuncs}} {
		b := rt.NewHostModuleBuilder(m.name)
		for _, f := range m.fs {
			call := f.call
			b.NewFunctionBuilder().WithGoFunction(api.GoFunc(func(ctx context.Context, stack []uint64) {
				call(ctx.(*guestContext).in, stack)
			}), f.params, f.results).Export(f.name)
		}
		if _, err := b.Instantiate(ctx); err != nil {
			return err
		}
	}
	return nil
}

// view returns n bytes of the guest's memory at ptr, to be used before the
// guest goes on.
func (in *instance) view(ptr, n uint64) []byte {
	b, ok := in.mem.Read(uint32(ptr), uint32(n))
	if !ok {
		violate(FaultContract, "a pointer to %d bytes at %d, outside of its memory", uint32(n), uint32(ptr))
	}
	return b
}

// liveCall returns the call id and notes that it took part in the entry; nil
// for one that has ended.
func (in *instance) liveCall(id uint64) *call {
	c := in.calls[int64(id)]
	if c == nil && (int64(id) <= 0 || int64(id) > in.lastCall) {
		violate(FaultContract, "the unknown call id %d", int64(id))
	}
	if c != nil {
		c.entry = in.entry
	}
	return c
}

func inputLen(in *instance, stack []uint64) { stack[0] = uint64(len(in.input)) }

func inputRead(in *instance, stack []uint64) {
	in.chargeBytes(copy(in.view(stack[0], uint64(len(in.input))), in.input))
}

func importResult(in *instance, stack []uint64) {
	c, ptr, n := in.liveCall(stack[0]), stack[1], uint64(uint32(stack[2]))
	b := in.view(ptr, n)
	in.charge(unitsPerCall)
	stack[0] = 0
	switch {
	case c == nil:
		stack[0] = api.EncodeI32(codeEnded)
	case int64(n) > in.sink.limits.MessageBytes:
		violate(FaultMalformed, "an answer of %d bytes, more than the limit message_max_bytes of %d", n, in.sink.limits.MessageBytes)
	default:
		in.chargeBytes(len(b))
		in.result(c, b)
	}
}

func ioStart(in *instance, stack []uint64) {
	c, b := in.liveCall(stack[0]), in.view(stack[2], stack[3])
	code := int64(codeEnded)
	if c != nil {
		code = in.startIO(c, abi.IOKind(uint32(stack[1])), b)
	}
	stack[0] = uint64(code)
}

func ioCancel(in *instance, stack []uint64) {
	in.charge(unitsPerCall)
	id := int64(stack[0])
	if id <= 0 || id > in.lastIO {
		violate(FaultContract, "the unknown I/O id %d", id)
	}
	if io := in.ios[id]; io != nil {
		io.call.entry = in.entry
		in.drop(io)
	}
}

func ioCall(in *instance, stack []uint64) {
	c, b := in.liveCall(stack[0]), in.view(stack[2], stack[3])
	code := int64(codeEnded)
	if c != nil {
		code = in.callIO(c, abi.IOKind(uint32(stack[1])), b)
	}
	stack[0] = api.EncodeI32(int32(code))
}

// importLog takes call 0 for "no call", and any level beyond the known ones
// for error.
func importLog(in *instance, stack []uint64) {
	key := ""
	if id := stack[0]; id != 0 {
		if c := in.liveCall(id); c != nil {
			key = c.key()
		}
	}
	level := slog.LevelError
	if n := uint32(stack[1]); n < 3 {
		level = [...]slog.Level{slog.LevelDebug, slog.LevelInfo, slog.LevelWarn}[n]
	}
	n := min(uint64(uint32(stack[3])), maxLine)
	in.chargeBytes(int(n))
	in.sink.guestLog.line(level, key, in.view(stack[2], n))
}
