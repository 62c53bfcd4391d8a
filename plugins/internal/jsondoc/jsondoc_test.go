package jsondoc

import (
	"bytes"
	"encoding/json"
	"errors"
	"math/big"
	"reflect"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

func mustParse(t testing.TB, s string) *Doc {
	t.Helper()
	d, err := Parse(s)
	if err != nil {
		t.Fatalf("%s: %v", s, err)
	}
	return d
}

func TestWhatIsNotJSONIsRefusedWithItsPlace(t *testing.T) {
	for text, at := range map[string]int{
		"": 0, " ": 1, "{": 1, `{"a"`: 4, `{"a":`: 5, `{"a":1`: 6, `{"a":1,`: 7, `{"a":1,}`: 7, `{a:1}`: 1, `{"a" 1}`: 5,
		"[": 1, "[1": 2, "[1,": 3, "[1,]": 3, "[1 2]": 3, "1 2": 2, "01": 1, "-": 1, "1.": 2, "1.e1": 2, "1e": 2, "1e+": 3,
		"+1": 0, ".5": 0, "tru": 0, "nul": 0, "True": 0, "NaN": 0, `"`: 1, `"a`: 2, `"\x"`: 1, `"\u12"`: 1, `"\u12g4"`: 1,
		"\"a\nb\"": 2, `"\`: 1, "\ufeff{}": 0,
		strings.Repeat("[", MaxDepth+1) + strings.Repeat("]", MaxDepth+1): MaxDepth,
	} {
		_, err := Parse(text)
		e, ok := errors.AsType[*SyntaxError](err)
		if !ok || e.Offset != at {
			t.Errorf("%.40q: error %v, want one at byte %d", text, err, at)
		}
	}
	mustParse(t, strings.Repeat("[", MaxDepth)+strings.Repeat("]", MaxDepth))
}

func TestEveryByteOfAStringIsLookedAt(t *testing.T) {
	const n = 21 // two words and a rest
	for at := range n {
		for c := range 256 {
			inside := []byte(strings.Repeat("x", n))
			inside[at] = byte(c)
			text := `"` + string(inside) + `"`
			d, err := Parse(text)
			if valid := json.Valid([]byte(text)); valid != (err == nil) {
				t.Fatalf("byte %#x at %d: error %v, encoding/json says valid = %v", c, at, err, valid)
			}
			if e, ok := errors.AsType[*SyntaxError](err); ok && c < ' ' && e.Offset != at+1 {
				t.Errorf("byte %#x at %d: the error is placed at %d", c, at, e.Offset)
			}
			var want string
			if err == nil && json.Unmarshal([]byte(text), &want) == nil && d.Root().Text() != want {
				t.Errorf("byte %#x at %d reads as %q, want %q", c, at, d.Root().Text(), want)
			}
		}
	}
}

func TestStringsAreDecodedAsEncodingJSONDoes(t *testing.T) {
	for _, text := range []string{`""`, `"a"`, `"\"\\\/\b\f\n\r\t"`, `"\u00e9"`, `"é"`, `"\ud83d\ude80"`, `"\ud83d"`, `"\ud83dx"`,
		`"\ude80\ud83d"`, `"\ud83d\n"`, `"\ud83d\u0041"`, "\"\xff\"", "\"a\xc3\"", "\"\xff\\n\"", `"\u0000"`} {
		var want string
		if err := json.Unmarshal([]byte(text), &want); err != nil {
			t.Fatal(err)
		}
		if got := mustParse(t, text).Root().Text(); got != want {
			t.Errorf("%s reads as %q, want %q", text, got, want)
		}
	}
}

func TestEqualValuesAreEqualAndHashAlike(t *testing.T) {
	same := [][]string{
		{"1", "1.0", "1e0", "10e-1", "0.1e1", "1.000E+00", "100e-2"},
		{"0", "-0", "0.0", "0e99", "-0.00e-7"},
		{"1200", "1.2e3", "12e2", "1200.0", "0.0012e6"},
		{"-0.05", "-5e-2", "-0.050"},
		{"9007199254740993"},
		{"9007199254740992"},
		{"1e400", "10e399"},
		{"1e-400"},
		{"12.5", "125e-1"},
		{"105"}, {"15"},
		{`"a/b"`, `"a\/b"`, `"\u0061/b"`},
		{`"A"`}, {`"a"`}, {`""`}, {"true"}, {"false"}, {"null"}, {`"null"`}, {`"1"`},
		{"[]"}, {"{}"}, {"[1,2]", "[ 1.0 , 2 ]"}, {"[2,1]"}, {"[1]"}, {"[[]]"}, {"[null]"},
		{`{"a":1,"b":2}`, `{"b":2,"a":1.0}`, `{"a":9,"b":2,"a":1}`},
		{`{"a":1}`, `{"\u0061":1}`},
		{`{"a":2}`}, {`{"b":1}`}, {`{"a":1,"c":2}`}, {`{"a":{}}`}, {`{"a":[]}`}, {`{"a":null}`},
		{`[{"a":1,"b":[{}]}]`, `[{"b":[{}],"a":1e0}]`},
	}
	for i, as := range same {
		for j, bs := range same {
			for _, a := range as {
				for _, b := range bs {
					da, db := mustParse(t, a), mustParse(t, b)
					if got := equal(da, 0, db, 0); got != (i == j) {
						t.Errorf("equal(%s, %s) = %v", a, b, got)
					}
					if got := hashValue(da, 0) == hashValue(db, 0); got != (i == j) {
						t.Errorf("equal hashes of %s and %s: %v", a, b, got)
					}
				}
			}
		}
	}
}

func TestLargeObjectsOfAnotherOrderAreComparedInTime(t *testing.T) {
	const n = 50_000
	var fwd, rev []string
	for i := range n {
		m := `"key` + big.NewInt(int64(i)).String() + `":1`
		fwd, rev = append(fwd, m), append(rev, m)
	}
	slices.Reverse(rev)
	fwd = append(fwd, fwd[0]) // and a key that comes twice
	a, b := mustParse(t, "{"+strings.Join(fwd, ",")+"}"), mustParse(t, "{"+strings.Join(rev, ",")+"}")
	if !equal(a, 0, b, 0) {
		t.Error("they are not equal")
	}
	owned, _ := Own(a)
	if diff := Compare(a, b, owned.Set()); diff.Differs || owned.Len() != n {
		t.Errorf("%d owned, differs at %q", owned.Len(), diff.Paths)
	}
}

func TestCompareAtTheFieldsOwnedNowOrBefore(t *testing.T) {
	for _, c := range []struct{ name, desired, observed, acked, paths string }{
		{"equal", `{"a":1}`, `{"a":1}`, ``, ""},
		{"defaults of the target are its own", `{"a":{"b":1}}`, `{"a":{"b":1,"c":2},"d":3}`, ``, ""},
		{"another value", `{"a":1,"b":2}`, `{"a":2,"b":2}`, ``, "/a"},
		{"a missing field", `{"a":1,"b":{"c":1,"d":2}}`, `{"a":1,"b":{"d":2}}`, ``, "/b/c"},
		{"a missing object", `{"b":{"c":1}}`, `{}`, ``, "/b"},
		{"a dropped field that is still there", `{"a":1}`, `{"a":1,"b":2}`, `{"a":1,"b":2}`, "/b"},
		{"a dropped field that is still there with another value", `{"a":1}`, `{"a":1,"b":{"x":1}}`, `{"a":1,"b":2}`, "/b"},
		{"a dropped field that is gone", `{"a":1}`, `{"a":1,"c":3}`, `{"a":1,"b":2}`, ""},
		{"a dropped nested field", `{"a":{"x":1}}`, `{"a":{"x":1,"y":2}}`, `{"a":{"x":1,"y":2}}`, "/a/y"},
		{"a dropped object of which a member is still there", `{}`, `{"a":{"x":1,"z":3}}`, `{"a":{"x":1,"y":2}}`, "/a/x"},
		{"a dropped object that somebody else uses", `{}`, `{"a":{"z":3}}`, `{"a":{"x":1}}`, ""},
		{"a dropped empty object", `{}`, `{"a":{}}`, `{"a":{}}`, "/a"},
		{"arrays are atomic", `{"a":[1,2]}`, `{"a":[1,2,3]}`, ``, "/a"},
		{"objects in arrays are compared whole", `{"a":[{"b":1}]}`, `{"a":[{"b":1,"c":2}]}`, ``, "/a"},
		{"numbers by value", `{"a":1.0,"b":1e2}`, `{"b":100,"a":1}`, ``, ""},
		{"null is a value", `{"a":null}`, `{}`, ``, "/a"},
		{"null kept", `{"a":null}`, `{"a":null}`, ``, ""},
		{"an empty object is satisfied by any", `{"a":{}}`, `{"a":{"b":1}}`, ``, ""},
		{"an empty object is not missing", `{"a":{}}`, `{}`, ``, "/a"},
		{"an object is not an array", `{"a":{}}`, `{"a":[]}`, ``, "/a"},
		{"another kind", `{"a":{"b":1}}`, `{"a":"x"}`, ``, "/a"},
		{"a scalar document", `1`, `2`, ``, "/"},
		{"an array document", `[1]`, `[1.0]`, ``, ""},
		{"an object where a scalar is wanted", `1`, `{"a":1}`, ``, "/"},
		{"keys are escaped in paths", `{"a/b":{"c~d":1}}`, `{"a/b":{"c~d":2}}`, ``, "/a~1b/c~0d"},
		{"keys by their text", `{"\u0061":1}`, `{"a":1}`, `{"a":1}`, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			var before Set
			if c.acked != "" {
				owned, _ := Own(mustParse(t, c.acked))
				before = owned.Set()
			}
			got := Compare(mustParse(t, c.desired), mustParse(t, c.observed), before)
			if s := strings.Join(got.Paths, " "); s != c.paths || got.Differs != (c.paths != "") {
				t.Errorf("differs %v at %q, want %q", got.Differs, s, c.paths)
			}
		})
	}
}

func TestTheDigestTellsWhetherWhatWasAckedIsStillThere(t *testing.T) {
	for _, c := range []struct {
		name, acked, observed string
		same                  bool
	}{
		{"as it was", `{"a":1,"b":{"c":[1,{"x":2,"y":3}]}}`, `{"b":{"c":[1.0,{"y":3,"x":2}]},"a":1}`, true},
		{"with defaults", `{"a":1,"b":{"c":2}}`, `{"a":1,"b":{"c":2,"d":3},"e":4}`, true},
		{"empty object with defaults", `{"a":{}}`, `{"a":{"d":1}}`, true},
		{"another value", `{"a":1,"b":2}`, `{"a":1,"b":3}`, false},
		{"swapped values", `{"a":1,"b":2}`, `{"a":2,"b":1}`, false},
		{"a field gone", `{"a":1,"b":2}`, `{"a":1}`, false},
		{"another kind", `{"a":1}`, `{"a":"1"}`, false},
		{"a scalar became an object", `{"a":1}`, `{"a":{}}`, false},
		{"moved", `{"a":{"b":1}}`, `{"b":{"a":1}}`, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			acked, observed := mustParse(t, c.acked), mustParse(t, c.observed)
			owned, sum := Own(acked)
			if got := owned.Set().Digest(observed) == sum; got != c.same {
				t.Errorf("same = %v", got)
			}
			if found := Compare(acked, observed, nil).Found; (found == sum) != c.same {
				t.Errorf("Found says same = %v", found == sum)
			}
		})
	}
}

func TestStoredHashesStayWhatTheyAre(t *testing.T) {
	// A change here makes every acked resource look changed once: it needs a line in the change log.
	owned, sum := Own(mustParse(t, `{"a":1,"b":{"c":"text longer than eight bytes","d":[true,null,-1.5e3,"\u00e9"]},"e":{}}`))
	if got, want := big.NewInt(0).SetBytes(owned).Text(16), goldenOwned; got != want {
		t.Errorf("owned is %s, was %s", got, want)
	}
	if sum != goldenDigest {
		t.Errorf("digest is %#x, was %#x", uint64(sum), uint64(goldenDigest))
	}
}

func TestPathsAreBounded(t *testing.T) {
	var b strings.Builder
	for i := range 1000 {
		b.WriteString(`,"k` + big.NewInt(int64(i)).String() + `":1`)
	}
	got := Compare(mustParse(t, "{"+b.String()[1:]+"}"), mustParse(t, "{}"), nil)
	if len(got.Paths) != MaxPaths || !got.Differs {
		t.Errorf("%d paths", len(got.Paths))
	}
}

func TestAppendEscapedIsReadBack(t *testing.T) {
	for _, s := range []string{"", "a", "\"\\\n\x00\x1f/é🚀"} {
		var got string
		if err := json.Unmarshal([]byte(`"`+string(AppendEscaped(nil, s))+`"`), &got); err != nil || got != s {
			t.Errorf("%q came back as %q, %v", s, got, err)
		}
	}
}

// decode is encoding/json's opinion of text, with exact numbers.
func decode(text []byte) (any, bool) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	var v any
	if d.Decode(&v) != nil {
		return nil, false
	}
	return v, json.Valid(text)
}

// exact replaces numbers by their exact value; ok is false for exponents that big.Rat should not be asked to write out.
func exact(v any) (out any, ok bool) {
	switch v := v.(type) {
	case json.Number:
		if i := strings.IndexAny(string(v), "eE"); i >= 0 && len(v)-i > 5 {
			return nil, false
		}
		r, ok := new(big.Rat).SetString(string(v))
		if !ok {
			return nil, false
		}
		return "number " + r.RatString(), true
	case string:
		return "string " + v, true
	case []any:
		list := make([]any, len(v))
		for i := range v {
			if list[i], ok = exact(v[i]); !ok {
				return nil, false
			}
		}
		return list, true
	case map[string]any:
		m := map[string]any{}
		for k := range v {
			if m[k], ok = exact(v[k]); !ok {
				return nil, false
			}
		}
		return m, true
	}
	return v, true
}

// subset is Compare without paths or a past, on Go values.
func subset(want, have any) bool {
	w, ok := want.(map[string]any)
	h, both := have.(map[string]any)
	if !ok || !both {
		return reflect.DeepEqual(want, have)
	}
	for k := range w {
		if v, found := h[k]; !found || !subset(w[k], v) {
			return false
		}
	}
	return true
}

// FuzzAgainstEncodingJSON: Parse accepts what encoding/json accepts, and equal,
// Compare and the hashes mean the same as comparing Go values.
func FuzzAgainstEncodingJSON(f *testing.F) {
	seeds := []string{`{"a":1,"b":{"c":[1,2,{"d":null}]}}`, `{"a":1.0,"a":2}`, `"\ud83d\ude80\n"`, "\"\xff\"", `[1e2,-0,0.10]`, `{}`, `[]`, `true`,
		`{"a":{"b":{}},"\u0062":"x"}`, `{"a":{"b":{"z":1}},"b":"x","c":9}`, "{\"\xff\":1,\"\ufffd\":2}"}
	for _, a := range seeds {
		for _, b := range seeds {
			f.Add([]byte(a), []byte(b))
		}
	}
	f.Fuzz(func(t *testing.T, ta, tb []byte) {
		da, errA := Parse(string(ta))
		va, okA := decode(ta)
		if (errA == nil) != okA && (errA == nil || !strings.Contains(errA.Error(), "nested")) {
			t.Fatalf("Parse(%q): %v; encoding/json: %v", ta, errA, okA)
		}
		db, errB := Parse(string(tb))
		vb, okB := decode(tb)
		if errA != nil || errB != nil || !okA || !okB {
			return
		}
		xa, ok1 := exact(va)
		xb, ok2 := exact(vb)
		if !ok1 || !ok2 {
			return
		}
		same := reflect.DeepEqual(xa, xb)
		if got := equal(da, 0, db, 0); got != same {
			t.Errorf("equal(%q, %q) = %v", ta, tb, got)
		}
		if got := hashValue(da, 0) == hashValue(db, 0); got != same {
			t.Errorf("equal hashes of %q and %q: %v", ta, tb, got)
		}
		owned, sum := Own(da)
		diff := Compare(da, db, nil)
		if want := subset(xa, xb); diff.Differs == want {
			t.Errorf("Compare(%q, %q) differs: %v", ta, tb, diff.Differs)
		} else if want && (diff.Found != sum || owned.Set().Digest(db) != sum) {
			t.Errorf("digests of %q within %q: %x, %x, %x", ta, tb, sum, diff.Found, owned.Set().Digest(db))
		}
		everything, _ := Own(db)
		if whole := Compare(da, db, everything.Set()); whole.Differs == same {
			t.Errorf("Compare(%q, %q) with all owned differs: %v", ta, tb, whole.Differs)
		}
		for _, p := range diff.Paths {
			if !utf8.ValidString(p) {
				t.Errorf("path %q is not valid UTF-8", p)
			}
		}
	})
}

const (
	goldenOwned         = "9838569f9c2ba83b6458a7ce41d5896d"
	goldenDigest Digest = 0xfb2aa46e5c70a062
)

func TestAParserReadsEveryTextAsIfItWereTheFirst(t *testing.T) {
	var p Parser
	texts := []string{`{"a":[1,2,{"b":"c"}],"d":{}}`, `[]`, `{"a":1,"a":2}`, `"x"`, `{"d":{"e":[true,null]},"f":1.50}`, `{"a":[1,2,{"b":"c"}],"d":{}}`}
	read := func(text string) *Doc {
		d, err := p.Parse(text)
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		return d
	}
	for _, text := range texts {
		want, err := Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = p.Parse(text + "!") // what fails leaves nothing behind
		other, d := read(`[[{"x":1}]]`), read(text)
		p.Release(other)
		fields, sum := Own(d)
		wantFields, wantSum := Own(want)
		if !slices.Equal(fields, wantFields) || sum != wantSum || Compare(want, d, nil).Differs {
			t.Errorf("%s reads otherwise with memory that was used before", text)
		}
		p.Release(d)
	}
	if allocs := testing.AllocsPerRun(100, func() { p.Release(read(texts[0])) }); allocs > 2 {
		t.Errorf("%v allocations to read a text again, want those of the Doc and of the keys seen", allocs)
	}
}
