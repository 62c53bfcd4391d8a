package schedule

import (
	"slices"
	"strings"
	"time"
	"unsafe"

	"github.com/pawlsync/pawl/engine/record"
)

// SinkStats describes one sink. Times are in UTC.
type SinkStats struct {
	Name       string
	Configured bool
	Suspended  bool
	Entries    int                  // removed ones that are in flight aside
	Phases     map[record.Phase]int // those that have none are left out
	Waiting    [3]int               // by Class: waiting, due now or later; neither parked nor in flight
	Due        time.Time            // when the first of those is due; zero if none waits
	InFlight   int
	Breaker    BreakerState
	NextProbe  time.Time // of an open breaker, not before; else zero
	Paused     time.Time // until when; zero if it isn't paused
	Oldest     time.Time // the earliest Since; zero if all is acknowledged
}

// Sinks describes all sinks that are configured, suspended or have entries, by
// name.
func (s *Schedule) Sinks() []SinkStats {
	var all []SinkStats
	for _, k := range s.sinks {
		if k != nil {
			all = append(all, s.sinkStats(k))
		}
	}
	slices.SortFunc(all, func(a, b SinkStats) int { return strings.Compare(a.Name, b.Name) })
	return all
}

func (s *Schedule) sinkStats(k *sink) SinkStats {
	st := SinkStats{
		Name: k.name, Configured: k.configured, Suspended: k.suspended,
		Phases: map[record.Phase]int{}, InFlight: k.inFlight,
	}
	for i, p := range phases {
		if n := k.phases[i]; n > 0 {
			st.Phases[p] = n
			st.Entries += n
		}
	}
	due := never
	for c := range k.due {
		st.Waiting[c] = k.due[c].n
		due = min(due, k.due[c].first(&s.slab, byDue))
	}
	if due != never {
		st.Due = s.clock.wall(due)
	}
	switch b := &k.breaker; {
	case !b.open:
	case b.probing():
		st.Breaker = BreakerHalfOpen
	default:
		st.Breaker = BreakerOpen
		st.NextProbe = s.clock.wall(b.probeAt)
	}
	if k.pausedTo > s.clock.now() {
		st.Paused = s.clock.wall(k.pausedTo)
	}
	if k.age.n > 0 {
		st.Oldest = time.Unix(0, k.age.first(&s.slab, byAge)).UTC()
	}
	return st
}

// Stats describes the whole schedule.
type Stats struct {
	Entries  int   // as Len
	InFlight int   // removed ones included
	Held     int   // Done and not settled
	Unsure   int   // as set by SetUnsure
	Bytes    int64 // as Bytes
}

// Stats returns numbers over all sinks.
func (s *Schedule) Stats() Stats {
	return Stats{Entries: s.Len(), InFlight: s.inFlight, Held: s.held, Unsure: s.unsure, Bytes: s.Bytes()}
}

// Len is how many resources have a plan.
func (s *Schedule) Len() int { return s.live }

// Bytes is how much memory the schedule holds, room for more entries included.
func (s *Schedule) Bytes() int64 {
	n := int64(unsafe.Sizeof(*s)) + s.slab.bytes() + s.names.size() + s.table.bytes()
	for _, k := range s.sinks {
		if k == nil {
			continue
		}
		n += int64(unsafe.Sizeof(*k)) + int64(len(k.name)) + k.age.bytes()
		for c := range k.due {
			n += k.due[c].bytes()
		}
	}
	return n
}
