package conformance

import (
	"context"
	"fmt"
	"sync"

	"github.com/pawlsync/pawl/engine/record"
	"github.com/pawlsync/pawl/engine/sink"
)

// callChecks are about calls that come again, side by side, or end early.
var callChecks = []Check{
	{
		ID:    "replay",
		Wants: "An Apply whose answer was lost is sent again with the same idempotency key: it ends OK, and there is still one object. Observe between the two does not deny that the attempt landed.",
		Fix:   "Let Apply find what the first try made, by the resource's key. If the target knows idempotency keys, pass on the request's: it is the same for all tries of one generation.",
		Run:   replay,
	},
	{
		ID:    "two-keys",
		Wants: "Two resources are two objects, however alike their keys: changing or deleting one leaves the other as it is.",
		Fix:   "Use the whole key, and escape it rather than replacing or cutting anything. If two keys must share an object, report its identity as object.",
		Run:   twoKeys,
	},
	{
		ID:    "concurrent",
		Wants: "Many calls are in flight in one instance; none gets the content of another.",
		Fix:   "Keep a call's state in the call: no variable of the package or of the adapter is written while a call waits for the target.",
		Run:   concurrent,
	},
	{
		ID:    "cancel",
		Wants: "A call that the host cancels in the middle ends at once, harms no other, and the next call of the same key works.",
		Fix:   "Return when the context ends, or the request does; keep no lock over a request to the target.",
		Run:   cancelled,
	},
	{
		ID:    "memory-flat",
		Wants: "Calls leave nothing behind: the instance's memory stops growing.",
		Fix:   "Look for maps and slices that only grow. What must be remembered of a resource belongs in adapter_state, at the engine.",
		Run:   memoryFlat,
	},
}

func replay(t *T) {
	p := t.fixture.Payloads
	m := t.sink.Manifest()
	o := t.thing()
	o.apply(p.Create)
	f := resetAfter()
	f.only = t.gate.isWrite
	t.gate.set(f)
	r := o.want(o.content(p.Update))
	t.sink.Apply(t.ctx, r)
	t.gate.set(nil)
	before := t.snapshot()
	r.Attempted = []record.Attempt{{Generation: r.Generation, Hash: r.Hash, Payload: r.Payload}}
	if m.Observes {
		newer := *o.generation()
		newer.Payload, newer.Hash = o.content(p.Create), record.HashOf(o.content(p.Create))
		newer.Acked, newer.Attempted = o.acked, r.Attempted
		newer.Conflict = record.ReportOnly // then payloads of attempts are kept
		res := t.sink.Observe(t.ctx, &newer)
		if seen := res.Observation; seen == nil || seen.MatchAttempted == sink.No {
			t.Failf("the attempt landed, and Observe, told of it, answered %s", describe(res))
		}
	}
	res := t.sink.Apply(t.ctx, r)
	if res.Status != sink.OK {
		t.Failf("sent again, Apply answered %s", describe(res))
	}
	o.ack(r, res.Observation)
	if t.store != nil && !holdsSame(before, t.snapshot()) {
		t.Failf("sent again, Apply left %d objects instead of %d, or other contents", len(t.snapshot()), len(before))
	}
	if m.Observes {
		o.mustMatch(p.Update, "after the second try")
	}
}

func twoKeys(t *T) {
	p := t.fixture.Payloads
	a := t.thing()
	others := []*thing{
		t.named(a.key+"0", a.n+"0"), t.named(a.key+"-", a.n+"-"), t.named(a.key[:len(a.key)-1], a.n[:len(a.n)-1]),
	}
	before := t.snapshot()
	_, first := a.apply(p.Create)
	one := len(t.snapshot()) - len(before)
	shared := false
	for _, o := range others {
		_, res := o.apply(p.Update)
		x, y := first.Observation, res.Observation
		shared = shared || x != nil && y != nil && x.Object != "" && x.Object == y.Object
	}
	if shared {
		t.Skipf("the adapter reports that these keys share an object; the engine refuses the second one")
	}
	all := append([]*thing{a}, others...)
	if n := len(t.snapshot()) - len(before); t.store != nil && n != one*len(all) {
		t.Failf("one resource made %d objects, and %d resources make %d: some keys share one", one, len(all), n)
	}
	content := func(o *thing) []byte {
		if o == a {
			return p.Create
		}
		return p.Update
	}
	verify := func(when string) {
		for _, o := range all {
			if t.sink.Manifest().Observes {
				o.mustMatch(content(o), fmt.Sprintf("of the key %q, %s", o.key, when))
			}
		}
	}
	verify("when a similar key has another content")
	if t.sink.Manifest().Deletes {
		others[0].delete()
		all = append(all[:1:1], others[1:]...)
		verify(fmt.Sprintf("when %q was deleted", others[0].key))
	}
}

// manyCalls is how many calls are in flight at once.
const manyCalls = 64

func concurrent(t *T) {
	p := t.fixture.Payloads
	m := t.sink.Manifest()
	things := make([]*thing, manyCalls)
	content := make([][]byte, manyCalls)
	for i := range things {
		things[i] = t.thing()
		content[i] = [][]byte{p.Create, p.Update}[i%2]
	}
	var wg sync.WaitGroup
	ends := make([]*end, manyCalls)
	for i, o := range things {
		wg.Go(func() {
			ends[i] = t.do(func(*T) {
				o.apply(content[i])
				if m.Observes {
					o.mustMatch(content[i], fmt.Sprintf("of the key %q, after an Apply among %d others", o.key, manyCalls-1))
				}
			})
		})
	}
	wg.Wait()
	for _, e := range ends {
		if e != nil {
			panic(e)
		}
	}
	if !m.Observes {
		return
	}
	for i, o := range things {
		o.mustMatch(content[i], fmt.Sprintf("of the key %q, when all %d calls are done", o.key, manyCalls))
	}
}

func cancelled(t *T) {
	p := t.fixture.Payloads
	m := t.sink.Manifest()
	victim, neighbour := t.thing(), t.thing()
	victim.apply(p.Create)
	neighbour.apply(p.Create)
	h := newHold()
	defer h.release()
	t.gate.set(h.fault())
	ctx, cancel := context.WithCancel(t.ctx)
	defer cancel()
	done := make(chan sink.Result, 1)
	go func() { done <- t.sink.Apply(ctx, victim.want(victim.content(p.Update))) }()
	select {
	case res := <-done:
		t.Failf("Apply of another content ended before the target answered anything: %s", describe(res))
	case <-h.arrived:
	}
	cancel()
	if res := <-done; res.Status != sink.Unreachable {
		t.Failf("cancelled while the target held its request, Apply answered %s", describe(res))
	}
	t.gate.set(nil)
	h.release()
	for _, o := range []*thing{neighbour, victim} {
		o.apply(p.Update)
		if m.Observes {
			o.mustMatch(p.Update, fmt.Sprintf("of the key %q, after a call was cancelled", o.key))
		}
	}
}

// The check of memory makes rounds of calls, until the memory has not grown for
// some of them in a row.
const (
	memoryRounds = 12
	flatRounds   = 3
	roundWorkers = 8
)

func memoryFlat(t *T) {
	p := t.fixture.Payloads
	things := make([]*thing, roundWorkers)
	for i := range things {
		things[i] = t.thing()
	}
	var grown []string
	last, flat := int64(0), 0
	for round := 0; round < memoryRounds && flat < flatRounds; round++ {
		var wg sync.WaitGroup
		ends := make([]*end, roundWorkers)
		for i, o := range things {
			wg.Go(func() {
				ends[i] = t.do(func(t *T) {
					for n := range max(1, t.kit.options.Calls/roundWorkers) {
						o.apply([][]byte{p.Create, p.Update}[n%2])
					}
				})
			})
		}
		wg.Wait()
		for _, e := range ends {
			if e != nil {
				panic(e)
			}
		}
		now := t.sink.Stats().MemoryBytes
		if t.sink.Stats().Recycled > 0 {
			t.Failf("within %d calls the host had to replace the instance, because its memory grew too much", (round+1)*t.kit.options.Calls)
		}
		if flat++; now > last {
			flat = 0
		}
		grown = append(grown, fmt.Sprintf("%.1f", float64(now)/(1<<20)))
		last = now
	}
	if flat < flatRounds {
		t.Failf("rounds of %d calls left the instance with these MiB of memory: %v", t.kit.options.Calls, grown)
	}
}
