package schedule

import (
	"container/heap"
	"math"
	"time"
)

// Limits are those of one sink. The zero value means the defaults.
type Limits struct {
	// MaxInFlight is how many calls may be in flight. What Next yields is one call,
	// together with all that NextOf adds to it. Defaults to 64.
	MaxInFlight int
	// BatchMax is how many fresh resources one call may take. Defaults to 1: the
	// sink takes no batches.
	BatchMax int
	// Rate is how many dispatches may begin per second. Defaults to no limit.
	Rate float64
	// Burst is how many may begin at once after a lull. Defaults to Rate, and is
	// at least 1.
	Burst int
	// BreakerAfter is how many consecutive unanswered calls, on distinct
	// resources, open the breaker. Defaults to 5; at most 1,000.
	BreakerAfter int
	// ProbeBase is the wait before the first probe of an open breaker. Each probe
	// without an answer doubles it. Defaults to 2s.
	ProbeBase time.Duration
	// ProbeMax bounds that wait. Defaults to 1m, and is at least ProbeBase.
	ProbeMax time.Duration
}

func (l Limits) withDefaults() Limits {
	if l.MaxInFlight <= 0 {
		l.MaxInFlight = 64
	}
	l.BatchMax = max(l.BatchMax, 1)
	if !(l.Rate > 0) || math.IsInf(l.Rate, 1) {
		l.Rate = 0
	}
	if l.Burst <= 0 {
		l.Burst = int(min(max(1, l.Rate), math.MaxInt32))
	}
	if l.BreakerAfter <= 0 {
		l.BreakerAfter = 5
	}
	l.BreakerAfter = min(l.BreakerAfter, 1000)
	if l.ProbeBase <= 0 {
		l.ProbeBase = 2 * time.Second
	}
	if l.ProbeMax <= 0 {
		l.ProbeMax = time.Minute
	}
	l.ProbeMax = max(l.ProbeMax, l.ProbeBase)
	return l
}

// sink is what is known of one sink. It lives as long as it is configured,
// suspended or has entries.
type sink struct {
	name       string
	id         uint32
	configured bool
	suspended  bool
	pausedTo   int64 // not dispatched before
	limits     Limits
	rate       rate
	breaker    breaker
	share      share

	due      [classes]idHeap // waiting entries that aren't parked, by class
	age      idHeap          // unacknowledged entries, removed ones aside
	phases   [16]int         // entries by phase, removed ones aside
	entries  int             // removed ones included
	inFlight int
	calls    int // in flight
	batched  int // resources in flight in calls that are, or might have become, batches

	// Where the sink is among the others: in a queue by key, or in none.
	in  *queue
	at  int // index in it
	key int64
}

// readyAt is the time from which something of k is dispatchable if nothing else
// happens, or never. Options.MaxInFlight is not looked at.
func (s *Schedule) readyAt(k *sink) int64 {
	if !k.configured || k.suspended || k.calls >= k.limits.MaxInFlight || k.breaker.probing() {
		return never
	}
	due := never
	for c := range k.due {
		due = min(due, k.firstDue(&s.slab, Class(c)))
	}
	if due == never {
		return never
	}
	return max(due, k.pausedTo, k.rate.next(), k.breaker.next())
}

// firstDue returns when the first entry of class c is due, or never if there is
// none or the class gathers a batch.
func (k *sink) firstDue(s *slab, c Class) int64 {
	if c == Fresh && k.gathers() {
		return never
	}
	return k.due[c].first(s, byDue)
}

// place puts k where it belongs after anything of it has changed: among those
// that are ready, in the order in which they became so, or among those that
// wait for a time, or aside.
func (s *Schedule) place(k *sink) {
	at := s.readyAt(k)
	to := &s.timed
	switch {
	case at == never:
		to = nil
	case at <= s.clock.now():
		to = &s.ready
		if k.in == to {
			return // it keeps its turn
		}
		s.turn++
		at = s.turn
	case k.in == to:
		if k.key != at {
			k.key = at
			heap.Fix(to, k.at)
		}
		return
	}
	if k.in != nil {
		heap.Remove(k.in, k.at)
	}
	if to != nil {
		k.key = at
		heap.Push(to, k)
	}
}

// rotate is place for a sink that had its turn.
func (s *Schedule) rotate(k *sink) {
	if k.in != nil {
		heap.Remove(k.in, k.at)
	}
	s.place(k)
}

// advance takes in the time, which makes sinks ready.
func (s *Schedule) advance(now time.Time) {
	s.clock.advance(now)
	for len(s.timed) > 0 && s.timed[0].key <= s.clock.now() {
		s.place(s.timed[0])
	}
}

// queue is a heap of sinks by key.
type queue []*sink

func (q queue) Len() int { return len(q) }
func (q queue) Less(i, j int) bool {
	return q[i].key < q[j].key || q[i].key == q[j].key && q[i].id < q[j].id
}
func (q queue) Swap(i, j int) {
	q[i], q[j] = q[j], q[i]
	q[i].at, q[j].at = i, j
}
func (q *queue) Push(x any) {
	k := x.(*sink)
	k.in, k.at = q, len(*q)
	*q = append(*q, k)
}
func (q *queue) Pop() any {
	last := len(*q) - 1
	k := (*q)[last]
	(*q)[last] = nil
	*q = (*q)[:last]
	k.in = nil
	return k
}

// rate limits dispatches: the one that empties the bucket waits for the next
// token (GCRA, a token bucket that needs no refilling). The zero rate has no limit.
type rate struct {
	interval int64 // nanoseconds a token takes; 0: no limit
	depth    int64 // how far full may lie ahead: what the tokens but one take
	full     int64 // when the bucket will be full
}

// set changes the limits and keeps what is spent, as far as the new ones could
// have led to it.
func (r *rate) set(l Limits, now int64) {
	if l.Rate == 0 {
		*r = rate{}
		return
	}
	const longest = maxWall / 4 // some 36 years
	r.interval = int64(max(1, min(float64(time.Second)/l.Rate, float64(longest))))
	r.depth = min(int64(l.Burst-1), longest/r.interval) * r.interval
	r.full = min(r.full, now+r.depth+r.interval)
}

func (r *rate) next() int64 { return r.full - r.depth }

func (r *rate) take(now int64) {
	r.full = max(r.full, now) + r.interval
}

// share divides a sink's dispatches between its classes by their strides: each
// class has a pass, the one with the lowest goes and moves on by its stride. A
// class that gets work after it had none starts one stride behind the last to
// go: it has saved nothing up, and waits no longer than its share.
type share struct {
	pass   [classes]int64
	active [classes]bool
	last   int64
}

// strides make 12:3:1.
var strides = [classes]int64{Fresh: 1, Retry: 4, Check: 12}

// pick returns which of the classes that have due work goes.
func (h *share) pick(due [classes]bool) Class {
	best := Class(classes)
	for c := range Class(classes) {
		if due[c] && !h.active[c] {
			h.pass[c] = max(h.pass[c], h.last+strides[c])
		}
		h.active[c] = due[c]
		if due[c] && (best == classes || h.pass[c] < h.pass[best]) {
			best = c
		}
	}
	h.last = h.pass[best]
	h.pass[best] += strides[best]
	return best
}
