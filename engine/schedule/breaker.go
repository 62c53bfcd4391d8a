package schedule

import (
	"slices"
	"time"
)

// Report says how a delivery went.
type Report struct {
	// Answered: the target answered, whatever it said. It wins over Unanswered.
	Answered bool
	// Unanswered: unreachable, unauthorised or a fault of the plugin. Where neither
	// is set no call was made, which says nothing of the target.
	Unanswered bool
	// Failed is when a call of this resource last failed before this one; zero if
	// never, or if the resource was answered since.
	Failed time.Time
	// Started is when this delivery began.
	Started time.Time
}

// Verdict says what follows from a Report.
type Verdict struct {
	// Charge: an unanswered call that burns one of its resource's attempts,
	// because the target answers others: another resource of the sink was answered
	// since this one last failed (or since this call started, if it never failed).
	// Never set while the breaker is open, nor by the call that opens it.
	Charge bool
	// Opened, Closed: this report opened or closed the sink's breaker.
	Opened, Closed bool
}

// BreakerState is the state of a sink's breaker.
type BreakerState uint8

// The states.
const (
	BreakerClosed   BreakerState = iota // deliveries flow
	BreakerOpen                         // the target doesn't answer; waits for its next probe
	BreakerHalfOpen                     // one probe is in flight
)

// String returns "closed", "open" or "half-open".
func (b BreakerState) String() string {
	switch b {
	case BreakerClosed:
		return "closed"
	case BreakerOpen:
		return "open"
	}
	return "half-open"
}

// breaker parks a sink whose target doesn't answer (R43, R44).
type breaker struct {
	strikes []uint32 // the distinct entries that went unanswered since the last answer
	answers answers
	open    bool
	probe   uint32        // the entry in flight as a probe, or none
	last    uint32        // the entry last probed, or none
	wait    time.Duration // before the next probe
	probeAt int64
}

func (b *breaker) reset() {
	*b = breaker{probe: none, last: none}
	b.answers.reset()
}

func (b *breaker) probing() bool { return b.probe != none }

// next is when the breaker lets the next dispatch through, if no probe is in
// flight.
func (b *breaker) next() int64 {
	if !b.open {
		return 0
	}
	return b.probeAt
}

// report takes in the end of a delivery of id. ref is when the resource last
// failed, else when the delivery started.
func (b *breaker) report(id uint32, r Report, l Limits, now, ref int64) Verdict {
	probed := b.probe == id
	if probed {
		b.probe = none
	}
	switch {
	case r.Answered:
		closed := b.open
		b.open, b.strikes = false, b.strikes[:0]
		b.probe, b.last = none, none // a probe that is still in flight is a call like others now
		b.answers.add(id, now)
		return Verdict{Closed: closed}
	case !r.Unanswered:
		return Verdict{} // after a probe that made no call the next one may go at once
	case b.open:
		if probed {
			b.wait = min(l.ProbeMax, 2*min(b.wait, l.ProbeMax))
			b.probeAt = now + int64(b.wait)
		}
		return Verdict{}
	}
	if !slices.Contains(b.strikes, id) {
		b.strikes = append(b.strikes, id)
	}
	if len(b.strikes) >= l.BreakerAfter {
		b.open, b.wait = true, l.ProbeBase
		b.probeAt = now + int64(b.wait)
		return Verdict{Opened: true}
	}
	return Verdict{Charge: b.answers.byOther(id) > ref}
}

// limit makes an open breaker wait no longer than new limits allow.
func (b *breaker) limit(l Limits, now int64) {
	b.wait = min(b.wait, l.ProbeMax)
	b.probeAt = min(b.probeAt, now+int64(l.ProbeMax))
}

// forget drops the id of an entry that goes, since it will be another's. What is
// known of the target stays. A probe can't go: it is in flight.
func (b *breaker) forget(id uint32) {
	for i, k := range b.strikes {
		if k == id {
			b.strikes[i] = none
		}
	}
	if b.last == id {
		b.last = none
	}
	b.answers.forget(id)
}

// answers keeps who was answered last, and who before by another entry's call:
// enough to say, of any entry, when another was last answered.
type answers struct {
	id [2]uint32
	at [2]int64
}

func (a *answers) reset() {
	*a = answers{id: [2]uint32{none, none}, at: [2]int64{-1, -1}}
}

func (a *answers) add(id uint32, now int64) {
	if a.id[0] != id {
		a.id[1], a.at[1] = a.id[0], a.at[0]
	}
	a.id[0], a.at[0] = id, now
}

// byOther returns when an entry other than id was last answered, or -1.
func (a *answers) byOther(id uint32) int64 {
	if a.id[0] != id {
		return a.at[0]
	}
	return a.at[1]
}

func (a *answers) forget(id uint32) {
	for i := range a.id {
		if a.id[i] == id {
			a.id[i] = none
		}
	}
}
