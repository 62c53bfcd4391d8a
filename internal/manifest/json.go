package manifest

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
)

// isJSONStream reports whether content is JSON values and nothing else.
func isJSONStream(content []byte) bool {
	dec := json.NewDecoder(bytes.NewReader(content))
	for {
		var v json.RawMessage
		if err := dec.Decode(&v); err != nil {
			return errors.Is(err, io.EOF)
		}
	}
}

// jsonParser walks values one after the other; it knows the line of each.
type jsonParser struct {
	file    string
	content []byte
	docs    []Document
	wrong   Errors
}

func parseJSON(content []byte, file string) ([]Document, Errors) {
	p := &jsonParser{file: file, content: content}
	dec := json.NewDecoder(bytes.NewReader(content))
	for {
		var v json.RawMessage
		switch err := dec.Decode(&v); {
		case errors.Is(err, io.EOF):
			return p.docs, p.wrong
		case err != nil:
			p.syntax(err, dec.InputOffset())
			return nil, p.wrong
		}
		p.value(v, int(dec.InputOffset())-len(v))
	}
}

func (p *jsonParser) syntax(err error, offset int64) {
	if syntax, ok := errors.AsType[*json.SyntaxError](err); ok {
		offset = syntax.Offset
	}
	if errors.Is(err, io.ErrUnexpectedEOF) {
		offset = int64(len(p.content))
	}
	p.wrong = append(p.wrong, &Error{File: p.file, Line: p.line(int(offset)), What: "this is no JSON: " + err.Error()})
}

// line is that of a byte of the file.
func (p *jsonParser) line(offset int) int {
	return 1 + bytes.Count(p.content[:min(offset, len(p.content))], []byte("\n"))
}

// value takes a document, or a list of them, that starts at offset.
func (p *jsonParser) value(v json.RawMessage, offset int) {
	switch v[0] {
	case '{':
		doc, wrong := build(p.file, p.line(offset), p.fields(v, offset))
		p.docs, p.wrong = append(p.docs, doc), append(p.wrong, wrong...)
	case '[':
		p.members(v, offset, func(item json.RawMessage, at int) { p.value(item, at) })
	default:
		p.wrong = append(p.wrong, &Error{File: p.file, Line: p.line(offset),
			What: "a document must be an object with sink, key and payload, but it is " + kindOf(v)})
	}
}

// members calls fn with each item of the list v. The syntax is known to be right.
func (p *jsonParser) members(v json.RawMessage, offset int, fn func(item json.RawMessage, at int)) {
	dec := json.NewDecoder(bytes.NewReader(v))
	_, _ = dec.Token() // [
	for dec.More() {
		var item json.RawMessage
		if err := dec.Decode(&item); err != nil {
			p.syntax(err, int64(offset))
			return
		}
		fn(item, offset+int(dec.InputOffset())-len(item))
	}
}

// fields are the members of the object v, its values byte for byte.
func (p *jsonParser) fields(v json.RawMessage, offset int) []field {
	var out []field
	dec := json.NewDecoder(bytes.NewReader(v))
	_, _ = dec.Token() // {
	for dec.More() {
		name, err := dec.Token()
		if err != nil {
			p.syntax(err, int64(offset))
			return nil
		}
		f := field{line: p.line(offset + int(dec.InputOffset()))}
		f.name, _ = name.(string)
		if err := dec.Decode(&f.value); err != nil {
			p.syntax(err, int64(offset))
			return nil
		}
		out = append(out, f)
	}
	return out
}
