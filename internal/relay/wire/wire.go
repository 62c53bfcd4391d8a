// Package wire is what two pawls say to each other: messages in protobuf's wire
// format, each behind its length. docs/relay.md has the fields; the plugin pawl has a
// codec of its own, and testdata/vectors.txt pins both to the same bytes.
package wire

import (
	"errors"
	"fmt"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protowire"
)

// ErrMalformed is wrapped by the errors about bytes that are no such message.
var ErrMalformed = errors.New("malformed relay message")

// Ack is what a sender calls acknowledged.
type Ack uint8

// The levels.
const (
	Persisted Ack = 0 // the receiver has it on disk
	Processed Ack = 1 // the receiver's own sink has acknowledged it
)

// Hello begins every request: who speaks, and how.
type Hello struct {
	Sender string
	Epoch  string // of the sender's store
	Ack    Ack
	Ticket string // the one that an answer gave, when a life begins; else empty
	// Sink is the receiving one. Empty: a key begins with it, "web/greeting".
	Sink     string
	Prefix   string // comes before the key's name at the receiver
	Conflict string // policies of what is put; empty: the receiving sink's
	Deletion string
	Millis   uint64 // how long Processed may be waited for; 0: not at all
	From     string // the sending sink: its numbers are its own
}

// Kind says what an Item asks.
type Kind uint8

// The kinds.
const (
	Put    Kind = 1
	Delete Kind = 2
	Look   Kind = 3 // changes nothing
)

// Item is about one resource.
type Item struct {
	Kind    Kind
	Key     string
	Number  uint64 // the sender's generation
	Payload []byte // of Put; shares memory with the request
	Hash    []byte // of Look: SHA-256 of what the sender desires
}

// Outcome is what came of an item.
type Outcome uint8

// The outcomes.
const (
	Done     Outcome = 1 // acknowledged at the level that was asked for; of Look: as desired
	Waiting  Outcome = 2 // persisted, and not processed yet
	Failing  Outcome = 3 // persisted, and the receiver's own sink refuses it
	Missing  Outcome = 4 // of Look: the receiver holds nothing of the sender's there
	Differs  Outcome = 5 // of Look: it holds something else
	Obsolete Outcome = 6 // the receiver has a newer number of the same life
	Refused  Outcome = 7 // it can't be accepted as it is
	Later    Outcome = 8 // it can't be accepted now
	Held     Outcome = 9 // a deletion that somebody at the receiver must confirm
)

// Result answers one Item.
type Result struct {
	Outcome Outcome
	Message string
	Millis  uint64 // look again after; 0: no hint
	Ref     string // how the receiver names the resource
	Hash    []byte // of Look: SHA-256 of what the receiver holds
}

// State says whether the sender's life is the present one.
type State uint8

// The states.
const (
	Present State = 1 // results follow
	Begin   State = 2 // not known yet: repeat the request with Ticket
	Retired State = 3 // another life has taken its place, for good
)

// Welcome begins every answer.
type Welcome struct {
	State   State
	Ticket  string
	Message string
}

// Node is one inner node of a Comparison, see engine/digest.
type Node struct {
	Prefix []byte
	Count  uint64
	Digest []byte
}

// Leaf is one node with its items: 16 bytes of the key's hash and 16 of the content's,
// each, by the key's.
type Leaf struct {
	Prefix []byte
	Items  []byte
}

// Comparison asks which of many resources differ.
type Comparison struct {
	Nodes  []Node
	Leaves []Leaf
}

// Difference answers a Comparison.
type Difference struct {
	Nodes [][]byte // prefixes of nodes that differ, and of leaves that hold too much to be listed
	Items []byte   // 16 bytes each of the key's hash, of items that differ or are missing
	Extra []string // keys that the sender lacks
}

// Next cuts the first message off b; nil at the end.
func Next(b []byte) (msg, rest []byte, err error) {
	if len(b) == 0 {
		return nil, nil, nil
	}
	msg, n := protowire.ConsumeBytes(b)
	if n < 0 {
		return nil, nil, fmt.Errorf("%w: it ends within a message", ErrMalformed)
	}
	if msg == nil {
		msg = []byte{}
	}
	return msg, b[n:], nil
}

// Append puts a message behind its length at the end of b.
func Append(b, msg []byte) []byte { return protowire.AppendBytes(b, msg) }

// fields calls fn with each field of a message: n has the value of a number, v that
// of bytes. Other wire types are skipped.
func fields(msg []byte, fn func(num protowire.Number, n uint64, v []byte) error) error {
	for len(msg) > 0 {
		num, typ, n := protowire.ConsumeTag(msg)
		if n < 0 {
			return fmt.Errorf("%w: a damaged tag", ErrMalformed)
		}
		msg = msg[n:]
		var number uint64
		var value []byte
		switch typ {
		case protowire.VarintType:
			number, n = protowire.ConsumeVarint(msg)
		case protowire.BytesType:
			value, n = protowire.ConsumeBytes(msg)
		default:
			n = protowire.ConsumeFieldValue(num, typ, msg)
		}
		if n < 0 {
			return fmt.Errorf("%w: field %d is cut off or damaged", ErrMalformed, num)
		}
		msg = msg[n:]
		if err := fn(num, number, value); err != nil {
			return err
		}
	}
	return nil
}

func text(v []byte) (string, error) {
	if !utf8.Valid(v) {
		return "", fmt.Errorf("%w: a string is no UTF-8", ErrMalformed)
	}
	return string(v), nil
}

// ReadHello decodes a Hello.
func ReadHello(msg []byte) (h Hello, err error) {
	strings := map[protowire.Number]*string{1: &h.Sender, 2: &h.Epoch, 4: &h.Ticket, 5: &h.Sink, 6: &h.Prefix, 7: &h.Conflict, 8: &h.Deletion, 10: &h.From}
	err = fields(msg, func(num protowire.Number, n uint64, v []byte) (err error) {
		switch num {
		case 3:
			if n > uint64(Processed) {
				return fmt.Errorf("%w: there is no ack level %d", ErrMalformed, n)
			}
			h.Ack = Ack(n)
		case 9:
			h.Millis = n
		default:
			if s := strings[num]; s != nil {
				*s, err = text(v)
			}
		}
		return err
	})
	return h, err
}

// ReadItem decodes an Item.
func ReadItem(msg []byte) (it Item, err error) {
	err = fields(msg, func(num protowire.Number, n uint64, v []byte) (err error) {
		switch num {
		case 1:
			if n < uint64(Put) || n > uint64(Look) {
				return fmt.Errorf("%w: there is no kind %d of items", ErrMalformed, n)
			}
			it.Kind = Kind(n)
		case 2:
			it.Key, err = text(v)
		case 3:
			it.Number = n
		case 4:
			it.Payload = v
		case 5:
			it.Hash = v
		}
		return err
	})
	if err == nil && it.Kind == 0 {
		err = fmt.Errorf("%w: an item says not what it asks", ErrMalformed)
	}
	return it, err
}

// ReadComparison decodes a Comparison.
func ReadComparison(msg []byte) (c Comparison, err error) {
	err = fields(msg, func(num protowire.Number, _ uint64, v []byte) error {
		switch num {
		case 1:
			var n Node
			err := fields(v, func(num protowire.Number, count uint64, v []byte) error {
				switch num {
				case 1:
					n.Prefix = v
				case 2:
					n.Count = count
				case 3:
					n.Digest = v
				}
				return nil
			})
			c.Nodes = append(c.Nodes, n)
			return err
		case 2:
			var l Leaf
			err := fields(v, func(num protowire.Number, _ uint64, v []byte) error {
				switch num {
				case 1:
					l.Prefix = v
				case 2:
					l.Items = v
				}
				return nil
			})
			c.Leaves = append(c.Leaves, l)
			return err
		}
		return nil
	})
	return c, err
}

// AppendWelcome appends a Welcome, behind its length.
func AppendWelcome(b []byte, w Welcome) []byte {
	msg := number(nil, 1, uint64(w.State))
	msg = str(msg, 2, w.Ticket)
	return Append(b, str(msg, 3, w.Message))
}

// AppendResult appends a Result, behind its length.
func AppendResult(b []byte, r *Result) []byte {
	size := 2
	if r.Message != "" {
		size += protowire.SizeTag(2) + protowire.SizeBytes(len(r.Message))
	}
	if r.Millis != 0 {
		size += protowire.SizeTag(3) + protowire.SizeVarint(r.Millis)
	}
	if r.Ref != "" {
		size += protowire.SizeTag(4) + protowire.SizeBytes(len(r.Ref))
	}
	if len(r.Hash) > 0 {
		size += protowire.SizeTag(5) + protowire.SizeBytes(len(r.Hash))
	}
	b = protowire.AppendVarint(b, uint64(size))
	b = number(b, 1, uint64(r.Outcome))
	b = str(b, 2, r.Message)
	b = number(b, 3, r.Millis)
	b = str(b, 4, r.Ref)
	if len(r.Hash) > 0 {
		b = protowire.AppendBytes(protowire.AppendTag(b, 5, protowire.BytesType), r.Hash)
	}
	return b
}

// AppendDifference appends a Difference, behind its length.
func AppendDifference(b []byte, d *Difference) []byte {
	var msg []byte
	for _, n := range d.Nodes {
		msg = protowire.AppendBytes(protowire.AppendTag(msg, 1, protowire.BytesType), n)
	}
	if len(d.Items) > 0 {
		msg = protowire.AppendBytes(protowire.AppendTag(msg, 2, protowire.BytesType), d.Items)
	}
	for _, key := range d.Extra {
		msg = protowire.AppendString(protowire.AppendTag(msg, 3, protowire.BytesType), key)
	}
	return Append(b, msg)
}

func number(b []byte, num protowire.Number, v uint64) []byte {
	if v == 0 {
		return b
	}
	return protowire.AppendVarint(protowire.AppendTag(b, num, protowire.VarintType), v)
}

func str(b []byte, num protowire.Number, v string) []byte {
	if v == "" {
		return b
	}
	return protowire.AppendString(protowire.AppendTag(b, num, protowire.BytesType), v)
}
