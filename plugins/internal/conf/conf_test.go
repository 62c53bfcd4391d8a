package conf

import (
	"strings"
	"testing"
)

type sample struct {
	name, mode string
	on         bool
	size       int
	headers    []string
	inner      string
}

func read(text string) (sample, error) {
	s := sample{mode: "slow"}
	o, err := Parse([]byte(text))
	if err != nil {
		return s, err
	}
	o.String("name", &s.name)
	o.Choice("mode", &s.mode, "slow", "fast")
	o.Bool("on", &s.on)
	o.Count("size", &s.size)
	o.Strings("headers", func(name, value string) { s.headers = append(s.headers, name+"="+value) })
	o.Object("inner", func(o *Object) { o.String("path", &s.inner) })
	return s, o.Done()
}

func TestAConfigIsRead(t *testing.T) {
	s, err := read(`{"name":"n","mode":"fast","on":true,"size":7,"headers":{"b":"2","a":"1"},"inner":{"path":"/x"}}`)
	if err != nil || s.name != "n" || s.mode != "fast" || !s.on || s.size != 7 || strings.Join(s.headers, " ") != "b=2 a=1" || s.inner != "/x" {
		t.Errorf("read %+v, %v", s, err)
	}
	if s, err := read(`{"name":null,"inner":null}`); err != nil || s.mode != "slow" {
		t.Errorf("null is not absent: %+v, %v", s, err)
	}
}

func TestAWrongConfigSaysWhereAndWhatIsRight(t *testing.T) {
	for text, want := range map[string]string{
		`{`:                           `config: not valid JSON at byte 1`,
		`[]`:                          `config: an object is expected, not an array`,
		`{"nmae":"x"}`:                `config: nmae: unknown key; did you mean "name"?`,
		`{"Name":"x"}`:                `config: Name: unknown key; did you mean "name"?`,
		`{"xyzzy":1}`:                 `config: xyzzy: unknown key; possible are name, mode, on, size, headers, inner`,
		`{"inner":{"paht":"/"}}`:      `config: inner.paht: unknown key; did you mean "path"?`,
		`{"name":1}`:                  `config: name: a string is expected, not a number`,
		`{"mode":"fats"}`:             `config: mode: unknown value; did you mean "fast"?`,
		`{"mode":"quick as light"}`:   `config: mode: unknown value; possible are slow, fast`,
		`{"on":"yes"}`:                `config: on: a boolean is expected, not a string`,
		`{"size":0}`:                  `config: size: a whole number from 1 to 2147483647 is expected`,
		`{"size":1.5}`:                `config: size: a whole number`,
		`{"size":99999999999999999}`:  `config: size: a whole number`,
		`{"headers":{"a":1}}`:         `config: headers.a: a string is expected, not a number`,
		`{"inner":[]}`:                `config: inner: an object is expected, not an array`,
		`{"name":1,"mode":"x"}`:       `config: name: `,
		`{"inner":{"path":1},"on":1}`: `config: on: `, // the first one in reading order
	} {
		_, err := read(text)
		if err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s\ngave %v\nwant %s", text, err, want)
		}
	}
}

func TestNearest(t *testing.T) {
	choices := []string{"owned-json", "json", "etag"}
	for got, want := range map[string]string{"jsno": "json", "JSON": "json", "owned_json": "owned-json", "tag": "etag", "": "", "zzz": "", "completely": ""} {
		if n := Nearest(got, choices); n != want {
			t.Errorf("Nearest(%q) = %q, want %q", got, n, want)
		}
	}
}
