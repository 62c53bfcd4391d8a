package hostile

import (
	"strings"

	"github.com/pawlsync/pawl/engine/sink"
	"github.com/pawlsync/pawl/engine/wasmhost"
	. "github.com/pawlsync/pawl/internal/wasmasm"
)

// Trials that burn the processor: each is stopped when its budget is used up.
func cpuTrials() []trial {
	const spends = "entry_cpu"
	return []trial{
		{name: "an endless loop", module: apply(Forever()), fault: wasmhost.FaultBudget, says: spends},
		{name: "an endless loop with a body of 100 KB", module: apply(Forever(Repeat(30_000, Seq(I32(1), Drop)))), fault: wasmhost.FaultBudget, says: spends},
		{name: "an endless loop of branches", module: apply(Loop(Block(Block(I32(1), BrTable([]int{0, 1}, 2))), Br(0))), fault: wasmhost.FaultBudget, says: spends},
		{name: "an endless loop in resume", module: guest(func(g *Guest) {
			g.Start = Seq(Park(IOHTTP, AtHTTP, len(HTTPPut)), Want(1))
			g.Resume = Seq(Forever(), I32(0))
		}), fault: wasmhost.FaultBudget, says: spends},
		{name: "an endless loop in poll", module: guest(func(g *Guest) {
			g.Start, g.Poll = Want(2), Seq(Forever(), I32(0))
		}), fault: wasmhost.FaultBudget, says: spends},
		{name: "an endless loop in cancel", module: guest(func(g *Guest) {
			g.Start = Seq(Park(IOSleep, AtSleep, len(SleepMessage(60_000))), Want(1))
			g.Cancel = Seq(Forever(), I32(0))
		}), status: sink.Unreachable, says: "deadline"},
		{name: "a loop of calls of the host", module: apply(Forever(CallImport("input_len"), Drop)), fault: wasmhost.FaultBudget, says: spends},
		{name: "a loop of divisions", module: apply(I64(1), Set(2), Forever(Repeat(1000, Seq(I64(1<<62), Get(2), I64DivU, Drop)))), fault: wasmhost.FaultBudget, says: spends},
		{name: "a loop that clears all of its memory", module: apply(
			I32(200), MemoryGrow, Drop, Forever(I32(0), I32(0), MemorySize, I32(16), I32Shl, MemoryFill)), fault: wasmhost.FaultBudget, says: spends},
		{name: "a loop that moves all of its memory", module: apply(
			I32(200), MemoryGrow, Drop, Forever(I32(65536), I32(0), MemorySize, I32(1), I32Sub, I32(16), I32Shl, MemoryCopy)), fault: wasmhost.FaultBudget, says: spends},
		{name: "a loop that fills a table", module: applyWith(func(m *Module) { m.Table(FuncRef, 10_000, 10_000) },
			Forever(I32(0), RefNull, I32(10_000), TableFill(0))), fault: wasmhost.FaultBudget, says: spends},
		{name: "calls that double at each of 60 levels", module: applyWith(doubling, Call(FirstExtra()+59)), fault: wasmhost.FaultBudget, says: spends},
		{name: "calls in a circle through a table", module: applyWith(func(m *Module) {
			m.Table(FuncRef, 1, 1)
			f := m.Func(":", "", Seq(I32(0), CallIndirect(m.Type(":"), 0)))
			m.Elem(I32(0), f)
		}, Call(FirstExtra())), fault: wasmhost.FaultDepth, says: "nest deeper", patient: true},
		{name: "recursion without an end", module: apply(Get(0), Get(1), Call(OwnFunc("pawl_start")), Drop), fault: wasmhost.FaultDepth, says: "nest deeper", patient: true},
		{name: "recursion without an end, with a frame of 4000 locals", module: applyWith(func(m *Module) {
			f := m.Funcs()
			var use Code
			for i := range 4000 { // all of them alive over the call
				use = Seq(use, Get(i), I64Add)
			}
			m.Func(":I", strings.Repeat("I", 4000), Seq(I64(1), Set(0), Call(f), use))
		}, Call(FirstExtra()), Drop), fault: wasmhost.FaultDepth, says: "nest deeper", patient: true},
		{name: "a tower of 5000 functions, each calling the one below", module: applyWith(func(m *Module) {
			f := m.Func(":", "", Nop)
			for range 4999 {
				f = m.Func(":", "", Call(f))
			}
		}, Call(FirstExtra()+4999)), status: sink.OK},
	}
}

// doubling adds 60 functions; each calls the one before it twice.
func doubling(m *Module) {
	f := m.Func(":", "", Nop)
	for range 59 {
		f = m.Func(":", "", Seq(Call(f), Call(f)))
	}
}
