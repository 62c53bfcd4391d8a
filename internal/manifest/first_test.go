package manifest

import (
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"time"
)

// Whether one decoder reads many documents or each has its own, they are the same, and so
// is what is wrong with them.
func TestDocumentsReadByOneDecoderAreThoseReadOneByOne(t *testing.T) {
	pieces := []string{
		"sink: web\nkey: a\npayload: {x: 1}\n", "sink: web\nkey: b\npayload:\n  - |\n    text\n  - 'it''s'\n",
		"# a comment\n", "\n", "", "null\n", "sink: web\r\nkey: c\r\npayload: 1\r\n", "sink: web\nkey: d\npayload: 0755\n",
		"sink: web\nkey: e\npayload: \"begun\n", "payload: {x: 1\n", "sink: web\nkey: f\npayload: *none\n", "\tx: 1\n", "a: b: c\n",
		"sink: web\nkey: g\npayload: \x01\n", "sink: web\nkey: g\npayload: \xff\n", "- sink: web\n  key: h\n  payload: 1\n- x\n", "just text\n",
		"apiVersion: v1\nkind: ConfigMap\n", "sink: web\nkey: i\npayload: |\n  # no comment\n# one\n", "? x\n: y\n", "sink: web\nkey: j\npayload: 1\nsink: web\n",
		"sink: web\nkey: k\npayload: 1\u0085---\nsink: web\nkey: l\npayload: 1\n", "]\n", "sink: web\nkey: q\npayload: a\u2028  b\n", "sink: web\nkey: r\rpayload: 1\n", "sink: web\nkey: s\npayload: \"a\u2029b\"\n", "--- 1\n",
		"sink: web\nkey: m\npayload: >-\n  " + strings.Repeat("long ", 300) + "\n",
		"sink: web\nkey: n\npayload: &x 1\n", "sink: web\nkey: o\npayload: *x\n", "!!map\nsink: web\nkey: p\npayload: !t 1\n",
	}
	marks := []string{"---\n", "---\n", "--- # with a comment\n", "---\t\n", "---\r\n", "--- {}\n", "---x\n"}
	seed := uint64(time.Now().UnixNano())
	r := rand.New(rand.NewPCG(seed, 0))
	together, left := 0, 0
	for range 1000 {
		var b strings.Builder
		bad := r.IntN(3) == 0
		for range r.IntN(8) {
			n := len(pieces)
			if !bad {
				n = 8 // those with which nothing is wrong come first
			}
			b.WriteString(marks[r.IntN(len(marks)-1+r.IntN(2))])
			b.WriteString(pieces[r.IntN(n)])
		}
		content := []byte(strings.TrimPrefix(b.String(), "---\n"))
		got := parseYAML(content, "x.yaml")
		each := &yamlParser{file: "x.yaml"}
		for _, s := range split(content) {
			each.before = s.before
			each.stretch(s.text)
		}
		if !reflect.DeepEqual(got, each.entries) {
			t.Fatalf("seed %d: of %q\ngot  %+v\nwant %+v", seed, content, got, each.entries)
		}
		if l := len((&yamlParser{}).first(content, split(content))); l == 0 {
			together++
		} else {
			left++
		}
	}
	if together == 0 || left == 0 {
		t.Errorf("seed %d: of %d files all was read by one decoder, of %d not; want some of both", seed, together, left)
	}
}

func TestOneDecoderReadsWhatComesBeforeWhatIsNoYAML(t *testing.T) {
	for content, left := range map[string]int{
		"sink: a\n---\nsink: b\n---\nsink: c\n":      0,
		"sink: a\n---\nsink: b\n---\nsink: {\n":      2,
		"sink: a\n---\nsink: {\n---\nsink: c\n":      3,
		"sink: &x a\n---\nsink: *x\n---\nsink: c\n":  3, // an anchor is of one document
		"sink: a\r\n---\r\nsink: b\r\n":              0,
		"sink: a\rkey: b\n---\nsink: b\n":            2, // the decoder counts other lines
		"sink: a\u0085---\nsink: b\n---\nsink: c\n":  2,
		"# comment\n---\nsink: a\n---\n---\nsink: {": 2,
	} {
		if got := (&yamlParser{}).first([]byte(content), split([]byte(content))); len(got) != left {
			t.Errorf("of %q %d stretches are left, want %d", content, len(got), left)
		}
	}
}
