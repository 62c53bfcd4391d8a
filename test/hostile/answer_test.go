package hostile

import (
	"github.com/pawlsync/pawl/engine/sink"
	"github.com/pawlsync/pawl/engine/wasmhost"
	. "github.com/pawlsync/pawl/internal/wasmasm"
)

// Trials that answer what was not asked, or not at all.
func answerTrials() []trial {
	const at = 20_000
	// with puts content into the guest's memory.
	with := func(content string, start ...Code) func() []byte {
		return guest(func(g *Guest) {
			g.Data = map[int]string{at: content}
			g.Start = Seq(Seq(start...), AnswerOK(1), Want(0))
		})
	}
	badStatus, badText := "\x08\x63", "\x08\x01\x12\x01\xff"
	nested := "\x08\x01\x2a\x80\x80\x80\x80\x08" // an observation of 2 GiB
	return []trial{
		{name: "an answer for a call that never was", module: apply(I64(1<<40), I32(AtOK), I32(2), CallImport("result"), Drop),
			fault: wasmhost.FaultContract, says: "unknown call id"},
		{name: "an answer for call 0", module: apply(I64(0), I32(AtOK), I32(2), CallImport("result"), Drop),
			fault: wasmhost.FaultContract, says: "unknown call id"},
		{name: "an answer for call -1", module: apply(I64(-1), I32(AtOK), I32(2), CallImport("result"), Drop),
			fault: wasmhost.FaultContract, says: "unknown call id"},
		{name: "an answer twice", module: apply(AnswerOK(1), AnswerOK(1)), status: sink.OK},
		{name: "an answer for configure, which is over, on top", module: apply(I64(1), I32(AtOK), I32(2), CallImport("result"), Drop), status: sink.OK},
		{name: "no answer", module: guest(func(g *Guest) { g.Start = Want(0) }), fault: wasmhost.FaultStuck, says: "waits for no host I/O"},
		{name: "it waits for I/O that it never began", module: guest(func(g *Guest) { g.Start = Want(1) }), fault: wasmhost.FaultStuck, says: "waits for no host I/O"},
		{name: "it wants 3", module: guest(func(g *Guest) { g.Start = Want(3) }), fault: wasmhost.FaultContract, says: "returned 3"},
		{name: "it wants -2147483648", module: guest(func(g *Guest) { g.Start = Want(-1 << 31) }), fault: wasmhost.FaultContract, says: "returned -2147483648"},
		{name: "an unknown status", module: with(badStatus, Answer(1, at, len(badStatus))), fault: wasmhost.FaultMalformed, says: "answer to apply"},
		{name: "text that is no UTF-8", module: with(badText, Answer(1, at, len(badText))), fault: wasmhost.FaultMalformed, says: "answer to apply"},
		{name: "an answer that is no protobuf", module: with("\xff\xff\xff", Answer(1, at, 3)), fault: wasmhost.FaultMalformed, says: "answer to apply"},
		{name: "an answer that promises 2 GiB", module: with(nested, Answer(1, at, len(nested))), fault: wasmhost.FaultMalformed, says: "answer to apply"},
		{name: "an answer of 5 MiB", module: guest(func(g *Guest) {
			g.Pages, g.Start = 100, Seq(Answer(1, 0, 5<<20), Want(0))
		}), fault: wasmhost.FaultMalformed, says: "message_max_bytes"},
		{name: "it answers after it was cancelled", module: guest(func(g *Guest) {
			g.Start = Seq(Park(IOSleep, AtSleep, len(SleepMessage(60_000))), Want(1))
			g.Cancel = Seq(AnswerOK(0), I32(0))
		}), status: sink.Unreachable, says: "deadline"},
		{name: "it parks for ever", module: guest(func(g *Guest) {
			g.Start = Seq(Park(IOSleep, AtSleep, len(SleepMessage(60_000))), Want(1))
		}), status: sink.Unreachable, says: "deadline"},
		{name: "it asks to be polled for ever", module: guest(func(g *Guest) {
			g.Start, g.Poll, g.Cancel = Want(2), I32(2), I32(0)
		}), fault: wasmhost.FaultDeadline, says: "no answer within"},
		{name: "it traps when it is polled", module: guest(func(g *Guest) {
			g.Start, g.Poll = Want(2), Unreachable
		}), fault: wasmhost.FaultTrap, says: "unreachable"},
		{name: "it traps when it is cancelled", module: guest(func(g *Guest) {
			g.Start = Seq(Park(IOSleep, AtSleep, len(SleepMessage(60_000))), Want(1))
			g.Cancel = Unreachable
		}), status: sink.Unreachable, says: "deadline"},
	}
}
