package jsondoc

import "unsafe"

// The hashes below are stored with acks: a change of any of them makes every
// resource look changed once. jsondoc_test.go holds them.

const (
	pathSeed  = 0xcbf29ce484222325 // FNV-1a's
	hashPrime = 0x9e3779b97f4a7c15
)

// load64 returns the eight bytes of s from i on as they lie in memory, on
// little-endian machines, as wasm is, the first one lowest. The caller knows that they are there.
func load64(s string, i int) uint64 {
	return *(*uint64)(unsafe.Add(unsafe.Pointer(unsafe.StringData(s)), i))
}

// hashString mixes s into h, eight bytes at a time.
func hashString(h uint64, s string) uint64 {
	h ^= uint64(len(s)) * hashPrime
	if len(s) >= 8 {
		last := len(s) - 8
		for i := 0; i < last; i += 8 {
			h = mix(h, load64(s, i))
		}
		return mix(h, load64(s, last)) // may overlap
	}
	var w uint64
	for i := range len(s) {
		w |= uint64(s[i]) << (8 * i)
	}
	return mix(h, w)
}

func mix(h, w uint64) uint64 {
	h = (h ^ w) * hashPrime
	return h ^ h>>29
}

// finish spreads what h holds over all its bits.
func finish(h uint64) uint64 {
	h = (h ^ h>>32) * 0xd6e8feb86659fd93
	h = (h ^ h>>32) * 0xd6e8feb86659fd93
	return h ^ h>>32
}

// pathOf is the path of a member, by the hash of its key.
func pathOf(parent, key uint64) uint64 { return mix(parent, key) }

// digestAt is the share of one owned value in a Digest. All objects are alike
// there: what is owned of an object is its members, or, of an empty one, that
// it exists.
func digestAt(path uint64, d *Doc, at int32) Digest {
	v := uint64(Object)
	if d.nodes[at].kind != Object {
		v = hashValue(d, at)
	}
	return Digest(finish(mix(path, v)))
}

// hashValue is the same for values that are equal.
func hashValue(d *Doc, at int32) uint64 {
	n := &d.nodes[at]
	h := mix(pathSeed, uint64(n.kind))
	switch n.kind {
	case Bool:
		return mix(h, uint64(d.src[n.start]))
	case Number:
		return parseDecimal(d.src[n.start:n.end]).hash(h)
	case String:
		if n.plain {
			return hashString(h, d.src[n.start+1:n.end-1])
		}
		return hashString(h, Value{d, at}.Text())
	case Array:
		for c := n.first; c != 0; c = d.nodes[c].next {
			h = mix(h, hashValue(d, c))
		}
	case Object:
		var sum uint64
		for c := n.first; c != 0; c = d.nodes[c].next {
			sum += finish(mix(mix(h, d.nodes[c].hash), hashValue(d, c)))
		}
		return mix(h, sum)
	}
	return h
}

func (d decimal) hash(h uint64) uint64 {
	h = mix(h, uint64(d.exp))
	if d.negative {
		h = mix(h, 1)
	}
	for i := range len(d.digits) {
		if c := d.digits[i]; c != '.' {
			h = mix(h, uint64(c))
		}
	}
	return h
}

// DigestBytes returns the digest of a text that need not be JSON.
func DigestBytes(s string) Digest { return Digest(finish(hashString(pathSeed, s))) }
