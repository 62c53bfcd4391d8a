package jsondoc

import "testing"

func TestWhatCouldBeDesiredIsProjected(t *testing.T) {
	for _, c := range []struct{ name, desired, before, observed, want string }{
		{"what others hold stays out", `{"a":1,"o":{"x":1}}`, ``, `{"a":2,"o":{"x":3,"y":4},"z":5}`, `{"a":2,"o":{"x":3}}`},
		{"what is gone is gone", `{"a":1,"b":2}`, ``, `{"b":2}`, `{"b":2}`},
		{"what was owned and is still there counts", `{"a":1}`, `{"b":1,"o":{"x":1}}`, `{"a":1,"b":9,"o":{"x":2,"y":3}}`, `{"a":1,"b":9,"o":{"x":2}}`},
		{"lists are whole", `{"l":[1]}`, ``, `{"l":[{"a":1},2]}`, `{"l":[{"a":1},2]}`},
		{"an object in the place of something else", `{"a":1}`, ``, `{"a":{"b":[]}}`, `{"a":{"b":[]}}`},
		{"something else in the place of an object", `{"a":{"b":1}}`, ``, `{"a":null}`, `{"a":null}`},
		{"the document itself", `1`, ``, `{"a":1}`, `{"a":1}`},
		{"an empty object", `{"a":{}}`, ``, `{"a":{"b":1}}`, `{"a":{}}`},
		{"names that need escapes", `{"a\"\n":1}`, ``, `{"a\"\n":2,"b":1}`, `{"a\"\n":2}`},
	} {
		parse := func(s string) *Doc {
			d, err := Parse(s)
			if err != nil {
				t.Fatal(err)
			}
			return d
		}
		var before Set
		if c.before != "" {
			owned, _ := Own(parse(c.before))
			before = owned.Set()
		}
		got := Project(parse(c.desired).Root(), parse(c.observed).Root(), before)
		if a, b := parse(got), parse(c.want); !Equal(a.Root(), b.Root()) {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
		if c.before == "" && c.name != "an empty object" && c.name != "what is gone is gone" && Compare(parse(got), parse(c.observed), nil).Differs {
			t.Errorf("%s: the target differs from what was found there", c.name)
		}
	}
}
