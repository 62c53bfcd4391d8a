package conformance

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/pawlsync/pawl/engine/sink"
)

// batchChecks are for adapters that claim apply_batch.
var batchChecks = []Check{
	{
		ID:    "batch",
		Wants: "A batch applies each of its requests, and answers with a result for each, in their order.",
		Fix:   "Return one item for every request, in the same order.",
		Run:   batch,
	},
	{
		ID:    "batch-item",
		Wants: "What is wrong with one request of a batch spoils no other: its own result says so, or one answer for the whole batch, which the engine then tries in halves.",
		Fix:   "Judge each item by the target's answer for it. Where the target answers for the batch only, return an error for the whole.",
		Run:   batchItem,
	},
}

// batchOf prepares as many things as a batch may have, five at most.
func (t *T) batchOf() ([]*thing, []*sink.Request) {
	m := t.sink.Manifest()
	if m.BatchMax < 2 {
		t.Skipf("the manifest does not claim apply_batch")
	}
	p := t.fixture.Payloads
	var things []*thing
	var rs []*sink.Request
	for i := range min(5, m.BatchMax) {
		o := t.thing()
		things = append(things, o)
		rs = append(rs, o.want(o.content([][]byte{p.Create, p.Update}[i%2])))
	}
	return things, rs
}

func batch(t *T) {
	things, rs := t.batchOf()
	results, whole := t.sink.ApplyBatch(t.ctx, rs)
	for i, res := range results {
		if res.Status != sink.OK {
			t.Failf("result %d (whole batch: %t) is %s", i, whole, describe(res))
		}
	}
	if whole {
		t.Failf("a batch of which every request succeeds got one answer for the whole; the engine can't keep what each observed")
	}
	for i, o := range things {
		o.ack(rs[i], results[i].Observation)
		if !t.sink.Manifest().Observes {
			continue
		}
		rs[i].Acked = o.acked
		res := t.sink.Observe(t.ctx, rs[i])
		if !t.matches(rs[i], res) {
			t.Failf("after the batch, Observe of its item %d does not match: %s", i, describe(res))
		}
		if what := identityOf(results[i]).differs(identityOf(res)); what != "" {
			t.Failf("result %d of the batch speaks of another object than its request: %s", i, what)
		}
	}
}

func batchItem(t *T) {
	things, rs := t.batchOf()
	const bad = 1
	f := status(422, `{"error":"not this one"}`, "Content-Type", "application/json")
	key := things[bad].n
	f.only = func(r *http.Request) bool { return strings.Contains(r.URL.Path, key) }
	t.gate.set(f)
	results, whole := t.sink.ApplyBatch(t.ctx, rs)
	t.gate.set(nil)
	if !strings.Contains(fmt.Sprint(t.gate.last(maxKept)), key) {
		t.Skipf("the adapter sends a batch in one request that does not show its keys, so that the kit can't break one item")
	}
	if whole {
		if results[0].Status == sink.OK {
			t.Failf("the target refused one request of the batch, and the whole was answered with %s", describe(results[0]))
		}
		return
	}
	for i, res := range results {
		switch {
		case i == bad && res.Status == sink.OK:
			t.Failf("the target refused request %d of the batch, and its result is %s", i, describe(res))
		case i != bad && res.Status != sink.OK:
			t.Failf("the target refused request %d of the batch only, and result %d is %s", bad, i, describe(res))
		}
	}
}
