package wasmhost_test

import (
	"runtime"
	"testing"

	"github.com/pawlsync/pawl/engine/sink"
	"github.com/pawlsync/pawl/engine/wasmhost"
	asm "github.com/pawlsync/pawl/internal/wasmasm"
)

// On Go's heap, each growth would copy all that there is, and leave as much
// behind for the collector.
func TestAGuestsMemoryGrowsInPlaceOutsideOfGosHeap(t *testing.T) {
	const pages = 1024 // 64 MiB
	top := asm.Seq(asm.MemorySize, asm.I32(16), asm.I32Shl, asm.I32(8), asm.I32Sub)
	g := asm.Guest{Start: asm.Seq(
		asm.Times(pages, 3,
			asm.If(asm.Seq(top, asm.Load64, asm.I64(0), asm.I64Ne), asm.Unreachable), // a new page is zero
			top, asm.I64(77), asm.Store64,
			asm.If(asm.Seq(asm.I32(1), asm.MemoryGrow, asm.I32(-1), asm.I32Eq), asm.Unreachable),
			// and what was there stays
			asm.If(asm.Seq(top, asm.I32(65536), asm.I32Sub, asm.Load64, asm.I64(77), asm.I64Ne), asm.Unreachable)),
		asm.AnswerOK(1), asm.Want(0))}
	s := openASM(t, g, wasmhost.SinkConfig{})
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	if r := s.Apply(t.Context(), request("k", "")); r.Status != sink.OK {
		t.Fatalf("%+v", r)
	}
	runtime.ReadMemStats(&after)
	if n := s.Stats().MemoryBytes; n != (pages+2)*65536 {
		t.Errorf("the guest has %d bytes", n)
	}
	if n := after.TotalAlloc - before.TotalAlloc; n > pages*65536/4 {
		t.Errorf("%d bytes of Go's heap went into it", n)
	}
}
