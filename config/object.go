package config

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"regexp"
	"strconv"

	"go.yaml.in/yaml/v3"
)

// Bounds of the free-form objects of a file, which keep aliases of aliases from
// growing without end.
const (
	objectMaxDepth = 64
	objectMaxNodes = 100_000 // of all together
)

// object turns n, the free-form mapping or the value at f, into JSON. Keys keep
// their order and case, and numbers their digits where JSON can write them so.
// ok is false if something was wrong, which is noted.
func (l *loader) object(f *field, n *yaml.Node, path string) (raw json.RawMessage, ok bool) {
	switch {
	case f.kind == kindObject && n.Kind != yaml.MappingNode:
		l.fail(at(n), path, "needs a mapping, not "+describe(n), "")
		return nil, false
	case f.kind == kindScalar && (n.Kind != yaml.ScalarNode || n.ShortTag() == "!!null"):
		l.fail(at(n), path, "needs a string, a number or a boolean, not "+describe(n), "")
		return nil, false
	}
	before := len(l.errs)
	w := objectWriter{l: l, path: path}
	w.write(n, 0)
	return w.out.Bytes(), len(l.errs) == before
}

type objectWriter struct {
	l    *loader
	path string
	out  bytes.Buffer
}

func (w *objectWriter) fail(n *yaml.Node, what, hint string) { w.l.fail(at(n), w.path, what, hint) }

func (w *objectWriter) write(n *yaml.Node, depth int) {
	n = deref(n)
	w.l.nodes++
	if depth > objectMaxDepth || w.l.nodes > objectMaxNodes {
		if w.l.nodes <= objectMaxNodes+1 { // say it once, not for each node that follows
			w.fail(n, fmt.Sprintf("is nested deeper than %d, or the file has more than %d such values", objectMaxDepth, objectMaxNodes), "")
		}
		w.l.nodes = objectMaxNodes + 1
		return
	}
	switch n.Kind {
	case yaml.MappingNode:
		w.out.WriteByte('{')
		for i, p := range w.l.pairs(n, w.path, "") {
			if i > 0 {
				w.out.WriteByte(',')
			}
			w.string(p.key.Value)
			w.out.WriteByte(':')
			w.write(p.value, depth+1)
		}
		w.out.WriteByte('}')
	case yaml.SequenceNode:
		w.out.WriteByte('[')
		for i, c := range n.Content {
			if i > 0 {
				w.out.WriteByte(',')
			}
			w.write(c, depth+1)
		}
		w.out.WriteByte(']')
	default:
		w.scalar(n)
	}
}

var jsonNumber = regexp.MustCompile(`^-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][-+]?[0-9]+)?$`)

func (w *objectWriter) scalar(n *yaml.Node) {
	switch tag := n.ShortTag(); tag {
	case "!!null":
		w.out.WriteString("null")
	case "!!bool":
		var b bool
		if err := n.Decode(&b); err != nil {
			w.fail(n, "is no boolean", "")
			return
		}
		w.out.WriteString(strconv.FormatBool(b))
	case "!!int", "!!float":
		w.number(n)
	case "!!str", "!!timestamp":
		w.string(n.Value)
	default:
		w.fail(n, fmt.Sprintf("a value tagged %s can't be written as JSON", tag), "")
	}
}

// number writes what YAML takes for one: 0x1F, 1_000 and .5 are no JSON.
func (w *objectWriter) number(n *yaml.Node) {
	if jsonNumber.MatchString(n.Value) {
		w.out.WriteString(n.Value)
		return
	}
	var i int64
	var u uint64
	var x float64
	switch {
	case n.ShortTag() == "!!int" && n.Decode(&i) == nil:
		w.out.WriteString(strconv.FormatInt(i, 10))
	case n.ShortTag() == "!!int" && n.Decode(&u) == nil:
		w.out.WriteString(strconv.FormatUint(u, 10))
	case n.Decode(&x) == nil && !math.IsNaN(x) && !math.IsInf(x, 0):
		w.out.WriteString(strconv.FormatFloat(x, 'g', -1, 64))
	default:
		w.fail(n, fmt.Sprintf("the number %s can't be written as JSON", shown(n.Value)), "put it in quotes")
	}
}

// string writes s as JSON, without the escapes that are meant for HTML.
func (w *objectWriter) string(s string) {
	enc := json.NewEncoder(&w.out)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(s); err == nil {
		w.out.Truncate(w.out.Len() - 1) // the encoder's newline
	}
}
