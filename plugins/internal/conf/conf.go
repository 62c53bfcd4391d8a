// Package conf reads a plugin's config, or a payload: a JSON object whose unknown
// keys and wrong types are errors that say where, and which key was meant.
package conf

import (
	"errors"
	"math"
	"strconv"
	"strings"

	"github.com/pawlsync/pawl/plugins/internal/jsondoc"
)

// Object is one object of the config. Its methods read one key each, leave the
// destination alone where the key is absent or null, and keep the first error;
// Done returns it.
type Object struct {
	path  string // how errors begin: "config: ", then the keys to it, each with a dot
	v     jsondoc.Value
	known []string
	err   *error // the first one, shared by the whole config
}

// Parse reads the text of a config.
func Parse(text []byte) (*Object, error) {
	d, err := jsondoc.Parse(string(text))
	if err != nil {
		return nil, errors.New("config: " + err.Error())
	}
	o := Of("config: ", d.Root())
	return o, *o.err
}

// Of reads the object v, which errors call what.
func Of(what string, v jsondoc.Value) *Object {
	o := &Object{path: what, v: v, err: new(error)}
	if v.Kind() != jsondoc.Object {
		*o.err = errors.New(what + "an object is expected, not " + v.Kind().String())
	}
	return o
}

// Fail records an error about a key of the object.
func (o *Object) Fail(key, message string) {
	if *o.err == nil {
		*o.err = errors.New(o.path + key + ": " + message)
	}
}

func (o *Object) get(key string, kind jsondoc.Kind) (jsondoc.Value, bool) {
	o.known = append(o.known, key)
	v, ok := o.v.Get(key)
	if !ok || v.Kind() == jsondoc.Null {
		return v, false
	}
	if v.Kind() != kind {
		o.Fail(key, kind.String()+" is expected, not "+v.Kind().String())
		return v, false
	}
	return v, true
}

// String reads a string.
func (o *Object) String(key string, to *string) {
	if v, ok := o.get(key, jsondoc.String); ok {
		*to = v.Text()
	}
}

// Choice reads a string that is one of choices.
func (o *Object) Choice(key string, to *string, choices ...string) {
	v, ok := o.get(key, jsondoc.String)
	if !ok {
		return
	}
	for _, c := range choices {
		if v.Text() == c {
			*to = c
			return
		}
	}
	o.Fail(key, unknown("value", v.Text(), choices))
}

// Bool reads a boolean.
func (o *Object) Bool(key string, to *bool) {
	if v, ok := o.get(key, jsondoc.Bool); ok {
		*to = v.Raw() == "true"
	}
}

// Count reads a whole number of 1 to 2³¹-1.
func (o *Object) Count(key string, to *int) {
	v, ok := o.get(key, jsondoc.Number)
	if !ok {
		return
	}
	n, err := strconv.ParseInt(v.Raw(), 10, 64)
	if err != nil || n < 1 || n > math.MaxInt32 {
		o.Fail(key, "a whole number from 1 to 2147483647 is expected")
		return
	}
	*to = int(n)
}

// Value reads a value of that kind as it is, and reports whether there is one.
func (o *Object) Value(key string, kind jsondoc.Kind) (jsondoc.Value, bool) { return o.get(key, kind) }

// Array reads an array's items by each, whose errors name the item.
func (o *Object) Array(key string, each func(v jsondoc.Value) error) {
	v, ok := o.get(key, jsondoc.Array)
	if !ok {
		return
	}
	for i, item := range v.Items {
		if err := each(item); err != nil {
			o.Fail(key+"["+strconv.Itoa(i)+"]", err.Error())
			return
		}
	}
}

// Strings reads an object of strings, in the order of the config.
func (o *Object) Strings(key string, each func(name, value string)) {
	v, ok := o.get(key, jsondoc.Object)
	if !ok {
		return
	}
	for name, m := range v.Members {
		if m.Kind() != jsondoc.String {
			o.Fail(key+"."+name, "a string is expected, not "+m.Kind().String())
			return
		}
		each(name, m.Text())
	}
}

// Object reads an object by read, which must not call Done.
func (o *Object) Object(key string, read func(*Object)) {
	v, ok := o.get(key, jsondoc.Object)
	if !ok {
		return
	}
	sub := &Object{path: o.path + key + ".", v: v, err: o.err}
	read(sub)
	sub.unknownKeys()
}

// Done returns the first error. Call it once, after all keys were read.
func (o *Object) Done() error {
	o.unknownKeys()
	return *o.err
}

func (o *Object) unknownKeys() {
	for key := range o.v.Members {
		if !contains(o.known, key) {
			// It goes first: a missing required key is most often a misspelt one.
			*o.err = errors.New(o.path + key + ": " + unknown("key", key, o.known))
			return
		}
	}
}

func contains(list []string, s string) bool {
	for _, l := range list {
		if l == s {
			return true
		}
	}
	return false
}

// unknown says that a key or value is none of choices, and which one was meant.
func unknown(what, got string, choices []string) string {
	if near := Nearest(got, choices); near != "" {
		return "unknown " + what + "; did you mean \"" + near + "\"?"
	}
	return "unknown " + what + "; possible are " + strings.Join(choices, ", ")
}

// Nearest returns the choice that got is most likely a misspelling of, or "".
func Nearest(got string, choices []string) string {
	best, at := "", len(got)/2+1
	for _, c := range choices {
		if d := distance(strings.ToLower(got), c); d < at {
			best, at = c, d
		}
	}
	return best
}

// distance is the number of bytes to insert, delete, replace or swap with
// their neighbour to get from a to b.
func distance(a, b string) int {
	before := make([]int, len(b)+1)
	last := make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row := make([]int, len(b)+1)
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			row[j] = min(last[j]+1, row[j-1]+1, last[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, last = last, row
	}
	return last[len(b)]
}
