package meter

import (
	"bytes"
	"encoding/binary"
	"fmt"
)

// The ids of the sections.
const (
	secCustom = iota
	secType
	secImport
	secFunction
	secTable
	secMemory
	secGlobal
	secExport
	secStart
	secElement
	secCode
	secData
	secDataCount
)

var sectionNames = [...]string{"custom", "type", "import", "function", "table", "memory", "global",
	"export", "start", "element", "code", "data", "data count"}

// sectionItems is what the sections that are a vector have.
var sectionItems = [...]string{secType: "types", secImport: "imports", secFunction: "functions", secTable: "tables",
	secMemory: "memories", secGlobal: "globals", secExport: "exports", secElement: "element segments",
	secCode: "bodies", secData: "data segments"}

// sectionOrder is the order in which sections stand in a module.
var sectionOrder = [...]byte{secType, secImport, secFunction, secTable, secMemory, secGlobal, secExport,
	secStart, secElement, secDataCount, secCode, secData}

var header = []byte("\x00asm\x01\x00\x00\x00")

// span is a range of the module's bytes.
type span struct{ from, to int }

// module is what the sections before the code say.
type module struct {
	wasm     []byte
	limits   Limits
	exact    bool // each node is charged for itself: what plan is tested against
	sections [len(sectionNames)]*span

	types       int
	params      []int   // of each type, how many parameters
	passed      []int64 // of each type, bytes of its parameters and results
	funcs       []int   // of each function its type; imported ones first
	funcImports int
	tables      int
	memories    int
	globals     int
	globImports int
	elements    int
	placed      int // elements of all segments
	data        int // data segments by the data count section; -1 without one

	// referred has the functions that something else than a call may reach:
	// by an element, a ref.func, an export.
	referred []bool
	bodies   []span // of each function that is not imported: locals and code
}

// The functions that are added: two imports, whose indices follow the module's
// own imports, and one at the end.
const addedImports = 2

func (m *module) refillIndex() int  { return m.funcImports }
func (m *module) tooDeepIndex() int { return m.funcImports + 1 }
func (m *module) slowIndex() int    { return len(m.funcs) + addedImports }
func (m *module) fuelGlobal() int   { return m.globals }
func (m *module) depthGlobal() int  { return m.globals + 1 }

// shifted is the index that function f has in the rewritten module.
func (m *module) shifted(f int) int {
	if f >= m.funcImports {
		return f + addedImports
	}
	return f
}

// split finds the sections.
func (m *module) split() *Error {
	r := &reader{b: m.wasm, end: len(m.wasm), where: "module"}
	if len(m.wasm) > m.limits.ModuleBytes {
		r.fail(0, "it has %d bytes, more than the %d allowed", len(m.wasm), m.limits.ModuleBytes)
		return r.err
	}
	if !bytes.HasPrefix(m.wasm, header) {
		r.fail(0, "it is no core WebAssembly module of version 1")
		return r.err
	}
	r.pos = len(header)
	next := 0 // in sectionOrder
	for r.more() {
		at := r.pos
		r.where = "module"
		id := r.byte()
		if int(id) >= len(sectionNames) {
			r.fail(at, "a section of the unknown kind %d", id)
			break
		}
		r.where = sectionNames[id] + " section"
		size := r.u32()
		from := r.pos
		r.skip(size)
		if r.err != nil {
			break
		}
		if id == secCustom {
			name := &reader{b: m.wasm, pos: from, end: r.pos, where: r.where}
			name.name()
			if name.err != nil {
				return name.err
			}
			continue
		}
		i := next + bytes.IndexByte(sectionOrder[next:], id)
		if i < next {
			r.fail(at, "it is there twice, or out of order")
			break
		}
		next = i + 1
		if id == secStart {
			r.fail(at, "a start section is refused, as it would run when the module is instantiated; export _initialize instead")
			break
		}
		m.sections[id] = &span{from, r.pos}
	}
	return r.err
}

// items calls each for every item of a section, and returns how many there were.
// each appends to w what becomes of the item; the whole is w, led by the number
// of the items and the added ones.
func (m *module) items(id byte, limit int, added [][]byte, each func(r *reader, w []byte, i int) []byte) (n int, body []byte, err *Error) {
	r := &reader{b: m.wasm, where: sectionNames[id] + " section"}
	s := m.sections[id]
	if s == nil {
		if len(added) == 0 {
			return 0, nil, nil
		}
	} else {
		r.pos, r.end = s.from, s.to
		n = r.count(limit, sectionItems[id])
	}
	w := make([]byte, 0, r.end-r.pos+64)
	w = binary.AppendUvarint(w, uint64(n+len(added)))
	where := r.where
	for i := 0; i < n && r.err == nil; i++ {
		r.where = fmt.Sprintf("%s, item %d", where, i)
		w = each(r, w, i)
	}
	r.where = where
	if r.more() {
		r.fail(r.pos, "%d bytes are left after its last item", r.end-r.pos)
	}
	return n, append(w, bytes.Join(added, nil)...), r.err
}

// same appends what r has read since from.
func same(r *reader, w []byte, from int) []byte {
	if r.err != nil {
		return w
	}
	return append(w, r.b[from:r.pos]...)
}

// rewrite puts the new module together, section by section.
func (m *module) rewrite() ([]byte, error) {
	w := append(make([]byte, 0, len(m.wasm)*3/2), header...)
	for _, sec := range []struct {
		id      byte
		rewrite func() ([]byte, *Error)
	}{
		{secType, m.typeSection}, {secImport, m.importSection}, {secFunction, m.functionSection},
		{secTable, m.tableSection}, {secMemory, m.memorySection}, {secGlobal, m.globalSection},
		{secExport, m.exportSection}, {secElement, m.elementSection}, {secDataCount, m.dataCountSection},
		{secCode, m.codeSection}, {secData, m.dataSection},
	} {
		b, err := sec.rewrite()
		if err != nil {
			return nil, err
		}
		if b != nil {
			w = appendIndexed(w, sec.id, len(b))
			w = append(w, b...)
		}
	}
	return w, nil
}
