package main

import (
	"encoding/binary"
	"maps"
	"slices"
	"strconv"

	pawl "github.com/pawlsync/pawl/sdk/go"
)

// An image is the rows that a step of a saga is about, as they were before it wrote,
// by key. Empty: there were none.

// imageVersion is the first byte of an image's content.
const imageVersion = 1

// What follows a row's key, as bits of one byte.
const (
	hasCaveat     = 1 << iota // its name, and its context, which may be empty
	hasExpiration             // seconds since 1970, nanoseconds
)

// encodeImage writes rows in the order of their keys, each as what differs from the one before.
func encodeImage(image rows) []byte {
	b := binary.AppendUvarint([]byte{imageVersion}, uint64(len(image)))
	last := ""
	for _, key := range slices.Sorted(maps.Keys(image)) {
		b = appendName(b, last, key)
		last = key
		b = image[key].appendTraits(b)
	}
	return b
}

func (r *relationship) appendTraits(b []byte) []byte {
	traits := byte(0)
	if r.Caveat != "" {
		traits |= hasCaveat
	}
	if r.Expires {
		traits |= hasExpiration
	}
	b = append(b, traits)
	if r.Caveat != "" {
		b = appendText(appendText(b, r.Caveat), string(r.Context))
	}
	if r.Expires {
		b = binary.AppendUvarint(binary.AppendVarint(b, r.ExpiresSeconds), uint64(r.ExpiresNanos))
	}
	return b
}

// decodeImage reads what encodeImage wrote.
func decodeImage(b []byte) (rows, bool) {
	if len(b) == 0 || b[0] != imageVersion {
		return nil, false
	}
	r := &reader{b: b[1:]}
	image, last := rows{}, ""
	for n := r.number(); n > 0 && !r.err; n-- {
		last = r.name(last)
		row := &relationship{}
		if row.parseKey(last) != nil || !r.traits(row) {
			return nil, false
		}
		image[row.key] = row
	}
	return image, !r.err && len(r.b) == 0
}

func (r *reader) traits(row *relationship) bool {
	if len(r.b) == 0 || r.b[0]&^(hasCaveat|hasExpiration) != 0 {
		return false
	}
	traits := r.b[0]
	r.b = r.b[1:]
	if traits&hasCaveat != 0 {
		row.Caveat = r.text()
		if context := r.text(); context != "" {
			row.Context = []byte(context)
		}
	}
	if traits&hasExpiration != 0 {
		seconds, size := binary.Varint(r.b)
		if size <= 0 {
			return false
		}
		r.b = r.b[size:]
		row.Expires, row.ExpiresSeconds, row.ExpiresNanos = true, seconds, int32(r.number())
	}
	return !r.err
}

// cidOf is an image's id: another content, another id.
func cidOf(image rows) string {
	var sum asFound
	for _, row := range image {
		sum.add(row)
	}
	return sum.String()
}

// sameImage reports whether two images have the same rows.
func sameImage(a, b rows) bool {
	return maps.EqualFunc(a, b, func(r, o *relationship) bool { return r.sameTraits(o) })
}

// imageOf reads the image that a request bears.
func imageOf(before *pawl.Image) (rows, error) {
	switch {
	case before == nil:
		return nil, pawl.Rejected("the host's request says nothing of the relationships before the saga, on which its write is conditional")
	case !before.Exists:
		return rows{}, nil
	}
	if image, ok := decodeImage(before.Content); ok {
		return image, nil
	}
	return nil, pawl.Rejected("what was kept of the relationships from before the saga can't be read; another version of the plugin may have written it")
}

// contentOf is the content of an image, which has to fit into the saga's journal.
func contentOf(image rows) ([]byte, error) {
	b := encodeImage(image)
	if len(b) > pawl.MaxImageBytes {
		return nil, pawl.Rejected("the " + strconv.Itoa(len(image)) + " relationships that are there take " + strconv.Itoa(len(b)) +
			" bytes, more than the " + strconv.Itoa(pawl.MaxImageBytes) + " that a saga keeps to bring them back: " + nameLess)
	}
	return b, nil
}

// nameLess is what to do about a step that is about too many relationships.
const nameLess = `let the step be about fewer, with a narrower "scope" or with "touch" and "delete"`
