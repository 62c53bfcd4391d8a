package jsondoc

// smallObject is up to how many members are searched one by one.
const smallObject = 64

// dropOverridden unlinks members of an object whose key comes again later.
func (p *parser) dropOverridden(object *node) {
	count := 0
	for c := object.first; c != 0; c = p.nodes[c].next {
		count++
	}
	if count <= smallObject && !p.mayRepeat(object) {
		return
	}
	latest := make(map[string]int32, count)
	for c := object.first; c != 0; c = p.nodes[c].next {
		latest[p.nodes[c].key] = c
	}
	if len(latest) == count {
		return
	}
	var kept int32
	for c := object.first; c != 0; c = p.nodes[c].next {
		switch {
		case latest[p.nodes[c].key] != c:
		case kept == 0:
			object.first, kept = c, c
		default:
			p.nodes[kept].next, kept = c, c
		}
	}
}

// mayRepeat reports whether two members of a small object share the hash of
// their key.
func (p *parser) mayRepeat(object *node) bool {
	const slots = 2 * smallObject
	if p.seen == nil {
		p.seen = make([]uint32, slots)
	} else {
		clear(p.seen)
	}
	seen := p.seen[:slots]
	for c := object.first; c != 0; c = p.nodes[c].next {
		h := uint32(p.nodes[c].hash>>32) | 1 // 0 is a free slot
		for i := h >> 1; ; i++ {
			switch seen[i%slots] {
			case 0:
				seen[i%slots] = h
			case h:
				return true
			default:
				continue
			}
			break
		}
	}
	return false
}

// finder looks up the members of one object. It goes on from where it found
// the last one, so that objects with equal order cost one pass; a large object
// whose order differs is indexed.
type finder struct {
	nodes []node
	first int32
	hint  int32
	steps int // spent beyond the hint
	index map[string]int32
}

func newFinder(d *Doc, object int32) finder {
	n := &d.nodes[object]
	if n.kind != Object {
		return finder{}
	}
	return finder{nodes: d.nodes, first: n.first, hint: n.first}
}

// find returns the member's node, or 0.
func (f *finder) find(key string) int32 {
	if f.hint != 0 && f.nodes[f.hint].key == key {
		found := f.hint
		f.hint = f.nodes[found].next
		return found
	}
	if f.index != nil {
		return f.index[key]
	}
	for c := f.first; c != 0; c = f.nodes[c].next {
		if f.nodes[c].key == key {
			f.hint = f.nodes[c].next
			return c
		}
		if f.steps++; f.steps > smallObject*smallObject {
			f.build()
			return f.index[key]
		}
	}
	return 0
}

func (f *finder) build() {
	f.index = map[string]int32{}
	for c := f.first; c != 0; c = f.nodes[c].next {
		f.index[f.nodes[c].key] = c
	}
}

// Get returns the member of that key; where there is none, the zero Value.
func (v Value) Get(key string) (Value, bool) {
	f := newFinder(v.d, v.i)
	c := f.find(key)
	if c == 0 {
		return Value{}, false
	}
	return Value{v.d, c}, true
}
