package main

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// beforeValues are the words after which the API server repeats a value.
var beforeValues = []string{"Invalid value: ", "Unsupported value: ", "Duplicate value: ", "Not found: ", "Too long: ", "Too many: ", "unable to convert "}

// goValue begins a value that is written as a Go program writes it.
const goValue = "valueUnstructured{Value:"

// withoutValues leaves out the values that the API server repeats in a message.
func withoutValues(message string) string {
	for _, words := range beforeValues {
		message = redactAfter(message, words, valueLen)
	}
	return redactAfter(message, goValue, goValueLen)
}

func redactAfter(message, words string, lenOf func(string) int) string {
	var b strings.Builder
	for {
		before, rest, found := strings.Cut(message, words)
		b.WriteString(before)
		if !found {
			return b.String()
		}
		b.WriteString(words)
		n := lenOf(rest)
		if n > 0 {
			b.WriteString("…")
		}
		message = rest[n:]
	}
}

// valueLen is how long the value is that s begins with: a quoted string, JSON, or
// whatever comes before a colon and a space, or a closing brace.
func valueLen(s string) int {
	if s == "" {
		return 0
	}
	depth, quote := 0, byte(0)
	for i := 0; i < len(s); i++ {
		c := s[i]
		if quote != 0 {
			switch {
			case c == '\\' && quote == '"':
				i++
			case c == quote:
				if quote = 0; depth == 0 {
					return i + 1
				}
			}
			continue
		}
		switch {
		case c == '"' || c == '`':
			quote = c
		case c == '{' || c == '[':
			depth++
		case c == '}' || c == ']':
			if depth == 0 {
				return i
			}
			if depth--; depth == 0 {
				return i + 1
			}
		case depth == 0 && strings.HasPrefix(s[i:], ": "):
			return i
		}
	}
	return len(s)
}

// goValueLen is how long the value is that follows goValue: up to the brace that closes it.
func goValueLen(s string) int {
	depth, quoted := 0, false
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '{':
			depth++
		case c == '}':
			if depth == 0 {
				return i
			}
			depth--
		}
	}
	return len(s)
}

// maxExcerptBytes bounds what of the server's words goes into a message.
const maxExcerptBytes = 400

// excerpt is the beginning of text on one line, without what can't be printed.
func excerpt(text string) string {
	var b strings.Builder
	for _, r := range text {
		if r == utf8.RuneError || !unicode.IsPrint(r) {
			r = ' '
		}
		if b.Len()+utf8.RuneLen(r) > maxExcerptBytes-len("…") {
			return b.String() + "…"
		}
		b.WriteRune(r)
	}
	return b.String()
}
