package jsondoc

// Equal reports whether a and b mean the same: objects without regard to order,
// numbers by their exact decimal value, strings by their text.
func Equal(a, b Value) bool { return equal(a.d, a.i, b.d, b.i) }

// Hash is the same for values that are Equal. As a Digest, it is no defence
// against somebody who wants two values to look alike.
func (v Value) Hash() uint64 { return finish(hashValue(v.d, v.i)) }

// IsZero reports whether v is no value at all, as what Get did not find.
func (v Value) IsZero() bool { return v.d == nil }
