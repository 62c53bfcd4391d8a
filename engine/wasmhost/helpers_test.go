package wasmhost_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/pawlsync/pawl/engine/record"
	"github.com/pawlsync/pawl/engine/sink"
	"github.com/pawlsync/pawl/engine/upstream"
	"github.com/pawlsync/pawl/engine/wasmhost"
	"github.com/pawlsync/pawl/internal/race"

	asm "github.com/pawlsync/pawl/internal/wasmasm"
)

// newHost returns a host whose compile cache all runs of the tests share:
// compiling a Go guest takes seconds.
func newHost(tb testing.TB, log *slog.Logger) *wasmhost.Host {
	tb.Helper()
	base, err := os.UserCacheDir()
	if err != nil {
		tb.Fatal(err)
	}
	o := wasmhost.Options{CacheDir: filepath.Join(base, "pawl-test-wasm"), Logger: log}
	if race.Enabled {
		o.Compiler = compiler(tb)
	}
	h, err := wasmhost.New(tb.Context(), o)
	if err != nil {
		tb.Fatal(err)
	}
	return h
}

// compiler is how modules are compiled apart: by these tests' own program, built
// without the race detector, which makes compiling many times slower.
func compiler(tb testing.TB) wasmhost.Compiler {
	tb.Helper()
	program, err := compileApart()
	if err != nil {
		tb.Fatal(err)
	}
	return wasmhost.Compiler{Command: []string{program, "compile-apart"}, Timeout: time.Hour}
}

var compileApart = sync.OnceValues(func() (string, error) {
	program := filepath.Join(scratch, "compile")
	if text, err := exec.Command("go", "test", "-c", "-o", program, ".").CombinedOutput(); err != nil {
		return "", &buildError{"the compiling program", string(text), err}
	}
	return program, nil
})

var scratch string // a folder that goes when the tests end

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "compile-apart" {
		if err := wasmhost.CompileApart(context.Background(), os.Args[2:], os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	var err error
	if scratch, err = os.MkdirTemp("", "pawl-wasmhost-"); err != nil {
		panic(err)
	}
	code := m.Run()
	_ = os.RemoveAll(scratch)
	os.Exit(code)
}

// openASM opens a sink of a guest in assembly, on a host of its own.
func openASM(tb testing.TB, g asm.Guest, c wasmhost.SinkConfig) *wasmhost.Sink {
	tb.Helper()
	return open(tb, load(tb, asmHost(tb, nil), "asm", g.Bytes()), c)
}

func asmHost(tb testing.TB, log *slog.Logger) *wasmhost.Host {
	tb.Helper()
	h, err := wasmhost.New(tb.Context(), wasmhost.Options{CacheDir: filepath.Join(tb.TempDir(), "cache"), Logger: log})
	if err != nil {
		tb.Fatal(err)
	}
	return h
}

// goGuest builds one of plugins/testguest, or another program of that module,
// or takes what was built before.
func goGuest(tb testing.TB, name string) []byte {
	tb.Helper()
	b, err := built(name)
	if err != nil {
		tb.Fatal(err)
	}
	return b
}

var guests sync.Map // name → func() ([]byte, error)

func built(name string) ([]byte, error) {
	f, _ := guests.LoadOrStore(name, sync.OnceValues(func() ([]byte, error) { return build(name) }))
	return f.(func() ([]byte, error))()
}

func build(name string) ([]byte, error) {
	dir, err := os.MkdirTemp("", "pawl-guest-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	out := filepath.Join(dir, "guest.wasm")
	cmd := exec.Command("go", "build", "-trimpath", "-ldflags=-s -w", "-buildmode=c-shared", "-o", out, "./"+path.Join("testguest", name))
	cmd.Dir = filepath.Join("..", "..", "plugins")
	cmd.Env = append(os.Environ(), "GOOS=wasip1", "GOARCH=wasm", "CGO_ENABLED=0", "GOFLAGS=")
	if text, err := cmd.CombinedOutput(); err != nil {
		return nil, &buildError{name, string(text), err}
	}
	return os.ReadFile(out)
}

type buildError struct {
	name, output string
	err          error
}

func (e *buildError) Error() string {
	return "build " + e.name + ": " + e.err.Error() + "\n" + e.output
}

func load(tb testing.TB, h *wasmhost.Host, name string, wasm []byte) *wasmhost.Plugin {
	tb.Helper()
	p, err := h.Load(tb.Context(), wasm, name)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = p.Close(context.Background()) })
	return p
}

func open(tb testing.TB, p *wasmhost.Plugin, c wasmhost.SinkConfig) *wasmhost.Sink {
	tb.Helper()
	if c.Name == "" {
		c.Name = "test"
	}
	s, err := p.Open(tb.Context(), c)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := s.Close(context.Background()); err != nil {
			tb.Error(err)
		}
	})
	return s
}

func request(key, payload string) *sink.Request {
	return &sink.Request{
		Key:        record.Key{Sink: "test", Name: key},
		Generation: 1, Payload: []byte(payload), Hash: record.HashOf([]byte(payload)),
		IdempotencyKey: "e-1-" + key, Conflict: record.SourceWins,
	}
}

// fakeUpstream answers by a function.
type fakeUpstream struct {
	name string
	do   func(ctx context.Context, r *upstream.Request) (*upstream.Response, *upstream.Failure)
}

func (u *fakeUpstream) Name() string    { return u.name }
func (u *fakeUpstream) Kind() string    { return "http" }
func (u *fakeUpstream) BaseURL() string { return "http://" + u.name + ".test" }
func (u *fakeUpstream) Do(ctx context.Context, r *upstream.Request) (*upstream.Response, *upstream.Failure) {
	return u.do(ctx, r)
}
