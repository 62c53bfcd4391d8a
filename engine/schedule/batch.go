package schedule

import (
	"time"

	"github.com/pawlsync/pawl/engine/record"
)

// batch is one call that several resources share. It lasts until the last of them
// is Done.
type batch struct {
	left int // resources of it in flight
}

// batchesAhead is how many full batches of a sink go without waiting for one
// another: so that the target has the next while the last is settled, and what is
// loaded for them stays bounded however many calls the sink may have in flight.
const batchesAhead = 4

// gathers reports whether k's fresh entries wait for company: a batch goes only if
// it is more than a quarter as large as all that is in flight in batches. Batches
// grow that way with the load until they are full, by what the target takes and no
// timer; a few resources wait for nothing, not even beside a call that hangs.
//
// Entries that are due later count as company, since counting what is due would be
// slow. They make a batch smaller, and nothing wait.
func (k *sink) gathers() bool {
	return k.limits.BatchMax > 1 && k.batched > 0 && !k.breaker.open &&
		batchesAhead*min(k.due[Fresh].n, k.limits.BatchMax) <= k.batched
}

// NextOf marks more resources as in flight, to go in one call with d, which Next
// returned, and returns them: fresh ones of d's sink, up to Limits.BatchMax with d.
// They spend no rate and are no further call. There are none if d is a probe or not
// fresh. It asks ok, which may be nil and must not use the Schedule, for each; a
// resource that it refuses stays as it is. No more than four times as many as may
// go, and 16, are asked for, those due first.
func (s *Schedule) NextOf(d Dispatch, now time.Time, ok func(key record.Key) bool) []Dispatch {
	s.advance(now)
	k, first, found := s.find(d.Key)
	if !found || s.batches[first] == nil || !k.flows(s.clock.now()) {
		return nil
	}
	b := s.batches[first]
	most := k.limits.BatchMax - b.left
	var more []Dispatch
	var refused []uint32
	h := &k.due[Fresh]
	for asked := 0; len(more) < most && asked < 4*most+16; asked++ {
		if h.first(&s.slab, byDue) > s.clock.now() {
			break
		}
		id := h.get(0)
		if ok == nil || ok(s.key(id)) {
			more = append(more, s.launch(k, id))
			s.join(k, id, b)
			continue
		}
		h.remove(&s.slab, byDue, id)
		refused = append(refused, id)
	}
	for _, id := range refused {
		h.push(&s.slab, byDue, id)
	}
	s.place(k)
	return more
}

func (s *Schedule) join(k *sink, id uint32, b *batch) {
	s.batches[id] = b
	b.left++
	k.batched++
}

// leave takes an entry whose flight ends out of its batch, if it was in one, and
// reports whether its call ends with it.
func (s *Schedule) leave(k *sink, id uint32) bool {
	b := s.batches[id]
	if b == nil {
		return true
	}
	delete(s.batches, id)
	b.left--
	k.batched--
	return b.left == 0
}
