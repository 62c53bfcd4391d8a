package main

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// perLine is how many bytes stand on one line of a dump.
const perLine = 12

// dump writes each field of a message of type d on a line: its bytes, its name
// and value. What is embedded is indented.
func dump(b []byte, d protoreflect.MessageDescriptor, indent string) (lines []string, err error) {
	for len(b) > 0 {
		number, wire, tag := protowire.ConsumeTag(b)
		if tag < 0 {
			return nil, protowire.ParseError(tag)
		}
		n := protowire.ConsumeFieldValue(number, wire, b[tag:])
		if n < 0 {
			return nil, protowire.ParseError(n)
		}
		field, f := b[:tag+n], d.Fields().ByNumber(number)
		b = b[tag+n:]
		if f == nil {
			return nil, fmt.Errorf("%s has no field %d", d.Name(), number)
		}
		if f.Message() == nil {
			lines = append(lines, line(indent, field, fmt.Sprintf("%s: %s", f.Name(), scalar(f, wire, field[tag:])))...)
			continue
		}
		inner, _ := protowire.ConsumeBytes(field[tag:])
		head := field[:len(field)-len(inner)]
		lines = append(lines, line(indent, head, fmt.Sprintf("%s, %s", f.Name(), bytesOf(len(inner))))...)
		more, err := dump(inner, f.Message(), indent+"  ")
		if err != nil {
			return nil, err
		}
		lines = append(lines, more...)
	}
	return lines, nil
}

// line is the lines for some bytes, with a note on the first.
func line(indent string, b []byte, note string) (out []string) {
	for len(b) > 0 {
		n := min(len(b), perLine)
		text := fmt.Sprintf("%-*s  %s", 3*perLine+6, indent+fmt.Sprintf("% x", b[:n]), indent+note)
		out = append(out, strings.TrimRight(text, " ")+"\n")
		b, note = b[n:], ""
	}
	return out
}

// scalar is a scalar as a reader likes to see it; b follows the tag.
func scalar(f protoreflect.FieldDescriptor, wire protowire.Type, b []byte) string {
	if wire == protowire.VarintType {
		v, _ := protowire.ConsumeVarint(b)
		switch f.Kind() {
		case protoreflect.BoolKind:
			return strconv.FormatBool(v != 0)
		case protoreflect.EnumKind:
			return string(f.Enum().Values().ByNumber(protoreflect.EnumNumber(v)).Name())
		case protoreflect.Int64Kind:
			return strconv.FormatInt(int64(v), 10)
		}
		return strconv.FormatUint(v, 10)
	}
	s, _ := protowire.ConsumeBytes(b)
	switch {
	case f.Kind() == protoreflect.EnumKind: // packed
		var names []string
		for len(s) > 0 {
			v, n := protowire.ConsumeVarint(s)
			names = append(names, string(f.Enum().Values().ByNumber(protoreflect.EnumNumber(v)).Name()))
			s = s[n:]
		}
		return strings.Join(names, ", ")
	case f.Kind() == protoreflect.StringKind, utf8.Valid(s) && strings.IndexFunc(string(s), func(r rune) bool { return r < ' ' || r > '~' }) < 0:
		return strconv.Quote(string(s))
	}
	return bytesOf(len(s))
}

func bytesOf(n int) string {
	if n == 1 {
		return "1 byte"
	}
	return fmt.Sprintf("%d bytes", n)
}
