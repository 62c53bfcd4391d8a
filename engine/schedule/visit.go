package schedule

import "time"

// Block is what keeps a visit from a sink.
type Block uint8

// The blocks.
const (
	Open       Block = iota // none: the visit may begin, and its share of the rate is spent
	Spent                   // the rate allows none before the time that Visit returns
	Pausing                 // the target asked for a pause, which ends then
	Broken                  // the target does not answer; it is probed then
	Suspending              // the sink is suspended, or not configured
)

// Visit asks for a call to a sink that delivers nothing: somebody wants to know
// what its target has. It counts against the rate as a dispatch does, and what keeps
// dispatches back keeps it back. It is never a probe.
func (s *Schedule) Visit(name string, now time.Time) (Block, time.Time) {
	s.advance(now)
	k := s.byName[name]
	switch t := s.clock.now(); {
	case k == nil || !k.configured || k.suspended:
		return Suspending, time.Time{}
	case k.breaker.open:
		return Broken, s.clock.wall(k.breaker.probeAt)
	case k.pausedTo > t:
		return Pausing, s.clock.wall(k.pausedTo)
	case k.rate.next() > t:
		return Spent, now.Add(time.Duration(k.rate.next() - t))
	}
	if k.limits.Rate > 0 {
		k.rate.take(s.clock.now())
		s.place(k)
	}
	return Open, time.Time{}
}
