package meter

import (
	"encoding/binary"
	"fmt"
	"slices"
)

// findBodies reads how the code section is divided.
func (m *module) findBodies() *Error {
	n, _, err := m.items(secCode, m.limits.Functions, nil, func(r *reader, w []byte, _ int) []byte {
		at := r.pos
		size := r.u32()
		if r.err == nil && int64(size) > int64(m.limits.BodyBytes) {
			r.fail(at, "a body of %d bytes, more than the %d allowed", size, m.limits.BodyBytes)
		}
		from := r.pos
		r.skip(size)
		m.bodies = append(m.bodies, span{from, r.pos})
		return w
	})
	if own := len(m.funcs) - m.funcImports; err == nil && own != n {
		err = &Error{Where: "code section", Offset: len(m.wasm),
			Problem: fmt.Sprintf("%d bodies for %d functions", n, own)}
	}
	return err
}

// rewrittenMost is how much larger than Limits.ModuleBytes the rewritten code may
// be. A Go guest's is half as large again as it was, a module of nothing but
// recursive calls twenty times.
const rewrittenMost = 2

func (m *module) codeSection() ([]byte, *Error) {
	if err := m.findBodies(); err != nil {
		return nil, err
	}
	s := &scan{m: m, r: &reader{b: m.wasm}}
	fs, err := m.survey(s)
	if err != nil {
		return nil, err
	}
	sorted := order(fs)
	countCalls(fs, sorted)
	bodies := make([][]byte, len(fs))
	size := 100 // and what slowBody has
	var g successors
	for _, i := range sorted {
		if bodies[i], err = m.body(s, &g, fs, int(i)); err != nil {
			return nil, err
		}
		if size += len(bodies[i]) + 5; size > rewrittenMost*m.limits.ModuleBytes {
			s.r.fail(m.bodies[i].from, "the code has, with what meters it, more than %d times the %d bytes that a module may have", rewrittenMost, m.limits.ModuleBytes)
			return nil, s.r.err
		}
	}
	bodies = append(bodies, m.slowBody())
	w := binary.AppendUvarint(make([]byte, 0, size), uint64(len(bodies)))
	for _, b := range bodies {
		w = append(binary.AppendUvarint(w, uint64(len(b))), b...)
	}
	return w, nil
}

func (m *module) scan(s *scan, i int) *Error {
	s.r.where = fmt.Sprintf("function %d", m.funcImports+i)
	return s.function(m.params[m.funcs[m.funcImports+i]], m.bodies[i])
}

// localsOfAll is how many times Limits.Locals all functions may have together: a
// declaration of thousands takes four bytes, and whoever loads the module keeps each.
const localsOfAll = 1000

// survey scans every function once, for the call graph.
func (m *module) survey(s *scan) ([]function, *Error) {
	fs := make([]function, len(m.bodies))
	s.callee = nil
	locals := 0
	for i := range fs {
		if err := m.scan(s, i); err != nil {
			return nil, err
		}
		if locals += s.locals; locals > m.limits.Locals*localsOfAll {
			s.r.fail(m.bodies[i].from, "more than the %d locals allowed in all functions together", m.limits.Locals*localsOfAll)
			return nil, s.r.err
		}
		slices.Sort(s.calls)
		for _, f := range slices.Compact(s.calls) {
			if f >= m.funcImports {
				fs[i].calls = append(fs[i].calls, int32(f-m.funcImports))
			}
		}
		fs[i].frame = s.frameBytes(m.bodies[i].to - s.code)
	}
	return fs, nil
}

// body rewrites function i; those that it calls, ways back aside, are done.
func (m *module) body(s *scan, g *successors, fs []function, i int) ([]byte, *Error) {
	f := &fs[i]
	s.callee = func(c int) callee {
		if c < m.funcImports {
			return callee{free: true, cost: costHostCall}
		}
		t := &fs[c-m.funcImports]
		switch {
		case t.order >= f.order || t.counted:
			return callee{free: t.free, cost: t.paid, counted: true}
		case t.free:
			return callee{free: true, cost: t.paid}
		}
		return callee{quiet: t.unchecked}
	}
	if err := m.scan(s, i); err != nil {
		return nil, err
	}
	most := int64(maxFree)
	if m.referred[m.funcImports+i] {
		most = maxFreeRefs
	}
	longest := s.measure(g)
	if m.exact {
		s.chargeExactly()
	} else if !s.loops && !s.indirect && !s.counted && s.leaf && longest <= most {
		f.free, f.paid = true, longest
	} else {
		if longest > maxQuiet {
			s.nodes[0].check = true
		} else {
			f.unchecked = longest
		}
		s.plan(g)
	}
	return s.rewrite(f), nil
}

// rewrite puts the charges, checks and edits into the scanned function.
func (s *scan) rewrite(f *function) []byte {
	m := s.m
	body := m.wasm[:s.r.end]
	w := make([]byte, 0, (s.r.end-s.code)*2)
	w = binary.AppendUvarint(w, uint64(s.ngroups+btoi(s.scratch)))
	w = append(w, body[s.groups.from:s.groups.to]...)
	if s.scratch {
		w = append(w, 1, typeI32)
	}
	nodes, pos := s.nodes, s.code
	if f.free {
		nodes = nil
	}
	for _, e := range s.edits {
		for len(nodes) > 0 && nodes[0].pos <= e.pos {
			w = append(w, body[pos:nodes[0].pos]...)
			pos = nodes[0].pos
			w, nodes = m.appendCharge(w, &nodes[0]), nodes[1:]
		}
		w = append(w, body[pos:e.pos]...)
		pos = e.end
		w = s.appendEdit(w, e, f)
	}
	for ; len(nodes) > 0; nodes = nodes[1:] {
		w = append(w, body[pos:nodes[0].pos]...)
		pos = nodes[0].pos
		w = m.appendCharge(w, &nodes[0])
	}
	return append(w, body[pos:]...)
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

func appendIndexed(w []byte, op byte, i int) []byte {
	return binary.AppendUvarint(append(w, op), uint64(i))
}

// The opcodes that only the added code uses by name.
const (
	opI32LtU     = 0x49
	opI64LtS     = 0x53
	opI64Add     = 0x7c
	opI64Sub     = 0x7d
	opI64Mul     = 0x7e
	opI64Or      = 0x84
	opI64ShrU    = 0x88
	opI64ExtendU = 0xad
	opSelect     = 0x1b
)

// appendAdd adds the constant v to a global.
func appendAdd(w []byte, global int, v int64) []byte {
	op := byte(opI64Add)
	if v < 0 {
		op, v = opI64Sub, -v
	}
	w = appendIndexed(w, opGlobalGet, global)
	w = append(appendSigned(append(w, opI64Const), v), op)
	return appendIndexed(w, opGlobalSet, global)
}

// appendSlow calls the slow path if the i64 on the stack is negative.
func (m *module) appendSlow(w []byte) []byte {
	w = append(w, opI64Const, 0, opI64LtS, opIf, typeNone)
	return append(appendIndexed(w, opCall, m.slowIndex()), opEnd)
}

func (m *module) appendCharge(w []byte, n *node) []byte {
	if n.charge > 0 {
		w = appendAdd(w, m.fuelGlobal(), -n.charge)
	}
	if n.check {
		w = m.appendSlow(appendIndexed(w, opGlobalGet, m.fuelGlobal()))
	}
	return w
}

func (s *scan) appendEdit(w []byte, e edit, f *function) []byte {
	m := s.m
	switch e.kind {
	case editCall:
		return appendIndexed(w, opCall, m.shifted(e.arg))
	case editRefFunc:
		return appendIndexed(w, opRefFunc, m.shifted(e.arg))
	case editBranch:
		return appendIndexed(w, opBr, e.arg)
	case editCounted:
		w = appendAdd(w, m.depthGlobal(), -f.stack)
		w = appendIndexed(appendIndexed(w, opGlobalGet, m.depthGlobal()), opGlobalGet, m.fuelGlobal())
		w = m.appendSlow(append(w, opI64Or))
		if e.arg < 0 {
			w = append(w, m.wasm[e.pos:e.end]...)
		} else {
			w = appendIndexed(w, opCall, m.shifted(e.arg))
		}
		return appendAdd(w, m.depthGlobal(), f.stack)
	default:
		return s.appendDynamic(w, e.dynamic)
	}
}

// maxGrow is the count beyond which growing fails, for pages and elements that
// come close to it.
const maxGrow = 1 << 16

// appendDynamic charges by the count on top of the stack, which stays there. The
// product can't overflow: the count has 32 bits, and what it is multiplied with 13.
func (s *scan) appendDynamic(w []byte, d dynamic) []byte {
	m, count := s.m, s.locals
	w = appendIndexed(w, opLocalTee, count)
	w = appendIndexed(w, opGlobalGet, m.fuelGlobal())
	w = appendIndexed(w, opLocalGet, count)
	if d.grow {
		w = appendSigned(append(w, opI32Const), maxGrow)
		w = appendIndexed(w, opLocalGet, count)
		w = appendSigned(append(w, opI32Const), maxGrow)
		w = append(w, opI32LtU, opSelect)
	}
	w = append(w, opI64ExtendU)
	if d.shift > 0 {
		w = append(w, opI64Const, d.shift, opI64ShrU)
	}
	if d.mul > 1 {
		w = append(appendSigned(append(w, opI64Const), int64(d.mul)), opI64Mul)
	}
	w = append(w, opI64Sub)
	w = appendIndexed(w, opGlobalSet, m.fuelGlobal())
	return m.appendSlow(appendIndexed(w, opGlobalGet, m.fuelGlobal()))
}

// slowBody is the function that is called when fuel or depth is below zero. What
// one large instruction owes is paid at once, by as many refills as it takes.
func (m *module) slowBody() []byte {
	w := appendIndexed([]byte{0}, opGlobalGet, m.depthGlobal())
	w = append(w, opI64Const, 0, opI64LtS, opIf, typeNone)
	w = append(appendIndexed(w, opCall, m.tooDeepIndex()), opUnreachable, opEnd)
	w = append(w, opLoop, typeNone)
	w = appendIndexed(appendIndexed(w, opCall, m.refillIndex()), opGlobalGet, m.fuelGlobal())
	w = appendIndexed(append(w, opI64Add), opGlobalSet, m.fuelGlobal())
	w = append(appendIndexed(w, opGlobalGet, m.fuelGlobal()), opI64Const, 0, opI64LtS)
	return append(appendIndexed(w, opBrIf, 0), opEnd, opEnd)
}
