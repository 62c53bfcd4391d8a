package reconcile

import (
	"bytes"
	"testing"

	"github.com/pawlsync/pawl/engine/record"
)

func desiredOf(payload string) *record.Desired {
	return &record.Desired{Payload: []byte(payload), Hash: record.HashOf([]byte(payload))}
}

func TestR03_WhatIsTheSame(t *testing.T) {
	for _, c := range []struct {
		a, b string
		same bool
	}{
		{`{"a":1,"b":2}`, `{ "b" : 2, "a" : 1 }`, true},
		{`{"a":{"x":[1,{"y":null}],"z":true}}`, "{\"a\":{\"z\":true,\n\"x\":[1,{\"y\":null}]}}", true},
		{`{"a":"A"}`, `{"a":"\u0041"}`, true},
		{`[1,2]`, `[2,1]`, false},
		{`{"a":12}`, `{"a":21}`, false},
		{`{"a":1}`, `{"a":1.0}`, false},
		{`{"a":"b","c":"d"}`, `{"a":"d","c":"b"}`, false},
		{`{"a":1}`, `{"a":1}x`, false},
		{`{"a":1}`, `{"a":1}}`, false},
		{"\"\xff\"", "\"\xfe\"", false},
		{`hello`, `hello `, false},
		{``, ` `, false},
		{`"a b"`, `"ab"`, false},
	} {
		if got := SameContent(desiredOf(c.a), desiredOf(c.b)); got != c.same {
			t.Errorf("SameContent(%s, %s) = %t", c.a, c.b, got)
		}
		if got := SameContent(desiredOf(c.b), desiredOf(c.a)); got != c.same {
			t.Errorf("SameContent(%s, %s) = %t", c.b, c.a, got)
		}
	}
}

func FuzzTheShortcutNeverContradictsTheComparison(f *testing.F) {
	f.Add([]byte(`{"a":1,"b":[true,"x"]}`), []byte(`{"b":[true,"x"],"a":1}`))
	f.Add([]byte(`{"a":-1e5}`), []byte(`{"a":-1e+5}`))
	f.Fuzz(func(t *testing.T, a, b []byte) {
		ca, oka := canonical(a)
		cb, okb := canonical(b)
		dup := bytes.Count(ca, []byte(`"`)) != bytes.Count(a, []byte(`"`)) || bytes.Count(cb, []byte(`"`)) != bytes.Count(b, []byte(`"`))
		if oka && okb && !dup && bytes.Equal(ca, cb) && surelyDiffers(a, b) {
			t.Errorf("%s and %s are the same by value, and the shortcut tells them apart", a, b)
		}
	})
}

func BenchmarkSameContentOfDifferentPayloads(b *testing.B) {
	text := `,"text":"` + string(bytes.Repeat([]byte("lorem ipsum "), 80)) + `"}`
	x, y := desiredOf(`{"n":1`+text), desiredOf(`{"n":2`+text)
	b.SetBytes(int64(len(x.Payload)))
	for b.Loop() {
		if SameContent(x, y) {
			b.Fatal("same")
		}
	}
}
