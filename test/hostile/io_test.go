package hostile

import (
	"strings"

	"github.com/pawlsync/pawl/engine/sink"
	"github.com/pawlsync/pawl/engine/wasmhost"
	. "github.com/pawlsync/pawl/internal/wasmasm"
)

// Trials that abuse the host's I/O and its log.
func ioTrials() []trial {
	const at = 20_000
	with := func(content string, start ...Code) func() []byte {
		return guest(func(g *Guest) {
			g.Data = map[int]string{at: content}
			g.Pages = 40
			g.Start = Seq(Seq(start...), AnswerOK(1), Want(0))
		})
	}
	io := func(kind, ptr, n int) Code {
		return Seq(Get(1), I32(kind), I32(ptr), I32(n), CallImport("io_start"))
	}
	// refusedWith traps unless an io_start answered that code.
	refusedWith := func(code int64) Code { return Seq(I64(code), I64Ne, If(nil, Unreachable)) }
	long := SleepMessage(1<<32 - 1)
	manyHeaders := HTTPPut + strings.Repeat("\x22\x08\x0a\x01a\x12\x03xyz", 100_000)
	return []trial{
		{name: "a flood of io_start", module: apply(Times(1000, 3, io(IOHTTP, AtHTTP, len(HTTPPut)), Drop)), status: sink.OK},
		{name: "a flood of sleeps", module: apply(Times(1000, 3, io(IOSleep, AtSleep, len(SleepMessage(60_000))), Drop)), status: sink.OK},
		{name: "requests begun and cancelled without an end", module: apply(Forever(
			io(IOHTTP, AtHTTP, len(HTTPPut)), Tee(2), I64(0), Code{0x55}, If(nil, Get(2), CallImport("io_cancel")))),
			fault: wasmhost.FaultBudget, says: "entry_cpu"},
		{name: "a sleep of 49 days", module: with(long, Park(IOSleep, at, len(long)), Want(1)), status: sink.Unreachable, says: "deadline"},
		{name: "I/O of an unknown kind", module: apply(io(99, AtHTTP, len(HTTPPut)), refusedWith(-4)), status: sink.OK},
		{name: "I/O that is no protobuf", module: with("\xff\xff", io(IOHTTP, at, 2), Drop), fault: wasmhost.FaultMalformed, says: "input of an I/O"},
		{name: "I/O of 5 MiB", module: guest(func(g *Guest) {
			g.Pages, g.Start = 100, Seq(io(IOHTTP, 0, 5<<20), refusedWith(-3), AnswerOK(1), Want(0))
		}), status: sink.OK},
		{name: "a request with 100,000 headers", module: with(manyHeaders, io(IOHTTP, at, len(manyHeaders)), Drop), fault: wasmhost.FaultMalformed, says: "headers allowed"},
		{name: "I/O for a call that never was", module: apply(I64(77_777_777), I32(1), I32(AtHTTP), I32(len(HTTPPut)), CallImport("io_start"), Drop),
			fault: wasmhost.FaultContract, says: "unknown call id"},
		{name: "it cancels I/O that never was", module: apply(I64(1<<50), CallImport("io_cancel")), fault: wasmhost.FaultContract, says: "unknown I/O id"},
		{name: "it cancels the I/O that it waits for", module: guest(func(g *Guest) {
			g.Start = Seq(Park(IOHTTP, AtHTTP, len(HTTPPut)), Get(2), CallImport("io_cancel"), Want(1))
		}), fault: wasmhost.FaultStuck, says: "waits for no host I/O"},
		{name: "it cancels everybody's I/O", module: guest(func(g *Guest) {
			// All ids up to its own: those of the other calls in the instance too.
			g.Start = Seq(Park(IOHTTP, AtHTTP, len(HTTPPut)), Get(2), I32Wrap, Set(3),
				Loop(Get(3), I64Extend, CallImport("io_cancel"), Get(3), I32(1), I32Sub, Tee(3), BrIf(0)), AnswerOK(1), Want(0))
		}), status: sink.OK},
		{name: "it blocks in a sleep", blocks: true, module: apply(Get(1), I32(IOSleep), I32(AtSleep), I32(len(SleepMessage(60_000))), CallImport("io_call"), Drop,
			Get(1), I32(IOSleep), I32(AtSleep), I32(len(SleepMessage(60_000))), CallImport("io_call"), Drop), status: sink.OK},
		{name: "it blocks in sleeps for ever", blocks: true, module: apply(Forever(
			Get(1), I32(IOSleep), I32(AtSleep), I32(len(SleepMessage(60_000))), CallImport("io_call"), Drop)), fault: wasmhost.FaultBudget, says: "entry_cpu"},
		{name: "a flood of log lines", module: with(strings.Repeat("x", 2000), Times(20_000, 3, Log(at, 2000))), status: sink.OK},
		{name: "log lines for ever", module: with(strings.Repeat("x", 2000), Forever(Log(at, 2000))), fault: wasmhost.FaultBudget, says: "entry_cpu"},
		{name: "a log line of 2 MiB", module: with("x", Log(0, 40*65536)), status: sink.OK},
	}
}
