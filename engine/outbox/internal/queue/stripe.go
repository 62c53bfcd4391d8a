package queue

import (
	"sync"

	"github.com/pawlsync/pawl/engine/outbox"
	"github.com/pawlsync/pawl/engine/record"
)

// stripe serializes the updates of the keys that share it, and remembers what was
// just written and read: a delivery reads what a Put has written, and soon after
// updates it. Every change of a key goes through its stripe, so that what is
// remembered is the committed state until then.
type stripe struct {
	sync.Mutex
	read  map[record.Key]*outbox.Record
	bytes int
}

// maxStripeBytes bounds what one stripe remembers; all of them, 32 MiB.
const maxStripeBytes = 128 << 10

// keep remembers rec, which does not change any more. What was remembered before is dropped where both are too much.
func (s *stripe) keep(key record.Key, rec *outbox.Record) {
	size := footprint(key, rec)
	if size > maxStripeBytes/4 {
		return
	}
	s.drop(key)
	if s.read == nil || s.bytes+size > maxStripeBytes {
		s.read, s.bytes = map[record.Key]*outbox.Record{}, 0
	}
	s.read[key] = rec
	s.bytes += size
}

// drop forgets key, which is about to change.
func (s *stripe) drop(key record.Key) {
	if rec, ok := s.read[key]; ok {
		delete(s.read, key)
		s.bytes -= footprint(key, rec)
	}
}

// footprint is about what a record takes in memory.
func footprint(key record.Key, rec *outbox.Record) int {
	const rest = 1 << 10 // of a status with its history
	size := rest + len(key.Name) + len(rec.Desired.Payload)
	if a := rec.Status.Acked; a != nil {
		size += len(a.Adapter) + len(a.Payload)
	}
	for i := range rec.Status.Attempted {
		size += len(rec.Status.Attempted[i].Payload)
	}
	return size
}
