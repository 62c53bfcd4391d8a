package upstream

import (
	"fmt"
	"net/url"
	"strings"
	"unicode"
	"unicode/utf8"
)

// maxTargetBytes bounds path and query of a request: servers commonly refuse
// longer ones.
const maxTargetBytes = 16 << 10

// target is where a request goes below the upstream's host.
type target struct {
	raw     string // the whole path, base included, as it is sent
	decoded string // the same, decoded
	query   string // as it is sent, without "?"
}

// place is the part of the server that an upstream may reach.
type place struct {
	raw, decoded string   // the base URL's path, without a slash at the end
	prefixes     []string // below the base, decoded, without a slash at the end; none: all
}

// resolve checks a plugin's path and query and appends them to the base. They
// are never resolved: what would need it is refused.
func (p *place) resolve(s string) (target, error) {
	if len(s) > maxTargetBytes {
		return target{}, fmt.Errorf("the path has %d bytes, more than the %d allowed", len(s), maxTargetBytes)
	}
	path, query, _ := strings.Cut(s, "?")
	decoded, err := checkPath(path)
	if err != nil {
		return target{}, err
	}
	if err := checkQuery(query); err != nil {
		return target{}, err
	}
	if !p.allows(decoded) {
		return target{}, fmt.Errorf("the path %s is outside the upstream's allowed prefixes", quote(decoded))
	}
	return target{raw: p.raw + path, decoded: p.decoded + decoded, query: query}, nil
}

// enter checks where a redirect leads: u must be below the base, as strictly
// as a plugin's own path.
func (p *place) enter(u *url.URL) (target, bool) {
	raw := u.EscapedPath()
	if raw == "" {
		raw = "/"
	}
	decoded, err := checkPath(raw)
	if err != nil || checkQuery(u.RawQuery) != nil || len(raw)+len(u.RawQuery) > maxTargetBytes {
		return target{}, false
	}
	below, ok := strings.CutPrefix(decoded, p.decoded)
	if !ok || below != "" && below[0] != '/' || !p.allows(below) {
		return target{}, false
	}
	return target{raw: raw, decoded: decoded, query: u.RawQuery}, true
}

// allows reports whether the decoded path below the base has an allowed prefix,
// ending at a segment's border.
func (p *place) allows(below string) bool {
	if len(p.prefixes) == 0 {
		return true
	}
	for _, prefix := range p.prefixes {
		rest, ok := strings.CutPrefix(below, prefix)
		if ok && (rest == "" || rest[0] == '/') {
			return true
		}
	}
	return false
}

// checkPath returns raw decoded, or says why it is refused. Whatever passes is
// read alike by every server that we know of: no segment can be taken for a
// step up, a separator or the end of the path.
func checkPath(raw string) (string, error) {
	if raw == "" || raw[0] != '/' {
		return "", fmt.Errorf(`the path %s does not start with "/"`, quote(raw))
	}
	escaped := false
	for i := 0; i < len(raw); i++ {
		switch c := raw[i]; {
		case c == '%':
			if !isEscape(raw[i:]) {
				return "", fmt.Errorf(`the path has a malformed escape at byte %d; write "%%" as "%%25"`, i)
			}
			escaped = true
		case c == '#':
			return "", fmt.Errorf("the path has a fragment at byte %d; write \"#\" as \"%%23\"", i)
		case !isPathByte(c):
			return "", fmt.Errorf("the path has byte 0x%02x at %d; it must be percent-encoded", c, i)
		}
	}
	for rest := raw[1:]; ; {
		segment, after, more := strings.Cut(rest, "/")
		if segment == "" && more {
			return "", fmt.Errorf(`the path %s has an empty segment ("//")`, quote(raw))
		}
		if err := checkSegment(segment); err != nil {
			return "", err
		}
		if !more {
			break
		}
		rest = after
	}
	if !escaped {
		return raw, nil
	}
	return url.PathUnescape(raw)
}

// checkSegment says what is wrong with one encoded segment.
func checkSegment(raw string) error {
	s := raw
	if strings.IndexByte(raw, '%') >= 0 {
		decoded, err := url.PathUnescape(raw)
		if err != nil {
			return fmt.Errorf("the path segment %s can't be decoded", quote(raw))
		}
		s = decoded
		switch {
		case strings.ContainsAny(s, `/\`):
			return fmt.Errorf("the path segment %s holds an encoded slash or backslash, which servers read differently", quote(raw))
		case !utf8.ValidString(s):
			return fmt.Errorf("the path segment %s is not UTF-8 when decoded", quote(raw))
		case strings.ContainsFunc(s, unicode.IsControl):
			return fmt.Errorf("the path segment %s holds an encoded control character", quote(raw))
		}
	}
	if climbs(s) {
		return fmt.Errorf("the path segment %s is a dot segment", quote(raw))
	}
	return nil
}

// climbs reports whether a decoded segment could be taken for "." or "..":
// with parameters ("..;x", which Java servers cut off), with spaces after it,
// or encoded once more by somebody who hopes for a server that decodes twice.
func climbs(s string) bool {
	for range 3 {
		for part := range strings.FieldsFuncSeq(s, func(r rune) bool { return r == '/' || r == '\\' }) {
			name, _, _ := strings.Cut(part, ";")
			name = strings.TrimRight(name, " ")
			if name == "." || name == ".." {
				return true
			}
		}
		if strings.IndexByte(s, '%') < 0 {
			return false
		}
		again, err := url.PathUnescape(s)
		if err != nil {
			return false
		}
		s = again
	}
	return false
}

// checkQuery says what is wrong with a raw query. Servers split it at "&"
// alone, so that its content matters little; what could end the request line
// or the query does.
func checkQuery(q string) error {
	for i := 0; i < len(q); i++ {
		switch c := q[i]; {
		case c == '%' && !isEscape(q[i:]):
			return fmt.Errorf(`the query has a malformed escape at byte %d; write "%%" as "%%25"`, i)
		case c == '#':
			return fmt.Errorf("the query has a fragment at byte %d; write \"#\" as \"%%23\"", i)
		case c <= ' ' || c >= 0x7f:
			return fmt.Errorf("the query has byte 0x%02x at %d; it must be percent-encoded", c, i)
		}
	}
	return nil
}

// isEscape reports whether s begins with "%" and two hexadecimal digits.
func isEscape(s string) bool { return len(s) >= 3 && isHex(s[1]) && isHex(s[2]) }

func isHex(c byte) bool {
	return c >= '0' && c <= '9' || c >= 'a' && c <= 'f' || c >= 'A' && c <= 'F'
}

// isPathByte reports whether c may stand for itself in a path (RFC 3986, pchar
// and "/").
func isPathByte(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' ||
		strings.IndexByte("/-._~!$&'()*+,;=:@", c) >= 0
}

// quote quotes guest text for a message, cut to a readable length.
func quote(s string) string {
	const most = 120
	if len(s) > most {
		return fmt.Sprintf("%q…", s[:most])
	}
	return fmt.Sprintf("%q", s)
}
