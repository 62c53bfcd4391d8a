package meter

import (
	"encoding/binary"
)

// The value types.
const (
	typeI32       = 0x7f
	typeI64       = 0x7e
	typeV128      = 0x7b
	typeFuncref   = 0x70
	typeExternref = 0x6f
	typeNone      = 0x40 // as a block type
)

// slotBytes is what a value of that type takes of the stack.
func slotBytes(c byte) int64 {
	if c == typeV128 {
		return 16
	}
	return 8
}

func isRefType(c byte) bool   { return c == typeFuncref || c == typeExternref }
func isValueType(c byte) bool { return c >= typeV128 && c <= typeI32 || isRefType(c) }

func (r *reader) valueType() byte {
	at := r.pos
	c := r.byte()
	if r.err == nil && !isValueType(c) {
		r.fail(at, "the value type %#x is unknown or not allowed", c)
	}
	return c
}

func (r *reader) refType() byte {
	at := r.pos
	c := r.byte()
	if r.err == nil && !isRefType(c) {
		r.fail(at, "the reference type %#x is unknown or not allowed", c)
	}
	return c
}

// The types of the added functions: refill, and those without anything.
const (
	typeRefill = iota
	typeNothing
)

func (m *module) typeSection() ([]byte, *Error) {
	n, w, err := m.items(secType, m.limits.Types, [][]byte{{0x60, 0, 1, typeI64}, {0x60, 0, 0}}, func(r *reader, w []byte, _ int) []byte {
		from := r.pos
		if c := r.byte(); r.err == nil && c != 0x60 {
			r.fail(from, "the kind of type %#x is unknown or not allowed", c)
		}
		var passed int64
		params := r.count(m.limits.Signature, "parameters")
		for range params {
			passed += slotBytes(r.valueType())
		}
		for range r.count(m.limits.Signature, "results") {
			passed += slotBytes(r.valueType())
		}
		m.params, m.passed = append(m.params, params), append(m.passed, passed)
		return same(r, w, from)
	})
	m.types = n
	return w, err
}

func (m *module) importSection() ([]byte, *Error) {
	fn := func(name string, typ int) []byte {
		w := appendName(appendName(nil, Module), name)
		return binary.AppendUvarint(append(w, 0), uint64(m.types+typ))
	}
	added := [][]byte{fn(Refill, typeRefill), fn(TooDeep, typeNothing)}
	_, w, err := m.items(secImport, m.limits.Imports, added, func(r *reader, w []byte, _ int) []byte {
		from := r.pos
		if r.name() == Module {
			r.fail(from, "the module %q is reserved for metering", Module)
		}
		r.name()
		at := r.pos
		switch kind := r.byte(); {
		case r.err != nil:
		case kind == 0:
			m.funcs = append(m.funcs, r.index(m.types, "type"))
			m.funcImports++
		case kind == 1:
			// Its size is up to the module that it comes from.
			m.tables++
			r.refType()
			r.limits(1<<32 - 1)
		case kind == 2:
			m.memoryType(r)
		case kind == 3:
			r.valueType()
			r.mutability()
			m.globals++
			m.globImports++
		default:
			r.fail(at, "the kind of import %d is unknown or not allowed", kind)
		}
		return same(r, w, from)
	})
	return w, err
}

func appendName(w []byte, s string) []byte {
	return append(binary.AppendUvarint(w, uint64(len(s))), s...)
}

func (r *reader) mutability() {
	at := r.pos
	if c := r.byte(); r.err == nil && c > 1 {
		r.fail(at, "the mutability %#x is unknown", c)
	}
}

func (m *module) functionSection() ([]byte, *Error) {
	slow := binary.AppendUvarint(nil, uint64(m.types+typeNothing))
	_, w, err := m.items(secFunction, m.limits.Functions, [][]byte{slow}, func(r *reader, w []byte, _ int) []byte {
		from := r.pos
		m.funcs = append(m.funcs, r.index(m.types, "type"))
		return same(r, w, from)
	})
	m.referred = make([]bool, len(m.funcs))
	return w, err
}

func (m *module) tableSection() ([]byte, *Error) {
	part := m.limits.TableElements
	if s := m.sections[secTable]; s != nil {
		r := &reader{b: m.wasm, pos: s.from, end: s.to}
		part /= max(1, r.count(m.limits.Tables, "tables")) // an error is seen again below
	}
	_, w, err := m.items(secTable, m.limits.Tables, nil, func(r *reader, w []byte, _ int) []byte {
		if m.tables++; m.tables > m.limits.Tables {
			r.fail(r.pos, "%d tables with the imported ones, more than the %d allowed", m.tables, m.limits.Tables)
		}
		return tableType(r, w, uint32(min(part, 1<<32-1)))
	})
	return w, err
}

// tableType reads a table's type, and appends it with a maximum that is within
// the limit.
func tableType(r *reader, w []byte, limit uint32) []byte {
	ref := r.refType()
	at := r.pos
	least, most := r.limits(1<<32 - 1)
	if r.err == nil && least > limit {
		r.fail(at, "a table of %d elements, more than the %d allowed", least, limit)
	}
	w = binary.AppendUvarint(append(w, ref, 1), uint64(least))
	return binary.AppendUvarint(w, uint64(min(most, limit)))
}

// limits reads a size and its maximum, none of them above top; without a
// maximum it is top.
func (r *reader) limits(top uint32) (least, most uint32) {
	at := r.pos
	flag := r.byte()
	if r.err == nil && flag > 1 {
		r.fail(at, "the kind of limits %#x is unknown or not allowed (shared, 64 bits)", flag)
	}
	least, most = r.u32(), top
	if flag == 1 {
		most = r.u32()
	}
	if r.err == nil && (least > most || most > top) {
		r.fail(at, "a size of %d with a maximum of %d (at most %d) is not possible", least, most, top)
	}
	return least, most
}

func (m *module) memoryType(r *reader) {
	if m.memories++; m.memories > 1 {
		r.fail(r.pos, "more than one memory")
	}
	r.limits(1 << 16)
}

func (m *module) memorySection() ([]byte, *Error) {
	_, w, err := m.items(secMemory, 1, nil, func(r *reader, w []byte, _ int) []byte {
		from := r.pos
		m.memoryType(r)
		return same(r, w, from)
	})
	return w, err
}

func (m *module) globalSection() ([]byte, *Error) {
	fuel := []byte{typeI64, 1, opI64Const, 0, opEnd}
	depth := append(appendSigned([]byte{typeI64, 1, opI64Const}, int64(m.limits.Depth)), opEnd)
	n, w, err := m.items(secGlobal, m.limits.Globals, [][]byte{fuel, depth}, func(r *reader, w []byte, _ int) []byte {
		from := r.pos
		r.valueType()
		r.mutability()
		w = same(r, w, from)
		return m.constExpr(r, w)
	})
	m.globals += n
	return w, err
}

// constExpr reads one constant and its end, and appends them with the index of
// a function shifted.
func (m *module) constExpr(r *reader, w []byte) []byte {
	from := r.pos
	op := r.byte()
	switch op {
	case opI32Const:
		r.signed(32)
	case opI64Const:
		r.signed(64)
	case 0x43: // f32.const
		r.skip(4)
	case 0x44: // f64.const
		r.skip(8)
	case opVector:
		if c := r.byte(); r.err == nil && c != 0x0c { // v128.const
			r.fail(from, "the vector instruction %#x is not allowed in a constant", c)
		}
		r.skip(16)
	case opGlobalGet:
		r.index(m.globImports, "imported global")
	case opRefNull:
		r.refType()
	case opRefFunc:
		f := r.index(len(m.funcs), "function")
		if r.err == nil {
			m.referred[f] = true
			w = binary.AppendUvarint(append(w, op), uint64(m.shifted(f)))
			from = r.pos
		}
	default:
		r.fail(from, "the instruction %#x is not allowed in a constant", op)
	}
	at := r.pos
	if c := r.byte(); r.err == nil && c != opEnd {
		r.fail(at, "a constant has more than one instruction")
	}
	return same(r, w, from)
}

func (m *module) exportSection() ([]byte, *Error) {
	_, w, err := m.items(secExport, m.limits.Exports, nil, func(r *reader, w []byte, _ int) []byte {
		from := r.pos
		r.name()
		at := r.pos
		kind := r.byte()
		w = same(r, w, from)
		i := 0
		switch {
		case r.err != nil:
		case kind == 0:
			if i = r.index(len(m.funcs), "function"); r.err == nil {
				m.referred[i] = true
				i = m.shifted(i)
			}
		case kind == 1:
			i = r.index(m.tables, "table")
		case kind == 2:
			i = r.index(m.memories, "memory")
		case kind == 3:
			i = r.index(m.globals, "global")
		default:
			r.fail(at, "the kind of export %d is unknown or not allowed", kind)
		}
		return binary.AppendUvarint(w, uint64(i))
	})
	return w, err
}

func (m *module) elementSection() ([]byte, *Error) {
	n, w, err := m.items(secElement, m.limits.ElementSegments, nil, m.elementSegment)
	m.elements = n
	return w, err
}

// elementSegment rewrites one segment. Of its flags, bit 0 means that it is not
// placed in a table, bit 1 that a table is named (or that it only declares), bit
// 2 that its elements are expressions.
func (m *module) elementSegment(r *reader, w []byte, _ int) []byte {
	from := r.pos
	flags := r.u32()
	if r.err == nil && flags > 7 {
		r.fail(from, "the kind of element segment %d is unknown", flags)
	}
	if flags&1 == 0 {
		if flags&2 != 0 {
			r.index(m.tables, "table")
		} else if m.tables == 0 {
			r.fail(from, "table 0 does not exist: the module has none")
		}
		w = m.constExpr(r, same(r, w, from))
		from = r.pos
	}
	if flags&3 != 0 {
		at := r.pos
		if flags&4 != 0 {
			r.refType()
		} else if c := r.byte(); r.err == nil && c != 0 {
			r.fail(at, "the kind of element %d is unknown", c)
		}
	}
	w = same(r, w, from)
	from = r.pos
	n := r.count(m.limits.TableElements-m.placed, "elements, with those of the segments before it")
	m.placed += n
	w = same(r, w, from)
	for i := 0; i < n && r.err == nil; i++ {
		if flags&4 != 0 {
			w = m.constExpr(r, w)
		} else if f := r.index(len(m.funcs), "function"); r.err == nil {
			m.referred[f] = true
			w = binary.AppendUvarint(w, uint64(m.shifted(f)))
		}
	}
	return w
}

func (m *module) dataCountSection() ([]byte, *Error) {
	m.data = -1
	s := m.sections[secDataCount]
	if s == nil {
		return nil, nil
	}
	r := &reader{b: m.wasm, pos: s.from, end: s.to, where: "data count section"}
	n := r.u32()
	if r.more() {
		r.fail(r.pos, "it has more than one number")
	}
	if r.err == nil && int64(n) > int64(m.limits.DataSegments) {
		r.fail(s.from, "%d data segments, more than the %d allowed", n, m.limits.DataSegments)
	}
	m.data = int(n)
	return m.wasm[s.from:s.to], r.err
}

func (m *module) dataSection() ([]byte, *Error) {
	n, w, err := m.items(secData, m.limits.DataSegments, nil, func(r *reader, w []byte, _ int) []byte {
		from := r.pos
		kind := r.u32()
		if r.err == nil && kind > 2 {
			r.fail(from, "the kind of data segment %d is unknown", kind)
		}
		if kind == 2 {
			r.index(m.memories, "memory")
		} else if kind == 0 && m.memories == 0 {
			r.fail(from, "memory 0 does not exist: the module has none")
		}
		w = same(r, w, from)
		if kind != 1 {
			w = m.constExpr(r, w)
		}
		from = r.pos
		r.skip(r.u32())
		return same(r, w, from)
	})
	if err == nil && m.data >= 0 && m.data != n {
		err = &Error{Where: "data section", Offset: len(m.wasm), Problem: "it does not have as many segments as the data count section says"}
		if s := m.sections[secData]; s != nil {
			err.Offset = s.from
		}
	}
	return w, err
}

// appendSigned appends v as a signed LEB128.
func appendSigned(w []byte, v int64) []byte {
	for {
		c := byte(v & 0x7f)
		v >>= 7
		if v == 0 && c&0x40 == 0 || v == -1 && c&0x40 != 0 {
			return append(w, c)
		}
		w = append(w, c|0x80)
	}
}
