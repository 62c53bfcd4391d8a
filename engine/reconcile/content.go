package reconcile

import (
	"bytes"
	"encoding/json"
	"hash/maphash"
	"io"
	"unicode/utf8"

	"github.com/pawlsync/pawl/engine/record"
)

// SameContent reports whether two payloads say the same: the same bytes, or
// JSON of the same value, where key order and white space count for nothing and
// numbers are compared by their literal (R03).
func SameContent(a, b *record.Desired) bool {
	if a.Hash == b.Hash {
		return true
	}
	if surelyDiffers(a.Payload, b.Payload) {
		return false
	}
	ca, ok := canonical(a.Payload)
	if !ok {
		return false
	}
	cb, ok := canonical(b.Payload)
	return ok && bytes.Equal(ca, cb)
}

// canonical returns JSON with sorted keys and no white space. What is not JSON,
// or is not valid UTF-8 (which decoding would paper over), has no such form.
func canonical(b []byte) ([]byte, bool) {
	if !utf8.Valid(b) {
		return nil, false
	}
	dec := json.NewDecoder(bytes.NewReader(b))
	dec.UseNumber()
	var v any
	if dec.Decode(&v) != nil {
		return nil, false
	}
	if _, err := dec.Token(); err != io.EOF {
		return nil, false // something follows
	}
	out, err := json.Marshal(v)
	return out, err == nil
}

// surelyDiffers tells most different payloads apart at a fiftieth of the price
// of decoding them, which matters where a thousand callers put one key. Equal
// JSON values consist of the same tokens, in whatever order, so that the sums of
// their tokens' hashes are equal; only escapes can write one string in two ways.
func surelyDiffers(a, b []byte) bool {
	if bytes.IndexByte(a, '\\') >= 0 || bytes.IndexByte(b, '\\') >= 0 {
		return false
	}
	seed := maphash.MakeSeed()
	return sumOfTokens(seed, a) != sumOfTokens(seed, b)
}

// sumOfTokens cuts b, which holds no backslash, into strings, words (numbers,
// true, null) and single bytes, and adds up their hashes.
func sumOfTokens(seed maphash.Seed, b []byte) (sum uint64) {
	for i := 0; i < len(b); {
		end := i + 1
		switch c := b[i]; {
		case c == ' ' || c == '\t' || c == '\n' || c == '\r':
			i++
			continue
		case c == '"':
			if n := bytes.IndexByte(b[end:], '"'); n >= 0 {
				end += n + 1
			} else {
				end = len(b)
			}
		case isWord(c):
			for end < len(b) && isWord(b[end]) {
				end++
			}
		}
		sum += maphash.Bytes(seed, b[i:end])
		i = end
	}
	return sum
}

func isWord(c byte) bool {
	return c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c == '.' || c == '+' || c == '-'
}
