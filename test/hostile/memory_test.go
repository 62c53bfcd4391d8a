package hostile

import (
	"github.com/pawlsync/pawl/engine/sink"
	"github.com/pawlsync/pawl/engine/wasmhost"
	. "github.com/pawlsync/pawl/internal/wasmasm"
)

// Trials that want more memory than there is for them.
func memoryTrials() []trial {
	// growAll grows page by page until that fails, and writes to each.
	growAll := Block(Loop(
		I32(1), MemoryGrow, I32(-1), I32Eq, BrIf(1),
		MemorySize, I32(1), I32Sub, I32(16), I32Shl, I32(1), Store32,
		Br(0)))
	return []trial{
		{name: "it takes all the memory there is, and traps", module: apply(growAll, Unreachable), fault: wasmhost.FaultTrap, says: "unreachable"},
		{name: "it takes all the memory there is, and goes on", module: apply(growAll), status: sink.OK},
		{name: "it asks for 4 GiB at once", module: apply(If(Seq(I32(65535), MemoryGrow, I32(-1), I32Ne), Unreachable)), status: sink.OK},
		{name: "it grows by a negative number of pages", module: apply(If(Seq(I32(-1), MemoryGrow, I32(-1), I32Ne), Unreachable)), status: sink.OK},
		{name: "it grows for ever, whatever the answer", module: apply(Forever(I32(1), MemoryGrow, Drop)), fault: wasmhost.FaultBudget, says: "entry_cpu"},
		{name: "it writes beyond its memory", module: apply(I32(-8), I64(1), Store64), fault: wasmhost.FaultTrap, says: "out of bounds"},
		{name: "it clears 4 GiB", module: apply(I32(0), I32(0), I32(-1), MemoryFill), fault: wasmhost.FaultTrap, says: "out of bounds"},
		{name: "it grows a table without an end", module: applyWith(func(m *Module) { m.Table(FuncRef, 1, NoMax) },
			Block(Loop(RefNull, I32(100_000), TableGrow(0), I32(-1), I32Eq, BrIf(1), Br(0)))), status: sink.OK},
		{name: "it asks for a table of 4 billion", module: applyWith(func(m *Module) { m.Table(ExternRef, 1, NoMax) },
			If(Seq(Code{0xd0, ExternRef}, I32(-2), TableGrow(0), I32(-1), I32Ne), Unreachable)), status: sink.OK},
		{name: "a table that starts with a billion", module: applyWith(func(m *Module) { m.Table(FuncRef, 1_000_000_000, NoMax) }), refused: says("table")},
		{name: "a hundred tables of a million", module: applyWith(func(m *Module) {
			for range 100 {
				m.Table(FuncRef, 1_000_000, NoMax)
			}
		}), refused: says("table")},
		{name: "it starts with 4 GiB", module: guest(func(g *Guest) { g.Pages = 65536 }), refused: says("memory")},
		{name: "it starts with more than its sink may have", module: guest(func(g *Guest) { g.Pages = 300 }), refused: says("memory")},
	}
}
