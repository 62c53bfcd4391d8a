package abi

import (
	"fmt"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protowire"
)

// reader walks over the fields of one message. After next returned true, num
// is the field's number, and one of the typed methods takes its value; a field
// whose value nobody takes is skipped. The first error ends the walk.
type reader struct {
	msg  string // the message's name, for errors
	rest []byte
	num  protowire.Number
	typ  protowire.Type
	n    uint64 // value of a varint field
	b    []byte // value of a length-delimited field; aliases the input
	err  error
}

func newReader(msg string, b []byte) reader { return reader{msg: msg, rest: b} }

func (r *reader) next() bool {
	if r.err != nil || len(r.rest) == 0 {
		return false
	}
	num, typ, n := protowire.ConsumeTag(r.rest)
	if n < 0 || num > protowire.MaxValidNumber {
		return r.fail("a damaged field tag")
	}
	r.num, r.typ, r.rest = num, typ, r.rest[n:]
	switch typ {
	case protowire.VarintType:
		r.n, n = protowire.ConsumeVarint(r.rest)
	case protowire.BytesType:
		r.b, n = protowire.ConsumeBytes(r.rest)
	case protowire.Fixed32Type:
		_, n = protowire.ConsumeFixed32(r.rest)
	case protowire.Fixed64Type:
		_, n = protowire.ConsumeFixed64(r.rest)
	default:
		return r.fail(fmt.Sprintf("field %d: wire type %d is not allowed", num, typ))
	}
	if n < 0 {
		return r.fail(fmt.Sprintf("field %d: its value is cut off or damaged", num))
	}
	r.rest = r.rest[n:]
	return true
}

func (r *reader) fail(what string) bool {
	if r.err == nil {
		r.err = fmt.Errorf("%w: %s: %s", ErrMalformed, r.msg, what)
	}
	return false
}

func (r *reader) is(typ protowire.Type) bool {
	if r.typ != typ {
		return r.fail(fmt.Sprintf("field %d: wire type %d instead of %d", r.num, r.typ, typ))
	}
	return true
}

// raw returns the value of a bytes field; it aliases the input.
func (r *reader) raw() []byte {
	if !r.is(protowire.BytesType) {
		return nil
	}
	return r.b
}

// bytes returns a copy of the value of a bytes field, never nil.
func (r *reader) bytes() []byte { return append([]byte{}, r.raw()...) }

func (r *reader) string() string {
	b := r.raw()
	if !utf8.Valid(b) {
		r.fail(fmt.Sprintf("field %d: a string that is not valid UTF-8", r.num))
		return ""
	}
	return string(b)
}

func (r *reader) uint() uint64 {
	if !r.is(protowire.VarintType) {
		return 0
	}
	return r.n
}

func (r *reader) uint32() uint32 { return uint32(r.uint()) }
func (r *reader) bool() bool     { return r.uint() != 0 }

// enum returns the value of an enum field between low and high, both inclusive.
func (r *reader) enum(low, high uint64) uint8 {
	n := r.uint()
	if r.err == nil && (n < low || n > high) {
		r.fail(fmt.Sprintf("field %d: enum value %d is unknown", r.num, n))
		return 0
	}
	return uint8(n)
}

// enums appends the values of a repeated enum field, packed or not, to vs.
func (r *reader) enums(vs []Op, low, high Op) []Op {
	if r.typ != protowire.BytesType {
		return append(vs, Op(r.enum(uint64(low), uint64(high))))
	}
	for b := r.b; len(b) > 0; {
		n, size := protowire.ConsumeVarint(b)
		if size < 0 || n < uint64(low) || n > uint64(high) {
			r.fail(fmt.Sprintf("field %d: a damaged or unknown enum value", r.num))
			return vs
		}
		vs, b = append(vs, Op(n)), b[size:]
	}
	return vs
}
