package jsondoc

// equal reports whether two values mean the same: objects without regard to
// order, numbers by their exact decimal value, strings by their text.
func equal(da *Doc, ia int32, db *Doc, ib int32) bool {
	a, b := &da.nodes[ia], &db.nodes[ib]
	if a.kind != b.kind {
		return false
	}
	rawA, rawB := da.src[a.start:a.end], db.src[b.start:b.end]
	if rawA == rawB {
		return true
	}
	switch a.kind {
	case Number:
		return parseDecimal(rawA).equal(parseDecimal(rawB))
	case String:
		if a.plain && b.plain {
			return false
		}
		return Value{da, ia}.Text() == Value{db, ib}.Text()
	case Array:
		ca, cb := a.first, b.first
		for ca != 0 && cb != 0 {
			if !equal(da, ca, db, cb) {
				return false
			}
			ca, cb = da.nodes[ca].next, db.nodes[cb].next
		}
		return ca == cb // both 0
	case Object:
		return equalObjects(da, ia, db, ib)
	}
	return false
}

func equalObjects(da *Doc, ia int32, db *Doc, ib int32) bool {
	n := 0
	f := newFinder(db, ib)
	for ca := da.nodes[ia].first; ca != 0; ca = da.nodes[ca].next {
		cb := f.find(da.nodes[ca].key)
		if cb == 0 || !equal(da, ca, db, cb) {
			return false
		}
		n++
	}
	for cb := db.nodes[ib].first; cb != 0; cb = db.nodes[cb].next {
		n--
	}
	return n == 0
}

// decimal is a number as ±0.d₁d₂… × 10^exp, with d₁ and the last digit not 0.
type decimal struct {
	digits   string // with a dot in it, maybe
	exp      int64
	negative bool
}

// maxExp bounds what an exponent's digits may add up to; nobody means more.
const maxExp = 1 << 40

// parseDecimal reads a literal that the parser accepted, without allocating.
func parseDecimal(s string) (d decimal) {
	if s[0] == '-' {
		d.negative = true
		s = s[1:]
	}
	mantissa, exp := s, int64(0)
	for i := range len(s) {
		if s[i] == 'e' || s[i] == 'E' {
			mantissa, exp = s[:i], parseExp(s[i+1:])
			break
		}
	}
	point := len(mantissa)
	for i := range len(mantissa) {
		if mantissa[i] == '.' {
			point = i
			break
		}
	}
	first, last := 0, len(mantissa)
	for first < last && (mantissa[first] == '0' || mantissa[first] == '.') {
		first++
	}
	for first < last && (mantissa[last-1] == '0' || mantissa[last-1] == '.') {
		last--
	}
	if first == last {
		return decimal{} // zero has no sign
	}
	d.digits = mantissa[first:last]
	// Digits before the point; negative where zeros follow it.
	if d.exp = exp + int64(point-first); first > point {
		d.exp++ // the point itself was counted
	}
	return d
}

func parseExp(s string) (e int64) {
	negative := s[0] == '-'
	if negative || s[0] == '+' {
		s = s[1:]
	}
	for i := range len(s) {
		if e = e*10 + int64(s[i]-'0'); e > maxExp {
			e = maxExp
		}
	}
	if negative {
		return -e
	}
	return e
}

// equal compares the digits without their dots.
func (d decimal) equal(o decimal) bool {
	if d.negative != o.negative || d.exp != o.exp {
		return false
	}
	a, b := d.digits, o.digits
	for a != "" && b != "" {
		switch {
		case a[0] == '.':
			a = a[1:]
		case b[0] == '.':
			b = b[1:]
		case a[0] != b[0]:
			return false
		default:
			a, b = a[1:], b[1:]
		}
	}
	return a == b // both empty: neither ends with a dot
}
