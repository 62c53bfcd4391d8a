package manifest

import (
	"bytes"
	"regexp"

	"go.yaml.in/yaml/v3"

	"github.com/pawlsync/pawl/engine/record"
)

// stretch is a part of a YAML file.
type stretch struct {
	text   []byte
	before int // lines of the file above it
}

// split parts YAML where a document begins: at a line that is --- or begins with it
// and a space, which means that everywhere, within strings too. A file with the marks
// of directives and ends (%, ...) is left whole: what they say may be of more than one.
func split(content []byte) []stretch {
	var out []stretch
	start, before, lines := 0, 0, 0
	for at := 0; at < len(content); lines++ {
		end := len(content)
		if i := bytes.IndexByte(content[at:], '\n'); i >= 0 {
			end = at + i + 1
		}
		switch line := content[at:end]; {
		case isMark(line, "..."), line[0] == '%':
			return []stretch{{content, 0}}
		case at > start && isMark(line, "---"):
			out = append(out, stretch{content[start:at], before})
			start, before = at, lines
		}
		at = end
	}
	return append(out, stretch{content[start:], before})
}

// hasPlainLines reports whether all lines of content end in \n, as YAML need not have it.
func hasPlainLines(content []byte) bool {
	for _, end := range []string{"\u0085", "\u2028", "\u2029"} {
		if bytes.Contains(content, []byte(end)) {
			return false
		}
	}
	return bytes.Count(content, []byte("\r")) == bytes.Count(content, []byte("\r\n"))
}

func isMark(line []byte, mark string) bool {
	rest, ok := bytes.CutPrefix(line, []byte(mark))
	return ok && (len(rest) == 0 || rest[0] == ' ' || rest[0] == '\t' || rest[0] == '\r' || rest[0] == '\n')
}

var keyLine = regexp.MustCompile(`(?m)^(sink|key):[ \t]+([^\r\n]+)(\r?\n[ \t])?`)

// guessKey reads the key of a document that is no YAML as a whole from its lines. It
// returns the zero key unless there is one line for each of sink and key, with a string
// that ends in it.
func guessKey(text []byte) record.Key {
	var k record.Key
	for _, m := range keyLine.FindAllSubmatch(text, -1) {
		var value any
		part := &k.Sink
		if string(m[1]) == "key" {
			part = &k.Name
		}
		s, ok := "", false
		if err := yaml.Unmarshal(m[2], &value); err == nil {
			s, ok = value.(string)
		}
		if !ok || *part != "" || len(m[3]) > 0 {
			return record.Key{}
		}
		*part = s
	}
	if k.Validate() != nil {
		return record.Key{}
	}
	return k
}
