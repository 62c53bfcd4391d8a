package meter_test

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"flag"
	"math/rand/v2"
	"testing"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"

	"github.com/pawlsync/pawl/engine/wasmhost/meter"
	asm "github.com/pawlsync/pawl/internal/wasmasm"
)

var seedFlag = flag.Uint64("seed", 0, "seed of the random tests; 0: a new one")

// A generator writes random functions out of statements that leave the stack as
// it was. Locals 0 to 3 are i32, local 4 selects blocks of a dispatch.
type generator struct {
	*rand.Rand
	labels int // blocks that are open, in which a branch may end
	funcs  int
	left   int // statements
}

const genLocals = 4

func (g *generator) expr(depth int) asm.Code {
	if depth == 0 || g.IntN(3) == 0 {
		if g.IntN(3) == 0 {
			return asm.I32(g.IntN(20) - 4)
		}
		return asm.Get(g.IntN(genLocals))
	}
	a, b := g.expr(depth-1), g.expr(depth-1)
	switch g.IntN(9) {
	case 0:
		return asm.Seq(a, asm.I32(0xfff8), asm.Code{0x71}, asm.Load32) // within the first page
	case 1:
		return asm.Seq(a, b, asm.Code{0x70}) // rem_u, which may trap
	case 2:
		return asm.Seq(a, asm.I32Eqz)
	case 3:
		return asm.Seq(a, b, asm.I32Mul)
	case 4:
		return asm.Seq(a, b, asm.I32LtU)
	default:
		return asm.Seq(a, b, asm.I32Add)
	}
}

func (g *generator) block(nested int) asm.Code {
	var c asm.Code
	for n := 1 + g.IntN(4); n > 0 && g.left > 0; n-- {
		g.left--
		c = append(c, g.statement(nested)...)
	}
	return c
}

// inside generates what stands in one more block.
func (g *generator) inside(nested int) asm.Code {
	g.labels++
	defer func() { g.labels-- }()
	return g.block(nested - 1)
}

func (g *generator) statement(nested int) asm.Code {
	simple := 7
	if nested > 0 {
		simple = 16
	}
	switch g.IntN(simple) {
	default:
		return asm.Seq(g.expr(2), asm.Set(g.IntN(genLocals)))
	case 3:
		if g.IntN(4) > 0 {
			return asm.Seq(g.expr(1), asm.I32(0xfff8), asm.Code{0x71}, g.expr(2), asm.Store32)
		}
		// The same place for all: a page is never left by this.
		return asm.Seq(asm.I32(64), asm.I32(7), g.expr(1), asm.I32(0xff), asm.Code{0x71}, asm.MemoryFill)
	case 4:
		call := asm.Call(g.IntN(g.funcs))
		if g.IntN(3) == 0 {
			call = asm.Seq(g.expr(1), asm.I32(15), asm.Code{0x71}, asm.CallIndirect(0, 0))
		}
		return asm.Seq(g.expr(1), g.expr(1), call, asm.Set(g.IntN(genLocals)))
	case 5:
		if g.labels > 0 {
			return asm.Seq(g.expr(2), asm.BrIf(g.IntN(g.labels)))
		}
		return asm.Nop
	case 6:
		switch {
		case g.IntN(3) == 0:
			return asm.Seq(g.expr(1), asm.Return, asm.Repeat(g.IntN(2), asm.Unreachable))
		case g.labels > 1:
			return asm.Seq(g.expr(1), asm.BrTable([]int{g.IntN(g.labels), g.IntN(g.labels)}, g.IntN(g.labels)))
		case g.labels > 0:
			return asm.Br(g.IntN(g.labels))
		}
		return asm.Nop
	case 7, 8:
		return asm.Block(g.inside(nested))
	case 9:
		return asm.If(g.expr(2), g.inside(nested))
	case 10:
		c := asm.If(g.expr(2), g.inside(nested))
		return asm.Seq(c[:len(c)-1], asm.Code{0x05}, g.inside(nested), asm.Code{0x0b})
	case 11, 12:
		return asm.Loop(g.inside(nested))
	case 13, 14, 15:
		return g.dispatch(nested)
	}
}

// dispatch is a loop as Go's compiler writes it: jumps go through its start.
func (g *generator) dispatch(nested int) asm.Code {
	n := 2 + g.IntN(4)
	labels := make([]int, n+g.IntN(3))
	for i := range labels {
		labels[i] = g.IntN(n)
	}
	c := asm.Seq(asm.Get(4), asm.BrTable(labels, g.IntN(n)))
	for i := range n {
		// Inside of the blocks that are still open, and of the loop.
		g.labels += n - 1 - i + 1
		part := g.block(nested - 1)
		if g.IntN(4) > 0 {
			part = asm.Seq(part, asm.If(g.expr(2), asm.I32(g.IntN(n+2)), asm.Set(4), asm.Br(n-1-i+1)))
		}
		if g.IntN(3) == 0 {
			part = asm.Seq(part, asm.I32(g.IntN(n+2)), asm.Set(4), asm.Br(n-1-i))
		}
		g.labels -= n - 1 - i + 1
		c = asm.Seq(asm.Block(c), part)
	}
	return asm.Loop(c)
}

// randomModule has some functions that call each other, all in a table and
// exported.
func randomModule(seed uint64) []byte {
	g := &generator{Rand: rand.New(rand.NewPCG(seed, 0))}
	g.funcs = 1 + g.IntN(6)
	var m asm.Module
	m.Type("ii:i")
	m.Memory(1, 2)
	m.Table(asm.FuncRef, 16, 16)
	var all []int
	for i := range g.funcs {
		g.left = 1 + g.IntN(100)
		body := asm.Seq(g.block(4), g.block(4), g.expr(2))
		f := m.Func("ii:i", "iii", body)
		all = append(all, f, f, f)
		m.Export(string(rune('a'+i)), asm.KindFunc, f)
	}
	m.Elem(asm.I32(0), all[:min(len(all), 15)]...) // the last one is always null
	m.Export("memory", asm.KindMemory, 0)
	return m.Bytes()
}

var errNoFuel = errors.New("no fuel")

// outcome is what a call did.
type outcome struct {
	err      error
	unlinked bool // there is no instance: an import is missing, a segment does not fit
	results  []uint64
	memory   []byte
	spent    int64
}

// runner runs modules whose refills end after so much fuel.
type runner struct {
	rt      wazero.Runtime
	granted int64
	budget  int64
	slice   int64
	helper  wazero.CompiledModule // a new instance of it for each call, to import from
}

func newRunner(tb testing.TB, budget int64) *runner {
	ctx := context.Background()
	r := &runner{budget: budget, slice: 10_000,
		rt: wazero.NewRuntimeWithConfig(ctx, wazero.NewRuntimeConfig().WithMemoryLimitPages(16))}
	tb.Cleanup(func() { _ = r.rt.Close(ctx) })
	_, err := r.rt.NewHostModuleBuilder(meter.Module).
		NewFunctionBuilder().WithFunc(func() int64 {
		if r.granted >= r.budget {
			panic(errNoFuel)
		}
		r.granted += r.slice
		return r.slice
	}).Export(meter.Refill).
		NewFunctionBuilder().WithFunc(func() { panic(errTooDeep) }).Export(meter.TooDeep).
		Instantiate(ctx)
	if err != nil {
		tb.Fatal(err)
	}
	return r
}

// call runs one function in a new instance.
func (r *runner) call(tb testing.TB, c wazero.CompiledModule, name string, args ...uint64) outcome {
	ctx := context.Background()
	r.granted = 0
	if r.helper != nil {
		h, err := r.rt.InstantiateModule(ctx, r.helper, wazero.NewModuleConfig().WithName("spectest"))
		if err != nil {
			tb.Fatal(err)
		}
		defer h.Close(ctx)
	}
	m, err := r.rt.InstantiateModule(ctx, c, wazero.NewModuleConfig().WithName(""))
	if err != nil {
		return outcome{err: err, unlinked: true}
	}
	defer m.Close(ctx)
	f := m.ExportedFunction(name)
	var o outcome
	o.results, o.err = f.Call(ctx, args...)
	for i, t := range f.Definition().ResultTypes() {
		if i < len(o.results) && (t == api.ValueTypeI32 || t == api.ValueTypeF32) {
			o.results[i] = uint64(uint32(o.results[i]))
		}
	}
	for name := range m.ExportedMemoryDefinitions() {
		mem := m.ExportedMemory(name)
		b, _ := mem.Read(0, mem.Size())
		o.memory = bytes.Clone(b)
	}
	if g := m.ExportedGlobal("fuel"); g != nil {
		o.spent = r.granted - int64(g.Get())
	}
	return o
}

func (r *runner) compile(tb testing.TB, wasm []byte, err error) wazero.CompiledModule {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
	c, err := r.rt.CompileModule(context.Background(), wasm)
	if err != nil {
		tb.Fatal(err)
	}
	return c
}

// limited says that a call ended for metering's sake.
func limited(err error) bool { return errors.Is(err, errNoFuel) || errors.Is(err, errTooDeep) }

// trap is the first line of an error, without the stack.
func trap(err error) string {
	if err == nil {
		return ""
	}
	line, _, _ := bytes.Cut([]byte(err.Error()), []byte("\n"))
	return string(line)
}

// A rewritten module computes what it did before, and pays at least for the
// work that it does.
func TestRandomModulesAreUnchangedAndPay(t *testing.T) {
	seed := cmp.Or(*seedFlag, rand.Uint64())
	t.Logf("again with -seed %d", seed)
	n := 120
	if testing.Short() {
		n = 40
	}
	const budget = 300_000
	var same, traps, stopped int
	var spent, exactly int64
	for i := range n {
		wasm := randomModule(seed + uint64(i))
		r := newRunner(t, budget)
		metered, err := meter.Rewrite(wasm, meter.Limits{Depth: 1 << 18})
		mc := r.compile(t, meter.ExportFuel(metered), err)
		exact, err := meter.RewriteExactly(wasm, meter.Limits{Depth: 1 << 30})
		ec := r.compile(t, meter.ExportFuel(exact), err)
		pc := r.compile(t, wasm, nil)
		for arg := range uint64(3) {
			got := r.call(t, mc, "a", arg, arg*7)
			if limited(got.err) {
				stopped++
				continue
			}
			want := r.call(t, pc, "a", arg, arg*7)
			if trap(got.err) != trap(want.err) || !bytes.Equal(got.memory, want.memory) || len(got.results) > 0 && got.results[0] != want.results[0] {
				t.Fatalf("seed %d, argument %d: %v %v, without metering %v %v", seed+uint64(i), arg, got.results, got.err, want.results, want.err)
			}
			r.budget = 1 << 40
			least := r.call(t, ec, "a", arg, arg*7)
			r.budget = budget
			// What the host calls may be so small that its caller would pay for it.
			if got.spent+meter.MaxFreeRefs < least.spent {
				t.Fatalf("seed %d, argument %d: %d units are charged for work of %d", seed+uint64(i), arg, got.spent, least.spent)
			}
			same++
			if got.err != nil {
				traps++
			}
			spent, exactly = spent+got.spent, exactly+least.spent
		}
		_ = r.rt.Close(t.Context())
	}
	t.Logf("%d calls were the same, %d of them traps; %d were stopped; charged %d for %d", same, traps, stopped, spent, exactly)
	if same < n || traps == 0 || traps == same || stopped == 0 {
		t.Error("the modules don't show much")
	}
	if spent > 3*exactly {
		t.Error("that is too dear")
	}
}
