package pawl

import (
	"errors"
	"unicode/utf8"
	"unsafe"
)

// Errors of a message that can't be decoded.
var (
	errTruncated = errors.New("message ends in the middle of a field")
	errVarint    = errors.New("varint is longer than 64 bits")
	errTag       = errors.New("field number or wire type is invalid")
	errGroup     = errors.New("groups are not allowed")
	errWireType  = errors.New("a known field has another wire type")
	errUTF8      = errors.New("a string is not valid UTF-8")
	errEnum      = errors.New("an enum has an unknown value")
)

// The wire types that are allowed.
const (
	wireVarint = 0
	wireI64    = 1
	wireBytes  = 2
	wireI32    = 5
)

// decoder reads the protobuf wire format. The first error sticks and ends the
// reading; whoever decodes looks at err once, at the end. What it hands out
// shares the message's memory, which nobody may change any more.
type decoder struct {
	b    []byte
	i    int
	wire uint8 // of the field that next returned
	err  error
}

// next returns the number of the next field, or false at the end of the
// message or after an error. The caller reads or skips the field's value.
func (d *decoder) next() (field uint32, ok bool) {
	if d.err != nil || d.i >= len(d.b) {
		return 0, false
	}
	t := d.varint()
	if d.err != nil {
		return 0, false
	}
	d.wire = uint8(t & 7)
	switch {
	case t>>3 == 0 || t>>3 > 1<<29-1:
		d.err = errTag
	case d.wire == 3 || d.wire == 4:
		d.err = errGroup
	case d.wire > wireI32:
		d.err = errTag
	}
	return uint32(t >> 3), d.err == nil
}

func (d *decoder) varint() uint64 {
	if d.i < len(d.b) && d.b[d.i] < 0x80 { // most are one byte
		d.i++
		return uint64(d.b[d.i-1])
	}
	var v uint64
	for shift := 0; ; shift += 7 {
		if d.i >= len(d.b) {
			d.err = errTruncated
			return 0
		}
		c := d.b[d.i]
		d.i++
		if shift == 63 && c > 1 {
			d.err = errVarint
			return 0
		}
		v |= uint64(c&0x7f) << shift
		if c < 0x80 {
			return v
		}
	}
}

// take returns the next n bytes with no spare capacity, so that an append to
// them can't overwrite what follows.
func (d *decoder) take(n uint64) []byte {
	if n > uint64(len(d.b)-d.i) {
		d.err = errTruncated
		return nil
	}
	s := d.i
	d.i += int(n)
	return d.b[s:d.i:d.i]
}

func (d *decoder) skip() {
	switch d.wire {
	case wireVarint:
		d.varint()
	case wireI64:
		d.take(8)
	case wireI32:
		d.take(4)
	case wireBytes:
		d.bytes()
	}
}

func (d *decoder) expect(wire uint8) bool {
	if d.wire != wire && d.err == nil {
		d.err = errWireType
	}
	return d.err == nil
}

func (d *decoder) uint() uint64 {
	if !d.expect(wireVarint) {
		return 0
	}
	return d.varint()
}

func (d *decoder) bool() bool { return d.uint() != 0 }

// enum reads a value of 0 to largest.
func (d *decoder) enum(largest uint8) uint8 {
	v := d.uint()
	if v > uint64(largest) && d.err == nil {
		d.err = errEnum
	}
	if d.err != nil {
		return 0
	}
	return uint8(v)
}

func (d *decoder) bytes() []byte {
	if !d.expect(wireBytes) {
		return nil
	}
	n := d.varint()
	if d.err != nil {
		return nil
	}
	return d.take(n)
}

func (d *decoder) string() string {
	b := d.bytes()
	if len(b) == 0 {
		return ""
	}
	if !utf8.Valid(b) {
		d.err = errUTF8
		return ""
	}
	return unsafe.String(&b[0], len(b))
}

// message returns a decoder of the embedded message; done hands its error back.
func (d *decoder) message() decoder { return decoder{b: d.bytes()} }

func (d *decoder) done(sub *decoder) {
	if d.err == nil {
		d.err = sub.err
	}
}

// The append functions write one field each, and nothing for a default value.
// The larger ones are kept out of line: a message's encoder would otherwise
// need a frame that doubles the stack of every parked call.

func appendVarint(b []byte, v uint64) []byte {
	for v >= 0x80 {
		b = append(b, byte(v)|0x80)
		v >>= 7
	}
	return append(b, byte(v))
}

//go:noinline
func appendUint(b []byte, field uint32, v uint64) []byte {
	if v == 0 {
		return b
	}
	return appendVarint(appendVarint(b, uint64(field)<<3|wireVarint), v)
}

func appendBool(b []byte, field uint32, v bool) []byte {
	if !v {
		return b
	}
	return appendUint(b, field, 1)
}

//go:noinline
func appendBytes(b []byte, field uint32, v []byte) []byte {
	if len(v) == 0 {
		return b
	}
	return append(appendHead(b, field, len(v)), v...)
}

func appendString(b []byte, field uint32, v string) []byte {
	if v == "" {
		return b
	}
	return appendEntry(b, field, v)
}

// appendEntry writes a string that is an element or a half of a map entry: also an empty one.
//
//go:noinline
func appendEntry(b []byte, field uint32, v string) []byte {
	return append(appendHead(b, field, len(v)), v...)
}

// appendHead writes tag and length of a field of n bytes.
func appendHead(b []byte, field uint32, n int) []byte {
	return appendVarint(appendVarint(b, uint64(field)<<3|wireBytes), uint64(n))
}

// openMessage starts an embedded message whose length is not known yet; close
// it with closeMessage, passing what openMessage returned as start.
//
//go:noinline
func openMessage(b []byte, field uint32) (out []byte, start int) {
	b = append(appendVarint(b, uint64(field)<<3|wireBytes), 0)
	return b, len(b)
}

// closeMessage writes the length, moving the content where one byte does not hold it.
func closeMessage(b []byte, start int) []byte {
	n := len(b) - start
	if n < 0x80 {
		b[start-1] = byte(n)
		return b
	}
	var tmp [10]byte
	l := appendVarint(tmp[:0], uint64(n))
	b = append(b, l[1:]...)
	copy(b[start-1+len(l):], b[start:start+n])
	copy(b[start-1:], l)
	return b
}
