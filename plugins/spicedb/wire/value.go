package wire

import (
	"errors"
	"slices"
	"strconv"
	"strings"

	"github.com/VictoriaMetrics/easyproto"

	"github.com/pawlsync/pawl/plugins/internal/jsondoc"
)

// The contexts of caveats are google.protobuf.Struct. A map of it may be written
// in any order, so that two of them are compared in one form: members sorted by
// name, each once, nothing that is unknown.

// ErrNumber is the error of a number that a context can't hold exactly.
var ErrNumber = errors.New("a caveat's context holds numbers as float64, which can't hold one of these exactly; write it as a string, which SpiceDB takes for int and uint parameters")

// ContextOf returns the canonical Struct of a JSON object, nil of an empty one.
func ContextOf(v jsondoc.Value) ([]byte, error) {
	var err error
	out := encode(nil, func(mm *easyproto.MessageMarshaler) { err = marshalObject(mm, v) })
	if err != nil || len(out) == 0 {
		return nil, err
	}
	return out, nil
}

type member struct {
	name  string
	value jsondoc.Value
}

func marshalObject(mm *easyproto.MessageMarshaler, v jsondoc.Value) error {
	var members []member
	for name, m := range v.Members {
		members = append(members, member{name, m})
	}
	slices.SortFunc(members, func(a, b member) int { return strings.Compare(a.name, b.name) })
	for _, m := range members {
		entry := mm.AppendMessage(1)
		entry.AppendString(1, m.name)
		if err := marshalValue(entry.AppendMessage(2), m.value); err != nil {
			return err
		}
	}
	return nil
}

func marshalValue(mm *easyproto.MessageMarshaler, v jsondoc.Value) error {
	switch v.Kind() {
	case jsondoc.Number:
		f, err := number(v.Raw())
		if err != nil {
			return err
		}
		mm.AppendDouble(2, f)
	case jsondoc.String:
		mm.AppendString(3, v.Text())
	case jsondoc.Bool:
		mm.AppendBool(4, v.Raw() == "true")
	case jsondoc.Object:
		return marshalObject(mm.AppendMessage(5), v)
	case jsondoc.Array:
		list := mm.AppendMessage(6)
		for _, item := range v.Items {
			if err := marshalValue(list.AppendMessage(1), item); err != nil {
				return err
			}
		}
	default:
		mm.AppendInt32(1, 0)
	}
	return nil
}

// number reads a literal. A whole number that a float64 would change is refused.
func number(raw string) (float64, error) {
	f, err := strconv.ParseFloat(raw, 64)
	if err != nil {
		return 0, ErrNumber
	}
	if strings.ContainsAny(raw, ".eE") {
		return f + 0, nil // -0 is 0
	}
	if n, err := strconv.ParseInt(raw, 10, 64); err != nil || f >= 1<<63 || int64(f) != n {
		return 0, ErrNumber
	}
	return f + 0, nil
}

// maxDepth bounds how deep a context may be nested.
const maxDepth = jsondoc.MaxDepth

// Canonical returns a Struct in the form of ContextOf, nil where it is empty, and
// whether src is one.
func Canonical(src []byte) (out []byte, ok bool) {
	out = encode(nil, func(mm *easyproto.MessageMarshaler) { ok = copyStruct(mm, src, 0) })
	if len(out) == 0 {
		out = nil
	}
	return out, ok
}

type entry struct {
	name  string
	value []byte
}

func copyStruct(mm *easyproto.MessageMarshaler, src []byte, depth int) bool {
	if depth > maxDepth {
		return false
	}
	var entries []entry
	err := fields(src, func(fc *easyproto.FieldContext) bool {
		if fc.FieldNum != 1 {
			return true
		}
		var e entry
		if !into(fc, func(fc *easyproto.FieldContext) (ok bool) {
			ok = true
			switch fc.FieldNum {
			case 1:
				ok = readString(fc, &e.name)
			case 2:
				e.value, ok = fc.MessageData()
			}
			return ok
		}) {
			return false
		}
		for i := range entries { // of a name that comes twice the last one counts
			if entries[i].name == e.name {
				entries[i] = e
				return true
			}
		}
		entries = append(entries, e)
		return true
	})
	if err != nil {
		return false
	}
	slices.SortFunc(entries, func(a, b entry) int { return strings.Compare(a.name, b.name) })
	for _, e := range entries {
		to := mm.AppendMessage(1)
		to.AppendString(1, e.name)
		if !copyValue(to.AppendMessage(2), e.value, depth+1) {
			return false
		}
	}
	return true
}

func copyValue(mm *easyproto.MessageMarshaler, src []byte, depth int) bool {
	wrote := false
	err := fields(src, func(fc *easyproto.FieldContext) (ok bool) {
		ok, wrote = true, true
		switch fc.FieldNum {
		case 1:
			mm.AppendInt32(1, 0)
		case 2:
			var f float64
			if f, ok = fc.Double(); ok {
				mm.AppendDouble(2, f+0)
			}
		case 3:
			var s string
			if ok = readString(fc, &s); ok {
				mm.AppendString(3, s)
			}
		case 4:
			var b bool
			if b, ok = fc.Bool(); ok {
				mm.AppendBool(4, b)
			}
		case 5:
			var b []byte
			if b, ok = fc.MessageData(); ok {
				ok = copyStruct(mm.AppendMessage(5), b, depth+1)
			}
		case 6:
			list := mm.AppendMessage(6)
			ok = depth < maxDepth && into(fc, func(fc *easyproto.FieldContext) bool {
				if fc.FieldNum != 1 {
					return true
				}
				b, ok := fc.MessageData()
				return ok && copyValue(list.AppendMessage(1), b, depth+1)
			})
		default:
			wrote = false
		}
		return ok
	})
	if !wrote {
		mm.AppendInt32(1, 0) // a value of no kind is null
	}
	return err == nil
}
