package meter_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/imports/wasi_snapshot_preview1"

	"github.com/pawlsync/pawl/engine/wasmhost/meter"
	asm "github.com/pawlsync/pawl/internal/wasmasm"
)

var buildGuest = sync.OnceValues(func() ([]byte, error) {
	dir, err := os.MkdirTemp("", "pawl-meter-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	out := filepath.Join(dir, "guest.wasm")
	cmd := exec.Command("go", "build", "-trimpath", "-ldflags=-s -w", "-buildmode=c-shared", "-o", out, "./testdata/guest")
	cmd.Env = append(os.Environ(), "GOOS=wasip1", "GOARCH=wasm", "CGO_ENABLED=0", "GOFLAGS=")
	if text, err := cmd.CombinedOutput(); err != nil {
		return text, err
	}
	return os.ReadFile(out)
})

// goGuest is testdata/guest, compiled.
func goGuest(tb testing.TB) []byte {
	tb.Helper()
	b, err := buildGuest()
	if err != nil {
		tb.Fatalf("%v\n%s", err, b)
	}
	return b
}

func rewrite(tb testing.TB, wasm []byte) []byte {
	tb.Helper()
	out, err := meter.Rewrite(wasm, meter.Limits{})
	if err != nil {
		tb.Fatal(err)
	}
	return out
}

// start instantiates a module that may need WASI and metering; its refills are
// slices of that much fuel, and are counted.
func start(tb testing.TB, config wazero.RuntimeConfig, wasm []byte, slice int64) (m api.Module, refills *int) {
	tb.Helper()
	ctx := context.Background()
	rt := wazero.NewRuntimeWithConfig(ctx, config)
	tb.Cleanup(func() { _ = rt.Close(ctx) })
	refills = new(int)
	link(tb, rt, slice, func() { *refills++ })
	wasi_snapshot_preview1.MustInstantiate(ctx, rt)
	m, err := rt.InstantiateWithConfig(ctx, wasm, wazero.NewModuleConfig().WithStartFunctions("_initialize"))
	if err != nil {
		tb.Fatal(err)
	}
	return m, refills
}

// BenchmarkGo compares a Go guest as it is, metered, and in wazero's own
// mode for cancelling, with slices of a million units.
func BenchmarkGo(b *testing.B) {
	plain := goGuest(b)
	metered := rewrite(b, plain)
	b.Logf("%d bytes, metered %d", len(plain), len(metered))
	for _, work := range []struct {
		name string
		arg  uint64
	}{{"parse", 5}, {"sort_numbers", 20_000}, {"fib", 24}} {
		b.Run(work.name, func(b *testing.B) { inThreeModes(b, plain, metered, work.name, work.arg) })
	}
}

// inThreeModes runs a function of a module as it is, metered, and cancellable.
func inThreeModes(b *testing.B, plain, metered []byte, function string, args ...uint64) {
	for _, v := range []struct {
		name   string
		wasm   []byte
		config wazero.RuntimeConfig
	}{
		{"plain", plain, wazero.NewRuntimeConfig()},
		{"metered", metered, wazero.NewRuntimeConfig()},
		{"cancellable", plain, wazero.NewRuntimeConfig().WithCloseOnContextDone(true)},
	} {
		b.Run(v.name, func(b *testing.B) {
			m, refills := start(b, v.config.WithCompilationCache(cache), v.wasm, 1_000_000)
			f := m.ExportedFunction(function)
			ctx, cancel := context.WithCancel(context.Background())
			defer cancel()
			*refills = 0
			n := 0
			for b.Loop() {
				if _, err := f.Call(ctx, args...); err != nil {
					b.Fatal(err)
				}
				n++
			}
			b.ReportMetric(float64(*refills)/float64(n), "slices/op")
		})
	}
}

// BenchmarkAssembly is BenchmarkGo for loops and calls as other compilers make
// them.
func BenchmarkAssembly(b *testing.B) {
	times := func(body ...asm.Code) asm.Code { return asm.Times(1_000_000, 0, body...) }
	for _, c := range []struct {
		name string
		f    func(m *asm.Module) asm.Code
	}{
		{"a loop of a few instructions", only(times(asm.Get(4), asm.I64(7), asm.I64Mul, asm.I64(3), asm.I64Add, asm.Set(4)))},
		{"a loop over bytes", only(times(asm.Get(0), asm.I32(0xffff), asm.Code{0x71}, asm.Load8U, asm.Get(1), asm.I32Add, asm.Set(1)))},
		{"a loop with branches", only(times(
			asm.If(asm.Seq(asm.Get(0), asm.I32(3), asm.Code{0x71}), asm.Get(1), asm.I32(5), asm.I32Mul, asm.Set(1)),
			asm.Block(asm.Get(0), asm.I32(7), asm.Code{0x71}, asm.BrIf(0), asm.Get(1), asm.I32(1), asm.I32Add, asm.Set(1))))},
		{"calls of a small function", func(m *asm.Module) asm.Code {
			f := m.Func("i:i", "", asm.Seq(asm.Get(0), asm.I32(3), asm.I32Mul))
			return times(asm.Get(1), asm.Call(f), asm.Set(1))
		}},
		{"calls through a table", func(m *asm.Module) asm.Code {
			f := m.Func("i:i", "", asm.Seq(asm.Get(0), asm.I32(3), asm.I32Mul))
			m.Elem(asm.I32(1), f)
			return times(asm.Get(1), asm.I32(1), asm.CallIndirect(m.Type("i:i"), 0), asm.Set(1))
		}},
		{"recursion", func(m *asm.Module) asm.Code {
			fib := m.Funcs()
			m.Func("i:i", "", asm.Seq(asm.If(asm.Seq(asm.Get(0), asm.I32(2), asm.I32LtU), asm.Get(0), asm.Return),
				asm.Get(0), asm.I32(1), asm.I32Sub, asm.Call(fib), asm.Get(0), asm.I32(2), asm.I32Sub, asm.Call(fib), asm.I32Add))
			return asm.Seq(asm.I32(26), asm.Call(fib), asm.Drop)
		}},
		{"memory.copy of 64 bytes", only(times(asm.I32(0), asm.I32(100), asm.I32(64), asm.MemoryCopy))},
	} {
		b.Run(c.name, func(b *testing.B) {
			plain := build(c.f)
			inThreeModes(b, plain, rewrite(b, plain), "f")
		})
	}
}

// BenchmarkRewrite is the cost of rewriting a Go guest.
func BenchmarkRewrite(b *testing.B) {
	wasm := goGuest(b)
	b.SetBytes(int64(len(wasm)))
	b.ReportAllocs()
	for b.Loop() {
		rewrite(b, wasm)
	}
}

var cache = wazero.NewCompilationCache()
