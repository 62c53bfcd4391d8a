package wasmhost_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pawlsync/pawl/engine/sink"
	"github.com/pawlsync/pawl/engine/wasmhost"

	asm "github.com/pawlsync/pawl/internal/wasmasm"
)

func TestLoadRefusesWhatIsNoPlugin(t *testing.T) {
	global := func(m *asm.Module) { m.Import("env", "g", asm.KindGlobal, []byte{asm.TypeI32, 0}) }
	file := func(m *asm.Module) { m.ImportFunc("env", "open", ":i") }
	for _, c := range []struct {
		name string
		wasm []byte
		says string
	}{
		{"nothing", nil, "no core WebAssembly module"},
		{"text", []byte("#!/bin/sh"), "no core WebAssembly module"},
		{"a component", []byte("\x00asm\x0d\x00\x01\x00"), "no core WebAssembly module"},
		{"a cut module", asm.Guest{}.Bytes()[:200], "cut off or damaged"},
		{"a start section", asm.Guest{StartSection: true}.Bytes(), "start section"},
		{"an imported global", asm.Guest{Imports: global}.Bytes(), `"env"."g", which is no function`},
		{"a function that is not offered", asm.Guest{Imports: file}.Bytes(), `"env"."open"`},
		{"an import of another type", asm.Guest{Mistype: "log"}.Bytes(), "signature mismatch"},
		{"no pawl_poll", asm.Guest{Omit: "pawl_poll"}.Bytes(), "does not export the function pawl_poll"},
		{"no memory", asm.Guest{Omit: "memory"}.Bytes(), "memory"},
		{"an export of another type", asm.Guest{Rename: map[string]string{"pawl_poll": "pawl_cancel", "pawl_cancel": "pawl_poll"}}.Bytes(), "has the type"},
		{"another ABI version", asm.Guest{ABI: 2}.Bytes(), "ABI version 2"},
		{"too much memory", asm.Guest{Pages: 5000}.Bytes(), "memory"},
		{"no ops", asm.Guest{Manifest: []byte("\x0a\x01n")}.Bytes(), "the op apply"},
		{"a manifest that is none", asm.Guest{Manifest: []byte("\xff")}.Bytes(), "malformed"},
		{"a trap in _initialize", asm.Guest{Init: asm.Unreachable}.Bytes(), "unreachable"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := asmHost(t, nil).Load(t.Context(), c.wasm, "bad")
			var e *wasmhost.Error
			if !errors.As(err, &e) || e.Plugin != "bad" {
				t.Fatalf("got %v", err)
			}
			if !errors.Is(err, wasmhost.ErrInvalid) && !errors.Is(err, wasmhost.ErrFault) {
				t.Errorf("no sentinel in %v", err)
			}
			if !strings.Contains(err.Error(), c.says) {
				t.Errorf("got %q, which does not say %q", err, c.says)
			}
		})
	}
}

func TestOpenTellsARefusedConfigFromATargetThatIsNotReady(t *testing.T) {
	rejected := "\x08\x05\x12\x03bad"   // status REJECTED, message "bad"
	unreachable := "\x08\x0a\x12\x02no" // status UNREACHABLE
	for _, c := range []struct {
		name, result string
		want         error
	}{{"rejected", rejected, wasmhost.ErrConfig}, {"unreachable", unreachable, wasmhost.ErrUnready}} {
		t.Run(c.name, func(t *testing.T) {
			g := asm.Guest{Data: map[int]string{512: c.result}, Configure: asm.Seq(asm.Answer(1, 512, len(c.result)), asm.Want(0))}
			p := load(t, asmHost(t, nil), "asm", g.Bytes())
			_, err := p.Open(t.Context(), wasmhost.SinkConfig{Name: "s"})
			if !errors.Is(err, c.want) {
				t.Errorf("got %v, want %v", err, c.want)
			}
		})
	}
}

func TestOpenEndsWithItsContext(t *testing.T) {
	g := asm.Guest{Configure: asm.Seq(asm.Park(2, asm.AtSleep, len(asm.SleepMessage(60_000))), asm.Want(1))}
	p := load(t, asmHost(t, nil), "asm", g.Bytes())
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := p.Open(ctx, wasmhost.SinkConfig{Name: "s"}); !errors.Is(err, wasmhost.ErrUnready) {
		t.Errorf("got %v", err)
	}
}

func TestLoadEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := asmHost(t, nil).Load(ctx, asm.Guest{}.Bytes(), "asm"); !errors.Is(err, context.Canceled) || errors.Is(err, wasmhost.ErrInvalid) {
		t.Errorf("got %v", err)
	}
}

func TestOpenValidatesItsInput(t *testing.T) {
	p := load(t, asmHost(t, nil), "asm", asm.Guest{}.Bytes())
	for _, c := range []wasmhost.SinkConfig{
		{Name: "Not A Name"},
		{Name: "s", Limits: wasmhost.Limits{MaxCalls: -1}},
		{Name: "s", Limits: wasmhost.Limits{MemoryBytes: 1 << 40}},
		{Name: "s", Limits: wasmhost.Limits{CPUShare: -1}},
		{Name: "s", Limits: wasmhost.Limits{MemoryBytes: 2 << 20, SinkMemoryBytes: 1 << 20}},
		{Name: "s", Limits: wasmhost.Limits{MemoryBytes: 1 << 16}}, // less than the guest starts with
	} {
		if _, err := p.Open(t.Context(), c); !errors.Is(err, wasmhost.ErrConfig) {
			t.Errorf("%+v: got %v", c, err)
		}
	}
}

func cacheFiles(t *testing.T, dir string) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*", "wazero-*", "*"))
	if err != nil {
		t.Fatal(err)
	}
	return files
}

func TestADamagedCacheEntryIsCompiledAgain(t *testing.T) {
	wasm := asm.Guest{Start: asm.Seq(asm.AnswerOK(1), asm.Want(0))}.Bytes()
	for name, damage := range map[string]func(path string, content []byte) error{
		"truncated": func(p string, b []byte) error { return os.WriteFile(p, b[:len(b)/2], 0o600) },
		"empty":     func(p string, _ []byte) error { return os.WriteFile(p, nil, 0o600) },
		"bit flipped where wazero has no checksum": func(p string, b []byte) error {
			b[40] ^= 0x40
			return os.WriteFile(p, b, 0o600)
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "cache")
			use := func() {
				h, err := wasmhost.New(t.Context(), wasmhost.Options{CacheDir: dir})
				if err != nil {
					t.Fatal(err)
				}
				s := open(t, load(t, h, "asm", wasm), wasmhost.SinkConfig{})
				if r := s.Apply(t.Context(), request("k", "{}")); r.Status != sink.OK {
					t.Fatalf("%v: %s", r.Status, r.Message)
				}
			}
			use()
			files := cacheFiles(t, dir)
			if len(files) != 1 {
				t.Fatalf("%d files in the cache", len(files))
			}
			good, err := os.ReadFile(files[0])
			if err != nil {
				t.Fatal(err)
			}
			if err := damage(files[0], slices.Clone(good)); err != nil {
				t.Fatal(err)
			}
			use()
			if now, err := os.ReadFile(files[0]); err != nil || !slices.Equal(now, good) {
				t.Errorf("the entry was not made anew: %v", err)
			}
		})
	}
}

func TestACacheFolderThatOthersCanReachIsRefused(t *testing.T) {
	open := filepath.Join(t.TempDir(), "open")
	if err := os.Mkdir(open, 0o755); err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(t.TempDir(), link); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{open, link, file} {
		if _, err := wasmhost.New(t.Context(), wasmhost.Options{CacheDir: dir}); !errors.Is(err, wasmhost.ErrCacheDir) {
			t.Errorf("%s: got %v", dir, err)
		}
	}
	dir := filepath.Join(t.TempDir(), "a", "b")
	if _, err := wasmhost.New(t.Context(), wasmhost.Options{CacheDir: dir}); err != nil {
		t.Fatal(err)
	}
	if st, err := os.Stat(dir); err != nil || st.Mode().Perm() != 0o700 {
		t.Errorf("mode %v, %v", st.Mode(), err)
	}
}

func TestACacheEntryThatNobodyUsesIsRemoved(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "cache")
	host := func() *wasmhost.Host {
		h, err := wasmhost.New(t.Context(), wasmhost.Options{CacheDir: dir})
		if err != nil {
			t.Fatal(err)
		}
		return h
	}
	old, used := asm.Guest{Pages: 3}.Bytes(), asm.Guest{Pages: 4}.Bytes()
	load(t, host(), "old", old)
	load(t, host(), "used", used)
	seals, err := filepath.Glob(filepath.Join(dir, "*", "pawl-sums"))
	if err != nil || len(seals) != 2 {
		t.Fatalf("%v, %v", seals, err)
	}
	for _, seal := range seals {
		long := time.Now().Add(-31 * 24 * time.Hour)
		if err := os.Chtimes(seal, long, long); err != nil {
			t.Fatal(err)
		}
	}
	h := host() // removes both
	if files := cacheFiles(t, dir); len(files) != 0 {
		t.Errorf("still there: %v", files)
	}
	load(t, h, "used", used)
	host()
	if files := cacheFiles(t, dir); len(files) != 1 {
		t.Errorf("in the cache: %v", files)
	}
}
