package main

import (
	"errors"
	"strconv"
	"strings"

	"github.com/pawlsync/pawl/plugins/internal/conf"
	"github.com/pawlsync/pawl/plugins/internal/jsondoc"
	pawl "github.com/pawlsync/pawl/sdk/go"
)

// template is a text with placeholders, compiled. README.md lists them.
type template struct {
	parts     []part
	quote     func(b []byte, value string, slashes bool) []byte
	keyed     bool // something of the key is in it
	injective bool // two keys never give the same text
	// closed: of a path, it ends in a slash by itself, so that one at its end is
	// not the key's.
	closed bool
}

// part is a literal or a placeholder.
type part struct {
	literal  string
	kind     kind
	from, to int // of segments: from one up to, without, another; negative ones count from the end
}

type kind uint8

const (
	literal    kind = iota
	wholeKey        // segments quoted one by one
	escapedKey      // quoted with its slashes
	segments
	sinkName
	generation
	contentHash
	idempotencyKey
	payload
)

// untilEnd is the end of an open range of segments.
const untilEnd = 1 << 30

var placeholders = map[string]kind{
	"key": wholeKey, "key.escaped": escapedKey, "sink": sinkName, "generation": generation,
	"hash": contentHash, "idempotency_key": idempotencyKey,
}

// compilePath compiles a path and query: values are percent-encoded.
func compilePath(s string) (*template, error) {
	if !strings.HasPrefix(s, "/") {
		return nil, errors.New("a path starts with \"/\"; the host is the upstream's")
	}
	for i := range len(s) {
		if s[i] <= ' ' || s[i] >= 0x7f || s[i] == '#' || s[i] == '\\' {
			return nil, errors.New("the character at byte " + strconv.Itoa(i) + " can't be in a path; write it percent-encoded")
		}
	}
	path, _, _ := strings.Cut(s, "?")
	t := &template{quote: percentEncode, closed: strings.HasSuffix(path, "/")}
	return t, t.compile(s)
}

// compileHeader compiles a header's value: values are percent-encoded, so that
// any key can be in it.
func compileHeader(s string) (*template, error) {
	for i := range len(s) {
		if s[i] < ' ' && s[i] != '\t' || s[i] >= 0x7f {
			return nil, errors.New("the character at byte " + strconv.Itoa(i) + " can't be in a header")
		}
	}
	t := &template{quote: percentEncode}
	return t, t.compile(s)
}

func (t *template) compile(s string) error {
	for s != "" {
		before, rest, found := strings.Cut(s, "{")
		t.addLiteral(before)
		if !found {
			return nil
		}
		name, after, closed := strings.Cut(rest, "}")
		if !closed {
			return errors.New("a \"{\" is never closed")
		}
		p, ok := placeholder(name)
		if !ok {
			return unknownPlaceholder(name)
		}
		t.add(p)
		s = after
	}
	return nil
}

// compileBody compiles a body: what is no placeholder stands for itself,
// braces too; the payload goes in as it is, other values as JSON string content.
func compileBody(s string) *template {
	t := &template{quote: func(b []byte, v string, _ bool) []byte { return jsondoc.AppendEscaped(b, v) }}
	for s != "" {
		before, rest, found := strings.Cut(s, "{")
		t.addLiteral(before)
		if !found {
			break
		}
		name, after, _ := strings.Cut(rest, "}")
		p, ok := placeholder(name)
		if name == "payload" {
			p, ok = part{kind: payload}, true
		}
		if !ok || !strings.HasPrefix(rest[len(name):], "}") {
			t.addLiteral("{")
			s = rest
			continue
		}
		t.add(p)
		s = after
	}
	return t
}

// placeholder reads what stands between braces.
func placeholder(name string) (part, bool) {
	if k, ok := placeholders[name]; ok {
		return part{kind: k}, true
	}
	first, rest, open := strings.Cut(name, ":")
	n, err := strconv.Atoi(first)
	if err != nil || rest != "" || n < -1024 || n > 1024 {
		return part{}, false
	}
	p := part{kind: segments, from: n, to: n + 1}
	if open || n == -1 {
		p.to = untilEnd
	}
	return p, true
}

func unknownPlaceholder(name string) error {
	names := make([]string, 0, len(placeholders))
	for n := range placeholders {
		names = append(names, n)
	}
	m := "{" + name + "} is no placeholder"
	if near := conf.Nearest(name, names); near != "" {
		return errors.New(m + "; did you mean {" + near + "}?")
	}
	return errors.New(m + "; there are {key}, {key.escaped}, segments of the key ({0}, {-1}, {1:}), {sink}, {generation}, {hash}, {idempotency_key}")
}

func (t *template) addLiteral(s string) {
	if s == "" {
		return
	}
	if n := len(t.parts); n > 0 && t.parts[n-1].kind == literal {
		t.parts[n-1].literal += s
		return
	}
	t.parts = append(t.parts, part{literal: s})
}

func (t *template) add(p part) {
	switch p.kind {
	case wholeKey, escapedKey:
		t.keyed, t.injective = true, true
	case segments:
		t.keyed = true
		if p.from == 0 && p.to == untilEnd {
			t.injective = true
		}
	}
	t.parts = append(t.parts, p)
}

// onlyPayload reports whether the body is the payload as it is.
func (t *template) onlyPayload() bool { return len(t.parts) == 1 && t.parts[0].kind == payload }

// append writes the text for r, with content in place of the payload. An
// error says what is wrong with the key.
func (t *template) append(b []byte, r *pawl.Request, content []byte) ([]byte, error) {
	for i := range t.parts {
		switch p := &t.parts[i]; p.kind {
		case literal:
			b = append(b, p.literal...)
		case wholeKey:
			b = t.quote(b, r.Key, true)
		case escapedKey:
			b = t.quote(b, r.Key, false)
		case segments:
			s, ok := cutSegments(r.Key, p.from, p.to)
			if !ok {
				return b, pawl.Rejected("the key has too few segments between slashes for the sink's template")
			}
			b = t.quote(b, s, true)
		case sinkName:
			b = t.quote(b, r.Sink, false)
		case generation:
			b = strconv.AppendUint(b, r.Generation, 10)
		case contentHash:
			b = appendHex(b, r.ContentHash)
		case idempotencyKey:
			b = t.quote(b, r.IdempotencyKey, false)
		case payload:
			b = append(b, content...)
		}
	}
	return b, nil
}

// render is append for short texts.
func (t *template) render(r *pawl.Request) (string, error) {
	if len(t.parts) == 1 && t.parts[0].kind == literal {
		return t.parts[0].literal, nil
	}
	var buf [256]byte
	b, err := t.append(buf[:0], r, nil)
	return string(b), err
}

// cutSegments returns the segments of key from one index up to another.
func cutSegments(key string, from, to int) (string, bool) {
	n := strings.Count(key, "/") + 1
	if from < 0 {
		from += n
		if to != untilEnd {
			to += n
		}
	}
	if to = min(to, n); from < 0 || from >= to {
		return "", false
	}
	start := 0
	for ; from > 0; from, to = from-1, to-1 {
		start += strings.IndexByte(key[start:], '/') + 1
	}
	end := start
	for ; to > 0; to-- {
		i := strings.IndexByte(key[end:], '/')
		if i < 0 {
			return key[start:], true
		}
		end += i + 1
	}
	return key[start : end-1], true
}

// percentEncode writes all but unreserved characters as %XX, and slashes where
// they are not meant to separate.
func percentEncode(b []byte, s string, slashes bool) []byte {
	const upperDigits = "0123456789ABCDEF"
	for i := range len(s) {
		c := s[i]
		if isAlnum(c) || c == '-' || c == '.' || c == '_' || c == '~' || c == '/' && slashes {
			b = append(b, c)
		} else {
			b = append(b, '%', upperDigits[c>>4], upperDigits[c&15])
		}
	}
	return b
}

// checkPath refuses what a server would read as another path than the one that
// was written: dot segments and empty segments, the last one too unless the
// template itself ends in a slash.
func (t *template) checkPath(p string) error {
	path, _, _ := strings.Cut(p, "?")
	for rest, more := path[1:], true; more; {
		var segment string
		segment, rest, more = strings.Cut(rest, "/")
		if segment == "." || segment == ".." || segment == "" && (more || !t.closed) {
			return pawl.Rejected("the key makes a path with an empty or a dot segment, which servers take for another path")
		}
	}
	return nil
}
