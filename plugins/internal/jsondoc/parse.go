// Package jsondoc reads JSON without building Go values: small, fast in a wasm
// guest, and exact about numbers.
//
// It accepts what encoding/json accepts and means the same by it: of a key that
// comes twice the last one counts, and invalid UTF-8 or a lone surrogate in a
// string reads as U+FFFD. Nesting is bounded by MaxDepth.
package jsondoc

import (
	"math/bits"
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
	hash       uint64 // of key
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

// Items yields an array's items in order.
func (v Value) Items(yield func(i int, v Value) bool) {
	if v.Kind() != Array {
		return
	}
	for i, c := 0, v.node().first; c != 0; i, c = i+1, v.d.nodes[c].next {
		if !yield(i, Value{v.d, c}) {
			return
		}
	}
}

// Parse reads one JSON text; an error is a *SyntaxError. src must not change
// while the Doc is in use.
func Parse(src string) (*Doc, error) { return new(Parser).Parse(src) }

// Parser reads many texts with the memory of Docs that were given back: what a
// Doc needs is more than its text, and to get it anew costs a guest about as
// much as to read it. The zero value is ready. Several Docs may be in use at once.
type Parser struct{ spare []node }

// maxSpareNodes bounds what a Parser holds, at 48 bytes each.
const maxSpareNodes = 1024

// Parse is as the function of that name.
func (ps *Parser) Parse(src string) (*Doc, error) {
	if len(src) > 1<<30 {
		return nil, &SyntaxError{Offset: 1 << 30, Reason: "the text is too long"}
	}
	// Taken before anything can yield to another goroutine of the guest.
	nodes := ps.spare
	ps.spare = nil
	if nodes == nil {
		nodes = make([]node, 0, 8+len(src)/24)
	}
	p := parser{src: src, nodes: nodes}
	if err := p.document(); err != nil {
		return nil, err
	}
	return &Doc{src: src, nodes: p.nodes}, nil
}

// Release gives back d, which is used no more, and no value of it either.
func (ps *Parser) Release(d *Doc) {
	nodes := d.nodes
	d.nodes = nil
	if cap(nodes) <= maxSpareNodes {
		clear(nodes) // they keep the text alive
		ps.spare = nodes[:0]
	}
}

// parser is a loop and no recursion: a guest's calls are dear, and the stack of
// a call that parks later is held for as long.
type parser struct {
	src   string
	i     int
	nodes []node
	// open is the innermost array or object that is not closed, -1: none. Of an
	// open one, next is the one around it, and end its last child, 0: none.
	open  int32
	depth int
	seen  []uint32 // see mayRepeat
}

func (p *parser) fail(reason string) *SyntaxError { return &SyntaxError{Offset: p.i, Reason: reason} }

// space moves over white space and returns the byte after it, or 0 at the end.
func (p *parser) space() byte {
	if p.i < len(p.src) && p.src[p.i] > ' ' {
		return p.src[p.i]
	}
	return p.skipSpace()
}

func (p *parser) skipSpace() byte {
	for p.i < len(p.src) {
		if c := p.src[p.i]; c != ' ' && c != '\t' && c != '\n' && c != '\r' {
			return c
		}
		p.i++
	}
	return 0
}

func (p *parser) document() error {
	p.open = -1
	for {
		if err := p.value(); err != nil {
			return err
		}
		more, err := p.afterValue()
		if err != nil {
			return err
		}
		if !more {
			return nil
		}
	}
}

// afterValue closes what ends here and reports whether another value follows.
func (p *parser) afterValue() (more bool, err error) {
	for {
		c := p.space()
		if p.open < 0 {
			if p.i < len(p.src) {
				return false, p.fail("more text after the value")
			}
			return false, nil
		}
		kind := p.nodes[p.open].kind
		switch {
		case c == ',' && p.nodes[p.open].end != 0:
			p.i++
			return true, nil
		case c == ']' && kind == Array, c == '}' && kind == Object:
			p.i++
			p.close()
		case p.nodes[p.open].end == 0: // just opened
			return true, nil
		default:
			return false, p.fail("a comma or the end of " + kind.String() + " is expected")
		}
	}
}

func (p *parser) close() {
	n := &p.nodes[p.open]
	if n.kind == Object && n.first != n.end {
		p.dropOverridden(n)
	}
	p.open, n.next = n.next, 0
	n.end = int32(p.i)
	p.depth--
}

// value reads one value, with its key within an object; of an array or an
// object only the beginning.
func (p *parser) value() error {
	c := p.space()
	at := int32(len(p.nodes))
	p.nodes = append(p.nodes, node{})
	n := &p.nodes[at]
	if p.open >= 0 {
		parent := &p.nodes[p.open]
		if parent.kind == Object {
			if err := p.key(n, c); err != nil {
				return err
			}
			c = p.space()
		}
		if parent.end == 0 {
			parent.first = at
		} else {
			p.nodes[parent.end].next = at
		}
		parent.end = at
	}
	n.start = int32(p.i)
	switch {
	case c == '"':
		n.kind = String
		plain, err := p.string()
		if err != nil {
			return err
		}
		n.plain = plain
	case c == '{', c == '[':
		if p.depth++; p.depth > MaxDepth {
			return p.fail("nested deeper than " + strconv.Itoa(MaxDepth) + " levels")
		}
		if n.kind = Array; c == '{' {
			n.kind = Object
		}
		n.next, p.open = p.open, at
		p.i++
		return nil
	case c == '-' || '0' <= c && c <= '9':
		n.kind = Number
		if err := p.number(); err != nil {
			return err
		}
	default:
		if err := p.word(n); err != nil {
			return err
		}
	}
	n.end = int32(p.i)
	return nil
}

// word reads true, false or null.
func (p *parser) word(n *node) error {
	rest := p.src[p.i:]
	switch {
	case strings.HasPrefix(rest, "true"):
		n.kind = Bool
		p.i += 4
	case strings.HasPrefix(rest, "false"):
		n.kind = Bool
		p.i += 5
	case strings.HasPrefix(rest, "null"):
		p.i += 4
	case rest == "":
		return p.fail("the text ends where a value is expected")
	default:
		return p.fail("a value is expected")
	}
	return nil
}

// key reads a member's key and its colon. c is the byte at its start.
func (p *parser) key(n *node, c byte) error {
	if c != '"' {
		return p.fail("a key in quotes is expected")
	}
	start := p.i + 1
	plain, err := p.string()
	if err != nil {
		return err
	}
	if n.key = p.src[start : p.i-1]; !plain {
		n.key = unescape(n.key)
	}
	n.hash = hashString(pathSeed, n.key)
	if p.space() != ':' {
		return p.fail("a colon is expected after the key")
	}
	p.i++
	return nil
}

// string moves over a string and reports whether it stands for itself: no
// escape and valid UTF-8.
func (p *parser) string() (plain bool, err error) {
	start := p.i + 1
	plain = true
	ascii := true
	src := p.src
	for i := start; ; i++ {
		if i += plainBytes(src[i:]); i >= len(src) {
			p.i = len(src)
			return false, p.fail("the text ends within a string")
		}
		c := src[i]
		switch {
		case c == '"':
			p.i = i + 1
			return plain && (ascii || utf8.ValidString(src[start:i])), nil
		case c == '\\':
			plain = false
			n := escapeLen(src[i:])
			if n == 0 {
				p.i = i
				return false, p.fail("an unknown escape")
			}
			i += n - 1
		case c < ' ':
			p.i = i
			return false, p.fail("a control character in a string")
		default:
			ascii = false
		}
	}
}

// plainBytes returns how many bytes at the beginning of s are ASCII without
// quotes, backslashes and control characters. It looks at eight at a time:
// strings are most of a document.
func plainBytes(s string) int {
	const ones, high = 0x0101010101010101, 0x8080808080808080
	i := 0
	for ; i+8 <= len(s); i += 8 {
		w := load64(s, i)
		quote, backslash := w^'"'*ones, w^'\\'*ones
		// A byte's highest bit is set where it was zero or below the limit; what
		// borrows do to bytes above the first such one does not matter.
		special := (quote-ones)&^quote | (backslash-ones)&^backslash | (w-' '*ones)&^w | w
		if special &= high; special != 0 {
			return i + bits.TrailingZeros64(special)/8
		}
	}
	for ; i < len(s); i++ {
		if c := s[i]; c < ' ' || c == '"' || c == '\\' || c >= utf8.RuneSelf {
			break
		}
	}
	return i
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

func (p *parser) number() error {
	if p.src[p.i] == '-' {
		p.i++
	}
	if p.peek() == '0' {
		p.i++
	} else if !p.digits() {
		return p.fail("a digit is expected")
	}
	if p.peek() == '.' {
		p.i++
		if !p.digits() {
			return p.fail("a digit is expected")
		}
	}
	if c := p.peek(); c == 'e' || c == 'E' {
		p.i++
		if c = p.peek(); c == '+' || c == '-' {
			p.i++
		}
		if !p.digits() {
			return p.fail("a digit is expected")
		}
	}
	return nil
}

// peek returns the next byte, or 0 at the end.
func (p *parser) peek() byte {
	if p.i < len(p.src) {
		return p.src[p.i]
	}
	return 0
}

// digits moves over digits and reports whether there were any.
func (p *parser) digits() bool {
	start := p.i
	for p.i < len(p.src) && '0' <= p.src[p.i] && p.src[p.i] <= '9' {
		p.i++
	}
	return p.i > start
}
