package meter

import "encoding/binary"

const MaxFreeRefs = maxFreeRefs

// RewriteExactly is Rewrite without the savings of plan: every stretch of code
// is charged when it runs, for what it costs.
func RewriteExactly(wasm []byte, l Limits) ([]byte, error) {
	l, err := l.withDefaults()
	if err != nil {
		return nil, err
	}
	m := &module{wasm: wasm, limits: l, exact: true}
	if err := m.split(); err != nil {
		return nil, err
	}
	return m.rewrite()
}

// WithoutCustom leaves the custom sections out of a module.
func WithoutCustom(wasm []byte) []byte {
	m := &module{wasm: wasm, limits: defaults}
	if err := m.split(); err != nil {
		panic(err)
	}
	w := append([]byte(nil), header...)
	for _, id := range sectionOrder {
		if s := m.sections[id]; s != nil {
			w = append(appendIndexed(w, id, s.to-s.from), wasm[s.from:s.to]...)
		}
	}
	return w
}

// ExportFuel exports the fuel of a rewritten module as "fuel".
func ExportFuel(rewritten []byte) []byte {
	m := &module{wasm: rewritten, limits: defaults}
	if err := m.split(); err != nil {
		panic(err)
	}
	count := func(id byte) int {
		s := m.sections[id]
		if s == nil {
			return 0
		}
		return int((&reader{b: rewritten, pos: s.from, end: s.to}).u32())
	}
	imported := 0
	if s := m.sections[secImport]; s != nil {
		n := count(secImport)
		r := &reader{b: rewritten, pos: s.from, end: s.to}
		for r.u32(); n > 0; n-- {
			r.name()
			r.name()
			switch r.byte() {
			case 0:
				r.u32()
			case 1:
				r.refType()
				r.limits(1<<32 - 1)
			case 2:
				r.limits(1 << 16)
			case 3:
				r.skip(2)
				imported++
			}
		}
	}
	item := append(appendName(nil, "fuel"), 3)
	item = appendUint(item, imported+count(secGlobal)-2)
	w := append([]byte(nil), header...)
	exports := false
	for _, id := range sectionOrder {
		s := m.sections[id]
		if id == secExport && s == nil {
			s = &span{}
		}
		if s == nil {
			continue
		}
		b := rewritten[s.from:s.to]
		if id == secExport {
			exports = true
			r := &reader{b: rewritten, pos: s.from, end: s.to}
			n := 0
			if s.to > 0 {
				n = int(r.u32())
			}
			b = append(append(appendUint(nil, n+1), item...), rewritten[r.pos:s.to]...)
		}
		w = append(appendIndexed(w, id, len(b)), b...)
	}
	if !exports {
		panic("no exports")
	}
	return w
}

func appendUint(w []byte, v int) []byte { return binary.AppendUvarint(w, uint64(v)) }
