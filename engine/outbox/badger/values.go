package badger

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc32"

	"github.com/pawlsync/pawl/engine/outbox"
	"github.com/pawlsync/pawl/engine/outbox/internal/queue"
	"github.com/pawlsync/pawl/engine/record"
)

// Keys in Badger are a kind, a zero byte and what the kind asks for;
// docs/store-format.md has them all. Names hold no control characters, so that
// the bytes sort as record.Key.Compare does.
const (
	kindDesired = 'p'
	kindStatus  = 's'
	kindMeta    = 'm'
)

// Documents below kindMeta.
const (
	docFormat = "m\x00format" // format number, epoch, lossy
	docBatch  = "m\x00batch\x00"
	docUser   = "m\x00doc\x00" // outbox.Store.Meta
)

func appendKey(b []byte, kind byte, key record.Key) []byte {
	b = append(b, kind, 0)
	b = append(b, key.Sink...)
	b = append(b, 0)
	return append(b, key.Name...)
}

// keySize is how long appendKey makes a key.
func keySize(key record.Key) int { return len(key.Sink) + len(key.Name) + 3 }

func parseKey(b []byte) (record.Key, error) {
	if len(b) > 2 && b[1] == 0 {
		if sink, name, ok := bytes.Cut(b[2:], []byte{0}); ok {
			return record.Key{Sink: string(sink), Name: string(name)}, nil
		}
	}
	return record.Key{}, fmt.Errorf("%w: the key %q is none of ours", outbox.ErrDamaged, b)
}

// Every value is sealed in an envelope, since Badger reads a damaged value log
// as an empty value and no error:
//
//	format   1 byte   sealFormat
//	checksum 4 bytes  CRC-32C, little endian, of the key and what follows
//	revision uvarint  of the change that wrote it
//	body     the rest
const (
	sealFormat = 1
	sealHead   = 1 + 4
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// seal appends the envelope of what body appends.
func seal(b, key []byte, revision uint64, body func([]byte) []byte) []byte {
	start := len(b)
	b = append(b, sealFormat, 0, 0, 0, 0)
	b = body(binary.AppendUvarint(b, revision))
	binary.LittleEndian.PutUint32(b[start+1:], sealSum(key, b[start+sealHead:]))
	return b
}

func sealSum(key, rest []byte) uint32 {
	return crc32.Update(crc32.Checksum(key, castagnoli), castagnoli, rest)
}

// open returns the body of an envelope; it is part of value.
func open(key, value []byte) (revision uint64, body []byte, err error) {
	switch {
	case len(value) == 0:
		return 0, nil, unreadable(key, "nothing stands where it was kept")
	case value[0] != sealFormat:
		return 0, nil, unreadable(key, fmt.Sprintf("its format %d is unknown", value[0]))
	case len(value) < sealHead+1:
		return 0, nil, unreadable(key, "it is cut off")
	case binary.LittleEndian.Uint32(value[1:]) != sealSum(key, value[sealHead:]):
		return 0, nil, unreadable(key, "it does not match its checksum")
	}
	revision, n := binary.Uvarint(value[sealHead:])
	if n <= 0 {
		return 0, nil, unreadable(key, "it has no revision")
	}
	return revision, value[sealHead+n:], nil
}

func openDesired(key, value []byte) (record.Desired, error) {
	_, body, err := open(key, value)
	if err != nil {
		return record.Desired{}, err
	}
	d, err := record.ParseDesired(body)
	if err != nil {
		return d, unreadable(key, err.Error())
	}
	return d, nil
}

func openStatus(key, value []byte) (record.Status, error) {
	_, body, err := open(key, value)
	if err != nil {
		return record.Status{}, err
	}
	s, err := record.ParseStatus(body)
	if err != nil {
		return s, unreadable(key, err.Error())
	}
	return s, nil
}

// What a head needs of a desired state stands beside its value, so that a scan
// of keys alone yields it: flags in Badger's UserMeta, and the generation in
// ExpiresAt, above a date that never comes.
const (
	flagTombstone = 1 << iota
	flagGone
	flagSuspend
)

const neverExpires = 1 << 62

// entry is what is to be written of one key, and what it reads as. It does not
// change once it is in the overlay.
type entry struct {
	record     *outbox.Record // nil in what a replay reads from the journal
	revision   uint64
	desired    queue.Op
	status     queue.Op
	desiredVal []byte // sealed; for queue.Set
	statusVal  []byte
	flags      byte
	generation uint64
}

// newEntry seals what c writes. Every record has a desired half, an empty one
// where only a status is known: a Put of a new key then finds out with one
// lookup that there is nothing.
func newEntry(c *queue.Change) *entry {
	e := &entry{record: &c.Record, revision: c.Revision, desired: c.Desired, status: c.Status}
	if d := &c.Record.Desired; c.Status == queue.Set && d.Generation == 0 && !d.Gone {
		e.desired = queue.Set
	}
	if e.desired == queue.Set {
		d := &c.Record.Desired
		e.generation, e.flags = d.Generation, flagsOf(d)
		key := appendKey(make([]byte, 0, keySize(c.Key)), kindDesired, c.Key)
		e.desiredVal = seal(make([]byte, 0, len(d.Payload)+192), key, c.Revision, func(b []byte) []byte {
			return record.AppendDesired(b, d)
		})
	}
	if c.Status == queue.Set {
		key := appendKey(make([]byte, 0, keySize(c.Key)), kindStatus, c.Key)
		e.statusVal = seal(make([]byte, 0, 512), key, c.Revision, func(b []byte) []byte {
			return record.AppendStatus(b, &c.Record.Status)
		})
	}
	return e
}

func flagsOf(d *record.Desired) (flags byte) {
	if d.Tombstone {
		flags |= flagTombstone
	}
	if d.Gone {
		flags |= flagGone
	}
	if d.Suspend {
		flags |= flagSuspend
	}
	return flags
}

// merged returns what e and a later entry of the same key come to.
func (e *entry) merged(later *entry) *entry {
	m := *later
	if later.desired == queue.Keep {
		m.desired, m.desiredVal, m.flags, m.generation = e.desired, e.desiredVal, e.flags, e.generation
	}
	if later.status == queue.Keep {
		m.status, m.statusVal = e.status, e.statusVal
	}
	return &m
}

// size estimates what e holds in memory.
func (e *entry) size() int64 { return int64(len(e.desiredVal)+len(e.statusVal)) + 256 }
