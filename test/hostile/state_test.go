package hostile

import (
	"strings"
	"testing"

	"github.com/pawlsync/pawl/engine/sink"
	"github.com/pawlsync/pawl/engine/wasmhost"
	. "github.com/pawlsync/pawl/internal/wasmasm"
)

// What a guest keeps in its own memory is beyond the host: within an instance,
// one resource's call can see what an earlier one left. What is promised is that
// it ends there: with a fault, and at the border of the sink.
func TestStateOfAGuestEndsWithAFaultAndAtItsSink(t *testing.T) {
	const mark = 20_000
	module := guest(func(g *Guest) {
		// apply leaves a mark, and is REJECTED where it finds one; delete faults.
		g.Data = map[int]string{600: "\x08\x05\x12\x09been here"}
		g.Start = Seq(
			OnOp(OpDelete, Unreachable),
			If(Seq(I32(mark), Load32, I32Eqz), I32(mark), I32(1), Store32, AnswerOK(1), Want(0)),
			Answer(1, 600, 13), Want(0))
	})()
	h := newHost(t)
	first := openSink(t, h, module, wasmhost.SinkConfig{Name: badSink})
	other := openSink(t, h, module, wasmhost.SinkConfig{Name: "other"})
	been := func(s *wasmhost.Sink, key string) bool {
		t.Helper()
		r := s.Apply(t.Context(), request(key, `{}`))
		if r.Status != sink.OK && !strings.HasPrefix(r.Message, "been here") {
			t.Fatalf("%v: %s", r.Status, r.Message)
		}
		return r.Status != sink.OK
	}
	if been(first, "a") {
		t.Error("a new instance has state")
	}
	if !been(first, "b") {
		t.Error("the guest forgot by itself: the test shows nothing")
	}
	if been(other, "a") {
		t.Error("state crossed from sink to sink")
	}
	if r := first.Delete(t.Context(), request("c", "")); r.Status != sink.Fault {
		t.Fatalf("%+v", r)
	}
	if been(first, "a") {
		t.Error("state survived a fault")
	}
}
