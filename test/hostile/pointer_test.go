package hostile

import (
	"fmt"

	"github.com/pawlsync/pawl/engine/wasmhost"
	. "github.com/pawlsync/pawl/internal/wasmasm"
)

// Trials that hand the host pointers outside of the guest's memory, of two pages:
// each import that takes one, with each of these.
func pointerTrials() []trial {
	const end = 2 * 65536
	places := []struct {
		name   string
		ptr, n int
	}{
		{"far outside", 1 << 30, 8},
		{"across the end", end - 4, 8},
		{"at -1", -1, 8},
		{"of 2 GiB", 64, -1 << 31},
		{"of -1 bytes", 64, -1},
		{"at -8, so that the end wraps to 0", -8, 8},
	}
	imports := []struct {
		name     string
		hasCount bool // a length of the guest's own
		call     func(ptr, n int) Code
	}{
		{"result", true, func(ptr, n int) Code { return Answer(1, ptr, n) }},
		{"io_start", true, func(ptr, n int) Code { return Seq(Get(1), I32(1), I32(ptr), I32(n), CallImport("io_start"), Drop) }},
		{"io_call", true, func(ptr, n int) Code { return Seq(Get(1), I32(1), I32(ptr), I32(n), CallImport("io_call"), Drop) }},
		{"random_get", true, func(ptr, n int) Code { return Seq(I32(ptr), I32(n), CallImport("random_get"), Drop) }},
		{"log", false, func(ptr, n int) Code { return Seq(Get(1), I32(1), I32(ptr), I32(n), CallImport("log")) }},
		{"input_read", false, func(ptr, _ int) Code { return Seq(I32(ptr), CallImport("input_read")) }},
		{"clock_time_get", false, func(ptr, _ int) Code { return Seq(I32(0), I64(0), I32(ptr), CallImport("clock_time_get"), Drop) }},
		{"fd_write", false, func(ptr, _ int) Code { return Seq(I32(2), I32(ptr), I32(1), I32(0), CallImport("fd_write"), Drop) }},
		{"poll_oneoff", false, func(ptr, _ int) Code {
			return Seq(I32(ptr), I32(0), I32(1), I32(0), CallImport("poll_oneoff"), Drop)
		}},
	}
	var out []trial
	for i, f := range imports {
		// One place per import as a trial of its own; the others are in
		// TestNoImportTakesABadPointer, which needs no neighbour.
		p := places[i%3]
		out = append(out, trial{
			name: fmt.Sprintf("%s with a pointer %s", f.name, p.name), module: apply(f.call(p.ptr, p.n)),
			fault: wasmhost.FaultContract, says: "outside of its memory",
		})
	}
	return out
}
