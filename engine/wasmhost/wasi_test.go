package wasmhost_test

import (
	"encoding/binary"
	"log/slog"
	"strings"
	"testing"

	"github.com/pawlsync/pawl/engine/sink"
	"github.com/pawlsync/pawl/engine/wasmhost"

	asm "github.com/pawlsync/pawl/internal/wasmasm"
)

// logged loads g with a log of its own and applies once.
func logged(t *testing.T, g asm.Guest, l wasmhost.Limits) lines {
	t.Helper()
	log := make(lines, 1000)
	p := load(t, asmHost(t, slog.New(slog.NewTextHandler(log, nil))), "asm", g.Bytes())
	s := open(t, p, wasmhost.SinkConfig{Limits: l})
	if r := s.Apply(t.Context(), request("the-key", "{}")); r.Status != sink.OK {
		t.Fatalf("%+v", r)
	}
	close(log)
	return log
}

func all(l lines) (out []string) {
	for s := range l {
		out = append(out, s)
	}
	return out
}

func TestAGuestsLogLinesAreAttributedAndCut(t *testing.T) {
	long := strings.Repeat("a", 1000) + "\n\x00\xff" + strings.Repeat("b", 9000)
	g := asm.Guest{
		Data:  map[int]string{20000: long},
		Start: asm.Seq(asm.Get(1), asm.I32(2), asm.I32(20000), asm.I32(len(long)), asm.CallImport("log"), asm.AnswerOK(1), asm.Want(0)),
	}
	out := all(logged(t, g, wasmhost.Limits{}))
	if len(out) != 1 {
		t.Fatalf("%d lines: %q", len(out), out)
	}
	for _, part := range []string{"level=WARN", "plugin=asm", "sink=test", "key=the-key", "aaa"} {
		if !strings.Contains(out[0], part) {
			t.Errorf("no %q in %q", part, out[0])
		}
	}
	if len(out[0]) > 2300 || strings.Contains(out[0], "\\x00") || strings.Contains(out[0], "\\n") {
		t.Errorf("%d bytes: %q", len(out[0]), out[0])
	}
}

func TestAGuestsLogLinesAreLimitedInRate(t *testing.T) {
	var body asm.Code
	for range 100 {
		body = append(body, asm.Seq(asm.I64(0), asm.I32(1), asm.I32(asm.AtOK), asm.I32(2), asm.CallImport("log"))...)
	}
	log := make(lines, 1000)
	g := asm.Guest{Start: asm.Seq(body, asm.AnswerOK(1), asm.Want(0))}
	p := load(t, asmHost(t, slog.New(slog.NewTextHandler(log, nil))), "asm", g.Bytes())
	s := open(t, p, wasmhost.SinkConfig{Limits: wasmhost.Limits{LogLines: 1}})
	s.Apply(t.Context(), request("k", ""))
	if lost, got := s.Stats().LinesLost, len(log); lost < 90 || int(lost)+got < 100 {
		t.Errorf("%d lines written, %d lost", got, lost)
	}
}

func TestStderrGoesToTheLogLineByLine(t *testing.T) {
	vectors := func(at ...uint32) string {
		var b []byte
		for _, v := range at {
			b = binary.LittleEndian.AppendUint32(b, v)
		}
		return string(b)
	}
	write := func(n int) asm.Code {
		return asm.Seq(asm.I32(2), asm.I32(600), asm.I32(n), asm.I32(700), asm.CallImport("fd_write"), asm.Drop)
	}
	g := asm.Guest{
		Data:  map[int]string{512: "hel", 520: "lo\nwor", 530: "ld\nrest", 600: vectors(512, 3, 520, 6, 530, 7)},
		Start: asm.Seq(write(3), asm.AnswerOK(1), asm.Want(0)),
	}
	out := all(logged(t, g, wasmhost.Limits{}))
	if len(out) != 2 || !strings.Contains(out[0], "line=hello") || !strings.Contains(out[1], "line=world") {
		t.Errorf("%q", out)
	}
	// A million vectors of the whole memory: answered at once, with little.
	var many []uint32
	for range 2000 {
		many = append(many, 0, 60000)
	}
	g = asm.Guest{Data: map[int]string{20000: vectors(many...)},
		Start: asm.Seq(asm.I32(1), asm.I32(20000), asm.I32(2000), asm.I32(700), asm.CallImport("fd_write"), asm.Drop,
			// written ≤ 2048
			asm.If(asm.Seq(asm.I32(700), asm.Load32, asm.I32(2048), asm.I32GtS), asm.Unreachable), asm.AnswerOK(1), asm.Want(0))}
	logged(t, g, wasmhost.Limits{})
}

func TestEntropyIsReal(t *testing.T) {
	same := asm.Seq(
		asm.I32(512), asm.I32(8), asm.CallImport("random_get"), asm.Drop, asm.I32(520), asm.I32(8), asm.CallImport("random_get"), asm.Drop,
		asm.I32(512), asm.Load64, asm.I32(520), asm.Load64, asm.I64Eq)
	tooMuch := asm.Seq(asm.I32(0), asm.I32(100_000), asm.CallImport("random_get"), asm.I32(28), asm.I32Ne)
	g := asm.Guest{Start: asm.Seq(asm.If(same, asm.Unreachable), asm.If(tooMuch, asm.Unreachable), asm.AnswerOK(1), asm.Want(0))}
	logged(t, g, wasmhost.Limits{})
}

func TestTheClockGoesOn(t *testing.T) {
	at := func(clock, ptr int) asm.Code {
		return asm.Seq(asm.I32(clock), asm.I64(0), asm.I32(ptr), asm.CallImport("clock_time_get"), asm.Drop)
	}
	// monotonic: later ≥ earlier > 0; real: after 2020.
	back := asm.Seq(at(1, 512), at(1, 520), asm.I32(520), asm.Load64, asm.I32(512), asm.Load64, asm.I64LtU)
	old := asm.Seq(at(0, 528), asm.I32(528), asm.Load64, asm.I64(1577836800e9), asm.I64LtU)
	unknown := asm.Seq(asm.I32(9), asm.I64(0), asm.I32(512), asm.CallImport("clock_time_get"), asm.I32(28), asm.I32Ne)
	g := asm.Guest{Start: asm.Seq(asm.If(back, asm.Unreachable), asm.If(old, asm.Unreachable), asm.If(unknown, asm.Unreachable), asm.AnswerOK(1), asm.Want(0))}
	logged(t, g, wasmhost.Limits{})
}

func TestPollOneoffSleepsAndIsBounded(t *testing.T) {
	sub := make([]byte, 48)
	sub[0] = 42
	sub[16] = 1                                    // monotonic
	binary.LittleEndian.PutUint64(sub[24:], 1<<62) // for ever; comes back all the same
	poll := asm.Seq(asm.I32(20000), asm.I32(600), asm.I32(1), asm.I32(700), asm.CallImport("poll_oneoff"), asm.Drop)
	wrong := asm.Seq(asm.I32(600), asm.Load64, asm.I64(42), asm.I64Ne)
	many := asm.Seq(asm.I32(20000), asm.I32(600), asm.I32(1000), asm.I32(700), asm.CallImport("poll_oneoff"), asm.I32(28), asm.I32Ne)
	g := asm.Guest{Data: map[int]string{20000: string(sub)},
		Start: asm.Seq(poll, asm.If(wrong, asm.Unreachable), asm.If(many, asm.Unreachable), asm.AnswerOK(1), asm.Want(0))}
	logged(t, g, wasmhost.Limits{})
}
