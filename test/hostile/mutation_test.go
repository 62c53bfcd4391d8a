package hostile

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/pawlsync/pawl/engine/wasmhost"
	asm "github.com/pawlsync/pawl/internal/wasmasm"
)

// chance returns a test's source of chance, and says how to get it again.
func chance(t *testing.T) *rand.Rand {
	t.Helper()
	seed := cmp.Or(*seedFlag, rand.Uint64()>>20)
	t.Logf("played again by: go test ./test/hostile -run '^%s$' -seed %d", t.Name(), seed)
	return rand.New(rand.NewPCG(seed, 1))
}

// A module that was damaged on its way is refused, or loads and then does what
// any module may do: answer, or fault. It never takes the host with it.
func TestNoDamagedModuleHarmsTheHost(t *testing.T) {
	rnd := chance(t)
	whole := damageable()
	rounds := 1500
	if testing.Short() {
		rounds = 100
	}
	h := newHost(t)
	ends := map[string]int{}
	for range rounds {
		wasm, how := damage(rnd, whole)
		end, err := survive(t, h, wasm)
		if err != nil {
			t.Fatalf("%s: %v", how, err)
		}
		ends[end]++
	}
	t.Logf("of %d: %v", rounds, ends)
	for _, end := range []string{"refused", "ok"} {
		if ends[end] == 0 {
			t.Errorf("none ended as %s: the damage is not what it should be", end)
		}
	}
}

func TestNoCutModuleLoads(t *testing.T) {
	rnd := chance(t)
	whole := damageable()
	h := newHost(t)
	for range 200 {
		n := rnd.IntN(len(whole))
		if end, err := survive(t, h, whole[:n]); err != nil || end != "refused" {
			t.Fatalf("cut to %d of %d bytes: %s, %v", n, len(whole), end, err)
		}
	}
}

// damageable uses a bit of everything: tables, globals, loops, calls, memory.
func damageable() []byte {
	g := asm.Guest{Manifest: manifest(badPlugin)}
	g.Extend = func(m *asm.Module) {
		m.Table(asm.FuncRef, 4, 8)
		m.Global(asm.TypeI64, true, asm.I64(5))
		f := m.Func("i:i", "i", asm.Seq(asm.Times(5, 1, asm.GlobalGet(0), asm.I64(1), asm.I64Add, asm.GlobalSet(0)), asm.Get(0)))
		m.Elem(asm.I32(1), f)
	}
	g.Start = asm.Seq(
		asm.I32(5), asm.I32(1), asm.CallIndirect(3, 0), asm.Drop,
		asm.I32(7), asm.Call(asm.FirstExtra()), asm.Drop,
		asm.I32(4096), asm.I32(7), asm.I32(100), asm.MemoryFill,
		asm.Block(asm.I32(1), asm.BrTable([]int{0, 0, 0}, 0)),
		asm.Log(asm.AtManifest, 4),
		asm.Park(asm.IOHTTP, asm.AtHTTP, len(asm.HTTPPut)), asm.Want(1))
	g.Resume = asm.Seq(asm.ResumeOK, asm.I32(0))
	m := g.Module()
	// The type of the indirect call by its place in this very module.
	g.Start = slices.Clone(g.Start)
	copy(g.Start, asm.Seq(asm.I32(5), asm.I32(1), asm.CallIndirect(m.Type("i:i"), 0)))
	return g.Bytes()
}

// damage flips bits, changes bytes, or moves stretches of whole.
func damage(rnd *rand.Rand, whole []byte) (wasm []byte, how string) {
	wasm = slices.Clone(whole)
	at := func() int { return len(asm.Header) + rnd.IntN(len(wasm)-len(asm.Header)) }
	switch rnd.IntN(4) {
	case 0, 1:
		i, bit := at(), rnd.IntN(8)
		wasm[i] ^= 1 << bit
		return wasm, fmt.Sprintf("bit %d of byte %d flipped", bit, i)
	case 2:
		n := 1 + rnd.IntN(4)
		for range n {
			wasm[at()] = byte(rnd.Uint32())
		}
		return wasm, fmt.Sprintf("%d bytes changed", n)
	}
	from, to, n := at(), at(), 1+rnd.IntN(16)
	copy(wasm[to:], slices.Clone(wasm[from:min(from+n, len(wasm))]))
	return wasm, fmt.Sprintf("%d bytes copied from %d to %d", n, from, to)
}

// survive loads, opens and applies once, and says how far it came.
func survive(t *testing.T, h *wasmhost.Host, wasm []byte) (end string, err error) {
	p, err := h.Load(t.Context(), wasm, badPlugin)
	if err == nil {
		defer func() { _ = p.Close(t.Context()) }()
	}
	limits := trialLimits
	limits.CallTimeout, limits.StartTimeout = 50*time.Millisecond, 50*time.Millisecond
	limits.EntryCPU = 20 * time.Millisecond
	var s *wasmhost.Sink
	if err == nil {
		s, err = p.Open(t.Context(), wasmhost.SinkConfig{Name: badSink, Limits: limits, Upstreams: []wasmhost.Upstream{near{}}})
	}
	if err != nil {
		if e := (*wasmhost.Error)(nil); !errors.As(err, &e) || e.Plugin != badPlugin {
			return "", fmt.Errorf("the error does not name the plugin: %w", err)
		}
		return "refused", nil
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	r := s.Apply(ctx, request("victim", `{}`))
	if ctx.Err() != nil {
		return "", fmt.Errorf("a call that may take %v did not end in %v: %s", limits.CallTimeout, patience, r.Message)
	}
	if r.Status == 0 {
		return "", errors.New("a call ended without a status")
	}
	return r.Status.String(), s.Close(t.Context())
}

func newHost(t *testing.T) *wasmhost.Host {
	t.Helper()
	a, err := newArena(t.Context(), t.TempDir(), wasmhost.Compiler{})
	if err != nil {
		t.Fatal(err)
	}
	return a.host
}
