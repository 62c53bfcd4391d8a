package wasmhost_test

import (
	"context"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pawlsync/pawl/engine/sink"
	"github.com/pawlsync/pawl/engine/upstream"
	"github.com/pawlsync/pawl/engine/wasmhost"
	"github.com/pawlsync/pawl/engine/wasmhost/abi"

	asm "github.com/pawlsync/pawl/internal/wasmasm"
)

// growing rejects a call when its memory can't grow by a page, and answers OK else.
func growing() asm.Guest {
	grow := asm.Seq(asm.I32(1), asm.MemoryGrow, asm.I32(-1), asm.I32Eq)
	return asm.Guest{
		Start: asm.Seq(asm.OnOp(asm.OpApply, asm.If(grow, asm.Seq(asm.Answer(1, 512, 2), asm.Want(0)))), asm.AnswerOK(1), asm.Want(0)),
		Data:  map[int]string{512: "\x08\x05"},
	}
}

func TestTheMemoryOfAllSinksIsBounded(t *testing.T) {
	const page = 64 << 10
	log := make(lines, 100)
	h, err := wasmhost.New(t.Context(), wasmhost.Options{
		CacheDir: filepath.Join(t.TempDir(), "cache"), MemoryBytes: 4 * page, TotalMemoryBytes: 5 * page,
		Logger: slog.New(slog.NewTextHandler(log, nil)),
	})
	if err != nil {
		t.Fatal(err)
	}
	p := load(t, h, "asm", growing().Bytes())
	a := open(t, p, wasmhost.SinkConfig{Name: "a", Limits: wasmhost.Limits{RecycleBytes: 4 * page}}) // 2 pages
	b := open(t, p, wasmhost.SinkConfig{Name: "b"})                                                  // 2 pages
	if r := a.Apply(t.Context(), request("first", "")); r.Status != sink.OK {
		t.Errorf("%+v", r)
	}
	if r := b.Apply(t.Context(), request("second", "")); r.Status != sink.Rejected {
		t.Errorf("5 pages are not 6: %+v", r)
	}
	if n := b.Stats().Limited[wasmhost.LimitHostMemory]; n != 1 {
		t.Errorf("counted %d times", n)
	}
	if line := <-log; !strings.Contains(line, "limit=plugin_memory_max_bytes") || !strings.Contains(line, "sink=b") {
		t.Error(line)
	}
	if n := h.Stats().MemoryBytes; n != 5*page {
		t.Errorf("%d bytes are set aside", n)
	}
	// A third sink has no room for an instance, and says so.
	_, err = p.Open(t.Context(), wasmhost.SinkConfig{Name: "c"})
	if err == nil || !strings.Contains(err.Error(), "plugin_memory_max_bytes") || !strings.Contains(err.Error(), `sink "c"`) {
		t.Error(err)
	}
	for _, s := range []*wasmhost.Sink{a, b} {
		if err := s.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}
	if n := h.Stats().MemoryBytes; n != 0 {
		t.Errorf("%d bytes are still set aside", n)
	}
}

func TestCallsWaitForAnInstanceWhereThereIsNoMemoryForAnother(t *testing.T) {
	const page, calls = 64 << 10, 24
	g := asm.Guest{Start: asm.Seq(asm.Get(1), asm.I32(1), asm.I32(asm.AtHTTP), asm.I32(len(asm.HTTPPut)), asm.CallImport("io_call"), asm.Drop, asm.AnswerOK(1), asm.Want(0))}
	together := make(chan struct{}, 2)
	s := openASM(t, g, wasmhost.SinkConfig{
		Limits: wasmhost.Limits{MemoryBytes: 2 * page, SinkMemoryBytes: 5 * page},
		Upstreams: upstreams(func(context.Context, *upstream.Request) (*upstream.Response, *upstream.Failure) {
			select {
			case together <- struct{}{}:
				defer func() { <-together }()
			default:
				t.Error("a third instance runs")
			}
			return &upstream.Response{Status: 200}, nil
		})})
	var results []func() sink.Result
	for i := range calls {
		results = append(results, s.Start(t.Context(), abi.OpApply, request(fmt.Sprint(i), "{}")))
	}
	for _, wait := range results {
		if r := wait(); r.Status != sink.OK {
			t.Errorf("%+v", r)
		}
	}
	if n := s.Stats().Instances; n > 2 {
		t.Errorf("%d instances", n)
	}
}

func TestHostIOIsBoundedPerSink(t *testing.T) {
	// Apply parks, and is rejected where it can't.
	g := asm.Guest{
		Start: asm.Seq(asm.OnOp(asm.OpApply,
			asm.Park(asm.IOSleep, asm.AtSleep, len(asm.SleepMessage(60_000))),
			// i64.lt_s
			asm.If(asm.Seq(asm.Get(2), asm.I64(0), asm.Code{0x53}), asm.Seq(asm.Answer(1, 512, 2), asm.Want(1))),
			asm.Want(1)), asm.AnswerOK(1), asm.Want(1)),
		Data: map[int]string{512: "\x08\x05"},
	}
	s := openASM(t, g, wasmhost.SinkConfig{Limits: wasmhost.Limits{SinkIOs: 3}})
	ctx, cancel := context.WithCancel(t.Context())
	var results []func() sink.Result
	for i := range 3 {
		results = append(results, s.Start(ctx, abi.OpApply, request(fmt.Sprint(i), "")))
	}
	if r := s.Apply(t.Context(), request("one too many", "")); r.Status != sink.Rejected {
		t.Errorf("%+v", r)
	}
	if st := s.Stats(); st.IOs != 3 || st.Limited[wasmhost.LimitSinkIOs] != 1 {
		t.Errorf("%+v", st)
	}
	cancel()
	for _, wait := range results {
		wait()
	}
	if n := s.Stats().IOs; n != 0 {
		t.Errorf("%d are still counted", n)
	}
}

func TestAGuestsLogIsLimitedInBytes(t *testing.T) {
	const size = 1000
	g := asm.Guest{Start: asm.Seq(asm.Times(100, 3, asm.Log(20000, size)), asm.AnswerOK(1), asm.Want(0)), Data: map[int]string{20000: strings.Repeat("a", size)}}
	p := load(t, asmHost(t, slog.New(slog.NewTextHandler(make(lines, 1000), nil))), "asm", g.Bytes())
	s := open(t, p, wasmhost.SinkConfig{Limits: wasmhost.Limits{LogLines: 1000, LogBytes: 10 * size}})
	s.Apply(t.Context(), request("k", ""))
	if lost := s.Stats().LinesLost; lost < 80 || lost > 90 {
		t.Errorf("%d of 100 lines lost", lost)
	}
}
