package main

import (
	"errors"

	"github.com/VictoriaMetrics/easyproto"
)

// hello begins every request: who speaks, and how.
type hello struct {
	sender    string
	epoch     string
	processed bool
	ticket    string
	sink      string
	prefix    string
	conflict  string
	deletion  string
	millis    uint64
	from      string
}

// kind says what an item asks.
type kind byte

// The kinds.
const (
	put    kind = 1
	remove kind = 2
	look   kind = 3
)

// outcome is what came of an item.
type outcome byte

// The outcomes.
const (
	done     outcome = 1
	waiting  outcome = 2
	failing  outcome = 3
	missing  outcome = 4
	differs  outcome = 5
	obsolete outcome = 6
	refused  outcome = 7
	later    outcome = 8
	held     outcome = 9
)

// result answers one item.
type result struct {
	outcome outcome
	message string
	millis  uint64
	ref     string
	hash    []byte
}

// state says whether the sender's life is the present one.
type state byte

// The states.
const (
	present state = 1
	begin   state = 2
	retired state = 3
)

// welcome begins every answer.
type welcome struct {
	state   state
	ticket  string
	message string
}

// difference answers a comparison.
type difference struct {
	nodes [][]byte
	items []byte // 16 bytes each
	extra []string
}

// The append functions write one field each, and nothing for a default value.

func appendVarint(b []byte, v uint64) []byte {
	for v >= 0x80 {
		b = append(b, byte(v)|0x80)
		v >>= 7
	}
	return append(b, byte(v))
}

func sizeVarint(v uint64) int {
	n := 1
	for ; v >= 0x80; v >>= 7 {
		n++
	}
	return n
}

func appendNumber(b []byte, field byte, v uint64) []byte {
	if v == 0 {
		return b
	}
	return appendVarint(append(b, field<<3), v)
}

func appendText[T string | []byte](b []byte, field byte, v T) []byte {
	if len(v) == 0 {
		return b
	}
	return append(appendVarint(append(b, field<<3|2), uint64(len(v))), v...)
}

func sizeText(n int) int {
	if n == 0 {
		return 0
	}
	return 1 + sizeVarint(uint64(n)) + n
}

// maxHead bounds the length that an item stands behind, in bytes.
const maxHead = 5

// size is more than what appendHello appends.
func (h *hello) size() int {
	return 64 + len(h.sender) + len(h.epoch) + len(h.ticket) + len(h.sink) + len(h.prefix) + len(h.conflict) + len(h.deletion) + len(h.from)
}

// appendHello appends h behind its length.
func appendHello(b []byte, h *hello) []byte {
	var msg []byte
	msg = appendText(msg, 1, h.sender)
	msg = appendText(msg, 2, h.epoch)
	if h.processed {
		msg = appendNumber(msg, 3, 1)
	}
	msg = appendText(msg, 4, h.ticket)
	msg = appendText(msg, 5, h.sink)
	msg = appendText(msg, 6, h.prefix)
	msg = appendText(msg, 7, h.conflict)
	msg = appendText(msg, 8, h.deletion)
	msg = appendNumber(msg, 9, h.millis)
	msg = appendText(msg, 10, h.from)
	return append(appendVarint(b, uint64(len(msg))), msg...)
}

// item is what an item says; payload is of put, hash of look.
type item struct {
	kind    kind
	key     string
	number  uint64
	payload []byte
	hash    []byte
}

func (it *item) size() int {
	n := 2 + sizeText(len(it.key)) + sizeText(len(it.payload)) + sizeText(len(it.hash))
	if it.number > 0 {
		n += 1 + sizeVarint(it.number)
	}
	return n
}

// maxPut bounds what a put has in a request beside its key and its payload, in bytes.
const maxPut = 32

// appendItem appends an item behind its length.
func appendItem(b []byte, it *item) []byte {
	b = appendVarint(b, uint64(it.size()))
	b = appendNumber(b, 1, uint64(it.kind))
	b = appendText(b, 2, it.key)
	b = appendNumber(b, 3, it.number)
	b = appendText(b, 4, it.payload)
	return appendText(b, 5, it.hash)
}

var errAnswer = errors.New("what answers there is no pawl, or one of another kind: its answer can't be read")

// next cuts the first message off b.
func next(b []byte) (msg, rest []byte, err error) {
	var n uint64
	for i, shift := 0, 0; ; i, shift = i+1, shift+7 {
		if i >= len(b) || shift > 56 {
			return nil, nil, errAnswer
		}
		n |= uint64(b[i]&0x7f) << shift
		if b[i] < 0x80 {
			b = b[i+1:]
			break
		}
	}
	if n > uint64(len(b)) {
		return nil, nil, errAnswer
	}
	return b[:n:n], b[n:], nil
}

// fields calls fn with each field of a message; fn reports whether it could read it.
func fields(msg []byte, fn func(fc *easyproto.FieldContext) bool) error {
	var fc easyproto.FieldContext
	for len(msg) > 0 {
		var err error
		if msg, err = fc.NextField(msg); err != nil || !fn(&fc) {
			return errAnswer
		}
	}
	return nil
}

func readText(fc *easyproto.FieldContext, to *string) bool {
	s, ok := fc.String()
	*to = s
	return ok
}

func readNumber[T ~byte | ~uint64](fc *easyproto.FieldContext, to *T) bool {
	n, ok := fc.Uint64()
	*to = T(n)
	return ok
}

func readWelcome(msg []byte) (w welcome, err error) {
	err = fields(msg, func(fc *easyproto.FieldContext) bool {
		switch fc.FieldNum {
		case 1:
			return readNumber(fc, &w.state)
		case 2:
			return readText(fc, &w.ticket)
		case 3:
			return readText(fc, &w.message)
		}
		return true
	})
	return w, err
}

// readResult does not go through fields: there is one for each item of a batch.
func readResult(msg []byte) (r result, err error) {
	var fc easyproto.FieldContext
	for len(msg) > 0 {
		if msg, err = fc.NextField(msg); err != nil {
			return r, errAnswer
		}
		ok := true
		switch fc.FieldNum {
		case 1:
			ok = readNumber(&fc, &r.outcome)
		case 2:
			ok = readText(&fc, &r.message)
		case 3:
			ok = readNumber(&fc, &r.millis)
		case 4:
			ok = readText(&fc, &r.ref)
		case 5:
			r.hash, ok = fc.Bytes()
		}
		if !ok {
			return r, errAnswer
		}
	}
	return r, nil
}

func readDifference(msg []byte) (d difference, err error) {
	err = fields(msg, func(fc *easyproto.FieldContext) bool {
		switch fc.FieldNum {
		case 1:
			v, ok := fc.Bytes()
			d.nodes = append(d.nodes, v)
			return ok
		case 2:
			v, ok := fc.Bytes()
			d.items = v
			return ok
		case 3:
			var key string
			ok := readText(fc, &key)
			d.extra = append(d.extra, key)
			return ok
		}
		return true
	})
	return d, err
}
