package main

import (
	"encoding/binary"

	"github.com/pawlsync/pawl/plugins/internal/jsondoc"
	pawl "github.com/pawlsync/pawl/sdk/go"
)

// state is what an ack keeps of the object: the fields that were ours, and a
// digest of each one's value as the server told it. It is told from what
// managedFields says later, because whoever changes a field takes it over.
type state struct {
	apiVersion string        // that the fields are named in
	set        jsondoc.Value // see fields.go; the zero Value where there is only a sum
	digests    []uint64      // of the set's fields, in the order of a walk
	sum        sum
}

// sum is what is kept of a state that is too large: it tells that something
// changed, not what.
type sum struct{ set, values uint64 }

// Digests of what has no value to compare. No hash is one of them.
const (
	absent   = 0 // nothing
	present  = 1 // something
	anObject = 2 // an object, whatever its members
	reserved = 3 // hashes are from here on
)

// The first byte of an encoded state.
const (
	wholeState  = 1
	summedState = 2
)

// digestOf is the digest of a field. applied is what was sent there, where that
// is known: of an object that was sent empty only that it is there is ours.
func digestOf(live, applied jsondoc.Value, whole bool) uint64 {
	switch {
	case live.IsZero():
		return absent
	case !whole:
		return present
	case live.Kind() == jsondoc.Object && (hasNoMembers(live) || !applied.IsZero() && hasNoMembers(applied)):
		return anObject
	}
	return max(live.Hash(), reserved)
}

// unchanged reports whether live is as it was when its digest was made.
func unchanged(digest uint64, live jsondoc.Value) bool {
	switch digest {
	case absent:
		return live.IsZero()
	case present:
		return !live.IsZero()
	case anObject:
		return !live.IsZero() && live.Kind() == jsondoc.Object
	}
	return !live.IsZero() && digest == max(live.Hash(), reserved)
}

// record makes the state of an object at the fields of set.
func record(apiVersion string, set, live, applied jsondoc.Value) *state {
	s := &state{apiVersion: apiVersion, set: set}
	w := walker{leaf: func(l, a jsondoc.Value, whole bool) { s.digests = append(s.digests, digestOf(l, a, whole)) }}
	w.walk(set, live, applied)
	return s
}

// encode writes a state for the engine to keep.
func (s *state) encode() []byte {
	if s.set.IsZero() {
		return s.encodeSum(s.sum)
	}
	set := s.set.Raw()
	if len(set)+8*len(s.digests)+len(s.apiVersion)+16 > pawl.MaxAdapterStateBytes {
		return s.encodeSum(s.summed())
	}
	b := appendText([]byte{wholeState}, s.apiVersion)
	return appendDigests(appendText(b, set), s.digests)
}

func (s *state) encodeSum(sum sum) []byte {
	b := appendText([]byte{summedState}, s.apiVersion)
	b = binary.LittleEndian.AppendUint64(b, sum.set)
	return binary.LittleEndian.AppendUint64(b, sum.values)
}

func (s *state) summed() sum {
	return sum{s.set.Hash(), uint64(jsondoc.DigestBytes(string(appendDigests(nil, s.digests))))}
}

func appendDigests(b []byte, digests []uint64) []byte {
	for _, d := range digests {
		b = binary.LittleEndian.AppendUint64(b, d)
	}
	return b
}

func appendText(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

// decodeState reads what an ack kept; nil: nothing that can be used.
func decodeState(b []byte) *state {
	if len(b) == 0 {
		return nil
	}
	version := b[0]
	apiVersion, b, ok := cut(b[1:])
	if !ok {
		return nil
	}
	s := &state{apiVersion: string(apiVersion)}
	if version == summedState && len(b) == 16 {
		s.sum = sum{binary.LittleEndian.Uint64(b), binary.LittleEndian.Uint64(b[8:])}
		return s
	}
	set, b, ok := cut(b)
	if version != wholeState || !ok || len(b)%8 != 0 {
		return nil
	}
	var err error
	if s.set, err = parse(set); err != nil || s.set.Kind() != jsondoc.Object {
		return nil
	}
	for ; len(b) > 0; b = b[8:] {
		s.digests = append(s.digests, binary.LittleEndian.Uint64(b))
	}
	return s
}

func cut(b []byte) (head, rest []byte, ok bool) {
	n, w := binary.Uvarint(b)
	if w <= 0 || n > uint64(len(b)-w) {
		return nil, nil, false
	}
	return b[w : w+int(n)], b[w+int(n):], true
}
