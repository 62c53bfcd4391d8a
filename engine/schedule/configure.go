package schedule

import "time"

// ConfigureSink makes the sink's entries dispatchable, or changes its limits. An
// open breaker, a pause and what was spent of the rate stay, as far as the new
// limits could have led to them.
func (s *Schedule) ConfigureSink(name string, l Limits) {
	k := s.sink(name)
	k.configured = true
	k.limits = l.withDefaults()
	now := s.clock.now()
	k.rate.set(k.limits, now)
	k.breaker.limit(k.limits, now)
	s.place(k)
}

// RemoveSink keeps the sink's entries and dispatches them no more. Its breaker,
// pause and rate are forgotten; its suspension isn't.
func (s *Schedule) RemoveSink(name string) {
	k := s.byName[name]
	if k == nil {
		return
	}
	k.configured = false
	k.pausedTo = 0
	k.rate = rate{}
	k.breaker.reset()
	s.place(k)
	s.tidy(k)
}

// SuspendSink holds all of the sink's entries until it is called with false. The
// sink need not be configured yet.
func (s *Schedule) SuspendSink(name string, on bool) {
	if s.byName[name] == nil && !on {
		return
	}
	k := s.sink(name)
	k.suspended = on
	s.place(k)
	s.tidy(k)
}

// PauseSink holds all of the sink's entries until then (R42). Of several pauses
// the longest counts; the zero time ends them. A sink that isn't configured has
// no pause.
func (s *Schedule) PauseSink(name string, until time.Time) {
	k := s.byName[name]
	if k == nil || !k.configured {
		return
	}
	if until.IsZero() {
		k.pausedTo = 0
	} else {
		k.pausedTo = max(k.pausedTo, s.clock.from(until))
	}
	s.place(k)
}

// SetMaxInFlight is Options.MaxInFlight from now on.
func (s *Schedule) SetMaxInFlight(n int) { s.options.MaxInFlight = n }
