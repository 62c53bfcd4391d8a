package wasmasm

import (
	"slices"
)

// Header begins every core module of version 1.
const Header = "\x00asm\x01\x00\x00\x00"

// The ids of the sections.
const (
	SecCustom    = 0
	SecType      = 1
	SecImport    = 2
	SecFunction  = 3
	SecTable     = 4
	SecMemory    = 5
	SecGlobal    = 6
	SecExport    = 7
	SecStart     = 8
	SecElement   = 9
	SecCode      = 10
	SecData      = 11
	SecDataCount = 12
)

// Kinds of imports and exports.
const (
	KindFunc   = 0
	KindTable  = 1
	KindMemory = 2
	KindGlobal = 3
)

// Types of values.
const (
	TypeI32   = 0x7f
	TypeI64   = 0x7e
	TypeF32   = 0x7d
	TypeF64   = 0x7c
	TypeV128  = 0x7b
	FuncRef   = 0x70
	ExternRef = 0x6f
)

// NoMax is the maximum of a table or memory that has none.
const NoMax = -1

// Module is a module under construction. The zero value is an empty one.
// What is added gets the next index of its kind, which is returned; imports of
// functions come before functions.
//
// Signatures and locals are written as letters: i for i32, I for i64, f and F
// for f32 and f64, v for v128, r for funcref and x for externref; a signature is
// its parameters, a colon, and its results, as in "iI:i".
type Module struct {
	types, imports, funcs, tables, memories, globals, exports, elements, codes, data [][]byte

	importedFuncs int
	start         []byte
	passive       bool // some data segment is
}

// Type adds a function type, or finds the same one.
func (m *Module) Type(sig string) int {
	t := functype(sig)
	if i := slices.IndexFunc(m.types, func(b []byte) bool { return slices.Equal(b, t) }); i >= 0 {
		return i
	}
	return add(&m.types, t)
}

// ImportFunc imports a function.
func (m *Module) ImportFunc(module, name, sig string) int {
	if len(m.funcs) > 0 {
		panic("wasmasm: an import of a function after a function: the indices would shift")
	}
	m.Import(module, name, KindFunc, ULEB(m.Type(sig)))
	m.importedFuncs++
	return m.importedFuncs - 1
}

// Import imports anything; desc is what follows the kind.
func (m *Module) Import(module, name string, kind byte, desc []byte) {
	add(&m.imports, slices.Concat(Str(module), Str(name), []byte{kind}, desc))
}

// Func adds a function.
func (m *Module) Func(sig, locals string, body Code) int {
	return m.FuncRaw(m.Type(sig), slices.Concat(encodeLocals(locals), body, []byte{0x0b}))
}

// FuncRaw adds a function of that type whose entry of the code section is body:
// locals, instructions and end.
func (m *Module) FuncRaw(typ int, body []byte) int {
	add(&m.codes, slices.Concat(ULEB(len(body)), body))
	return m.importedFuncs + add(&m.funcs, ULEB(typ))
}

// Funcs returns how many functions there are, imported ones too.
func (m *Module) Funcs() int { return m.importedFuncs + len(m.funcs) }

// Table adds a table of FuncRef or ExternRef.
func (m *Module) Table(ref byte, least, most int) int {
	return add(&m.tables, append([]byte{ref}, bounds(least, most)...))
}

// Memory adds a memory; its size is in pages of 64 KiB.
func (m *Module) Memory(least, most int) int { return add(&m.memories, bounds(least, most)) }

// Global adds a global of that type.
func (m *Module) Global(typ byte, mutable bool, init Code) int {
	mut := byte(0)
	if mutable {
		mut = 1
	}
	return add(&m.globals, slices.Concat([]byte{typ, mut}, init, []byte{0x0b}))
}

// Export exports what has that kind and index.
func (m *Module) Export(name string, kind byte, i int) {
	add(&m.exports, slices.Concat(Str(name), []byte{kind}, ULEB(i)))
}

// Start names the function that runs when the module is instantiated.
func (m *Module) Start(function int) { m.start = ULEB(function) }

// Elem adds a segment that is put into table 0.
func (m *Module) Elem(at Code, functions ...int) int {
	return add(&m.elements, slices.Concat([]byte{0}, at, []byte{0x0b}, indices(functions)))
}

// ElemPassive adds a segment for TableInit.
func (m *Module) ElemPassive(functions ...int) int {
	return add(&m.elements, slices.Concat([]byte{1, 0}, indices(functions)))
}

// Data adds a segment that is put into the memory.
func (m *Module) Data(at Code, content string) int {
	return add(&m.data, slices.Concat([]byte{0}, at, []byte{0x0b}, Str(content)))
}

// DataPassive adds a segment for MemoryInit.
func (m *Module) DataPassive(content string) int {
	m.passive = true
	return add(&m.data, append([]byte{1}, Str(content)...))
}

// Section is one section of a module.
type Section struct {
	ID   byte
	Body []byte
}

// Sections returns the module's sections in their order, without empty ones.
func (m *Module) Sections() []Section {
	var out []Section
	for _, s := range []struct {
		id    byte
		items [][]byte
	}{
		{SecType, m.types}, {SecImport, m.imports}, {SecFunction, m.funcs}, {SecTable, m.tables},
		{SecMemory, m.memories}, {SecGlobal, m.globals}, {SecExport, m.exports}, {SecStart, nil},
		{SecElement, m.elements}, {SecDataCount, nil}, {SecCode, m.codes}, {SecData, m.data},
	} {
		switch {
		case s.id == SecStart && m.start != nil:
			out = append(out, Section{s.id, m.start})
		case s.id == SecDataCount && m.passive:
			out = append(out, Section{s.id, ULEB(len(m.data))})
		case len(s.items) > 0:
			out = append(out, Section{s.id, Vec(s.items...)})
		}
	}
	return out
}

// Bytes returns the module.
func (m *Module) Bytes() []byte { return Assemble(m.Sections()...) }

// Assemble makes a module of sections as they are.
func Assemble(sections ...Section) []byte {
	b := []byte(Header)
	for _, s := range sections {
		b = slices.Concat(b, []byte{s.ID}, ULEB(len(s.Body)), s.Body)
	}
	return b
}

func add(to *[][]byte, item []byte) int {
	*to = append(*to, item)
	return len(*to) - 1
}

func indices(is []int) []byte {
	b := ULEB(len(is))
	for _, i := range is {
		b = append(b, ULEB(i)...)
	}
	return b
}

func bounds(least, most int) []byte {
	if most == NoMax {
		return append([]byte{0}, ULEB(least)...)
	}
	return slices.Concat([]byte{1}, ULEB(least), ULEB(most))
}

var letters = map[rune]byte{
	'i': TypeI32, 'I': TypeI64, 'f': TypeF32, 'F': TypeF64, 'v': TypeV128, 'r': FuncRef, 'x': ExternRef,
}

func valueType(letter rune) byte {
	t, ok := letters[letter]
	if !ok {
		panic("wasmasm: no value type is written " + string(letter))
	}
	return t
}

func functype(sig string) []byte {
	var lists [2][]byte
	at := 0
	for _, c := range sig {
		if c == ':' {
			at++
			continue
		}
		lists[at] = append(lists[at], valueType(c))
	}
	return slices.Concat([]byte{0x60}, Str(string(lists[0])), Str(string(lists[1])))
}

// encodeLocals writes one entry for each run of a letter.
func encodeLocals(locals string) []byte {
	var runs [][]byte
	for len(locals) > 0 {
		n := 1
		for n < len(locals) && locals[n] == locals[0] {
			n++
		}
		runs = append(runs, append(ULEB(n), valueType(rune(locals[0]))))
		locals = locals[n:]
	}
	return Vec(runs...)
}
