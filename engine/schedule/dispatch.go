package schedule

import (
	"time"

	"github.com/pawlsync/pawl/engine/record"
)

// Dispatch is a resource to deliver now.
type Dispatch struct {
	Key    record.Key
	Class  Class
	Probe  bool // its sink's breaker is open, and this call shows whether the target is back
	Unsure bool // as set by SetUnsure
}

// Next marks the next resource to deliver as in flight and returns it, or false
// if none is dispatchable at now.
func (s *Schedule) Next(now time.Time) (Dispatch, bool) {
	s.advance(now)
	if s.full() || len(s.ready) == 0 {
		return Dispatch{}, false
	}
	k := s.ready[0]
	c := k.share.pick(s.dueClasses(k))
	id := k.due[c].get(0)
	if k.breaker.open {
		id = s.probe(k, id)
		k.breaker.probe, k.breaker.last = id, id
	}
	k.rate.take(s.clock.now())
	d := s.launch(k, id)
	k.calls++
	s.calls++
	if c == Fresh && k.limits.BatchMax > 1 && !k.breaker.open {
		s.join(k, id, new(batch))
	}
	s.rotate(k)
	return d, true
}

// flows reports whether nothing but limits keeps k's due entries back.
func (k *sink) flows(now int64) bool {
	return k.configured && !k.suspended && !k.breaker.open && k.pausedTo <= now
}

// Done ends the flight of key and says what follows for its sink's breaker and
// the resource's attempts. The entry is held until Settle or Release; one that
// was removed meanwhile is gone. Of a key that isn't in flight it says nothing.
func (s *Schedule) Done(key record.Key, now time.Time, r Report) Verdict {
	s.advance(now)
	k, id, ok := s.find(key)
	if !ok || !s.slab.at(id).is(inFlight) {
		return Verdict{}
	}
	e := s.slab.at(id)
	e.unmark(inFlight)
	k.inFlight--
	s.inFlight--
	if s.leave(k, id) {
		k.calls--
		s.calls--
	}
	var v Verdict
	if k.configured {
		v = k.breaker.report(id, r, k.limits, s.clock.now(), s.reference(r))
	}
	if e.is(removed) {
		s.drop(k, id)
	} else {
		e.mark(held)
		s.held++
	}
	s.place(k)
	s.tidy(k)
	return v
}

// reference is since when a sibling's answer counts against a resource.
func (s *Schedule) reference(r Report) int64 {
	switch {
	case !r.Failed.IsZero():
		return s.clock.from(r.Failed)
	case !r.Started.IsZero():
		return s.clock.from(r.Started)
	}
	return s.clock.now()
}

// Wake returns when Next may yield something if nothing else happens: now if it
// would at once, false if time alone changes nothing.
func (s *Schedule) Wake(now time.Time) (time.Time, bool) {
	s.advance(now)
	switch {
	case s.full():
		return time.Time{}, false
	case len(s.ready) > 0:
		return now, true
	case len(s.timed) > 0:
		// Added to now, so that it keeps now's monotonic reading.
		return now.Add(time.Duration(s.timed[0].key - s.clock.from(now))), true
	}
	return time.Time{}, false
}

func (s *Schedule) full() bool {
	return s.options.MaxInFlight > 0 && s.calls >= s.options.MaxInFlight
}

func (s *Schedule) dueClasses(k *sink) (due [classes]bool) {
	for c := range due {
		due[c] = k.firstDue(&s.slab, Class(c)) <= s.clock.now()
	}
	return due
}

// launch marks an entry of a due heap as in flight.
func (s *Schedule) launch(k *sink, id uint32) Dispatch {
	e := s.slab.at(id)
	k.due[e.class()].remove(&s.slab, byDue, id)
	e.mark(inFlight)
	k.inFlight++
	s.inFlight++
	return Dispatch{
		Key: s.key(id), Class: e.class(), Probe: k.breaker.probe == id, Unsure: e.is(unsure),
	}
}

// probe chooses what to probe with: id, or another due entry if id was probed
// last, since the fault may be that one's alone. Probes rotate over all because
// one that failed is due after the others.
func (s *Schedule) probe(k *sink, id uint32) uint32 {
	if id != k.breaker.last {
		return id
	}
	h := &k.due[s.slab.at(id).class()]
	if i := h.firstOf(&s.slab, byDue, 1, 5); i > 0 && s.slab.at(h.get(i)).t[byDue] <= s.clock.now() {
		return h.get(i)
	}
	for c, due := range s.dueClasses(k) {
		if first := k.due[c]; due && first.get(0) != id {
			return first.get(0)
		}
	}
	return id
}
