package manifest

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"

	"github.com/go-json-experiment/json/jsontext"
)

// jsonParser walks values one after the other, in one pass; it knows the line of each.
type jsonParser struct {
	file    string
	content []byte
	entries []Entry

	offset, newlines int // so many are before this byte
}

// parseJSON reads JSON values; ok is false where the content is something else.
func parseJSON(content []byte, file string) (entries []Entry, ok bool) {
	p := &jsonParser{file: file, content: content}
	dec := decoderOf(content)
	for {
		start, before := int(dec.InputOffset()), len(p.entries)
		switch err := p.value(dec, 0); {
		case errors.Is(err, io.EOF):
			return p.entries, true
		case err != nil:
			p.entries = p.entries[:before] // a value that is cut off has no members that are right
			p.syntax(err, start)
			return p.entries, false
		}
	}
}

// decoderOf refuses what encoding/json refuses, and no more: what names mean is for
// build to say.
func decoderOf(content []byte) *jsontext.Decoder {
	return jsontext.NewDecoder(bytes.NewBuffer(content), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
}

// syntax tells that the value behind start is no JSON, in the words of encoding/json,
// which people know. err is for what that does not mind.
func (p *jsonParser) syntax(err error, start int) {
	offset := start
	var v json.RawMessage
	if known := json.NewDecoder(bytes.NewReader(p.content[start:])).Decode(&v); known != nil {
		err = known
	}
	if syntax, ok := errors.AsType[*json.SyntaxError](err); ok {
		offset = start + int(syntax.Offset)
	}
	if errors.Is(err, io.ErrUnexpectedEOF) {
		offset = len(p.content)
	}
	p.fail(offset, "this is no JSON: "+err.Error())
}

func (p *jsonParser) fail(offset int, what string) {
	p.entries = append(p.entries, bad(&Error{File: p.file, Line: p.line(offset), What: what}))
}

// line is that of a byte of the file. It counts on from the last one asked for, or back,
// since a file may have many.
func (p *jsonParser) line(offset int) int {
	offset = min(offset, len(p.content))
	if offset < p.offset {
		p.newlines -= bytes.Count(p.content[offset:p.offset], []byte("\n"))
	} else {
		p.newlines += bytes.Count(p.content[p.offset:offset], []byte("\n"))
	}
	p.offset = offset
	return 1 + p.newlines
}

// value takes what dec, which reads from base on, has next: a document, or a list of them.
func (p *jsonParser) value(dec *jsontext.Decoder, base int) error {
	switch dec.PeekKind() {
	case '{':
		return p.object(dec, base)
	case '[':
		return p.list(dec, base)
	}
	v, err := dec.ReadValue()
	if err != nil {
		return err
	}
	p.fail(base+int(dec.InputOffset())-len(v), "a document must be an object with sink, key and payload, but it is "+kindOf(json.RawMessage(v)))
	return nil
}

func (p *jsonParser) list(dec *jsontext.Decoder, base int) error {
	if _, err := dec.ReadToken(); err != nil { // [
		return err
	}
	for dec.PeekKind() != ']' {
		if err := p.value(dec, base); err != nil {
			return err
		}
	}
	_, err := dec.ReadToken()
	return err
}

func (p *jsonParser) object(dec *jsontext.Decoder, base int) error {
	if _, err := dec.ReadToken(); err != nil { // {
		return err
	}
	start := base + int(dec.InputOffset()) - 1
	line := p.line(start)
	fields, err := p.fields(dec, base)
	if err != nil {
		return err
	}
	if items, ok := objectsOf(fields); ok {
		return p.value(decoderOf(items.value), items.offset)
	}
	whole := p.content[start : base+int(dec.InputOffset())]
	p.entries = append(p.entries, build(p.file, line, fields, nil, func() json.RawMessage { return bytes.Clone(whole) }))
	return nil
}

// fields are the members of the object that dec is in, their values byte for byte, and
// parts of the content still.
func (p *jsonParser) fields(dec *jsontext.Decoder, base int) ([]field, error) {
	fields := make([]field, 0, 4)
	for dec.PeekKind() != '}' {
		name, err := dec.ReadToken()
		if err != nil {
			return nil, err
		}
		f := field{name: name.String(), line: p.line(base + int(dec.InputOffset()))}
		v, err := dec.ReadValue()
		if err != nil {
			return nil, err
		}
		end := base + int(dec.InputOffset())
		f.offset = end - len(v)
		f.value = p.content[f.offset:end]
		fields = append(fields, f)
	}
	_, err := dec.ReadToken()
	return fields, err
}

// objectsOf returns the items of a list of Kubernetes.
func objectsOf(fields []field) (items field, ok bool) {
	if !looksLikeObject(fields) {
		return items, false
	}
	var kind string
	for _, f := range fields {
		switch f.name {
		case "kind":
			_ = json.Unmarshal(f.value, &kind) // what is no string is no list either
		case "items":
			items = f
		}
	}
	return items, isList(kind) && len(items.value) > 0 && items.value[0] == '['
}
