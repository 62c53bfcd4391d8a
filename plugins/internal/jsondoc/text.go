package jsondoc

import (
	"unicode/utf16"
	"unicode/utf8"
)

// unescape decodes the inside of a string that the parser accepted.
func unescape(s string) string {
	b := make([]byte, 0, len(s))
	for i := 0; i < len(s); {
		if s[i] != '\\' {
			r, n := utf8.DecodeRuneInString(s[i:]) // U+FFFD for an invalid byte
			b = utf8.AppendRune(b, r)
			i += n
			continue
		}
		if s[i+1] != 'u' {
			b = append(b, unescaped[s[i+1]])
			i += 2
			continue
		}
		r, _ := hex4(s[i+2:])
		i += 6
		if utf16.IsSurrogate(r) {
			second := rune(-1)
			if len(s) >= i+6 && s[i] == '\\' && s[i+1] == 'u' {
				second, _ = hex4(s[i+2:])
			}
			if r = utf16.DecodeRune(r, second); r != utf8.RuneError {
				i += 6
			}
		}
		b = utf8.AppendRune(b, r)
	}
	return string(b)
}

var unescaped = [256]byte{'"': '"', '\\': '\\', '/': '/', 'b': '\b', 'f': '\f', 'n': '\n', 'r': '\r', 't': '\t'}

func hex4(s string) (rune, bool) {
	if len(s) < 4 {
		return 0, false
	}
	var r rune
	for i := range 4 {
		c := s[i]
		switch {
		case '0' <= c && c <= '9':
			c -= '0'
		case 'a' <= c && c <= 'f':
			c -= 'a' - 10
		case 'A' <= c && c <= 'F':
			c -= 'A' - 10
		default:
			return 0, false
		}
		r = r<<4 | rune(c)
	}
	return r, true
}

// AppendEscaped writes text as the inside of a JSON string, without quotes.
func AppendEscaped(b []byte, text string) []byte {
	const hexDigits = "0123456789abcdef"
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c == '"' || c == '\\':
			b = append(b, '\\', c)
		case c < ' ':
			b = append(b, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&15])
		default:
			b = append(b, c)
		}
	}
	return b
}
