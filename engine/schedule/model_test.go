package schedule

import (
	"slices"
	"time"
)

// The model says what the package's documentation says, in the plainest way: it
// looks at everything each time. It doesn't choose between sinks, classes, and
// entries due at the same time, but checks that the choice was allowed and that
// nothing starves.
type model struct {
	sinks map[string]*mSink
	names []string // of sinks
	v     time.Duration
	back  time.Duration // how far the clock was set back in all
	max   int
	turns map[[2]string]int // dispatches of the second sink while the first was dispatchable
}

type mSink struct {
	configured, suspended bool
	limits                Limits
	paused                time.Duration
	spent                 time.Duration // of the bucket
	spentAt               time.Duration
	entries               map[string]*mEntry
	open                  bool
	probe, last           *mEntry
	wait, probeAt         time.Duration
	struck                map[*mEntry]bool
	answers               []mAnswer
	passed                [3]int // dispatches of the sink while the class had due work
	counts                uint64 // of calls
}

type mAnswer struct {
	by *mEntry
	at time.Duration
}

const parked = time.Duration(never)

type mEntry struct {
	name                            string
	due                             time.Duration
	plan                            Plan
	inFlight, held, removed, unsure bool
	batch                           *mBatch // of a resource in flight that may have company
}

// mBatch is one call.
type mBatch struct{ counted uint64 } // in which count it was met

// now is what the caller's clock says.
func (m *model) now() time.Time { return t0.Add(m.v - m.back) }

// at maps a time of the caller's clock to the model's own.
func (m *model) at(t time.Time) time.Duration { return t.Sub(t0) + m.back }

func (m *model) inFlight() (n int) {
	for _, k := range m.sinks {
		n += k.inFlight()
	}
	return n
}

func (m *model) calls() (n int) {
	for _, k := range m.sinks {
		n += k.calls()
	}
	return n
}

func (k *mSink) calls() (n int) {
	k.counts++
	for _, e := range k.entries {
		switch {
		case e.batch != nil && e.batch.counted != k.counts:
			e.batch.counted = k.counts
			n++
		case e.batch == nil && e.inFlight:
			n++
		}
	}
	return n
}

// gathers: fresh entries wait for company.
func (k *mSink) gathers() bool {
	flying, waiting := 0, 0
	for _, e := range k.entries {
		switch {
		case e.batch != nil:
			flying++
		case !e.inFlight && !e.held && e.due != parked && e.plan.Class == Fresh:
			waiting++
		}
	}
	return !k.open && k.limits.BatchMax > 1 && flying > 0 && 4*min(waiting, k.limits.BatchMax) <= flying
}

func (k *mSink) inFlight() (n int) {
	for _, e := range k.entries {
		if e.inFlight {
			n++
		}
	}
	return n
}

func (k *mSink) interval() time.Duration {
	if k.limits.Rate == 0 {
		return 0
	}
	return time.Duration(float64(time.Second) / k.limits.Rate)
}

func (k *mSink) bucket() time.Duration { return k.interval() * time.Duration(k.limits.Burst) }

func (k *mSink) spentBy(v time.Duration) time.Duration { return max(0, k.spent-(v-k.spentAt)) }

// flows: what holds at v for all entries of k.
func (m *model) flows(k *mSink, v time.Duration) bool {
	return k.configured && !k.suspended && k.paused <= v && k.calls() < k.limits.MaxInFlight &&
		(m.max == 0 || m.calls() < m.max)
}

// dispatchable returns the entries of k that Next may yield at v.
func (m *model) dispatchable(k *mSink, v time.Duration) (all []*mEntry) {
	if !m.flows(k, v) || k.spentBy(v)+k.interval() > k.bucket() || k.open && (k.probe != nil || v < k.probeAt) {
		return nil
	}
	all = k.dueAt(v)
	if k.gathers() {
		all = slices.DeleteFunc(all, func(e *mEntry) bool { return e.plan.Class == Fresh })
	}
	return all
}

func (k *mSink) dueAt(v time.Duration) (all []*mEntry) {
	for _, e := range k.entries {
		if !e.inFlight && !e.held && e.due <= v {
			all = append(all, e)
		}
	}
	return all
}

// wake returns the first instant at which something is dispatchable.
func (m *model) wake() (time.Duration, bool) {
	at := []time.Duration{m.v}
	for _, k := range m.sinks {
		at = append(at, k.paused, k.probeAt, k.spentAt+k.spent+k.interval()-k.bucket())
		for _, e := range k.entries {
			at = append(at, e.due)
		}
	}
	slices.Sort(at)
	for _, v := range slices.Compact(at) {
		if v < m.v || v == parked {
			continue
		}
		for _, k := range m.sinks {
			if len(m.dispatchable(k, v)) > 0 {
				return v, true
			}
		}
	}
	return 0, false
}

func (k *mSink) report(e *mEntry, r Report, v, ref time.Duration) Verdict {
	probed := k.probe == e
	if probed {
		k.probe = nil
	}
	switch {
	case !k.configured:
		return Verdict{}
	case r.Answered:
		closed := k.open
		k.open, k.probe, k.last, k.struck = false, nil, nil, map[*mEntry]bool{}
		k.answers = append(k.answers, mAnswer{e, v})
		return Verdict{Closed: closed}
	case !r.Unanswered:
		return Verdict{}
	case k.open:
		if probed {
			k.wait = min(2*k.wait, k.limits.ProbeMax)
			k.probeAt = v + k.wait
		}
		return Verdict{}
	}
	k.struck[e] = true
	if len(k.struck) >= k.limits.BreakerAfter {
		k.open, k.wait = true, k.limits.ProbeBase
		k.probeAt = v + k.wait
		return Verdict{Opened: true}
	}
	for _, a := range k.answers {
		if a.by != e && a.at > ref {
			return Verdict{Charge: true}
		}
	}
	return Verdict{}
}

func (k *mSink) forget() {
	k.open, k.probe, k.last, k.struck, k.answers = false, nil, nil, map[*mEntry]bool{}, nil
	k.paused, k.spent = 0, 0
}

func (m *model) put(k *mSink, name string, p Plan, settle bool) {
	e := k.entries[name]
	if e == nil {
		e = &mEntry{name: name}
		k.entries[name] = e
	}
	e.plan, e.removed, e.due = p, false, parked
	if !p.At.IsZero() {
		e.due = m.at(p.At)
	}
	if settle {
		e.held = false
	}
}

func (m *model) remove(k *mSink, name string) {
	switch e := k.entries[name]; {
	case e == nil:
	case e.inFlight:
		e.removed = true
	default:
		k.drop(e)
	}
}

func (k *mSink) drop(e *mEntry) {
	delete(k.entries, e.name)
	if k.last == e {
		k.last = nil
	}
}
