package hostile

import (
	"github.com/pawlsync/pawl/engine/wasmhost"
	. "github.com/pawlsync/pawl/internal/wasmasm"
)

// Trials that do harm before the first call: an instance is made for describe
// when the module is loaded, and for configure when the sink is opened.
func startTrials() []trial {
	sub := func(g *Guest, body ...Code) { g.Configure = Seq(Seq(body...), AnswerOK(1), Want(0)) }
	return []trial{
		{name: "a start function that loops", module: guest(func(g *Guest) { g.Init, g.StartSection = Forever(), true }), refused: says("start section")},
		{name: "_initialize that loops", module: guest(func(g *Guest) { g.Init = Forever() }), refused: says("entry_cpu")},
		{name: "_initialize that takes all the memory there is", module: guest(func(g *Guest) {
			g.Init = Seq(Block(Loop(I32(1), MemoryGrow, I32(-1), I32Eq, BrIf(1), Br(0))), Unreachable)
		}), refused: says("unreachable")},
		{name: "describe that loops", module: guest(func(g *Guest) { g.Describe = Forever() }), refused: says("entry_cpu")},
		{name: "describe that has no answer", module: guest(func(g *Guest) { g.Describe = Want(0) }), refused: says("waits for no host I/O")},
		{name: "describe that wants to talk to the target", module: guest(func(g *Guest) {
			g.Describe = Seq(Get(1), I32(IOHTTP), I32(AtHTTP), I32(len(HTTPPut)), CallImport("io_start"), I64(-4), I64Ne, If(nil, Unreachable), Want(0))
		}), refused: says("waits for no host I/O")},
		{name: "a manifest of 5 MiB", module: guest(func(g *Guest) { g.Pages, g.Describe = 100, Seq(Answer(1, 0, 5<<20), Want(0)) }), refused: says("message_max_bytes")},
		{name: "configure that loops", module: guest(func(g *Guest) { sub(g, Forever()) }), refused: says("entry_cpu")},
		{name: "configure that recurses", module: guest(func(g *Guest) { sub(g, Get(0), Get(1), Call(OwnFunc("pawl_start")), Drop) }), refused: says("nest deeper")},
		{name: "configure that answers, then stops itself", module: guest(func(g *Guest) {
			g.Configure = Seq(AnswerOK(1), Unreachable)
		}), fault: wasmhost.FaultTrap, says: "did not start"},
		{name: "configure that answers, then wants what there is not", module: guest(func(g *Guest) {
			g.Configure = Seq(AnswerOK(1), Want(7))
		}), fault: wasmhost.FaultContract, says: "did not start"},
		{name: "configure that parks for ever", module: guest(func(g *Guest) {
			g.Configure = Seq(Park(IOSleep, AtSleep, len(SleepMessage(60_000))), Want(1))
		}), refused: says("deadline")},
	}
}
