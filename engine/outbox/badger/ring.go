package badger

import (
	"encoding/binary"
	"fmt"

	"github.com/dgraph-io/badger/v4"
)

// ring numbers the batches that Badger got. Each leaves its number in one of
// 256 documents, in turns, so that a hole tells that Badger dropped a batch and
// kept later ones: it does that, without a word, where one of its logs is
// damaged and another follows.
type ring struct {
	number uint64 // of the newest batch
	first  uint64 // there is no hole from here on
	last   uint64 // last revision applied
}

const ringLength = 256

func ringKey(number uint64) []byte { return append([]byte(docBatch), byte(number%ringLength)) }

// finish puts the next number into b and commits it.
func (r *ring) finish(b *batch, last uint64) error {
	next := ring{number: r.number + 1, first: r.first, last: max(last, r.last)}
	key := ringKey(next.number)
	value := seal(nil, key, next.last, func(b []byte) []byte {
		b = binary.AppendUvarint(b, next.number)
		return binary.AppendUvarint(b, next.first)
	})
	err := b.do(func(txn *badger.Txn) error { return txn.Set(key, value) })
	if err == nil {
		err = b.commit()
	}
	if err != nil {
		return fmt.Errorf("write a batch: %w", err)
	}
	*r = next
	return nil
}

// restart forgets the holes.
func (r *ring) restart() { r.first = r.number + 1 }

// readRing returns the newest batch. whole is the last revision before the
// first hole; it is ring.last where there is none.
func readRing(txn *badger.Txn) (r ring, whole uint64, err error) {
	var slots [ringLength]ring
	for i := range slots {
		key := ringKey(uint64(i))
		value, err := getValue(txn, key)
		if err != nil {
			return r, 0, err
		}
		if value == nil {
			continue
		}
		last, body, err := open(key, value)
		if err != nil {
			return r, 0, err
		}
		number, n := binary.Uvarint(body)
		first, m := binary.Uvarint(body[max(n, 0):])
		if n <= 0 || m <= 0 {
			return r, 0, fmt.Errorf("the value of %q is cut off", key)
		}
		slots[i] = ring{number: number, first: first, last: last}
		if number > r.number {
			r = slots[i]
		}
	}
	return r, r.whole(&slots), nil
}

func (r ring) whole(slots *[ringLength]ring) uint64 {
	start := r.first
	if r.number >= ringLength {
		start = max(start, r.number-ringLength+1)
	}
	// Upwards, to the last batch before the first hole.
	whole := uint64(0)
	for n := max(start, 1); n <= r.number; n++ {
		if slots[n%ringLength].number != n {
			return whole
		}
		whole = slots[n%ringLength].last
	}
	return whole
}
