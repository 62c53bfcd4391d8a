package schedule

import (
	"cmp"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pawlsync/pawl/engine/record"
)

var seedFlag = flag.Uint64("seed", 0, "seed of the random tests; 0 takes one from the clock")

func seed(t *testing.T) uint64 {
	n := *seedFlag
	if n == 0 {
		n = uint64(time.Now().UnixNano())
	}
	t.Logf("seed %d; run it again with -seed %d", n, n)
	return n
}

// run drives s and the model through the same random steps.
type run struct {
	*model
	t    *testing.T
	s    *Schedule
	r    *rand.Rand
	keys []string
	log  []string
}

func (r *run) fail(format string, args ...any) {
	r.t.Helper()
	r.t.Fatalf("%s\nlast steps:\n%s", fmt.Sprintf(format, args...), strings.Join(r.log[max(0, len(r.log)-30):], "\n"))
}

func (r *run) note(format string, args ...any) { r.log = append(r.log, fmt.Sprintf(format, args...)) }

func (r *run) pick() (*mSink, record.Key) {
	name := r.names[r.r.IntN(len(r.names))]
	return r.sinks[name], key(name, r.keys[r.r.IntN(len(r.keys))])
}

// pickIf returns some entry for which want holds, or false.
func (r *run) pickIf(want func(*mEntry) bool) (*mSink, record.Key, bool) {
	for range 50 {
		k, x := r.pick()
		if e := k.entries[x.Name]; e != nil && want(e) {
			return k, x, true
		}
	}
	return nil, record.Key{}, false
}

func (r *run) plan() Plan {
	p := Plan{Class: Class(r.r.IntN(3)), Phase: record.Phases()[r.r.IntN(9)]}
	if r.r.IntN(10) > 0 {
		p.At = r.now().Add(time.Duration(r.r.IntN(5000)-4000) * time.Millisecond)
	}
	if r.r.IntN(3) > 0 {
		p.Since = r.now().Add(-time.Duration(r.r.IntN(9000)) * time.Millisecond)
	}
	return p
}

func (r *run) step() {
	switch n := r.r.IntN(100); {
	case n < 18:
		k, x := r.pick()
		p := r.plan()
		settle := n < 4
		r.note("put %v %+v settle %v", x, p, settle)
		if settle {
			r.s.Settle(x, p)
		} else {
			r.s.Set(x, p)
		}
		r.put(k, x.Name, p, settle)
	case n < 22:
		k, x := r.pick()
		r.note("remove %v", x)
		r.s.Remove(x)
		r.remove(k, x.Name)
	case n < 48:
		r.next()
	case n < 66:
		r.done()
	case n < 80:
		r.settle()
	case n < 82:
		k, x := r.pick()
		on := r.r.IntN(2) == 0
		r.note("unsure %v %v", x, on)
		r.s.SetUnsure(x, on)
		if e := k.entries[x.Name]; e != nil {
			e.unsure = on
		}
	case n < 85:
		r.configure()
	case n < 98:
		r.pass(time.Duration(r.r.IntN(400)) * time.Millisecond)
	case n < 99:
		r.back += time.Duration(2+r.r.IntN(3600)) * time.Second
		r.note("set the clock back, %v in all", r.back)
		r.s.Wake(r.now())
	default:
		r.pass(time.Duration(r.r.IntN(90)) * time.Second)
	}
}

func (r *run) pass(d time.Duration) {
	r.v += d
	r.note("now %v", r.now())
	r.s.Wake(r.now())
}

func (r *run) next() {
	d, ok := r.s.Next(r.now())
	r.note("next %+v %v", d, ok)
	ready := map[string][]*mEntry{}
	for name, k := range r.sinks {
		if all := r.dispatchable(k, r.v); len(all) > 0 {
			ready[name] = all
		}
	}
	if !ok {
		if len(ready) > 0 {
			r.fail("Next yields nothing, but there are %v", ready)
		}
		return
	}
	k := r.sinks[d.Key.Sink]
	e := k.entries[d.Key.Name]
	if !slices.Contains(ready[d.Key.Sink], e) || e == nil {
		r.fail("Next yields %v, which isn't dispatchable", d)
	}
	if d.Class != e.plan.Class || d.Probe != k.open || d.Unsure != e.unsure {
		r.fail("Next yields %+v, want %+v", d, e)
	}
	r.order(k, e, ready[d.Key.Sink])
	r.starvation(d, ready)
	if k.open {
		k.probe, k.last = e, e
	}
	k.spent, k.spentAt = k.spentBy(r.v)+k.interval(), r.v
	e.inFlight = true
	if d.Class == Fresh && !k.open && k.limits.BatchMax > 1 {
		e.batch = new(mBatch)
	}
	if r.r.IntN(3) > 0 {
		r.nextOf(d, e)
	}
}

// order checks that e was due first of its class, or that what was due before is
// what was just probed.
func (r *run) order(k *mSink, e *mEntry, ready []*mEntry) {
	for _, o := range ready {
		if o.plan.Class == e.plan.Class && o.due < e.due && (!k.open || o != k.last) {
			r.fail("%s goes before %s, which was due before", e.name, o.name)
		}
	}
	if k.open && e == k.last && len(ready) > 1 {
		r.fail("%s is probed again, though there are others", e.name)
	}
}

// starvation checks that no other sink goes twice while one is dispatchable, and
// that no class waits for more than a round of its sink's dispatches.
func (r *run) starvation(d Dispatch, ready map[string][]*mEntry) {
	for name := range r.sinks {
		delete(r.turns, [2]string{d.Key.Sink, name})
		p := [2]string{name, d.Key.Sink}
		if ready[name] != nil && name != d.Key.Sink {
			if r.turns[p]++; r.turns[p] > 1 {
				r.fail("%s goes again, while %s waits", d.Key.Sink, name)
			}
		}
	}
	k := r.sinks[d.Key.Sink]
	var due [3]bool
	for _, e := range ready[d.Key.Sink] {
		due[e.plan.Class] = true
	}
	for c := range due {
		k.passed[c]++
		if !due[c] || Class(c) == d.Class || k.open {
			k.passed[c] = 0
		}
		if k.passed[c] > 16 {
			r.fail("class %v of %s starves", Class(c), d.Key.Sink)
		}
	}
}

// settleTurns forgets what was counted for sinks that wait no more.
func (r *run) settleTurns() {
	for p := range r.turns {
		if len(r.dispatchable(r.sinks[p[0]], r.v)) == 0 {
			delete(r.turns, p)
		}
	}
}

func (r *run) nextOf(first Dispatch, with *mEntry) {
	k := r.sinks[first.Key.Sink]
	most := 0
	if with.batch != nil {
		most = k.limits.BatchMax - 1
	}
	odd := func(x record.Key) bool { return len(x.Name)%2 == 1 }
	batch := r.s.NextOf(first, r.now(), odd)
	r.note("with %v: %v", first, batch)
	if len(batch) > most {
		r.fail("%d more in a batch, want at most %d", len(batch), most)
	}
	for _, d := range batch {
		e := k.entries[d.Key.Name]
		if e == nil || !slices.Contains(k.dueAt(r.v), e) || e.plan.Class != Fresh || !odd(d.Key) || d.Probe || d.Unsure != e.unsure {
			r.fail("batch with %v, which isn't dispatchable: %+v", d, e)
		}
		for _, o := range k.dueAt(r.v) {
			if o.plan.Class == Fresh && o.due < e.due && odd(key("", o.name)) {
				r.fail("%s goes before %s, which was due before", e.name, o.name)
			}
		}
		e.inFlight, e.batch = true, with.batch
	}
	if len(batch) == most {
		return
	}
	left := slices.DeleteFunc(k.dueAt(r.v), func(e *mEntry) bool { return e.plan.Class != Fresh })
	slices.SortFunc(left, func(a, b *mEntry) int { return cmp.Compare(a.due, b.due) })
	for i, e := range left {
		sure := i+1 == len(left) || left[i+1].due > e.due // that no other of i+1 was asked for instead
		if sure && i+1+len(batch) <= 4*most+16 && odd(key("", e.name)) {
			r.fail("%s could have been in the batch", e.name)
		}
	}
}

func (r *run) done() {
	k, x, ok := r.pickIf(func(e *mEntry) bool { return e.inFlight })
	if !ok || r.r.IntN(20) == 0 {
		k, x = r.pick()
	}
	kind := r.r.IntN(10)
	rep := Report{Answered: kind < 3, Unanswered: kind > 3, Started: r.now().Add(-time.Duration(r.r.IntN(3000)) * time.Millisecond)}
	if r.r.IntN(2) == 0 {
		rep.Failed = rep.Started.Add(-time.Duration(r.r.IntN(3000)) * time.Millisecond)
	}
	got := r.s.Done(x, r.now(), rep)
	r.note("done %v %+v: %+v", x, rep, got)
	var want Verdict
	if e := k.entries[x.Name]; e != nil && e.inFlight {
		ref := r.at(rep.Started)
		if !rep.Failed.IsZero() {
			ref = r.at(rep.Failed)
		}
		want = k.report(e, rep, r.v, ref)
		e.inFlight, e.batch, e.held = false, nil, true
		if e.removed {
			k.drop(e)
		}
	}
	if got != want {
		r.fail("Done says %+v, want %+v", got, want)
	}
}

func (r *run) settle() {
	k, x, ok := r.pickIf(func(e *mEntry) bool { return e.held })
	if !ok {
		k, x = r.pick()
	}
	if r.r.IntN(4) > 0 {
		p := r.plan()
		r.note("settle %v %+v", x, p)
		r.s.Settle(x, p)
		r.put(k, x.Name, p, true)
		return
	}
	r.note("release %v", x)
	r.s.Release(x)
	if e := k.entries[x.Name]; e != nil {
		e.held = false
	}
}

func (r *run) configure() {
	k, x := r.pick()
	switch r.r.IntN(6) {
	case 0:
		on := r.r.IntN(3) == 0
		r.note("suspend %s %v", x.Sink, on)
		r.s.SuspendSink(x.Sink, on)
		k.suspended = on
	case 1:
		until := r.now().Add(time.Duration(r.r.IntN(4000)-500) * time.Millisecond)
		if r.r.IntN(4) == 0 {
			until = time.Time{}
		}
		r.note("pause %s %v", x.Sink, until)
		r.s.PauseSink(x.Sink, until)
		switch {
		case !k.configured:
		case until.IsZero():
			k.paused = 0
		default:
			k.paused = max(k.paused, r.at(until))
		}
	case 2:
		if r.r.IntN(3) == 0 {
			r.note("remove sink %s", x.Sink)
			r.s.RemoveSink(x.Sink)
			k.configured = false
			k.forget()
			return
		}
		fallthrough
	default:
		l := Limits{
			MaxInFlight: 1 + r.r.IntN(6), BreakerAfter: 1 + r.r.IntN(5), Burst: 1 + r.r.IntN(4),
			ProbeBase: time.Duration(1+r.r.IntN(3)) * time.Second, ProbeMax: time.Duration(4+r.r.IntN(9)) * time.Second,
		}
		if r.r.IntN(2) == 0 {
			l.BatchMax = 2 + r.r.IntN(7)
		}
		if r.r.IntN(2) == 0 {
			l.Rate = []float64{0.5, 2, 10, 100}[r.r.IntN(4)]
		}
		r.note("configure %s %+v", x.Sink, l)
		r.s.ConfigureSink(x.Sink, l)
		spent := k.spentBy(r.v)
		k.configured, k.limits = true, l
		k.spent, k.spentAt = min(spent, k.bucket()), r.v
		k.wait = min(k.wait, l.ProbeMax)
		k.probeAt = min(k.probeAt, r.v+l.ProbeMax)
	}
}

// check compares everything that can be asked for.
func (r *run) check(all bool) {
	at, ok := r.s.Wake(r.now())
	if v, want := r.wake(); ok != want || ok && r.at(at) != v {
		r.fail("Wake says %v %v, want %v %v", r.at(at), ok, v, want)
	}
	for name, k := range r.sinks {
		if n := k.calls(); k.configured && n > 6 || r.max > 0 && r.calls() > r.max {
			r.fail("%d calls of %s in flight", n, name)
		}
	}
	if !all {
		return
	}
	live, held := 0, 0
	for name, k := range r.sinks {
		for _, n := range r.keys {
			e, ok := r.s.Lookup(key(name, n))
			m := k.entries[n]
			if ok != (m != nil) {
				r.fail("Lookup of %s/%s: %v", name, n, ok)
			}
			if !ok {
				continue
			}
			if !m.removed {
				live++
			}
			if m.held {
				held++
			}
			if e.InFlight != m.inFlight || e.Held != m.held || e.Removed != m.removed || e.Unsure != m.unsure {
				r.fail("Lookup of %s/%s: %+v, want %+v", name, n, e, m)
			}
			if !m.removed && (e.Class != m.plan.Class || e.Phase != m.plan.Phase || !e.Since.Equal(m.plan.Since) ||
				e.At.IsZero() != (m.due == parked) || m.due != parked && r.at(e.At) != m.due) {
				r.fail("Lookup of %s/%s: %+v, want %+v", name, n, e, m)
			}
		}
	}
	if got := r.s.Stats(); live != got.Entries || held != got.Held || r.inFlight() != got.InFlight {
		r.fail("%+v, want %d entries, %d held, %d in flight", got, live, held, r.inFlight())
	}
	r.stats()
}

func (r *run) stats() {
	for _, st := range r.s.Sinks() {
		k := r.sinks[st.Name]
		want := SinkStats{
			Name: st.Name, Configured: k.configured, Suspended: k.suspended, Phases: map[record.Phase]int{},
			InFlight: k.inFlight(),
		}
		for _, e := range k.entries {
			if !e.removed {
				want.Entries++
				want.Phases[e.plan.Phase]++
				if s := e.plan.Since; !s.IsZero() && (want.Oldest.IsZero() || s.Before(want.Oldest)) {
					want.Oldest = s
				}
			}
			if !e.inFlight && !e.held && e.due != parked {
				want.Waiting[e.plan.Class]++
				if at := t0.Add(e.due - r.back); want.Due.IsZero() || at.Before(want.Due) {
					want.Due = at
				}
			}
		}
		switch {
		case k.open && k.probe != nil:
			want.Breaker = BreakerHalfOpen
		case k.open:
			want.Breaker, want.NextProbe = BreakerOpen, t0.Add(k.probeAt-r.back)
		}
		if k.paused > r.v {
			want.Paused = t0.Add(k.paused - r.back)
		}
		if got, want := fmt.Sprintf("%+v", st), fmt.Sprintf("%+v", want); got != want {
			r.fail("stats:\n%s\nwant:\n%s", got, want)
		}
	}
}

func TestModel(t *testing.T) {
	base := seed(t)
	for i, row := range []struct{ sinks, keys, steps, every int }{
		{3, 4, 5000, 1},
		{1, 12, 5000, 1},
		{6, 8, 5000, 1},
		{2, 1500, 5000, 2000}, // segments split, heaps grow several levels
	} {
		t.Run(fmt.Sprintf("%d sinks %d keys", row.sinks, row.keys), func(t *testing.T) {
			r := &run{t: t, r: rand.New(rand.NewPCG(base, uint64(i)))}
			r.model = &model{sinks: map[string]*mSink{}, turns: map[[2]string]int{}, max: r.r.IntN(2) * 10}
			r.s = New(Options{MaxInFlight: r.max})
			r.pass(0) // the schedule knows what time it is before the clock is set back
			for i := range row.sinks {
				n := fmt.Sprintf("s%d", i)
				r.names = append(r.names, n)
				r.sinks[n] = &mSink{entries: map[string]*mEntry{}, struck: map[*mEntry]bool{}}
			}
			for i := range row.keys {
				n := strings.Repeat("k", r.r.IntN(40)) + fmt.Sprint(i)
				r.keys = append(r.keys, n)
			}
			if row.keys > 1000 {
				r.keys = append(r.keys, strings.Repeat("x", record.MaxKeyBytes), "")
				for _, name := range r.names {
					for _, n := range r.keys {
						p := r.plan()
						r.s.Set(key(name, n), p)
						r.put(r.sinks[name], n, p, false)
					}
				}
			}
			for i := range row.steps {
				r.step()
				r.settleTurns()
				if row.every == 1 || i%20 == 0 {
					r.check(i%row.every == 0)
				}
			}
			r.check(true)
		})
	}
}
