package dir

import (
	"bytes"
	"fmt"
	"path"
	"strings"

	"github.com/bmatcuk/doublestar/v4"
)

// ignoreFile says in its directory, and below, what is left out, as git's .gitignore does.
const ignoreFile = ".pawlignore"

// ignoreRule is one line of an ignore file.
type ignoreRule struct {
	pattern string // as doublestar takes it, relative to the file's directory
	negate  bool   // what it matches is not left out
	dirOnly bool
}

// parseIgnore reads an ignore file; name is for messages.
func parseIgnore(content []byte, name string) ([]ignoreRule, error) {
	var rules []ignoreRule
	for i, line := range strings.Split(string(bytes.TrimPrefix(content, []byte("\xef\xbb\xbf"))), "\n") {
		line = trimSpaces(strings.TrimSuffix(line, "\r"))
		if line == "" || line[0] == '#' {
			continue
		}
		rule, ok := parseIgnoreLine(line)
		if !ok {
			return nil, fmt.Errorf("%s:%d: %q is no pattern; write it as for .gitignore", name, i+1, line)
		}
		rules = append(rules, rule)
	}
	return rules, nil
}

// trimSpaces takes away spaces at the end, except one that is escaped.
func trimSpaces(line string) string {
	for strings.HasSuffix(line, " ") && !strings.HasSuffix(line, `\ `) {
		line = line[:len(line)-1]
	}
	return line
}

func parseIgnoreLine(line string) (rule ignoreRule, ok bool) {
	line, rule.negate = strings.CutPrefix(line, "!")
	line, rule.dirOnly = strings.CutSuffix(line, "/")
	inDir, anchored := strings.CutPrefix(line, "/")
	switch {
	case anchored:
		line = inDir
	case !strings.Contains(line, "/"): // a name, wherever it is
		line = "**/" + line
	}
	if strings.HasSuffix(line, "/**") { // what is in a directory, but not itself
		line += "/*"
	}
	rule.pattern = escapeBraces(line)
	return rule, line != "" && doublestar.ValidatePattern(rule.pattern)
}

// escapeBraces makes braces signs like others, as they are to git.
func escapeBraces(pattern string) string {
	var b strings.Builder
	for i := 0; i < len(pattern); i++ {
		switch c := pattern[i]; {
		case c == '\\' && i+1 < len(pattern):
			b.WriteByte(c)
			i++
			b.WriteByte(pattern[i])
		case c == '{' || c == '}':
			b.WriteByte('\\')
			b.WriteByte(c)
		default:
			b.WriteByte(c)
		}
	}
	return b.String()
}

// ignores are the rules of every directory that has an ignore file, by its path.
type ignores map[string][]ignoreRule

// match reports whether p is left out. Of several rules the one that is deepest, and the
// last one in its file, says.
func (ig ignores) match(p string, isDir bool) bool {
	if len(ig) == 0 {
		return false
	}
	for at := path.Dir(p); ; at = path.Dir(at) {
		rules, below := ig[at], p
		if at != "." {
			below = p[len(at)+1:]
		}
		for i := len(rules) - 1; i >= 0; i-- {
			r := rules[i]
			if (isDir || !r.dirOnly) && doublestar.MatchUnvalidated(r.pattern, below) {
				return !r.negate
			}
		}
		if at == "." {
			return false
		}
	}
}
