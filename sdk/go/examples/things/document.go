package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"maps"
	"slices"

	pawl "github.com/pawlsync/pawl/sdk/go"
)

// document is a JSON object, field by field. What the target adds to it is the
// target's own: we compare at the fields that we want, or had at the last ack.
type document map[string]json.RawMessage

func parse(raw []byte) (document, error) {
	var d document
	if err := json.Unmarshal(raw, &d); err != nil || d == nil {
		return nil, pawl.Rejected("the payload is no JSON object")
	}
	for name, value := range d {
		d[name] = normal(value)
	}
	return d, nil
}

// normal is a value with sorted keys and without white space; numbers keep their digits.
func normal(raw json.RawMessage) json.RawMessage {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	var v any
	if d.Decode(&v) != nil {
		return raw
	}
	out, err := json.Marshal(v)
	if err != nil {
		return raw
	}
	return out
}

// names are those of its fields, sorted.
func (d document) names() []string { return slices.Sorted(maps.Keys(d)) }

// differing names the fields in which found is not what we want: those that we
// want, and those that we had before, do not want any more, and are still there.
func (d document) differing(found document, before []string) []string {
	differ := map[string]bool{}
	for name, value := range d {
		if have, ok := found[name]; !ok || !bytes.Equal(value, have) {
			differ["/"+name] = true
		}
	}
	for _, name := range before {
		_, wanted := d[name]
		if _, there := found[name]; there && !wanted {
			differ["/"+name] = true
		}
	}
	return slices.Sorted(maps.Keys(differ))
}

// hash is that of the values which it has for some fields.
func (d document) hash(names []string) string {
	h := sha256.New()
	for _, name := range names {
		if value, ok := d[name]; ok {
			line, _ := json.Marshal([]any{name, value}) // of valid JSON: never fails
			h.Write(append(line, '\n'))
		}
	}
	return hex.EncodeToString(h.Sum(nil)[:16])
}

// owned is the adapter state that an ack keeps: the names of the fields that
// were ours. ownedAt reads it.
func (d document) owned() []byte {
	out, _ := json.Marshal(d.names()) // of strings: never fails
	return out
}

func ownedAt(a *pawl.Acked) (names []string) {
	if a == nil || json.Unmarshal(a.AdapterState, &names) != nil {
		return nil
	}
	return names
}
