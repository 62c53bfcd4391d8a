package wasmhost_test

import (
	"encoding/binary"
	"log/slog"
	"strings"
	"testing"

	"github.com/pawlsync/pawl/engine/sink"
	"github.com/pawlsync/pawl/engine/wasmhost"
)

// logged loads g with a log of its own and applies once.
func logged(t *testing.T, g guest, l wasmhost.Limits) lines {
	t.Helper()
	log := make(lines, 1000)
	p := load(t, asmHost(t, slog.New(slog.NewTextHandler(log, nil))), "asm", g.wasm())
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
	g := guest{
		data:  map[int]string{20000: long},
		start: seq(get(1), i32c(2), i32c(20000), i32c(len(long)), callf("log"), answerOK(1), ret(0)),
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
	var body code
	for range 100 {
		body = append(body, seq(i64c(0), i32c(1), i32c(atOK), i32c(2), callf("log"))...)
	}
	log := make(lines, 1000)
	g := guest{start: seq(body, answerOK(1), ret(0))}
	p := load(t, asmHost(t, slog.New(slog.NewTextHandler(log, nil))), "asm", g.wasm())
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
	write := func(n int) code {
		return seq(i32c(2), i32c(600), i32c(n), i32c(700), callf("fd_write"), drop)
	}
	g := guest{
		data:  map[int]string{512: "hel", 520: "lo\nwor", 530: "ld\nrest", 600: vectors(512, 3, 520, 6, 530, 7)},
		start: seq(write(3), answerOK(1), ret(0)),
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
	g = guest{data: map[int]string{20000: vectors(many...)},
		start: seq(i32c(1), i32c(20000), i32c(2000), i32c(700), callf("fd_write"), drop,
			// written ≤ 2048
			when(seq(i32c(700), code{0x28, 2, 0}, i32c(2048), code{0x4a}), unreachable), answerOK(1), ret(0))}
	logged(t, g, wasmhost.Limits{})
}

func TestEntropyIsReal(t *testing.T) {
	same := seq(
		i32c(512), i32c(8), callf("random_get"), drop, i32c(520), i32c(8), callf("random_get"), drop,
		i32c(512), load64, i32c(520), load64, code{0x51})
	tooMuch := seq(i32c(0), i32c(100_000), callf("random_get"), i32c(28), code{0x47})
	g := guest{start: seq(when(same, unreachable), when(tooMuch, unreachable), answerOK(1), ret(0))}
	logged(t, g, wasmhost.Limits{})
}

func TestTheClockGoesOn(t *testing.T) {
	at := func(clock, ptr int) code {
		return seq(i32c(clock), i64c(0), i32c(ptr), callf("clock_time_get"), drop)
	}
	// monotonic: later ≥ earlier > 0; real: after 2020.
	back := seq(at(1, 512), at(1, 520), i32c(520), load64, i32c(512), load64, code{0x54})
	old := seq(at(0, 528), i32c(528), load64, i64c(1577836800e9), code{0x54})
	unknown := seq(i32c(9), i64c(0), i32c(512), callf("clock_time_get"), i32c(28), code{0x47})
	g := guest{start: seq(when(back, unreachable), when(old, unreachable), when(unknown, unreachable), answerOK(1), ret(0))}
	logged(t, g, wasmhost.Limits{})
}

func TestPollOneoffSleepsAndIsBounded(t *testing.T) {
	sub := make([]byte, 48)
	sub[0] = 42
	sub[16] = 1                                    // monotonic
	binary.LittleEndian.PutUint64(sub[24:], 1<<62) // for ever; comes back all the same
	poll := seq(i32c(20000), i32c(600), i32c(1), i32c(700), callf("poll_oneoff"), drop)
	wrong := seq(i32c(600), load64, i64c(42), code{0x52})
	many := seq(i32c(20000), i32c(600), i32c(1000), i32c(700), callf("poll_oneoff"), i32c(28), code{0x47})
	g := guest{data: map[int]string{20000: string(sub)},
		start: seq(poll, when(wrong, unreachable), when(many, unreachable), answerOK(1), ret(0))}
	logged(t, g, wasmhost.Limits{})
}
