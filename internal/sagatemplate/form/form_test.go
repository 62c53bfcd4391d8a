package form

import (
	"encoding/json"
	"errors"
	"regexp/syntax"
	"strings"
	"testing"
	"unicode"
)

func TestTextsAreReadAndFilled(t *testing.T) {
	values := map[string]Value{"a": {"1", []byte("1")}, "b_2": {"x", []byte(`"x"`)}}
	for _, row := range []struct{ text, filled, quoted, params string }{
		{"", "", `""`, ""},
		{"plain }} {", "plain }} {", `"plain }} {"`, ""},
		{"{{.a}}", "1", "1", "a"},
		{" {{.a}}", " 1", `" 1"`, "a"},
		{"{{ .a }}{{.b_2}}{{.a}}", "1x1", `"1x1"`, "a b_2"},
		{`{{"{{"}}.a}}`, "{{.a}}", `"{{.a}}"`, ""},
		{`{{{"{{"}}`, "", "", "!"},
		{`{ {{.b_2}} <`, "{ x <", `"{ x <"`, "b_2"},
		{"{{.A}}", "", "", "!"}, {"{{.a.b}}", "", "", "!"}, {"{{- .a}}", "", "", "!"}, {"{{.a", "", "", "!"}, {"{{printf .a}}", "", "", "!"},
		{"{{.a | html}}", "", "", "!"}, {"{{}}", "", "", "!"}, {"{{/* c */}}", "", "", "!"}, {"{{\n.a}}", "", "", "!"},
	} {
		text, err := ParseText(row.text)
		if row.params == "!" {
			var p *Problem
			if !errors.As(err, &p) || p.Hint == "" {
				t.Errorf("%q: %v", row.text, err)
			}
			continue
		}
		if err != nil {
			t.Errorf("%q: %v", row.text, err)
			continue
		}
		if got := text.Fill(values); got != row.filled || text.Len(values) != len(got) {
			t.Errorf("%q: %q of %d bytes", row.text, got, text.Len(values))
		}
		if got := string(text.Quote(values)); got != row.quoted {
			t.Errorf("%q: %s", row.text, got)
		}
		if got := strings.Join(text.Params(), " "); got != row.params {
			t.Errorf("%q: parameters %s", row.text, got)
		}
	}
}

func TestWhatAValueMayBeWithinAText(t *testing.T) {
	for _, row := range []struct {
		p      Param
		around string
		want   string // "" for none
	}{
		{Param{Type: "integer"}, "a/:#", ""},
		{Param{Type: "boolean"}, "a/:#", ""},
		{Param{Type: "string"}, "", `"`},
		{Param{Type: "string", Enum: []string{"#"}}, "#", ""},
		{Param{Type: "string", Pattern: "[a-z0-9._-]+"}, "a/:#-._", ""},
		{Param{Type: "string", Pattern: `\p{L}\pN*`}, "", "²"},
		{Param{Type: "string", Pattern: `(?i)k\w{3}(é|\d)?`}, "", ""},
		{Param{Type: "string", Pattern: "[a-z/]+"}, "user:", ""},
		{Param{Type: "string", Pattern: "[a-z/]+"}, "user/", "/"},
		{Param{Type: "string", Pattern: "(a|(b[@+])?)*"}, "x@y", "@"},
		{Param{Type: "string", Pattern: "a:b"}, ":", ":"},
		{Param{Type: "string", Pattern: "a:b"}, "/", ""},
		{Param{Type: "string", Pattern: "a.b"}, "", `"`},
		{Param{Type: "string", Pattern: "(?s)a.b"}, "", `"`},
		{Param{Type: "string", Pattern: "[^a]"}, "", `"`},
		{Param{Type: "string", Pattern: `\S`}, "", "!"},
		{Param{Type: "string", Pattern: "a*b#*"}, "", "#"},
		{Param{Type: "string", Pattern: "[a-z]+\\s"}, "", "\t"},
	} {
		typ, err := NewType(row.p)
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		if r, ok := typ.Foreign(row.around); ok {
			got = string(r)
		}
		if row.want == "²" || row.want == "!" || row.want == "\t" { // which of many does not matter
			if got == "" {
				t.Errorf("%q: none", row.p.Pattern)
			}
		} else if got != row.want {
			t.Errorf("%q within %q: %q, want %q", row.p.Pattern, row.around, got, row.want)
		}
	}
}

// What Foreign lets into a text has letters, digits and signs that mean nothing there.
func FuzzForeign(f *testing.F) {
	for _, p := range []string{"[a-z]+", ".*", "[^#]*", "(?i)a|b/", `\w+@\w+`, `[[:punct:]]`, "(?:a(b|[+=]))*", `\Q#\E`, `\x{1F600}`, "(?-s).", "^$", `[a-\x{10FFFF}]`} {
		for _, v := range []string{"a", "#", "a/b", "x@y", "😀", "ab+", "", "K"} {
			f.Add(p, v, "/a:")
		}
	}
	f.Fuzz(func(t *testing.T, pattern, value, around string) {
		if pattern == "" {
			t.Skip()
		}
		typ, err := NewType(Param{Type: "string", Pattern: pattern, MaxLength: 1000})
		if err != nil {
			return
		}
		raw, err := json.Marshal(value)
		if err != nil {
			t.Fatal(err)
		}
		v, err := typ.Read(raw)
		if err != nil {
			return
		}
		if _, foreign := typ.Foreign(around); foreign {
			return
		}
		for _, r := range v.Text {
			plain := unicode.IsLetter(r) || unicode.IsDigit(r) || strings.ContainsRune(plainSigns, r)
			if !plain && (!strings.ContainsRune(otherSigns, r) || strings.ContainsRune(around, r)) {
				t.Fatalf("%q lets %q into a text with %q", pattern, v.Text, around)
			}
		}
	})
}

func FuzzText(f *testing.F) {
	for _, s := range []string{"", "{{.a}}", "{{{{.a}}", `{{"{{"}}`, "{{.a}}{{", "}}{{.b}}"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		text, err := ParseText(s)
		if err != nil {
			return
		}
		// Filled with their own placeholders, texts are as they were written.
		values := map[string]Value{}
		for _, p := range text.Params() {
			values[p] = Value{Text: "{{." + p + "}}"}
		}
		tight := placeholderSpaces(s)
		if got := text.Fill(values); got != strings.ReplaceAll(tight, braces, "{{") {
			t.Fatalf("%q became %q", s, got)
		}
	})
}

// placeholderSpaces takes the spaces out of s that placeholders may have.
func placeholderSpaces(s string) string {
	var b strings.Builder
	for s != "" {
		if m := placeholder.FindStringSubmatch(s); m != nil {
			b.WriteString("{{." + m[1] + "}}")
			s = s[len(m[0]):]
			continue
		}
		if strings.HasPrefix(s, braces) {
			b.WriteString(braces)
			s = s[len(braces):]
			continue
		}
		b.WriteByte(s[0])
		s = s[1:]
	}
	return b.String()
}

func TestEveryOperationOfPatternsIsKnown(t *testing.T) {
	// reachOf looks into those that match characters; all others match what is in
	// them, or nothing. A new one would have to be looked at.
	if next := syntax.OpAlternate + 1; !strings.HasPrefix(next.String(), "Op(") {
		t.Errorf("there is a new operation, %v", next)
	}
}
