package api

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
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
		"suspend": &p.Suspend, "owner": &p.Owner, "order": &p.Order, "ifGeneration": &p.IfGeneration,
	}
}

// complete says what is wrong with p as a whole. Values are the engine's to judge.
func (p *PutRequest) complete() error {
	const hint = `give the desired state as "payload": <any JSON>, or as "payloadBase64": "…" where it is not JSON`
	switch {
	case p.Payload == nil && p.PayloadBase64 == nil:
		return NewProblem(http.StatusUnprocessableEntity, CodeInvalid, "the body has no payload", hint)
	case p.Payload != nil && p.PayloadBase64 != nil:
		return NewProblem(http.StatusUnprocessableEntity, CodeInvalid, "the body has both payload and payloadBase64", hint)
	}
	return nil
}

// UnmarshalJSON reads an order as strictly as the body around it.
func (o *Order) UnmarshalJSON(data []byte) error {
	return decode(data, fields{"source": &o.Source, "epoch": &o.Epoch, "number": &o.Number, "partial": &o.Partial})
}

// fields maps the name of each field that an object may have to where its
// value goes. encoding/json alone would ignore case and take the last of two
// fields of one name, so that a slip of the pen goes unnoticed.
type fields map[string]any

func decode(data []byte, into fields) error {
	d := json.NewDecoder(bytes.NewReader(data))
	if t, err := d.Token(); err != nil {
		return syntaxProblem(data, d, err)
	} else if t != json.Delim('{') {
		return badRequest(data, 0, "the body is no JSON object", `it starts with "{"`)
	}
	seen := map[string]bool{}
	for d.More() {
		t, err := d.Token()
		if err != nil {
			return syntaxProblem(data, d, err)
		}
		name := t.(string) // the decoder takes nothing else for a field's name
		at := int(d.InputOffset()) - 1
		dst, known := into[name]
		switch {
		case !known:
			return badRequest(data, at, fmt.Sprintf("unknown field %q", clip(name)), DidYouMean(name, slices.Collect(maps.Keys(into))))
		case seen[name]:
			return badRequest(data, at, fmt.Sprintf("the field %q is given twice", name), "keep one of them")
		}
		seen[name] = true
		if err := d.Decode(dst); err != nil {
			return valueProblem(data, d, name, err)
		}
	}
	if _, err := d.Token(); err != nil { // the closing brace
		return syntaxProblem(data, d, err)
	}
	at := int(d.InputOffset())
	if rest := bytes.TrimLeft(data[at:], " \t\r\n"); len(rest) > 0 {
		return badRequest(data, len(data)-len(rest), "something follows the JSON object", "send one object, and nothing after it")
	}
	return nil
}

func valueProblem(data []byte, d *json.Decoder, name string, err error) error {
	var inner *Problem // of an object within
	var wrong *json.UnmarshalTypeError
	at := int(d.InputOffset())
	switch {
	case errors.As(err, &inner):
		p := *inner
		p.Detail = name + ": " + inner.Detail
		p.Line, p.Column = position(data, at-1)
		return &p
	case errors.As(err, &wrong):
		return badRequest(data, at-1, fmt.Sprintf("%s can't be %s", name, withArticle(wrong.Value)), "it is "+kindOf(wrong.Type.String()))
	case strings.Contains(err.Error(), "base64"):
		return badRequest(data, at-1, name+" is no base64", "use the standard alphabet, with padding")
	}
	return syntaxProblem(data, d, err)
}

func kindOf(goType string) string {
	switch goType {
	case "string", "record.ConflictPolicy", "record.DeletionPolicy", "[]uint8":
		return "a string"
	case "bool":
		return "true or false"
	case "uint64":
		return "a whole number, 0 or more"
	}
	return "an object"
}

func withArticle(what string) string {
	if strings.HasPrefix(what, "a") || strings.HasPrefix(what, "o") {
		return "an " + what
	}
	return "a " + what
}

func syntaxProblem(data []byte, d *json.Decoder, err error) error {
	// The decoder counts offsets from where its last token ended; a second
	// look at the whole gives the true one.
	var whole json.RawMessage
	var syntax *json.SyntaxError
	if again := json.Unmarshal(data, &whole); again != nil {
		err = again
	}
	switch {
	case len(bytes.TrimSpace(data)) == 0:
		return NewProblem(http.StatusBadRequest, CodeBadRequest, "the body is empty", `send {"payload": …}`)
	case errors.As(err, &syntax) && int(syntax.Offset) >= len(data) && strings.Contains(syntax.Error(), "unexpected end"):
		return badRequest(data, len(data), "the JSON ends too early", "something is not closed, or was cut off")
	case errors.As(err, &syntax):
		return badRequest(data, int(syntax.Offset)-1, "the body is not JSON: "+syntax.Error(), "")
	}
	return badRequest(data, int(d.InputOffset()), "the body is not JSON: "+err.Error(), "")
}

func badRequest(data []byte, at int, detail, hint string) *Problem {
	p := NewProblem(http.StatusBadRequest, CodeBadRequest, detail, hint)
	p.Line, p.Column = position(data, at)
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
