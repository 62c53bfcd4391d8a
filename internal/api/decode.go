package api

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"reflect"
	"slices"
	"strings"

	"github.com/pawlsync/pawl/engine/record"
)

// Decode reads the body of a Put. It is strict: a field that does not exist,
// one given twice, and anything after the object are refused. The error is a
// *Problem with the position.
func (p *PutRequest) Decode(body []byte) error {
	var b BatchLine
	if err := decode(body, b.putFields()); err != nil {
		return err
	}
	*p = b.PutRequest
	return p.complete()
}

// Decode reads one line of a batch, as PutRequest.Decode does.
func (b *BatchLine) Decode(line []byte) error {
	*b = BatchLine{}
	fields := b.putFields()
	fields["sink"], fields["key"] = &b.Sink, &b.Key
	if err := decode(line, fields); err != nil {
		return err
	}
	if b.Sink == "" || b.Key == "" {
		return NewProblem(http.StatusUnprocessableEntity, CodeInvalid, "sink or key is missing", `a line reads {"sink": "…", "key": "…", "payload": …}`)
	}
	return b.complete()
}

func (b *BatchLine) putFields() fields {
	p := &b.PutRequest
	return fields{
		"payload": &p.Payload, "payloadBase64": &p.PayloadBase64,
		"conflictPolicy": &p.Conflict, "deletionPolicy": &p.Deletion,
		"suspend": &p.Suspend, "direction": &p.Direction, "owner": &p.Owner, "takeOver": &p.TakeOver, "ifGeneration": &p.IfGeneration,
		"idempotencyKey": &p.IdempotencyKey,
		"retry":          func() fields { p.Retry = &Retry{}; return p.Retry.fields() },
		"order":          func() fields { p.Order = &Order{}; return p.Order.fields() },
	}
}

// complete says what is wrong with p as a whole. Values are the engine's to judge.
func (p *PutRequest) complete() error {
	const hint = `give the desired state as "payload": <any JSON>, or as "payloadBase64": "…" where it is not JSON; with "direction": "inbound" there need be none`
	switch {
	case p.Payload == nil && p.PayloadBase64 == nil && p.Direction == record.Inbound:
		p.Payload = json.RawMessage("null") // which is never sent
	case p.Payload == nil && p.PayloadBase64 == nil:
		return NewProblem(http.StatusUnprocessableEntity, CodeInvalid, "the body has no payload", hint)
	case p.Payload != nil && p.PayloadBase64 != nil:
		return NewProblem(http.StatusUnprocessableEntity, CodeInvalid, "the body has both payload and payloadBase64", hint)
	}
	return nil
}

func (o *Order) fields() fields {
	return fields{"source": &o.Source, "epoch": &o.Epoch, "number": &o.Number, "partial": &o.Partial}
}

// fields maps the name of each field that an object may have to where its
// value goes: a pointer, a func() fields for an object within, or a list. encoding/json
// alone would ignore case and take the last of two fields of one name, so that
// a slip of the pen goes unnoticed.
type fields map[string]any

// list is for an array of objects: it is called before each of them.
type list func() fields

func decode(body []byte, into fields) error {
	d := decoder{whole: body}
	end, err := d.object(0, into)
	if err != nil {
		return err
	}
	if rest := bytes.TrimLeft(body[end:], " \t\r\n"); len(rest) > 0 {
		return d.wrong(len(body)-len(rest), "something follows the JSON object", "send one object, and nothing after it")
	}
	return nil
}

// decoder reads objects out of a body and knows where in it everything is.
type decoder struct{ whole []byte }

// object reads the object that starts at offset start and returns where it ends.
func (w decoder) object(start int, into fields) (end int, err error) {
	d := json.NewDecoder(bytes.NewReader(w.whole[start:]))
	offset := func() int { return start + int(d.InputOffset()) }
	if t, err := d.Token(); err != nil {
		return 0, w.syntax(offset(), err)
	} else if t != json.Delim('{') {
		return 0, w.wrong(start, "this is no JSON object", `it starts with "{"`)
	}
	seen := map[string]bool{}
	for d.More() {
		t, err := d.Token()
		if err != nil {
			return 0, w.syntax(offset(), err)
		}
		name := t.(string) // the decoder takes nothing else for a field's name
		dst, known := into[name]
		switch {
		case !known:
			return 0, w.wrong(offset()-1, fmt.Sprintf("unknown field %q", clip(name)), DidYouMean(name, slices.Collect(maps.Keys(into))))
		case seen[name]:
			return 0, w.wrong(offset()-1, fmt.Sprintf("the field %q is given twice", name), "keep one of them")
		}
		seen[name] = true
		if err := w.value(d, offset, name, dst); err != nil {
			return 0, err
		}
	}
	if _, err := d.Token(); err != nil { // the closing brace
		return 0, w.syntax(offset(), err)
	}
	return offset(), nil
}

// value reads the next value of d into dst.
func (w decoder) value(d *json.Decoder, offset func() int, name string, dst any) error {
	if within, ok := dst.(func() fields); ok {
		var raw json.RawMessage
		if err := d.Decode(&raw); err != nil {
			return w.syntax(offset(), err)
		}
		_, err := w.object(offset()-len(raw), within())
		return err
	}
	if element, ok := dst.(list); ok {
		return w.list(d, offset, name, element)
	}
	err := d.Decode(dst)
	var mistyped *json.UnmarshalTypeError
	var corrupt base64.CorruptInputError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &mistyped):
		return w.wrong(offset()-1, fmt.Sprintf("%s can't be %s", name, described(mistyped.Value)), "it is "+kindOf(mistyped.Type))
	case errors.As(err, &corrupt):
		return w.wrong(offset()-1, name+" is no base64", "use the standard alphabet, with padding")
	}
	return w.syntax(offset(), err)
}

// list reads the next value of d, an array of objects.
func (w decoder) list(d *json.Decoder, offset func() int, name string, element list) error {
	if t, err := d.Token(); err != nil {
		return w.syntax(offset(), err)
	} else if t != json.Delim('[') {
		return w.wrong(offset()-1, name+" is no list", `it starts with "["`)
	}
	for d.More() {
		var raw json.RawMessage
		if err := d.Decode(&raw); err != nil {
			return w.syntax(offset(), err)
		}
		if _, err := w.object(offset()-len(raw), element()); err != nil {
			return err
		}
	}
	if _, err := d.Token(); err != nil { // the closing bracket
		return w.syntax(offset(), err)
	}
	return nil
}

// kindOf names what a field takes.
func kindOf(t reflect.Type) string {
	if t == reflect.TypeFor[Duration]() {
		return `a duration, such as "30s" or "2m"`
	}
	switch t.Kind() {
	case reflect.Bool:
		return "true or false"
	case reflect.Uint64, reflect.Int:
		return "a whole number, 0 or more"
	}
	return "a string"
}

// described makes words of what encoding/json says of a value: "string",
// "array", "number -1".
func described(value string) string {
	if number, ok := strings.CutPrefix(value, "number "); ok {
		return number
	}
	if strings.HasPrefix(value, "a") || strings.HasPrefix(value, "o") {
		return "an " + value
	}
	return "a " + value
}

func (w decoder) syntax(at int, err error) error {
	// The decoder counts from where its last token ended; a second look at the
	// whole gives the true offset.
	var whole json.RawMessage
	var syntax *json.SyntaxError
	if again := json.Unmarshal(w.whole, &whole); again != nil {
		err = again
	}
	switch {
	case len(bytes.TrimSpace(w.whole)) == 0:
		return NewProblem(http.StatusBadRequest, CodeBadRequest, "the body is empty", `send {"payload": …}`)
	case errors.As(err, &syntax) && strings.Contains(syntax.Error(), "unexpected end"):
		return w.wrong(len(w.whole), "the JSON ends too early", "something is not closed, or was cut off")
	case errors.As(err, &syntax):
		at = int(syntax.Offset) - 1
	}
	return w.wrong(at, "this is not JSON: "+err.Error(), "")
}

// wrong says what is wrong at an offset of the body.
func (w decoder) wrong(at int, detail, hint string) *Problem {
	p := NewProblem(http.StatusBadRequest, CodeBadRequest, detail, hint)
	p.Line, p.Column = position(w.whole, at)
	p.Detail = fmt.Sprintf("line %d, column %d: %s", p.Line, p.Column, detail)
	return p
}

// position returns the line and column, from 1, of the byte at offset.
func position(data []byte, offset int) (line, column int) {
	offset = max(0, min(offset, len(data)))
	before := data[:offset]
	return 1 + bytes.Count(before, []byte{'\n'}), offset - bytes.LastIndexByte(before, '\n')
}

// clip shortens what a caller sent, for messages.
func clip(s string) string {
	const longest = 64
	if len(s) <= longest {
		return s
	}
	return strings.ToValidUTF8(s[:longest], "") + "…"
}

// ParsePhase returns the phase of that name, whatever its case.
func ParsePhase(name string) (record.Phase, error) {
	var names []string
	for _, p := range record.Phases() {
		if strings.EqualFold(string(p), name) {
			return p, nil
		}
		names = append(names, string(p))
	}
	return "", NewProblem(http.StatusUnprocessableEntity, CodeInvalid, fmt.Sprintf("there is no phase %q", clip(name)), DidYouMean(name, names))
}
