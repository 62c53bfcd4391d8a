package hostile

import (
	"slices"
	"strings"

	"github.com/pawlsync/pawl/engine/sink"
	. "github.com/pawlsync/pawl/internal/wasmasm"
)

// Trials whose harm is in the module itself: wrong on purpose, or made to cost
// whoever reads or compiles it.
func moduleTrials() []trial {
	return slices.Concat(wrongModules(), bombs())
}

// sections is a guest whose sections edit changes.
func sections(edit func([]Section) []Section) func() []byte {
	return func() []byte {
		g := Guest{Manifest: manifest(badPlugin)}
		return Assemble(edit(g.Module().Sections())...)
	}
}

// body is the module whose section of that id is replaced.
func body(id byte, content []byte) func() []byte {
	return sections(func(ss []Section) []Section {
		for i := range ss {
			if ss[i].ID == id {
				ss[i].Body = content
			}
		}
		return ss
	})
}

// raw is a guest with one more function, whose entry of the code section is as given.
func raw(code []byte) func() []byte {
	return applyWith(func(m *Module) { m.FuncRaw(m.Type(":"), code) })
}

func importing(add func(*Module)) func() []byte {
	return guest(func(g *Guest) { g.Imports = add })
}

func wrongModules() []trial {
	return []trial{
		{name: "an import that does not exist", module: importing(func(m *Module) { m.ImportFunc("env", "system", "i:i") }), refused: says(`"env"."system"`)},
		{name: "an import of sockets", module: importing(func(m *Module) { m.ImportFunc("wasi_snapshot_preview1", "sock_open", "iii:i") }), refused: says("sock_open")},
		{name: "an import of the meter's refill", module: importing(func(m *Module) { m.ImportFunc("pawl_meter", "refill", ":I") }), refused: says("pawl_meter")},
		{name: "an import of a memory", module: importing(func(m *Module) { m.Import("env", "memory", KindMemory, []byte{0, 1}) }), refused: says("no function")},
		{name: "an import of another type", module: guest(func(g *Guest) { g.Mistype = "io_start" }), refused: says("io_start")},
		{name: "an export of another type", module: guest(func(g *Guest) {
			g.Rename = map[string]string{"pawl_start": "pawl_resume", "pawl_resume": "pawl_start"}
		}), refused: says("has the type")},
		{name: "no pawl_cancel", module: guest(func(g *Guest) { g.Omit = "pawl_cancel" }), refused: says("pawl_cancel")},
		{name: "an export twice", module: applyWith(func(m *Module) { m.Export("pawl_start", KindFunc, OwnFunc("pawl_poll")) }), refused: says("pawl_start")},
		{name: "an export of a function that is not there", module: applyWith(func(m *Module) { m.Export("more", KindFunc, 9999) }), refused: says("function")},
		{name: "ABI version 7", module: guest(func(g *Guest) { g.ABI = 7 }), refused: says("ABI version 7")},
		{name: "it writes the global after its last", module: apply(I64(1<<60), GlobalSet(0)), refused: says("global")},
		{name: "it writes two globals after its last", module: applyWith(func(m *Module) { m.Global(TypeI32, true, I32(0)) }, I64(1<<60), GlobalSet(2)), refused: says("global")},
		{name: "it calls the function after its last", module: apply(Call(FirstExtra())), refused: says("function")},
		{name: "it calls through a table that is not there", module: apply(I32(0), CallIndirect(0, 0), Drop), refused: says("table")},
		{name: "a local that is not there", module: apply(Get(77), Drop), refused: says("local")},
		{name: "a branch to nowhere", module: apply(Br(77)), refused: says("label")},
		{name: "a function without an end", module: raw([]byte{0, 0x01}), refused: says("")},
		{name: "an instruction that does not exist", module: raw([]byte{0, 0xff, 0x0b}), refused: says("")},
		{name: "instructions of threads", module: raw([]byte{0, 0xfe, 0x03, 0, 0x0b}), refused: says("")},
		{name: "values that do not match", module: raw(slices.Concat([]byte{0}, I64(1), I32Eqz, Drop, Code{0x0b})), refused: says("")},
		{name: "an element segment of garbage", module: applyWith(func(m *Module) { m.Table(FuncRef, 1, 1); m.Elem(I32(0), 1<<30) }), refused: says("function")},
		// wazero leaves out what does not fit, where the specification has a trap.
		{name: "an element segment outside of its table", module: applyWith(func(m *Module) { m.Table(FuncRef, 1, 1); m.Elem(I32(1<<20), 0) }), status: sink.OK},
		{name: "a data segment outside of the memory", module: applyWith(func(m *Module) { m.Data(I32(1<<30), "x") }), refused: says("")},
		{name: "a data segment at a negative offset", module: applyWith(func(m *Module) { m.Data(I32(-1), "xx") }), refused: says("")},
		{name: "a section that claims 4 GiB", module: func() []byte { return append([]byte(Header), SecType, 0xff, 0xff, 0xff, 0xff, 0x0f) }, refused: says("cut off or damaged")},
		{name: "a vector that claims 4 billion types", module: body(SecType, []byte{0xff, 0xff, 0xff, 0xff, 0x0f}), refused: says("")},
		{name: "a vector that claims 4 billion functions", module: body(SecFunction, []byte{0xff, 0xff, 0xff, 0xff, 0x0f}), refused: says("")},
		{name: "a vector that claims 4 billion bodies", module: body(SecCode, []byte{0xff, 0xff, 0xff, 0xff, 0x0f}), refused: says("")},
		{name: "a vector that claims 4 billion data segments", module: body(SecData, []byte{0xff, 0xff, 0xff, 0xff, 0x0f}), refused: says("")},
		{name: "its sections in reverse order", module: sections(func(ss []Section) []Section { slices.Reverse(ss); return ss }), refused: says("")},
		{name: "its code section twice", module: sections(func(ss []Section) []Section { return append(ss, ss[len(ss)-2]) }), refused: says("")},
		{name: "a section that does not exist", module: sections(func(ss []Section) []Section { return append(ss, Section{ID: 77, Body: []byte{1, 2, 3}}) }), refused: says("")},
	}
}

// bombs are small for what they cost, or just large.
func bombs() []trial {
	return []trial{
		{name: "a module of 100 MB", module: sections(func(ss []Section) []Section {
			return append(ss, Section{ID: SecCustom, Body: append(Str("x"), make([]byte, 100<<20)...)})
		}), refused: says("more than the")},
		{name: "100,000 nested blocks", module: applyWith(func(m *Module) {
			m.FuncRaw(m.Type(":"), slices.Concat([]byte{0}, Repeat(100_000, Code{0x02, 0x40}), Repeat(100_001, Code{0x0b})))
		}), refused: says("")},
		{name: "a br_table with a million labels", apart: true, module: applyWith(func(m *Module) {
			m.Func("i:", "", Block(Get(0), BrTable(make([]int, 1_000_000), 0)))
		}), refused: says("compile_")},
		{name: "50,000 locals, all alive at once", module: applyWith(func(m *Module) {
			var code Code
			for i := range 50_000 {
				code = append(code, Seq(Get(i), I64(1), I64Add, Set(i))...)
			}
			m.Func(":", strings.Repeat("I", 50_000), Loop(code, Code{0x41, 1, 0x0d, 0}))
		}), refused: says("")},
		{name: "4 billion locals", module: raw(slices.Concat([]byte{1, 0xff, 0xff, 0xff, 0xff, 0x0f, TypeI64}, []byte{0x0b})), refused: says("local")},
		{name: "2,000 locals over 30,000 branches", apart: true, module: applyWith(func(m *Module) {
			var code Code
			for i := range 30_000 {
				code = append(code, If(Get(0), I64(int64(i)), Set(1+i%2000))...)
			}
			m.Func("i:", strings.Repeat("I", 2000), code)
		}), refused: says("compile_")},
		{name: "a function of 8 MB", module: applyWith(func(m *Module) {
			m.Func("i:i", "", Seq(Get(0), Repeat(1_500_000, Seq(Get(0), I32(3), I32Mul, I32Add))))
		}), refused: says("")},
		{name: "a million functions", module: applyWith(func(m *Module) {
			typ := m.Type(":")
			for range 1_000_000 {
				m.FuncRaw(typ, []byte{0, 0x0b})
			}
		}), refused: says("")},
		{name: "a million globals", module: applyWith(func(m *Module) {
			for range 1_000_000 {
				m.Global(TypeI64, true, I64(0))
			}
		}), refused: says("")},
		{name: "a million types", module: sections(func(ss []Section) []Section {
			ss[0].Body = append(ULEB(1_000_000), slices.Repeat([]byte{0x60, 0, 0}, 1_000_000)...)
			return ss
		}), refused: says("")},
		{name: "100,000 exports", module: applyWith(func(m *Module) {
			for i := range 100_000 {
				m.Export(strings.Repeat("x", 20)+string(ULEB(i%128 + 1)[0:1])+string(rune('a'+i/128%26))+string(rune(0x100+i/3328)), KindFunc, 13)
			}
		}), refused: says("exports")},
	}
}
