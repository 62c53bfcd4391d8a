package badger

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"

	"github.com/pawlsync/pawl/engine/outbox"
	"github.com/pawlsync/pawl/engine/outbox/internal/queue"
	"github.com/pawlsync/pawl/engine/record"
)

// A frame is what the journal holds of one group, or of a part of a large one.
// All numbers are little endian.
//
//	magic    4 bytes  frameMagic
//	nonce    8 bytes  that of the segment: payloads stand raw in the body, and
//	                  one that looks like a frame must not be taken for one
//	length   4 bytes  of the body
//	checksum 4 bytes  CRC-32C of the header from count on, and the body
//	count    4 bytes  changes in the body
//	prev     8 bytes  last revision of the frame before, in whatever segment
//	last     8 bytes  last revision in this one
//	durable  8 bytes  everything up to this revision was fsynced before
//	                  this frame was written
//	body     changes, by revision
const (
	frameMagic  = "FWM1"
	frameHeader = 48
	// frameSealed is where that part of the header begins which a sealed body is tied to.
	frameSealed = 20
	// maxFrameBytes is where a frame ends and the group goes on in another.
	maxFrameBytes = 4 << 20
)

// A change in a frame: flags, revision, sink, name, and the sealed values that
// are set, each with its length before it; the generation goes before a
// desired value. Lengths and numbers are uvarints.
const (
	setDesired byte = 1 << iota
	dropDesired
	setStatus
	dropStatus
	headTombstone
	headGone
	headSuspend
)

var errFrame = errors.New("no whole frame")

// nonce is drawn for each segment. Whoever puts payloads can't know it.
type nonce [8]byte

// start is what every frame of the segment starts with.
func (n nonce) start() []byte { return append([]byte(frameMagic), n[:]...) }

type frame struct {
	prev, last, durable uint64
	count               uint32
	body                []byte
}

// finish fills in the header of the frame whose body stands in b behind room
// for it, and seals the body where there is a box.
func (f *frame) finish(b []byte, n nonce, x *box) []byte {
	copy(b, n.start())
	binary.LittleEndian.PutUint32(b[20:], f.count)
	binary.LittleEndian.PutUint64(b[24:], f.prev)
	binary.LittleEndian.PutUint64(b[32:], f.last)
	binary.LittleEndian.PutUint64(b[40:], f.durable)
	if x != nil {
		b = x.seal(b[:frameHeader:frameHeader], b[frameHeader:], b[frameSealed:frameHeader])
	}
	binary.LittleEndian.PutUint32(b[12:], uint32(len(b)-frameHeader))
	binary.LittleEndian.PutUint32(b[16:], crc32.Checksum(b[20:], castagnoli))
	return b
}

// parseFrame reads the frame that b starts with; its body is part of b.
func parseFrame(b []byte, n nonce) (f frame, size int, err error) {
	if len(b) < frameHeader || !bytes.HasPrefix(b, n.start()) {
		return f, 0, errFrame
	}
	length := uint64(binary.LittleEndian.Uint32(b[12:]))
	if length > uint64(len(b)-frameHeader) {
		return f, 0, errFrame
	}
	size = frameHeader + int(length)
	if crc32.Checksum(b[20:size], castagnoli) != binary.LittleEndian.Uint32(b[16:]) {
		return f, 0, errFrame
	}
	f = frame{
		count:   binary.LittleEndian.Uint32(b[20:]),
		prev:    binary.LittleEndian.Uint64(b[24:]),
		last:    binary.LittleEndian.Uint64(b[32:]),
		durable: binary.LittleEndian.Uint64(b[40:]),
		body:    b[frameHeader:size],
	}
	return f, size, nil
}

// unseal opens the body of a frame that stands at the start of b. A body that is whole
// and does not open was changed by somebody.
func (f *frame) unseal(b []byte, x *box) (err error) {
	if x == nil {
		return nil
	}
	if f.body, err = x.open(f.body, b[frameSealed:frameHeader]); err != nil {
		return fmt.Errorf("%w: a frame can't be opened with the store's key: it was changed, or is another store's", outbox.ErrDamaged)
	}
	return nil
}

// nextFrame returns the offset of the first whole frame at or after from, or
// -1.
func nextFrame(b []byte, from int, n nonce) int {
	start := n.start()
	for from < len(b) {
		i := bytes.Index(b[from:], start)
		if i < 0 {
			return -1
		}
		from += i
		if _, _, err := parseFrame(b[from:], n); err == nil {
			return from
		}
		from++
	}
	return -1
}

func (e *entry) appendTo(b []byte, key record.Key) []byte {
	flags := e.flags*headTombstone | bit(e.desired, setDesired, dropDesired) | bit(e.status, setStatus, dropStatus)
	b = binary.AppendUvarint(append(b, flags), e.revision)
	b = appendBytes(b, key.Sink)
	b = appendBytes(b, key.Name)
	if e.desired == queue.Set {
		b = binary.AppendUvarint(b, e.generation)
		b = appendBytes(b, e.desiredVal)
	}
	if e.status == queue.Set {
		b = appendBytes(b, e.statusVal)
	}
	return b
}

func bit(op queue.Op, set, drop byte) byte {
	switch op {
	case queue.Set:
		return set
	case queue.Drop:
		return drop
	}
	return 0
}

func appendBytes[T string | []byte](b []byte, v T) []byte {
	return append(binary.AppendUvarint(b, uint64(len(v))), v...)
}

// entries calls fn for every change in f. What fn gets shares f's memory and
// has no record.
func (f *frame) entries(fn func(record.Key, *entry) error) error {
	r := reader{b: f.body}
	for range f.count {
		flags := r.byte()
		e := &entry{revision: r.uvarint(), flags: flags / headTombstone}
		key := record.Key{Sink: string(r.bytes()), Name: string(r.bytes())}
		switch {
		case flags&setDesired != 0:
			e.desired, e.generation, e.desiredVal = queue.Set, r.uvarint(), r.bytes()
		case flags&dropDesired != 0:
			e.desired = queue.Drop
		}
		switch {
		case flags&setStatus != 0:
			e.status, e.statusVal = queue.Set, r.bytes()
		case flags&dropStatus != 0:
			e.status = queue.Drop
		}
		if r.failed {
			return errFrame
		}
		if err := fn(key, e); err != nil {
			return err
		}
	}
	return nil
}

// reader reads what appendTo wrote; failed tells that something was cut off.
type reader struct {
	b      []byte
	failed bool
}

func (r *reader) byte() byte {
	if len(r.b) == 0 {
		r.failed = true
		return 0
	}
	v := r.b[0]
	r.b = r.b[1:]
	return v
}

func (r *reader) uvarint() uint64 {
	v, n := binary.Uvarint(r.b)
	if n <= 0 {
		r.failed, r.b = true, nil
		return 0
	}
	r.b = r.b[n:]
	return v
}

func (r *reader) bytes() []byte {
	n := r.uvarint()
	if n > uint64(len(r.b)) {
		r.failed, r.b = true, nil
		return nil
	}
	v := r.b[:n:n]
	r.b = r.b[n:]
	return v
}
