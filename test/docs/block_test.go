package docs

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/pawlsync/pawl/test/ops/kit"
)

// block is a block of commands.
type block struct {
	line int // in its page
	text string
}

var fence = regexp.MustCompile("(?ms)^```sh[^\\n]*\\n(.*?)^```$")

// blocks are those of a page, by its path from the repository's root.
func blocks(t *testing.T, page string) []block {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(kit.Root(t), page))
	kit.Must(t, err)
	text := string(b)
	var out []block
	for _, m := range fence.FindAllStringSubmatchIndex(text, -1) {
		out = append(out, block{strings.Count(text[:m[2]], "\n") + 1, text[m[2]:m[3]]})
	}
	return out
}

// mark begins a block's output, and has its number.
const mark = "=== block "

// script is the blocks of a page as one script, with what comes before each.
func (p page) script(all []block) string {
	var s strings.Builder
	for i, b := range all {
		fmt.Fprintf(&s, "echo '%s%d'\n", mark, i)
		for first, before := range p.before {
			if strings.Contains(b.text, first) {
				s.WriteString(before + "\n")
			}
		}
		text := b.text
		for part := range p.skip {
			if strings.Contains(b.text, part) {
				text = ""
			}
		}
		for in, there := range p.replace {
			text = strings.ReplaceAll(text, in, there)
		}
		if p.apart && text != "" {
			text = "(\n" + text + ")\n"
		}
		s.WriteString(text)
	}
	return s.String() + "echo '" + mark + "end'\n"
}

// outputs are what the blocks printed, by their number. Those that were not come to are
// missing.
func outputs(said string) map[int]string {
	out := map[int]string{}
	for part := range strings.SplitSeq(said, mark) {
		var n int
		if _, err := fmt.Sscanf(part, "%d\n", &n); err == nil {
			_, out[n], _ = strings.Cut(part, "\n")
		}
	}
	return out
}

var number = regexp.MustCompile(`\d+`)

// shown are the lines that a block says its commands print, as patterns: generations differ.
func (b block) shown() []*regexp.Regexp {
	var out []*regexp.Regexp
	for line := range strings.Lines(b.text) {
		if text, ok := strings.CutPrefix(strings.TrimSpace(line), "# "); ok {
			pattern := number.ReplaceAllLiteralString(regexp.QuoteMeta(text), `\d+`)
			out = append(out, regexp.MustCompile(strings.ReplaceAll(pattern, "…", ".*")))
		}
	}
	return out
}
