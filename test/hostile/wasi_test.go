package hostile

import (
	"encoding/binary"
	"strings"

	"github.com/pawlsync/pawl/engine/sink"
	"github.com/pawlsync/pawl/engine/wasmhost"
	. "github.com/pawlsync/pawl/internal/wasmasm"
)

// Trials that abuse WASI.
func wasiTrials() []trial {
	const at = 65536
	with := func(content string, start ...Code) func() []byte {
		return guest(func(g *Guest) {
			g.Data = map[int]string{at: content}
			g.Pages = 200
			g.Start = Seq(Seq(start...), AnswerOK(1), Want(0))
		})
	}
	vector := string(binary.LittleEndian.AppendUint32(make([]byte, 4), 8<<20)) // 8 MiB from 0
	sub := make([]byte, 48)
	sub[16] = 1
	binary.LittleEndian.PutUint64(sub[24:], 1<<62) // for ever
	expect := func(errno int) Code { return Seq(I32(errno), I32Ne, If(nil, Unreachable)) }
	fdWrite := func(n int) Code { return Seq(I32(2), I32(at), I32(n), I32(64), CallImport("fd_write")) }
	return []trial{
		{name: "fd_write with a million vectors", module: with(strings.Repeat(vector, 1_000_000), fdWrite(1_000_000), Drop), status: sink.OK},
		{name: "fd_write with a million vectors for ever", module: with(strings.Repeat(vector, 1_000_000), Forever(fdWrite(1_000_000), Drop)),
			fault: wasmhost.FaultBudget, says: "entry_cpu"},
		{name: "fd_write with 4 billion vectors", module: with(strings.Repeat(vector, 64), fdWrite(-1), Drop), status: sink.OK},
		{name: "fd_write of a line without an end", module: with(vector, Times(1000, 3, fdWrite(1), Drop)), status: sink.OK},
		{name: "random_get of 4 GiB", module: apply(I32(0), I32(-1), CallImport("random_get"), Drop), fault: wasmhost.FaultContract, says: "outside of its memory"},
		{name: "random_get of 8 MiB", module: with("", I32(0), I32(8<<20), CallImport("random_get"), expect(28)), status: sink.OK},
		{name: "random_get for ever", module: with("", Forever(I32(0), I32(65536), CallImport("random_get"), Drop)), fault: wasmhost.FaultBudget, says: "entry_cpu"},
		{name: "the clock for ever", module: apply(Forever(I32(1), I64(0), I32(64), CallImport("clock_time_get"), Drop)), fault: wasmhost.FaultBudget, says: "entry_cpu"},
		{name: "an unknown clock", module: apply(I32(-1), I64(-1), I32(64), CallImport("clock_time_get"), expect(28)), status: sink.OK},
		{name: "sched_yield for ever", module: apply(Forever(CallImport("sched_yield"), Drop)), fault: wasmhost.FaultBudget, says: "entry_cpu"},
		{name: "poll_oneoff for ever", module: with(string(sub), Forever(I32(at), I32(64), I32(1), I32(60), CallImport("poll_oneoff"), Drop)),
			fault: wasmhost.FaultBudget, says: "entry_cpu"},
		{name: "poll_oneoff with 4 billion subscriptions", module: with(string(sub), I32(at), I32(64), I32(-1), I32(60), CallImport("poll_oneoff"), expect(28)), status: sink.OK},
		{name: "proc_exit(0)", module: apply(I32(0), CallImport("proc_exit")), fault: wasmhost.FaultExit, says: "proc_exit(0)"},
	}
}
