package engine_test

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/pawlsync/pawl/engine"
	"github.com/pawlsync/pawl/engine/digest"
	"github.com/pawlsync/pawl/engine/record"
	"github.com/pawlsync/pawl/engine/sink"
)

var compareSeed = flag.Uint64("compare-seed", 0, "of the random sets of comparisons; 0: a new one")

// comparer is a fakeTarget that also compares.
type comparer struct {
	*fakeTarget

	mu       sync.Mutex
	asked    []sink.Comparison
	listMost int          // of a leaf's extras; 0: 1,000
	fail     *sink.Result // where set, the answer to every comparison
	before   func()       // where set, is called when a comparison comes in
}

func newComparer() *comparer {
	c := &comparer{fakeTarget: newTarget()}
	c.manifest.Compares = true
	c.manifest.BatchMax = 100
	return c
}

func (c *comparer) ApplyBatch(ctx context.Context, rs []*sink.Request) (results []sink.Result, whole bool) {
	for _, r := range rs {
		results = append(results, c.Apply(ctx, r))
	}
	return results, false
}

func (c *comparer) Compare(_ context.Context, q *sink.Comparison) (d sink.Difference, res sink.Result) {
	c.mu.Lock()
	c.asked = append(c.asked, *q)
	fail, before, most := c.fail, c.before, c.listMost
	c.mu.Unlock()
	if before != nil {
		before()
	}
	if fail != nil {
		return d, *fail
	}
	if most == 0 {
		most = 1000
	}
	var items []digest.Item
	names := map[digest.Hash]string{}
	c.fakeTarget.mu.Lock()
	for name, payload := range c.objects {
		k := digest.Key(name)
		items, names[k] = append(items, digest.Item{Key: k, Content: digest.Content(record.HashOf(payload))}), name
	}
	c.fakeTarget.mu.Unlock()
	tree := digest.NewTree(items)
	for _, n := range q.Nodes {
		if tree.Sum(n.Prefix) != (digest.Sum{Count: n.Count, Digest: digest.Hash(n.Digest)}) {
			d.Nodes = append(d.Nodes, n.Prefix)
		}
	}
	for _, l := range q.Leaves {
		var theirs []digest.Item
		for _, it := range l.Items {
			theirs = append(theirs, digest.Item{Key: digest.Hash(it.Key), Content: digest.Hash(it.Content)})
		}
		below := tree.Below(l.Prefix)
		if len(below) > len(theirs)+most {
			d.Nodes = append(d.Nodes, l.Prefix)
			continue
		}
		differing, extra := digest.Compare(theirs, below)
		for _, k := range differing {
			d.Items = append(d.Items, bytes.Clone(k[:]))
		}
		for _, k := range extra {
			d.Extra = append(d.Extra, names[k])
		}
	}
	return d, sink.Result{Status: sink.OK}
}

// tune sets what the next comparisons meet.
func (c *comparer) tune(set func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	set()
}

func (c *comparer) comparisons() []sink.Comparison {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.asked)
}

func (c *comparer) remove(key string) {
	c.fakeTarget.mu.Lock()
	defer c.fakeTarget.mu.Unlock()
	delete(c.objects, key)
}

func comparing(t *testing.T, tweak func(*engine.SinkOptions), test func(b *bench, c *comparer)) {
	t.Helper()
	c := newComparer()
	inBubble(t, func(o *engine.Options) {
		o.Sinks[0].Sink = c
		if tweak != nil {
			tweak(&o.Sinks[0])
		}
	}, func(b *bench) {
		b.target = c.fakeTarget
		test(b, c)
	})
}

func TestR34_WhatIsEqualIsLookedAtByOneComparison(t *testing.T) {
	comparing(t, nil, func(b *bench, c *comparer) {
		for i := range 1000 {
			b.put(fmt.Sprint(i), `1`)
		}
		b.after(time.Second)
		before := len(c.comparisons())
		b.reopen()
		b.after(time.Second)
		asked := c.comparisons()[before:]
		if len(asked) != 1 || len(asked[0].Nodes) != 1 || len(asked[0].Leaves) != 0 || asked[0].Nodes[0].Count != 1000 {
			t.Errorf("asked %+v, want the root alone, with 1000 resources", asked)
		}
		b.wantOps("7", "apply")
	})
}

func TestR34_WhatTheTargetLostOrChangedIsDeliveredAnewAndWhatItHasTooMuchIsDeleted(t *testing.T) {
	comparing(t, nil, func(b *bench, c *comparer) {
		for i := range 3000 {
			b.put(fmt.Sprint(i), `1`)
		}
		b.after(time.Second)
		c.remove("7")
		c.set("8", `changed`)
		c.set("more", `x`)
		b.reopen()
		b.after(time.Second)
		if c.get("7") != `1` || c.get("8") != `1` || c.get("more") != "" {
			t.Errorf("the target holds 7=%s 8=%s more=%s", c.get("7"), c.get("8"), c.get("more"))
		}
		b.wantOps("7", "apply", "apply")
		b.wantOps("9", "apply")
		b.want("7", "Acked")
		if b.state("more") != "gone" {
			t.Errorf("more is %s, want it gone", b.state("more"))
		}
	})
}

func TestR54_TheDeletionOfWhatNobodyKnowsIsOwedUntilItIsDone(t *testing.T) {
	comparing(t, nil, func(b *bench, c *comparer) {
		b.put("a", `1`)
		b.after(time.Second)
		c.set("more", `x`)
		c.script(func(op string, r *sink.Request) *sink.Result {
			if op == "delete" {
				return &sink.Result{Status: sink.Retry, RetryAfter: 30 * time.Second, Message: "held"}
			}
			return nil
		})
		b.reopen()
		b.after(10 * time.Second)
		b.want("more", "Pending")
		b.kill()
		b.open()
		b.after(10 * time.Second)
		b.want("more", "Pending")
		c.script(nil)
		b.after(time.Minute)
		if b.state("more") != "gone" || c.get("more") != "" {
			t.Errorf("more is %s, the target holds %q", b.state("more"), c.get("more"))
		}
	})
}

func TestR34_AComparisonDecidesAgainstTheNewestRecord(t *testing.T) {
	comparing(t, nil, func(b *bench, c *comparer) {
		b.put("changed", `1`)
		b.put("deleted", `1`)
		b.after(time.Second)
		c.remove("changed")
		c.remove("deleted")
		c.set("new", `2`) // as a Put that the comparison does not know yet leaves it
		once, opened := sync.Once{}, make(chan struct{})
		c.tune(func() {
			c.before = func() {
				once.Do(func() {
					<-opened
					b.put("changed", `2`)
					b.delete("deleted")
					b.put("new", `2`)
				})
			}
		})
		b.reopen()
		close(opened)
		b.after(time.Minute)
		if c.get("changed") != `2` || c.get("new") != `2` || c.get("deleted") != "" {
			t.Errorf("the target holds changed=%s new=%s deleted=%s", c.get("changed"), c.get("new"), c.get("deleted"))
		}
		if slices.Contains(c.ops("new"), "delete") {
			t.Errorf("calls about new: %v", c.ops("new"))
		}
		b.want("changed", "Acked")
		b.want("new", "Acked")
	})
}

func TestR25_WhatDiffersUnderReportOnlyIsReported(t *testing.T) {
	comparing(t, func(o *engine.SinkOptions) { o.Conflict = record.ReportOnly }, func(b *bench, c *comparer) {
		b.put("a", `1`)
		b.after(time.Second)
		c.set("a", `changed`)
		b.reopen()
		b.after(time.Second)
		b.want("a", "Drifted")
		if c.get("a") != `changed` {
			t.Errorf("the target holds %s", c.get("a"))
		}
	})
}

func TestR52_WhatTheSinkRetainsIsNotDeletedByAComparison(t *testing.T) {
	comparing(t, func(o *engine.SinkOptions) { o.Deletion = record.Retain }, func(b *bench, c *comparer) {
		c.set("more", `x`)
		before := len(c.comparisons())
		b.reopen()
		b.after(5 * time.Minute)
		if c.get("more") != `x` || b.state("more") != "gone" {
			t.Errorf("more is %s, the target holds %q", b.state("more"), c.get("more"))
		}
		if n := len(c.comparisons()) - before; n != 2 { // the root, and what is below it
			t.Errorf("it was compared %d times, although there is nothing to be done", n)
		}
	})
}

func TestR33_DriftIsFoundByComparisonsAtTheDriftInterval(t *testing.T) {
	comparing(t, func(o *engine.SinkOptions) { o.DriftInterval = 10 * time.Minute }, func(b *bench, c *comparer) {
		b.put("a", `1`)
		b.after(time.Second)
		c.remove("a")
		b.after(9*time.Minute - 2*time.Second)
		if c.get("a") != "" {
			t.Error("it was looked at before the interval")
		}
		b.after(3 * time.Minute)
		if c.get("a") != `1` {
			t.Error("it was not set right after the interval")
		}
		b.wantOps("a", "apply", "apply")
	})
}

func TestAComparisonThatFailsIsTriedAgainWithPauses(t *testing.T) {
	comparing(t, func(o *engine.SinkOptions) { o.DriftInterval = -1 }, func(b *bench, c *comparer) {
		b.put("a", `1`)
		b.after(time.Second)
		c.tune(func() { c.fail = &sink.Result{Status: sink.Unreachable, Message: "away"} })
		c.remove("a")
		before := len(c.comparisons())
		b.reopen()
		b.after(time.Hour)
		if n := len(c.comparisons()) - before; n < 50 || n > 70 {
			t.Errorf("it was tried %d times within an hour, want about one a minute", n)
		}
		b.want("a", "Acked")
		c.tune(func() { c.fail = nil })
		b.after(time.Minute)
		if c.get("a") != `1` {
			t.Error("it was not set right once the target answered")
		}
	})
}

func TestASuspendedSinkIsComparedWhenItGoesOn(t *testing.T) {
	comparing(t, func(o *engine.SinkOptions) { o.DriftInterval = -1 }, func(b *bench, c *comparer) {
		b.put("a", `1`)
		b.after(time.Second)
		b.must(b.SuspendSink(b.t.Context(), "web"))
		c.remove("a")
		before := len(c.comparisons())
		b.reopen()
		b.after(time.Hour)
		if n := len(c.comparisons()) - before; n != 0 {
			t.Errorf("a suspended sink was compared %d times", n)
		}
		b.must(b.ResumeSink(b.t.Context(), "web"))
		b.after(time.Second)
		if c.get("a") != `1` {
			t.Error("it was not set right when the sink went on")
		}
	})
}

// After a restore the comparison is the look that R67 wants of every resource.
func TestR67_AComparisonIsTheLookAfterARestore(t *testing.T) {
	comparing(t, nil, func(b *bench, c *comparer) {
		b.put("same", `1`)
		b.put("lost", `1`)
		b.after(time.Second)
		c.remove("lost")
		b.must(b.Close(b.t.Context()))
		b.disk.SetEpoch("after-restore", true)
		b.open()
		b.must(b.ResumeSink(b.t.Context(), "web"))
		b.after(time.Second)
		if c.get("lost") != `1` {
			t.Error("what the target lost was not delivered anew")
		}
		b.wantOps("same", "apply")
		if asked := c.comparisons(); asked[len(asked)-1].Epoch != "after-restore" {
			t.Errorf("the comparison speaks for epoch %q", asked[len(asked)-1].Epoch)
		}
		b.put("same", `2`)
		b.after(time.Second)
		b.wantOps("same", "apply", "apply") // nothing about it is unsure any more
	})
}

// Whatever a target lost, changed or has too much: after a start it is as desired, and
// what was equal got no call.
func TestAComparisonSetsRightExactlyWhatDiffers(t *testing.T) {
	seed := *compareSeed
	if seed == 0 {
		seed = rand.Uint64()
	}
	t.Logf("-compare-seed %d", seed)
	r := rand.New(rand.NewPCG(seed, seed))
	for range 12 {
		comparing(t, nil, func(b *bench, c *comparer) {
			most := 1 + r.IntN(100)
			c.tune(func() { c.listMost = most })
			n := r.IntN(2000)
			var puts []engine.Put
			for i := range n {
				puts = append(puts, engine.Put{Key: web(fmt.Sprint("k", i)), Payload: fmt.Append(nil, i)})
			}
			if _, err := b.PutBatch(b.t.Context(), puts); err != nil {
				t.Fatal(err)
			}
			b.after(time.Second)
			touched := map[string]bool{}
			for range r.IntN(30) {
				switch key := fmt.Sprint("k", r.IntN(n+1)); r.IntN(3) {
				case 0:
					c.remove(key)
					touched[key] = true
				case 1:
					c.set(key, "other")
					touched[key] = true
				}
			}
			for i := range r.IntN(600) {
				c.set(fmt.Sprint("more", i), "x")
			}
			b.reopen()
			b.after(5 * time.Minute)
			c.fakeTarget.mu.Lock()
			defer c.fakeTarget.mu.Unlock()
			if len(c.objects) != n {
				t.Errorf("the target holds %d objects, want %d", len(c.objects), n)
			}
			calls := map[string]int{}
			for _, call := range c.calls {
				calls[call.key]++
			}
			for i := range n {
				key := fmt.Sprint("k", i)
				if string(c.objects[key]) != fmt.Sprint(i) {
					t.Errorf("%s is %q", key, c.objects[key])
				}
				if calls[key] != 1 && !touched[key] {
					t.Errorf("%s got %d calls, and nothing was wrong with it", key, calls[key])
				}
			}
		})
	}
}

func TestATargetThatAnswersWhatItWasNotAskedIsAtFault(t *testing.T) {
	comparing(t, nil, func(b *bench, c *comparer) {
		b.put("a", `1`)
		b.after(time.Second)
		b.must(b.Close(b.t.Context()))
		b.opts.Sinks[0].Sink = liar{c}
		b.open()
		b.after(time.Minute)
		b.want("a", "Acked")
		b.wantOps("a", "apply")
	})
}

// liar answers about nodes that it was not asked about.
type liar struct{ *comparer }

func (l liar) Compare(context.Context, *sink.Comparison) (sink.Difference, sink.Result) {
	return sink.Difference{Nodes: [][]byte{{1, 2, 3}}}, sink.Result{Status: sink.OK}
}
