package meter

import (
	"fmt"
	"unicode/utf8"
)

// Error says what a module was refused for.
type Error struct {
	// Where names the part of the module: a section, an import, a function.
	Where string
	// Offset is the byte of the module at which the problem is.
	Offset int
	// Problem says what is wrong there.
	Problem string
}

func (e *Error) Error() string {
	return fmt.Sprintf("%s, at byte %d: %s", e.Where, e.Offset, e.Problem)
}

// reader decodes the bytes of b from pos to end. After the first problem err is
// set, nothing is left to read and every value is zero; so callers may check it
// once after several reads.
type reader struct {
	b     []byte
	pos   int
	end   int
	where string
	err   *Error
}

func (r *reader) fail(at int, format string, args ...any) {
	if r.err == nil {
		r.err = &Error{Where: r.where, Offset: at, Problem: fmt.Sprintf(format, args...)}
	}
	r.pos = r.end
}

func (r *reader) more() bool { return r.pos < r.end }

func (r *reader) byte() byte {
	if r.pos >= r.end {
		r.fail(r.pos, "cut off")
		return 0
	}
	c := r.b[r.pos]
	r.pos++
	return c
}

// u32 reads an unsigned LEB128 of 32 bits: at most 5 bytes, no bit beyond.
func (r *reader) u32() uint32 {
	at := r.pos
	if at < r.end {
		if c := r.b[at]; c < 0x80 {
			r.pos++
			return uint32(c)
		}
	}
	var v uint32
	for shift := 0; shift < 35; shift += 7 {
		c := r.byte()
		if r.err != nil {
			return 0
		}
		if shift == 28 && c > 0x0f {
			break
		}
		v |= uint32(c&0x7f) << shift
		if c < 0x80 {
			return v
		}
	}
	r.fail(at, "a number does not fit into 32 bits")
	return 0
}

// signed reads a signed LEB128 of that many bits: 32, 33 or 64.
func (r *reader) signed(bits int) int64 {
	at := r.pos
	var v int64
	for shift := 0; shift < bits; shift += 7 {
		c := r.byte()
		if r.err != nil {
			return 0
		}
		v |= int64(c&0x7f) << shift
		if left := bits - shift; left < 7 {
			// The last byte: what is beyond the value must repeat its sign.
			if ext := int8(c<<1) >> left; c >= 0x80 || ext != 0 && ext != -1 {
				break
			}
		}
		if c < 0x80 {
			if shift+7 < 64 {
				v = v << (57 - shift) >> (57 - shift)
			}
			return v
		}
	}
	r.fail(at, "a signed number does not fit into %d bits", bits)
	return 0
}

// skip passes n bytes and returns them.
func (r *reader) skip(n uint32) []byte {
	if uint64(n) > uint64(r.end-r.pos) {
		r.fail(r.pos, "%d bytes are announced, %d are left", n, r.end-r.pos)
		return nil
	}
	s := r.b[r.pos : r.pos+int(n)]
	r.pos += int(n)
	return s
}

func (r *reader) name() string {
	at := r.pos
	s := r.skip(r.u32())
	if !utf8.Valid(s) {
		r.fail(at, "a name is no valid UTF-8")
	}
	return string(s)
}

// count reads the length of a vector whose items have at least one byte each,
// and refuses more than limit of what.
func (r *reader) count(limit int, what string) int {
	at := r.pos
	n := r.u32()
	if int64(n) > int64(limit) {
		r.fail(at, "%d %s, more than the %d allowed", n, what, limit)
		return 0
	}
	if int64(n) > int64(r.end-r.pos) {
		r.fail(at, "%d %s are announced, %d bytes are left", n, what, r.end-r.pos)
		return 0
	}
	return int(n)
}

// index reads an index into a space of n things.
func (r *reader) index(n int, what string) int {
	at := r.pos
	i := r.u32()
	if int64(i) >= int64(n) {
		r.fail(at, "%s %d does not exist: the module has %d", what, i, n)
		return 0
	}
	return int(i)
}
