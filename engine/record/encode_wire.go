package record

import (
	"fmt"
	"math"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
)

// What follows writes and reads single fields for encode.go.

func appendUint(b []byte, n protowire.Number, v uint64) []byte {
	if v == 0 {
		return b
	}
	return protowire.AppendVarint(protowire.AppendTag(b, n, protowire.VarintType), v)
}

func appendInt(b []byte, n protowire.Number, v int64) []byte {
	return appendUint(b, n, protowire.EncodeZigZag(v))
}

func appendBool(b []byte, n protowire.Number, v bool) []byte {
	return appendUint(b, n, protowire.EncodeBool(v))
}

func appendTime(b []byte, n protowire.Number, t time.Time) []byte {
	if t.IsZero() {
		return b
	}
	b = protowire.AppendTag(b, n, protowire.VarintType)
	return protowire.AppendVarint(b, protowire.EncodeZigZag(nanos(t)))
}

// zeroTime stands for the zero time where a repeated field can't leave it out.
const zeroTime = math.MinInt64

func nanos(t time.Time) int64 {
	if t.IsZero() {
		return zeroTime
	}
	return t.UnixNano()
}

func appendString(b []byte, n protowire.Number, v string) []byte {
	if v == "" {
		return b
	}
	return appendElement(b, n, v)
}

// appendElement appends an element of a repeated field, which may be empty.
func appendElement(b []byte, n protowire.Number, v string) []byte {
	return protowire.AppendString(protowire.AppendTag(b, n, protowire.BytesType), v)
}

func appendBytes(b []byte, n protowire.Number, v []byte) []byte {
	if len(v) == 0 {
		return b
	}
	return protowire.AppendBytes(protowire.AppendTag(b, n, protowire.BytesType), v)
}

func appendHash(b []byte, n protowire.Number, h Hash) []byte {
	if h.IsZero() {
		return b
	}
	return appendBytes(b, n, h[:])
}

// appendMessage appends what body appends, with its length before it.
func appendMessage(b []byte, n protowire.Number, body func([]byte) []byte) []byte {
	b = protowire.AppendTag(b, n, protowire.BytesType)
	start := len(b)
	b = body(append(b, 0)) // one byte of length, which nearly always does
	size := len(b) - start - 1
	if extra := protowire.SizeVarint(uint64(size)) - 1; extra > 0 {
		b = append(b, make([]byte, extra)...)
		copy(b[start+1+extra:], b[start+1:start+1+size])
	}
	protowire.AppendVarint(b[:start], uint64(size)) // in place: the room is there
	return b
}

// field is one field on the wire: value for a varint, data for bytes. Both
// zero for the fixed types, which no field has so far.
type field struct {
	number protowire.Number
	kind   protowire.Type
	value  uint64
	data   []byte
}

// eachField calls fn for every field of a message.
func eachField(b []byte, fn func(field) error) error {
	for len(b) > 0 {
		number, kind, n := protowire.ConsumeTag(b)
		if n < 0 {
			return fmt.Errorf("%w: tag: %w", ErrMalformed, protowire.ParseError(n))
		}
		b = b[n:]
		f := field{number: number, kind: kind}
		switch kind {
		case protowire.VarintType:
			f.value, n = protowire.ConsumeVarint(b)
		case protowire.BytesType:
			f.data, n = protowire.ConsumeBytes(b)
		default:
			n = protowire.ConsumeFieldValue(number, kind, b)
		}
		if n < 0 {
			return fmt.Errorf("%w: field %d: %w", ErrMalformed, number, protowire.ParseError(n))
		}
		b = b[n:]
		if err := fn(f); err != nil {
			return err
		}
	}
	return nil
}

// is says whether f has the wire type that its number calls for.
func (f field) is(kind protowire.Type) error {
	if f.kind != kind {
		return fmt.Errorf("%w: field %d has wire type %d instead of %d", ErrMalformed, f.number, f.kind, kind)
	}
	return nil
}

func (f field) uint(to *uint64) error {
	*to = f.value
	return f.is(protowire.VarintType)
}

func (f field) bool(to *bool) error {
	*to = protowire.DecodeBool(f.value)
	return f.is(protowire.VarintType)
}

func parseInt[T ~int | ~int64](f field, to *T) error {
	*to = T(protowire.DecodeZigZag(f.value))
	return f.is(protowire.VarintType)
}

func (f field) time(to *time.Time) error {
	if ns := protowire.DecodeZigZag(f.value); ns != zeroTime {
		*to = time.Unix(0, ns).UTC()
	}
	return f.is(protowire.VarintType)
}

func (f field) bytes(to *[]byte) error {
	*to = append([]byte(nil), f.data...)
	return f.is(protowire.BytesType)
}

func (f field) hash(to *Hash) error {
	if err := f.is(protowire.BytesType); err != nil {
		return err
	}
	if len(f.data) != len(to) {
		return fmt.Errorf("%w: field %d: a hash of %d bytes instead of %d", ErrMalformed, f.number, len(f.data), len(to))
	}
	copy(to[:], f.data)
	return nil
}

func (f field) message(fn func(field) error) error {
	if err := f.is(protowire.BytesType); err != nil {
		return err
	}
	if err := eachField(f.data, fn); err != nil {
		return fmt.Errorf("field %d: %w", f.number, err)
	}
	return nil
}

// parseElement appends one element of a repeated message to list.
func parseElement[T any](f field, list *[]T, parse func(*T, field) error) error {
	*list = append(*list, *new(T))
	last := &(*list)[len(*list)-1]
	return f.message(func(f field) error { return parse(last, f) })
}

// parseWord reads a string. The words that nearly every record holds are
// shared rather than allocated: a scan at start reads millions of them.
func parseWord[T ~string](f field, to *T) error {
	*to = T(word(f.data))
	return f.is(protowire.BytesType)
}

func word(b []byte) string {
	switch string(b) { // does not allocate
	case string(Pending):
		return string(Pending)
	case string(AckedPhase):
		return string(AckedPhase)
	case string(Deleting):
		return string(Deleting)
	case string(True):
		return string(True)
	case string(False):
		return string(False)
	case string(Unknown):
		return string(Unknown)
	case CondObserved:
		return CondObserved
	case CondDrifted:
		return CondDrifted
	case CondStalled:
		return CondStalled
	case CondSuspended:
		return CondSuspended
	}
	return string(b)
}
