package hostile

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/pawlsync/pawl/engine/record"
	"github.com/pawlsync/pawl/engine/sink"
	"github.com/pawlsync/pawl/engine/wasmhost"
	. "github.com/pawlsync/pawl/internal/wasmasm"
)

// places are stretches that do not lie in a memory of two pages.
var places = []struct {
	name   string
	ptr, n int
	length bool // it is the length that is wrong
}{
	{"far outside", 1 << 30, 8, false},
	{"across the end", 2*65536 - 2, 64, false},
	{"at -1", -1, 8, false},
	{"at -8, so that the end wraps to 0", -8, 8, false},
	{"of 2 GiB", 64, -1 << 31, true},
	{"of 4 GiB less a byte", 64, -1, true},
}

// pointers are the imports that take one; counted: with a length of the guest's.
var pointers = []struct {
	name    string
	counted bool
	call    func(ptr, n int) Code
}{
	{"result", true, func(ptr, n int) Code { return Answer(1, ptr, n) }},
	{"io_start", true, func(ptr, n int) Code { return Seq(Get(1), I32(1), I32(ptr), I32(n), CallImport("io_start"), Drop) }},
	{"io_call", true, func(ptr, n int) Code { return Seq(Get(1), I32(1), I32(ptr), I32(n), CallImport("io_call"), Drop) }},
	{"random_get", true, func(ptr, n int) Code { return Seq(I32(ptr), I32(n), CallImport("random_get"), Drop) }},
	{"log", false, func(ptr, n int) Code { return Seq(Get(1), I32(1), I32(ptr), I32(n), CallImport("log")) }},
	{"input_read", false, func(ptr, _ int) Code { return Seq(I32(ptr), CallImport("input_read")) }},
	{"clock_time_get", false, func(ptr, _ int) Code { return Seq(I32(0), I64(0), I32(ptr), CallImport("clock_time_get"), Drop) }},
	{"fd_write, the vectors", false, func(ptr, _ int) Code { return Seq(I32(2), I32(ptr), I32(1), I32(0), CallImport("fd_write"), Drop) }},
	{"fd_write, the count", false, func(ptr, _ int) Code { return Seq(I32(2), I32(64), I32(1), I32(ptr), CallImport("fd_write"), Drop) }},
	{"poll_oneoff, the subscriptions", false, func(ptr, _ int) Code {
		return Seq(I32(ptr), I32(0), I32(1), I32(0), CallImport("poll_oneoff"), Drop)
	}},
	{"poll_oneoff, the events", false, func(ptr, _ int) Code {
		return Seq(I32(64), I32(ptr), I32(1), I32(0), CallImport("poll_oneoff"), Drop)
	}},
	{"poll_oneoff, the count", false, func(ptr, _ int) Code {
		return Seq(I32(64), I32(256), I32(1), I32(ptr), CallImport("poll_oneoff"), Drop)
	}},
}

// Trials that hand the host pointers outside of the guest's memory: one for each
// import.
func pointerTrials() []trial {
	var out []trial
	for i, f := range pointers {
		p := places[i%4]
		out = append(out, trial{
			name: fmt.Sprintf("%s %s", f.name, p.name), module: apply(f.call(p.ptr, p.n)),
			fault: wasmhost.FaultContract, says: "outside of its memory",
		})
	}
	return out
}

// The whole product needs no neighbour.
func TestNoImportTakesABadPointer(t *testing.T) {
	h := newHost(t)
	for _, f := range pointers {
		for _, p := range places {
			if p.length && !f.counted {
				continue
			}
			t.Run(f.name+" "+p.name, func(t *testing.T) {
				s := openSink(t, h, apply(f.call(p.ptr, p.n))(), wasmhost.SinkConfig{Name: badSink, Limits: trialLimits, Upstreams: []wasmhost.Upstream{near{}}})
				r := s.Apply(t.Context(), request("victim", `{}`))
				if r.Status != sink.Fault || !strings.Contains(r.Message, "outside of its memory") || !strings.Contains(r.Message, "contract fault") {
					t.Errorf("%v: %s", r.Status, r.Message)
				}
			})
		}
	}
}

func openSink(t *testing.T, h *wasmhost.Host, wasm []byte, c wasmhost.SinkConfig) *wasmhost.Sink {
	t.Helper()
	p, err := h.Load(t.Context(), wasm, badPlugin)
	if err != nil {
		t.Fatal(err)
	}
	s, err := p.Open(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(context.Background()); err != nil {
			t.Error(err)
		}
		_ = p.Close(context.Background())
	})
	return s
}

func request(key, payload string) *sink.Request {
	return &sink.Request{
		Key: record.Key{Sink: badSink, Name: key}, Generation: 1, Payload: []byte(payload),
		Hash: record.HashOf([]byte(payload)), Conflict: record.SourceWins,
	}
}
