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
		for _, v := range []struct {
			name   string
			wasm   []byte
			config wazero.RuntimeConfig
		}{
			{"plain", plain, wazero.NewRuntimeConfig()},
			{"metered", metered, wazero.NewRuntimeConfig()},
			{"cancellable", plain, wazero.NewRuntimeConfig().WithCloseOnContextDone(true)},
		} {
			b.Run(work.name+"/"+v.name, func(b *testing.B) {
				m, refills := start(b, v.config.WithCompilationCache(cache), v.wasm, 1_000_000)
				f := m.ExportedFunction(work.name)
				ctx, cancel := context.WithCancel(context.Background())
				defer cancel()
				*refills = 0
				n := 0
				for b.Loop() {
					if _, err := f.Call(ctx, work.arg); err != nil {
						b.Fatal(err)
					}
					n++
				}
				b.ReportMetric(float64(*refills)/float64(n), "slices/op")
			})
		}
	}
}

var cache = wazero.NewCompilationCache()
