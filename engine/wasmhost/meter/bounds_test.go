package meter_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/tetratelabs/wazero"

	"github.com/pawlsync/pawl/engine/wasmhost/meter"
	asm "github.com/pawlsync/pawl/internal/wasmasm"
)

// build assembles a module with one memory, one table and a function "f" of no
// parameters, with some locals: i32 0 to 3, i64 4.
func build(f func(m *asm.Module) asm.Code) []byte {
	var m asm.Module
	m.Type(":")
	m.Memory(1, 64)
	m.Table(asm.FuncRef, 10, 100_000)
	m.Export("memory", asm.KindMemory, 0)
	body := f(&m)
	fn := m.Func(":", "iiiiI", body)
	m.Elem(asm.I32(0), fn)
	m.Export("f", asm.KindFunc, fn)
	return m.Bytes()
}

func only(c ...asm.Code) func(*asm.Module) asm.Code {
	return func(*asm.Module) asm.Code { return asm.Seq(c...) }
}

// Each of these would run for ever, or very long.
var endless = map[string]func(m *asm.Module) asm.Code{
	"an empty loop":          only(asm.Forever()),
	"a loop by br_if":        only(asm.Loop(asm.I32(1), asm.BrIf(0)), asm.Nop),
	"a loop by br_table":     only(asm.Loop(asm.Get(0), asm.BrTable([]int{0, 0}, 0))),
	"a loop in a loop":       only(asm.Forever(asm.Loop(asm.Get(0), asm.BrIf(0)))),
	"a loop left by its end": only(asm.Forever(asm.Block(asm.Get(0), asm.BrIf(0)), asm.Nop)),
	"a loop with long work": only(asm.Forever(asm.Repeat(60_000,
		asm.Seq(asm.Get(4), asm.I64(3), asm.I64Mul, asm.Set(4))))),
	"two ways back":        only(asm.Loop(asm.If(asm.Get(0), asm.Br(1)), asm.I32(1), asm.Set(0), asm.Br(0))),
	"a loop with a result": only(asm.Seq(asm.Code{0x03, asm.TypeI32}, asm.Br(0), asm.Code{0x0b}, asm.Drop)),
	"jumps through the start of a loop": only(asm.Loop(
		asm.Block(asm.Block(asm.Get(0), asm.BrTable([]int{0, 1}, 0)),
			asm.I32(1), asm.Set(0), asm.Br(1)),
		asm.I32(0), asm.Set(0), asm.Br(0))),
	"a jump to itself through the start of a loop": only(asm.Loop(
		asm.Block(asm.Get(0), asm.BrTable([]int{0}, 0)),
		asm.I32(0), asm.Set(0), asm.Br(0))),
	"calls in exponential number":                        exponential(60),
	"calls in exponential number, too few to be counted": exponential(24),
	"calls through a table in exponential number": func(m *asm.Module) asm.Code {
		fs := []int{m.Func(":", "", asm.Nop)}
		for i := range 60 {
			fs = append(fs, m.Func(":", "", asm.Repeat(2, asm.Seq(asm.I32(i), asm.CallIndirect(0, 1)))))
		}
		table := m.Table(asm.FuncRef, 100, 100)
		at := m.ElemPassive(fs...)
		return asm.Seq(asm.I32(0), asm.I32(0), asm.I32(61), asm.TableInit(at, table), asm.I32(60), asm.CallIndirect(0, table))
	},
	"memory.fill":               only(asm.Forever(asm.I32(0), asm.I32(1), asm.I32(65536), asm.MemoryFill)),
	"memory.copy":               only(asm.Forever(asm.I32(0), asm.I32(1), asm.I32(65535), asm.MemoryCopy)),
	"memory.grow":               only(asm.Forever(asm.I32(1), asm.MemoryGrow, asm.Drop)),
	"memory.grow, far too much": only(asm.Forever(asm.I32(-1), asm.MemoryGrow, asm.Drop)),
	"table.grow":                only(asm.Forever(asm.RefNull, asm.I32(1), asm.TableGrow(0), asm.Drop)),
	"table.fill":                only(asm.Forever(asm.I32(0), asm.RefNull, asm.I32(10), asm.TableFill(0))),
	"table.copy":                only(asm.Forever(asm.I32(0), asm.I32(0), asm.I32(10), asm.TableCopy(0, 0))),
	"memory.init": func(m *asm.Module) asm.Code {
		d := m.DataPassive(string(make([]byte, 60_000)))
		return asm.Forever(asm.I32(0), asm.I32(0), asm.I32(60_000), asm.MemoryInit(d))
	},
	"table.init": func(m *asm.Module) asm.Code {
		e := m.ElemPassive(slices.Repeat([]int{0}, 10)...)
		return asm.Forever(asm.I32(0), asm.I32(0), asm.I32(10), asm.TableInit(e, 0))
	},
}

// exponential is a chain of functions each of which calls the next one twice.
func exponential(n int) func(m *asm.Module) asm.Code {
	return func(m *asm.Module) asm.Code {
		f := m.Func(":", "", asm.Nop)
		for range n {
			f = m.Func(":", "", asm.Repeat(2, asm.Call(f)))
		}
		return asm.Call(f)
	}
}

func TestWhatRunsForEverRunsOutOfFuel(t *testing.T) {
	for name, f := range endless {
		t.Run(name, func(t *testing.T) {
			r := newRunner(t, 3_000_000)
			out, err := meter.Rewrite(build(f), meter.Limits{})
			o := r.call(t, r.compile(t, meter.ExportFuel(out), err), "f")
			if !errors.Is(o.err, errNoFuel) {
				t.Fatalf("it ended by itself: %v", o.err)
			}
			// The next check was not far; to grow by more than there may be is dear.
			if over := o.spent - r.granted; over > 10_000 && name != "memory.grow, far too much" {
				t.Errorf("%d units beyond the budget", over)
			}
		})
	}
}

// What an instruction costs grows with its operand.
func TestBulkInstructionsAreChargedByTheirLength(t *testing.T) {
	for name, c := range map[string]struct {
		units int64 // at least, for 60,000
		code  func(n int) asm.Code
	}{
		"memory.fill": {3500, func(n int) asm.Code { return asm.Seq(asm.I32(0), asm.I32(1), asm.I32(n), asm.MemoryFill) }},
		"memory.copy": {3500, func(n int) asm.Code { return asm.Seq(asm.I32(0), asm.I32(1), asm.I32(n), asm.MemoryCopy) }},
		"memory.grow": {240_000_000, func(n int) asm.Code { return asm.Seq(asm.I32(n), asm.MemoryGrow, asm.Drop) }},
		"table.grow":  {480_000, func(n int) asm.Code { return asm.Seq(asm.RefNull, asm.I32(n), asm.TableGrow(0), asm.Drop) }},
		"table.fill": {60_000, func(n int) asm.Code {
			return asm.Seq(asm.RefNull, asm.I32(90_000), asm.TableGrow(0), asm.Drop, asm.I32(0), asm.RefNull, asm.I32(n), asm.TableFill(0))
		}},
		"table.copy": {60_000, func(n int) asm.Code {
			return asm.Seq(asm.RefNull, asm.I32(90_000), asm.TableGrow(0), asm.Drop, asm.I32(0), asm.I32(0), asm.I32(n), asm.TableCopy(0, 0))
		}},
	} {
		t.Run(name, func(t *testing.T) {
			spent := func(n int) int64 {
				r := newRunner(t, 1<<40)
				out, err := meter.Rewrite(build(only(c.code(n))), meter.Limits{})
				o := r.call(t, r.compile(t, meter.ExportFuel(out), err), "f")
				if o.err != nil {
					t.Fatal(o.err)
				}
				return o.spent
			}
			if d := spent(60_000) - spent(0); d < c.units {
				t.Errorf("%d units for 60,000, want %d", d, c.units)
			}
		})
	}
}

// In a body of a million bytes without a branch, fuel is still checked often.
func TestLongStraightCodeIsChecked(t *testing.T) {
	wasm := build(only(asm.Repeat(100_000, asm.Seq(asm.Get(4), asm.I64(3), asm.I64Mul, asm.Set(4)))))
	r := newRunner(t, 1<<40)
	r.slice = 1000
	out, err := meter.Rewrite(wasm, meter.Limits{})
	o := r.call(t, r.compile(t, meter.ExportFuel(out), err), "f")
	if o.err != nil || o.spent < 400_000 {
		t.Fatalf("%d units, %v", o.spent, o.err)
	}
	if n := r.granted / r.slice; n < 60 {
		t.Errorf("%d checks", n)
	}
}

var recursions = map[string]func(m *asm.Module) asm.Code{
	"a function that calls itself": func(m *asm.Module) asm.Code { return asm.Call(m.Funcs()) },
	"two that call each other": func(m *asm.Module) asm.Code {
		m.Func(":", "", asm.Call(1))
		return asm.Call(0)
	},
	"through a table": only(asm.I32(0), asm.CallIndirect(0, 0)),
	"a long chain of calls that closes through a table": func(m *asm.Module) asm.Code {
		f := m.Func(":", "", asm.Seq(asm.I32(0), asm.CallIndirect(0, 0)))
		for range 1000 {
			f = m.Func(":", "", asm.Call(f))
		}
		return asm.Call(f)
	},
	"with many locals": func(m *asm.Module) asm.Code {
		var use asm.Code
		for i := range 4000 {
			use = append(use, asm.Seq(asm.Get(i), asm.I64(int64(i)), asm.I64Add, asm.Set(i))...)
		}
		f := m.FuncRaw(0, slices.Concat(asm.Vec(slices.Concat(asm.ULEB(4000), []byte{asm.TypeI64})), use,
			asm.Call(0), use, []byte{0x0b}))
		return asm.Call(f)
	},
	"with much on the stack": func(m *asm.Module) asm.Code {
		f := m.Func(":", "I", asm.Seq(asm.Repeat(2000, asm.Seq(asm.Get(0), asm.Code{0x50})), // i64.eqz
			asm.Call(0), asm.Repeat(1999, asm.I32Add), asm.Drop))
		return asm.Call(f)
	},
	"by a tail": func(m *asm.Module) asm.Code {
		return asm.Seq(asm.Block(asm.Get(0), asm.BrIf(0)), asm.I32(0), asm.CallIndirect(0, 0), asm.Return)
	},
}

func TestRecursionEndsBeforeTheStackDoes(t *testing.T) {
	for name, f := range recursions {
		t.Run(name, func(t *testing.T) {
			r := newRunner(t, 1<<40)
			out, err := meter.Rewrite(build(f), meter.Limits{})
			if o := r.call(t, r.compile(t, out, err), "f"); !errors.Is(o.err, errTooDeep) {
				t.Errorf("%v", o.err)
			}
		})
	}
}

// A chain of calls without recursion is bounded too, as modules may have many
// functions.
func TestLongChainsOfCallsAreCounted(t *testing.T) {
	chain := func(n int) error {
		wasm := build(func(m *asm.Module) asm.Code {
			f := m.Func(":", "", asm.Nop)
			for range n {
				f = m.Func(":", "", asm.Call(f))
			}
			return asm.Call(f)
		})
		r := newRunner(t, 1<<40)
		out, err := meter.Rewrite(wasm, meter.Limits{Depth: 100_000})
		return r.call(t, r.compile(t, out, err), "f").err
	}
	if err := chain(500); err != nil {
		t.Error(err)
	}
	if err := chain(5000); !errors.Is(err, errTooDeep) {
		t.Error(err)
	}
}

// However a function is left, the depth is afterwards what it was.
func TestDepthIsRestored(t *testing.T) {
	two := asm.Seq(asm.Get(0), asm.Get(1))
	for name, body := range map[string]asm.Code{
		"by its end":          two,
		"by return":           asm.Seq(two, asm.Return),
		"from within a block": asm.Seq(asm.Block(asm.Loop(asm.Get(0), asm.I32Eqz, asm.BrIf(1), two, asm.Return)), two),
		"by a branch":         asm.Seq(asm.Block(two, asm.Br(1)), two),
		"by a br_table":       asm.Seq(asm.Block(two, asm.Get(0), asm.BrTable([]int{1, 1}, 1)), two),
		"after a call": asm.Seq(asm.If(asm.Get(0), asm.Get(0), asm.I32(1), asm.I32Sub, asm.Get(1),
			asm.Call(0), asm.Return), two),
	} {
		t.Run(name, func(t *testing.T) {
			var m asm.Module
			// Two results, which are on the stack when it is left.
			m.Func("ii:ii", "", body)
			m.Table(asm.FuncRef, 1, 1)
			m.Elem(asm.I32(0), 0)
			call := asm.Seq(asm.I32(3), asm.I32(4), asm.I32(0), asm.CallIndirect(m.Type("ii:ii"), 0), asm.Drop, asm.Drop)
			m.Export("f", asm.KindFunc, m.Func(":", "i", asm.Times(100_000, 0, call)))
			r := newRunner(t, 1<<40)
			out, err := meter.Rewrite(m.Bytes(), meter.Limits{Depth: 2000})
			if o := r.call(t, r.compile(t, out, err), "f"); o.err != nil {
				t.Error(o.err)
			}
		})
	}
}

func TestTablesAreCapped(t *testing.T) {
	r := newRunner(t, 1<<40)
	grow := build(only(asm.RefNull, asm.I32(40_000), asm.TableGrow(0), asm.I32(-1), asm.I32Ne,
		asm.If(nil, asm.Unreachable)))
	out, err := meter.Rewrite(grow, meter.Limits{TableElements: 1000})
	if o := r.call(t, r.compile(t, out, err), "f"); o.err != nil {
		t.Error("the table grew beyond its cap", o.err)
	}
	out, err = meter.Rewrite(grow, meter.Limits{TableElements: 50_000})
	if o := r.call(t, r.compile(t, out, err), "f"); o.err == nil {
		t.Error("the table did not grow")
	}
	if _, err := meter.Rewrite(grow, meter.Limits{TableElements: 9}); err == nil {
		t.Error("a table above the cap is accepted")
	}
}

func TestAGoGuestComputesTheSame(t *testing.T) {
	if testing.Short() {
		t.Skip("builds and compiles a Go guest")
	}
	wasm := goGuest(t)
	config := wazero.NewRuntimeConfig().WithCompilationCache(cache)
	plain, _ := start(t, config, wasm, 0)
	metered, refills := start(t, config, rewrite(t, wasm), 10_000)
	for name, arg := range map[string]uint64{"parse": 3, "sort_numbers": 5000, "fib": 20, "nest": 1000, "nest_json": 10_000} {
		want, err := plain.ExportedFunction(name).Call(t.Context(), arg)
		if err != nil {
			t.Fatal(err)
		}
		*refills = 0
		got, err := metered.ExportedFunction(name).Call(t.Context(), arg)
		if err != nil || fmt.Sprint(got) != fmt.Sprint(want) || *refills == 0 {
			t.Errorf("%s: %v %v, want %v; %d refills", name, got, err, want, *refills)
		}
	}
}
