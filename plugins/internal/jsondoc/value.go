package jsondoc

// Equal reports whether a and b mean the same: objects without regard to order,
// numbers by their exact decimal value, strings by their text.
func Equal(a, b Value) bool { return equal(a.d, a.i, b.d, b.i) }

// Hash is the same for values that are Equal. As a Digest, it is no defence
// against somebody who wants two values to look alike.
func (v Value) Hash() uint64 { return finish(hashValue(v.d, v.i)) }

// IsZero reports whether v is no value at all, as what Get did not find.
func (v Value) IsZero() bool { return v.d == nil }

// Members finds members of one object by their key, again and again: quickly, and
// at once where they are asked for in the object's own order.
type Members struct {
	d *Doc
	f finder
}

// Find prepares to look for members of v; where v is no object there are none.
func (v Value) Find() Members {
	if v.d == nil {
		return Members{}
	}
	return Members{v.d, newFinder(v.d, v.i)}
}

// Get returns the member of that key; where there is none, the zero Value.
func (m *Members) Get(key string) Value {
	if c := m.f.find(key); c != 0 {
		return Value{m.d, c}
	}
	return Value{}
}
