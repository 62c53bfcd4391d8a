package wasmhost_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/pawlsync/pawl/engine/wasmhost"

	asm "github.com/pawlsync/pawl/internal/wasmasm"
)

func apartHost(tb testing.TB, dir string, c wasmhost.Compiler) *wasmhost.Host {
	tb.Helper()
	h, err := wasmhost.New(tb.Context(), wasmhost.Options{CacheDir: dir, Compiler: c})
	if err != nil {
		tb.Fatal(err)
	}
	return h
}

// compileBomb is a module of some 130 KB whose one function keeps many locals
// alive over many loops: a compiler has each in each.
func compileBomb() []byte {
	g := asm.Misbehave(asm.Nop)
	g.Extend = func(m *asm.Module) {
		const locals, loops = 2000, 9000
		var body asm.Code
		for i := range loops {
			l := i % locals
			body = append(body, asm.Loop(asm.Get(l), asm.I64(1), asm.Code{0x7c}, asm.Set(l), asm.Get((l+7)%locals), asm.I32Wrap, asm.BrIf(0))...)
		}
		m.Func(":", strings.Repeat("I", locals), body)
	}
	return g.Bytes()
}

func TestModulesAreCompiledApartOnceAndTakenFromTheCacheThen(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "cache")
	wasm := asm.Misbehave(asm.Nop).Bytes()
	h := apartHost(t, dir, compiler(t))
	load(t, h, "asm", wasm)
	if st := h.Stats(); st.Compiled != 1 || st.Cached != 0 || st.CompileTime <= 0 {
		t.Errorf("%+v", st)
	}
	// Where the compiler can't be started, only what is in the cache loads.
	h = apartHost(t, dir, wasmhost.Compiler{Command: []string{"/nonexistent"}})
	load(t, h, "asm", wasm)
	if st := h.Stats(); st.Compiled != 0 || st.Cached != 1 {
		t.Errorf("%+v", st)
	}
	_, err := h.Load(t.Context(), asm.Misbehave(asm.Nop, asm.Nop).Bytes(), "other")
	if !errors.Is(err, wasmhost.ErrCompile) || !strings.Contains(err.Error(), "did not start") {
		t.Errorf("it was compiled after all: %v", err)
	}
	// A damaged entry is removed and compiled again.
	files, err := filepath.Glob(filepath.Join(dir, "*", "wazero-*", "*"))
	if err != nil || len(files) != 1 {
		t.Fatal(files, err)
	}
	if err := os.Truncate(files[0], 100); err != nil {
		t.Fatal(err)
	}
	h = apartHost(t, dir, compiler(t))
	load(t, h, "asm", wasm)
	if st := h.Stats(); st.Compiled != 1 || st.Cached != 0 {
		t.Errorf("%+v", st)
	}
	if left, _ := filepath.Glob(filepath.Join(dir, ".compile-*")); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

func TestTrustedModulesNeedNoProcessApart(t *testing.T) {
	h := apartHost(t, filepath.Join(t.TempDir(), "cache"), wasmhost.Compiler{Command: []string{"/nonexistent"}})
	p, err := h.LoadTrusted(t.Context(), asm.Misbehave(asm.Nop).Bytes(), "asm")
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close(t.Context())
}

func TestACompileBombHarmsOnlyTheProcessApart(t *testing.T) {
	wasm := compileBomb()
	t.Logf("a module of %d bytes", len(wasm))
	for _, c := range []struct {
		name, want string
		limit      func(*wasmhost.Compiler)
	}{
		{"its CPU time is up", "more CPU time than the limit compile_cpu of 1s", func(c *wasmhost.Compiler) { c.CPU, c.MemoryBytes = time.Second, 4<<30 }},
		{"its memory is up", "more memory than the limit compile_memory_bytes of 67108864", func(c *wasmhost.Compiler) { c.CPU, c.MemoryBytes = time.Minute, 64<<20 }},
		{"its time is up", "longer than the limit compile_timeout of 1s", func(c *wasmhost.Compiler) { c.CPU, c.MemoryBytes, c.Timeout = time.Minute, 4<<30, time.Second }},
	} {
		t.Run(c.name, func(t *testing.T) {
			comp := compiler(t)
			c.limit(&comp)
			h := apartHost(t, filepath.Join(t.TempDir(), "cache"), comp)
			before := peak(t)
			_, err := h.Load(t.Context(), wasm, "bomb")
			if !errors.Is(err, wasmhost.ErrCompile) || !errors.Is(err, wasmhost.ErrInvalid) || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), `plugin "bomb"`) {
				t.Errorf("got %v", err)
			}
			if grown := peak(t) - before; grown > 64<<20 {
				t.Errorf("this process grew by %d MiB", grown>>20)
			}
			if st := h.Stats(); st.Refused != 1 {
				t.Errorf("%+v", st)
			}
		})
	}
}

// peak is the most memory that this process ever had, in bytes.
func peak(t *testing.T) int64 {
	t.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return u.Maxrss * 1024
}

func TestACancelledLoadEndsTheProcessApart(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	cause := errors.New("enough")
	cancel(cause)
	h := apartHost(t, filepath.Join(t.TempDir(), "cache"), compiler(t))
	if _, err := h.Load(ctx, compileBomb(), "bomb"); !errors.Is(err, cause) {
		t.Errorf("got %v", err)
	}
}

func TestTheProcessApartSeesNothingOfTheEnvironment(t *testing.T) {
	t.Setenv("PAWL_SECRET", "canary")
	c := wasmhost.Compiler{Command: []string{"/bin/sh", "-c", "env >&2; exit 1"}}
	_, err := apartHost(t, filepath.Join(t.TempDir(), "cache"), c).Load(t.Context(), asm.Misbehave(asm.Nop).Bytes(), "asm")
	if err == nil || strings.Contains(err.Error(), "canary") || !strings.Contains(err.Error(), "PWD=") {
		t.Error(err)
	}
}
