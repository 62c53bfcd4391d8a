package meter_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/pawlsync/pawl/engine/wasmhost/meter"

	asm "github.com/pawlsync/pawl/internal/wasmasm"
)

// Arguments and results that find no register lie on the stack, and a call that
// passes them on takes next to no code.
func TestArgumentsAndResultsCountAsStack(t *testing.T) {
	many := strings.Repeat("v", 256)
	for name, body := range map[string]func(m *asm.Module) asm.Code{
		"results": func(m *asm.Module) asm.Code {
			f := m.Func(":"+many, "", asm.Call(0))
			return asm.Seq(asm.Call(f), asm.Repeat(256, asm.Drop))
		},
		"results through a table": func(m *asm.Module) asm.Code {
			f := m.Func(":"+many, "", asm.Seq(asm.I32(1), asm.CallIndirect(m.Type(":"+many), 0)))
			m.Elem(asm.I32(1), f)
			return asm.Seq(asm.Call(f), asm.Repeat(256, asm.Drop))
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRunner(t, 1<<40)
			out, err := meter.Rewrite(build(body), meter.Limits{})
			if o := r.call(t, r.compile(t, out, err), "f"); !errors.Is(o.err, errTooDeep) {
				t.Errorf("%v", o.err)
			}
		})
	}
}

// A call of two bytes can become forty: what a module is rewritten to is bounded
// as it is itself.
func TestARewrittenModuleIsBounded(t *testing.T) {
	wasm := build(func(m *asm.Module) asm.Code { return asm.Repeat(30_000, asm.Call(m.Funcs())) })
	l := meter.Limits{ModuleBytes: 64 << 10}
	if out, err := meter.Rewrite(wasm, l); err == nil || !strings.Contains(err.Error(), "with what meters it") {
		t.Errorf("%d bytes became %d: %v", len(wasm), len(out), err)
	}
	if _, err := meter.Rewrite(wasm, meter.Limits{}); err != nil {
		t.Error(err)
	}
}

// The cap holds for all tables of an instance together: their memory is the host's.
func TestTablesShareTheirCap(t *testing.T) {
	grow := func(table int) asm.Code {
		return asm.Seq(asm.RefNull, asm.I32(90), asm.TableGrow(table), asm.I32(-1), asm.I32Ne)
	}
	wasm := build(func(m *asm.Module) asm.Code {
		m.Table(asm.FuncRef, 0, asm.NoMax)
		return asm.Seq(asm.If(grow(0), asm.Unreachable), asm.If(grow(1), asm.If(grow(1), asm.Unreachable)))
	})
	for elements, fits := range map[int]bool{198: true, 200: false} {
		r := newRunner(t, 1<<40)
		out, err := meter.Rewrite(wasm, meter.Limits{TableElements: elements})
		if o := r.call(t, r.compile(t, out, err), "f"); (o.err == nil) != fits {
			t.Errorf("%d elements: %v", elements, o.err)
		}
	}
}

// Each element is a byte of the module, some fifty bytes of the host when the module
// is loaded, and eight and some time for each instance.
func TestElementsOfAllSegmentsAreCapped(t *testing.T) {
	wasm := build(func(m *asm.Module) asm.Code {
		for range 3 {
			m.ElemPassive(make([]int, 300)...)
		}
		return asm.Nop
	})
	if _, err := meter.Rewrite(wasm, meter.Limits{TableElements: 901}); err != nil { // and one of build's own
		t.Error(err)
	}
	if _, err := meter.Rewrite(wasm, meter.Limits{TableElements: 900}); err == nil || !strings.Contains(err.Error(), "of the segments before it, more than the 0 allowed") {
		t.Errorf("%v", err)
	}
}

// Thousands of locals are declared in four bytes, and kept as long as the module is.
func TestLocalsOfAllFunctionsAreCapped(t *testing.T) {
	with := func(functions int) error {
		wasm := build(func(m *asm.Module) asm.Code {
			for range functions {
				m.Func(":", strings.Repeat("v", 10), asm.Nop)
			}
			return asm.Nop
		})
		_, err := meter.Rewrite(wasm, meter.Limits{Locals: 10})
		return err
	}
	if err := with(999); err != nil { // and the five of build's own
		t.Error(err)
	}
	if err := with(1000); err == nil || !strings.Contains(err.Error(), "10000 locals allowed in all functions") {
		t.Errorf("%v", err)
	}
}
