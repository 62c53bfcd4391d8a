package jsondoc

import "strings"

// Project returns, as JSON, what observed holds at the fields that desired owns and at
// those of before: what of it could be desired by whoever desires such a thing.
func Project(desired, observed Value, before Set) string {
	p := projector{desired: desired.d, observed: observed.d, before: before}
	p.node(desired.i, observed.i, pathSeed)
	return p.out.String()
}

type projector struct {
	desired, observed *Doc
	before            Set
	out               strings.Builder
}

func (p *projector) raw(at int32) string { return Value{p.observed, at}.Raw() }

// node writes the observed value at the path of a desired one.
func (p *projector) node(want, have int32, path uint64) {
	if p.desired.nodes[want].kind != Object || p.observed.nodes[have].kind != Object {
		p.out.WriteString(p.raw(have))
		return
	}
	f := newFinder(p.desired, want)
	p.out.WriteByte('{')
	first := true
	for m := p.observed.nodes[have].first; m != 0; m = p.observed.nodes[m].next {
		n := &p.observed.nodes[m]
		at := pathOf(path, n.hash)
		wanted := f.find(n.key)
		if wanted == 0 && !p.owns(m, at) {
			continue
		}
		p.key(n.key, &first)
		if wanted != 0 {
			p.node(wanted, m, at)
		} else {
			p.owned(m, at)
		}
	}
	p.out.WriteByte('}')
}

func (p *projector) key(key string, first *bool) {
	if !*first {
		p.out.WriteByte(',')
	}
	*first = false
	p.out.WriteByte('"')
	p.out.Write(AppendEscaped(nil, key))
	p.out.WriteString(`":`)
}

// owns reports whether before has the value, or something in it.
func (p *projector) owns(have int32, path uint64) bool {
	if p.before.has(finish(path)) {
		return true
	}
	for m := p.observed.nodes[have].firstMember(); m != 0; m = p.observed.nodes[m].next {
		if p.owns(m, pathOf(path, p.observed.nodes[m].hash)) {
			return true
		}
	}
	return false
}

// owned writes what before has of a value.
func (p *projector) owned(have int32, path uint64) {
	if p.before.has(finish(path)) {
		p.out.WriteString(p.raw(have))
		return
	}
	p.out.WriteByte('{')
	first := true
	for m := p.observed.nodes[have].firstMember(); m != 0; m = p.observed.nodes[m].next {
		if at := pathOf(path, p.observed.nodes[m].hash); p.owns(m, at) {
			p.key(p.observed.nodes[m].key, &first)
			p.owned(m, at)
		}
	}
	p.out.WriteByte('}')
}
