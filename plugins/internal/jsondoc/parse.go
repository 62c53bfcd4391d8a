// Package jsondoc reads JSON without building Go values: small, fast in a wasm
// guest, and exact about numbers.
//
// It accepts what encoding/json accepts and means the same by it: of a key that
// comes twice the last one counts, and invalid UTF-8 or a lone surrogate in a
// string reads as U+FFFD. Nesting is bounded by MaxDepth.
package jsondoc

import (
	"strconv"
	"strings"
	"unicode/utf8"
)

// MaxDepth is how deep arrays and objects may be nested: a guest's stack is not endless.
const MaxDepth = 500

// Kind is the type of a value.
type Kind uint8

// The kinds.
const (
	Null Kind = iota
	Bool
	Number
	String
	Array
	Object
)

var kindNames = [...]string{"null", "a boolean", "a number", "a string", "an array", "an object"}

// String names the kind with its article, for messages.
func (k Kind) String() string { return kindNames[k] }

// SyntaxError says where a text stops being JSON.
type SyntaxError struct {
	Offset int // in bytes
	Reason string
}

// Error names offset and reason; it shows nothing of the text.
func (e *SyntaxError) Error() string {
	return "not valid JSON at byte " + strconv.Itoa(e.Offset) + ": " + e.Reason
}

// Doc is a parsed text. Its values and strings share the text's memory.
type Doc struct {
	src   string
	nodes []node // the root first; children after their parent
}

type node struct {
	key        string // decoded; of members only
	start, end int32  // of the value in src
	first      int32  // first child, 0: none
	next       int32  // next sibling, 0: none
	kind       Kind
	plain      bool // of a string: its text is src[start+1:end-1] as it stands
}

// Value is one value of a Doc.
type Value struct {
	d *Doc
	i int32
}

// Root returns the document's value.
func (d *Doc) Root() Value { return Value{d, 0} }

// Kind returns the type of v.
func (v Value) Kind() Kind { return v.node().kind }

// Raw returns v as it is written.
func (v Value) Raw() string { n := v.node(); return v.d.src[n.start:n.end] }

// Text returns the decoded string; "" where v is none.
func (v Value) Text() string {
	n := v.node()
	if n.kind != String {
		return ""
	}
	text := v.d.src[n.start+1 : n.end-1]
	if n.plain {
		return text
	}
	return unescape(text)
}

func (v Value) node() *node { return &v.d.nodes[v.i] }

// Members yields an object's members in order, each key once.
func (v Value) Members(yield func(key string, v Value) bool) {
	if v.Kind() != Object {
		return
	}
	for c := v.node().first; c != 0; c = v.d.nodes[c].next {
		if !yield(v.d.nodes[c].key, Value{v.d, c}) {
			return
		}
	}
}

// Parse reads one JSON text; an error is a *SyntaxError. src must not change
// while the Doc is in use.
func Parse(src string) (*Doc, error) {
	if len(src) > 1<<30 {
		return nil, &SyntaxError{Offset: 1 << 30, Reason: "the text is too long"}
	}
	p := parser{src: src, d: &Doc{src: src, nodes: make([]node, 0, 8+len(src)/24)}}
	p.space()
	p.value("", 0)
	p.space()
	if p.err == nil && p.i < len(src) {
		p.fail("more text after the value")
	}
	if p.err != nil {
		return nil, p.err
	}
	return p.d, nil
}

type parser struct {
	src string
	i   int
	d   *Doc
	err *SyntaxError
}

func (p *parser) fail(reason string) {
	if p.err == nil {
		p.err = &SyntaxError{Offset: p.i, Reason: reason}
	}
}

func (p *parser) space() {
	for p.i < len(p.src) {
		switch p.src[p.i] {
		case ' ', '\t', '\n', '\r':
			p.i++
		default:
			return
		}
	}
}

// peek returns the next byte, or 0 at the end.
func (p *parser) peek() byte {
	if p.i < len(p.src) {
		return p.src[p.i]
	}
	return 0
}

// value parses one value into a new node and returns the node's index.
func (p *parser) value(key string, depth int) int32 {
	at := int32(len(p.d.nodes))
	p.d.nodes = append(p.d.nodes, node{key: key, start: int32(p.i)})
	var kind Kind
	switch c := p.peek(); {
	case c == '{' || c == '[':
		if depth >= MaxDepth {
			p.fail("nested deeper than " + strconv.Itoa(MaxDepth) + " levels")
			return at
		}
		if kind = Array; c == '{' {
			kind = Object
		}
		p.children(at, kind, depth+1)
	case c == '"':
		kind = String
		p.d.nodes[at].plain = p.string()
	case c == '-' || '0' <= c && c <= '9':
		kind = Number
		p.number()
	case c == 't':
		kind = Bool
		p.literal("true")
	case c == 'f':
		kind = Bool
		p.literal("false")
	case c == 'n':
		p.literal("null")
	case p.i >= len(p.src):
		p.fail("the text ends where a value is expected")
	default:
		p.fail("a value is expected")
	}
	n := &p.d.nodes[at]
	n.kind, n.end = kind, int32(p.i)
	return at
}

func (p *parser) literal(word string) {
	if !strings.HasPrefix(p.src[p.i:], word) {
		p.fail("a value is expected")
		return
	}
	p.i += len(word)
}

// children parses the elements of an array or the members of an object.
func (p *parser) children(parent int32, kind Kind, depth int) {
	p.i++
	p.space()
	closing := byte(']')
	if kind == Object {
		closing = '}'
	}
	if p.peek() == closing {
		p.i++
		return
	}
	var last int32
	count := 0
	for p.err == nil {
		key := ""
		if kind == Object {
			key = p.memberKey()
		}
		child := p.value(key, depth)
		if last == 0 {
			p.d.nodes[parent].first = child
		} else {
			p.d.nodes[last].next = child
		}
		last = child
		count++
		p.space()
		switch {
		case p.err != nil:
		case p.peek() == ',':
			p.i++
			p.space()
		case p.peek() == closing:
			p.i++
			if kind == Object {
				p.dropOverridden(parent, count)
			}
			return
		default:
			p.fail("a comma or the end of " + kind.String() + " is expected")
		}
	}
}

func (p *parser) memberKey() string {
	start := p.i
	if p.peek() != '"' {
		p.fail("a key in quotes is expected")
		return ""
	}
	plain := p.string()
	if p.err != nil {
		return ""
	}
	key := p.src[start+1 : p.i-1]
	if !plain {
		key = unescape(key)
	}
	p.space()
	if p.peek() != ':' {
		p.fail("a colon is expected after the key")
		return ""
	}
	p.i++
	p.space()
	return key
}

// string moves over a string and reports whether it stands for itself: no
// escape and valid UTF-8.
func (p *parser) string() (plain bool) {
	start := p.i
	plain = true
	ascii := true
	for i := p.i + 1; i < len(p.src); i++ {
		switch c := p.src[i]; {
		case c == '"':
			p.i = i + 1
			return plain && (ascii || utf8.ValidString(p.src[start+1:i]))
		case c == '\\':
			plain = false
			n := escapeLen(p.src[i:])
			if n == 0 {
				p.i = i
				p.fail("an unknown escape")
				return false
			}
			i += n - 1
		case c < ' ':
			p.i = i
			p.fail("a control character in a string")
			return false
		case c >= utf8.RuneSelf:
			ascii = false
		}
	}
	p.i = len(p.src)
	p.fail("the text ends within a string")
	return false
}

// escapeLen returns the length of the escape that s starts with, or 0.
func escapeLen(s string) int {
	if len(s) < 2 {
		return 0
	}
	switch s[1] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return 2
	case 'u':
		if _, ok := hex4(s[2:]); ok {
			return 6
		}
	}
	return 0
}

func (p *parser) number() {
	if p.peek() == '-' {
		p.i++
	}
	if p.peek() == '0' {
		p.i++
	} else if !p.digits() {
		return
	}
	if p.peek() == '.' {
		p.i++
		if !p.digits() {
			return
		}
	}
	if c := p.peek(); c == 'e' || c == 'E' {
		p.i++
		if c = p.peek(); c == '+' || c == '-' {
			p.i++
		}
		p.digits()
	}
}

func (p *parser) digits() bool {
	start := p.i
	for c := p.peek(); '0' <= c && c <= '9'; c = p.peek() {
		p.i++
	}
	if p.i == start {
		p.fail("a digit is expected")
		return false
	}
	return true
}
