package relay

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawlsync/pawl/engine"
	"github.com/pawlsync/pawl/engine/record"
	"github.com/pawlsync/pawl/engine/sink"
	"github.com/pawlsync/pawl/internal/relay/wire"
	"github.com/pawlsync/pawl/internal/source"
)

func TestWhatASenderPutsIsItsOwnAndOrderedByItsNumbers(t *testing.T) {
	receiving(t, nil, func(p *principal) {
		a := p.agent("e1")
		want(t, "put", a.put("web/a", `1`, 10), "done")
		want(t, "an older one", a.put("web/a", `0`, 9), "obsolete")
		want(t, "the same again", a.put("web/a", `1`, 10), "done")
		want(t, "a newer one", a.put("web/a", `2`, 11), "done")
		r, err := p.engine.Get(p.t.Context(), record.Key{Sink: "web", Name: "a"})
		if err != nil || string(r.Desired.Payload) != `2` || r.Desired.Owner != "edge-1" || r.Desired.Order != (record.Order{Source: "edge-1/up", Epoch: "e1", Number: 11}) {
			t.Errorf("%v, %+v", err, r.Desired)
		}
		if p.told.items["edge-1 done"] != 3 || p.told.items["edge-1 obsolete"] != 1 {
			t.Errorf("told %v", p.told.items)
		}
	})
}

// What somebody changed at the receiver in the sender's name, or what the sender now
// wants under other policies, is set right by the number that it has already.
func TestDriftAtTheReceiverIsCorrectedUnderTheSameNumber(t *testing.T) {
	receiving(t, nil, func(p *principal) {
		a := p.agent("e1")
		key := record.Key{Sink: "web", Name: "a"}
		a.put("web/a", `1`, 10)
		if _, err := p.engine.Put(p.t.Context(), engine.Put{Key: key, Payload: []byte(`other`), Owner: "edge-1"}); err != nil {
			t.Fatal(err)
		}
		want(t, "changed", a.put("web/a", `1`, 10), "done")
		want(t, "a", p.state("web", "a"), `1`)
		if _, err := p.engine.Delete(p.t.Context(), engine.Delete{Key: key, Owner: "edge-1"}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		want(t, "deleted", a.put("web/a", `1`, 10), "done")
		a.hello.Deletion = "retain"
		want(t, "another policy", a.put("web/a", `1`, 10), "done")
		want(t, "a look", a.look("web/a", `1`), "done")
		want(t, "an older number", a.put("web/a", `0`, 9), "obsolete")
	})
}

func TestR08_ALateDuplicateOfADeletedResourceIsObsolete(t *testing.T) {
	receiving(t, nil, func(p *principal) {
		a := p.agent("e1")
		want(t, "put", a.put("web/a", `1`, 10), "done")
		want(t, "delete", a.delete("web/a", 11), "done")
		synctest.Wait()
		want(t, "state", p.state("web", "a"), "none")
		want(t, "the late put", a.put("web/a", `1`, 10), "obsolete")
		want(t, "the delete again", a.delete("web/a", 11), "done")
		want(t, "a newer put", a.put("web/a", `2`, 12), "done")
	})
}

func TestOnlyDeclaredSendersAreTakenFrom(t *testing.T) {
	receiving(t, nil, func(p *principal) {
		h := wire.Hello{Sender: "stranger", Epoch: "e1"}
		for what, answer := range map[string]error{
			"items":      errorOf(p.Receive(p.t.Context(), encodeHello(&h))),
			"comparison": errorOf(p.Compare(p.t.Context(), append(encodeHello(&h), 0))),
		} {
			if !errors.Is(answer, source.ErrUndeclared) || !strings.Contains(answer.Error(), "stranger") {
				t.Errorf("%s: %v", what, answer)
			}
		}
	})
}

func errorOf(_ []byte, err error) error { return err }

func TestASenderMayBeBoundToSinks(t *testing.T) {
	receiving(t, func(p *principal) { p.sinks = []string{"web"} }, func(p *principal) {
		a := p.agent("e1")
		got := a.ask(wire.Item{Kind: wire.Put, Key: "web/a", Number: 1}, wire.Item{Kind: wire.Put, Key: "db/a", Number: 2}, wire.Item{Kind: wire.Put, Key: "nowhere", Number: 3})
		if !slices.Equal(got, []string{"done", "later", "later"}) {
			t.Errorf("%v", got)
		}
	})
}

func TestEachItemHasItsOwnAnswer(t *testing.T) {
	receiving(t, nil, func(p *principal) {
		if _, err := p.engine.Put(p.t.Context(), engine.Put{Key: record.Key{Sink: "web", Name: "theirs"}, Payload: []byte(`1`), Owner: "files"}); err != nil {
			t.Fatal(err)
		}
		a := p.agent("e1")
		got := a.ask(
			wire.Item{Kind: wire.Put, Key: "web/a", Number: 1, Payload: []byte(`1`)},
			wire.Item{Kind: wire.Put, Key: "web/theirs", Number: 2},
			wire.Item{Kind: wire.Put, Key: "web/large", Number: 3, Payload: make([]byte, 600<<10)},
			wire.Item{Kind: wire.Put, Key: "nosuch/a", Number: 4},
			wire.Item{Kind: wire.Delete, Key: "web/theirs", Number: 5},
			wire.Item{Kind: wire.Delete, Key: "web/missing", Number: 6},
			wire.Item{Kind: wire.Put, Key: "web/b", Number: 7, Payload: []byte(`2`)},
		)
		if !slices.Equal(got, []string{"done", "later", "refused", "later", "done", "done", "done"}) {
			t.Errorf("%v", got)
		}
		want(t, "theirs", p.state("web", "theirs"), `1`)
		want(t, "b", p.state("web", "b"), `2`)
	})
}

func TestOfOneKeyInARequestTheItemsTakeEffectInTheirOrder(t *testing.T) {
	receiving(t, nil, func(p *principal) {
		a := p.agent("e1")
		a.ask(wire.Item{Kind: wire.Put, Key: "web/a", Number: 1, Payload: []byte(`1`)},
			wire.Item{Kind: wire.Delete, Key: "web/a", Number: 2},
			wire.Item{Kind: wire.Put, Key: "web/a", Number: 3, Payload: []byte(`3`)})
		want(t, "a", p.state("web", "a"), `3`)
	})
}

func TestANewLifeEndsTheOldOneForGood(t *testing.T) {
	receiving(t, nil, func(p *principal) {
		old, next := p.agent("e1"), p.agent("e2")
		want(t, "old", old.put("web/a", `1`, 100), "done")
		want(t, "new, with a lower number", next.put("web/a", `2`, 1), "done")
		want(t, "late, of the old life", old.put("web/a", `1`, 101), "state 3")
		want(t, "late delete", old.delete("web/a", 102), "state 3")
		p.reopen()
		want(t, "after a restart", p.agent("e1").put("web/a", `1`, 103), "state 3")
		want(t, "the present one", p.agent("e2").put("web/a", `3`, 2), "done")
		want(t, "a", p.state("web", "a"), `3`)
	})
}

// A request that was on its way when its process died must not begin that life again,
// nor put an end to the present one.
func TestOnlyWhoIsAliveCanBeginALife(t *testing.T) {
	receiving(t, nil, func(p *principal) {
		dead, alive := p.agent("e1"), p.agent("e2")
		want(t, "alive", alive.put("web/a", `2`, 1), "done")
		body := encodeItem(&wire.Item{Kind: wire.Put, Key: "web/a", Number: 9, Payload: []byte(`1`)})
		state, ticket, _ := dead.once(&dead.hello, p.Receive, body)
		if state != wire.Begin || ticket == "" {
			t.Errorf("state %d, ticket %q", state, ticket)
		}
		state, again, _ := dead.once(&wire.Hello{Sender: "edge-1", Epoch: "e1", Ticket: "guessed"}, p.Receive, body)
		if state != wire.Begin || again != ticket {
			t.Errorf("with a wrong ticket: state %d, ticket %q, want the first one", state, again)
		}
		want(t, "a", p.state("web", "a"), `2`)
		want(t, "the present life goes on", alive.put("web/a", `3`, 2), "done")
	})
}

func TestALifeDoesNotBeginWhileTheOldOneChangesSomething(t *testing.T) {
	receiving(t, nil, func(p *principal) {
		want(t, "old", p.agent("e1").put("web/a", `1`, 1), "done")
		_, leave, err := p.enter(&wire.Hello{Sender: "edge-1", Epoch: "e1"})
		if err != nil {
			t.Fatal(err)
		}
		l := p.life("edge-1")
		if l.mu.TryLock() {
			t.Error("the new life could begin while a request of the old one is within")
		}
		leave()
		if !l.mu.TryLock() {
			t.Fatal("nothing is within, and the new life can't begin")
		}
		l.mu.Unlock()
		want(t, "new", p.agent("e2").put("web/a", `2`, 1), "done")
	})
}

func TestTheFuseHoldsASendersDeletions(t *testing.T) {
	receiving(t, func(p *principal) { p.fuse = source.FuseOptions{Window: time.Hour, Share: 0.2, AtLeast: 2} }, func(p *principal) {
		a := p.agent("e1")
		for i := range 10 {
			a.put(fmt.Sprint("web/", i), `1`, uint64(i+1))
		}
		got := a.ask(wire.Item{Kind: wire.Delete, Key: "web/0", Number: 20}, wire.Item{Kind: wire.Delete, Key: "web/1", Number: 21}, wire.Item{Kind: wire.Delete, Key: "web/2", Number: 22})
		if !slices.Equal(got, []string{"done", "done", "held"}) {
			t.Errorf("%v", got)
		}
		want(t, "what is held stays", p.state("web", "2"), `1`)
		want(t, "put again", a.put("web/2", `2`, 23), "done")
	})
}

func TestALookTellsWhatTheReceiverHolds(t *testing.T) {
	receiving(t, nil, func(p *principal) {
		if _, err := p.engine.Put(p.t.Context(), engine.Put{Key: record.Key{Sink: "web", Name: "theirs"}, Payload: []byte(`1`)}); err != nil {
			t.Fatal(err)
		}
		a := p.agent("e1")
		a.put("web/a", `1`, 1)
		want(t, "equal", a.look("web/a", `1`), "done")
		want(t, "other", a.look("web/a", `2`), "differs")
		want(t, "none", a.look("web/none", `1`), "missing")
		want(t, "somebody else's", a.look("web/theirs", `1`), "missing")
		a.hello.Conflict = "report-only"
		want(t, "another policy", a.look("web/a", `1`), "differs")
		a.delete("web/a", 2)
		want(t, "deleted", a.look("web/a", `1`), "missing")
	})
}

func TestAKeyIsMappedToSinkAndPrefix(t *testing.T) {
	receiving(t, nil, func(p *principal) {
		a := p.agent("e1")
		a.hello.Sink, a.hello.Prefix = "db", "edge-1/"
		a.put("x/y", `1`, 1)
		want(t, "there", p.state("db", "edge-1/x/y"), `1`)
		if differing, extra := a.compare(map[string]string{}); differing != 0 || !slices.Equal(extra, []string{"x/y"}) {
			t.Errorf("%d differ, extra %v", differing, extra)
		}
		b := p.agent("e1")
		b.hello.Prefix = "p/"
		b.put("web/a", `1`, 2)
		want(t, "with a prefix", p.state("web", "p/a"), `1`)
		if differing, extra := b.compare(map[string]string{"web/a": `1`}); differing != 0 || len(extra) != 0 {
			t.Errorf("%d differ, extra %v", differing, extra)
		}
	})
}

func TestProcessedIsWhatTheReceiversOwnSinkAcknowledged(t *testing.T) {
	receiving(t, nil, func(p *principal) {
		p.web.latency = 100 * time.Millisecond
		a := p.agent("e1")
		a.hello.Ack, a.hello.Millis = wire.Processed, 500
		began := time.Now()
		want(t, "put", a.put("web/a", `1`, 1), "done")
		if took := time.Since(began); took != 100*time.Millisecond || p.web.get("a") != `1` {
			t.Errorf("answered after %v, the target holds %q", took, p.web.get("a"))
		}
		want(t, "delete", a.delete("web/a", 2), "done")
		want(t, "a", p.state("web", "a"), "none")
	})
}

func TestASlowOrRefusedResourceKeepsNoOtherWaiting(t *testing.T) {
	receiving(t, nil, func(p *principal) {
		p.web.answer = func(key string) *sink.Result {
			switch key {
			case "slow":
				return &sink.Result{Status: sink.Retry, RetryAfter: time.Hour}
			case "poisoned":
				return &sink.Result{Status: sink.Rejected, Message: "not like this"}
			}
			return nil
		}
		items := []wire.Item{{Kind: wire.Put, Key: "web/slow", Number: 1}, {Kind: wire.Put, Key: "web/poisoned", Number: 2}, {Kind: wire.Put, Key: "web/good", Number: 3}}
		a := p.agent("e1")
		if got := a.ask(items...); !slices.Equal(got, []string{"done", "done", "done"}) {
			t.Errorf("persisted: %v", got)
		}
		a.hello.Ack, a.hello.Millis = wire.Processed, 500
		began := time.Now()
		if got := a.ask(items...); !slices.Equal(got, []string{"waiting", "failing", "done"}) {
			t.Errorf("processed: %v", got)
		}
		if took := time.Since(began); took != 500*time.Millisecond {
			t.Errorf("answered after %v", took)
		}
		want(t, "a look", a.look("web/slow", ``), "waiting")
	})
}

func TestAComparisonFindsWhatDiffersAndChangesNothing(t *testing.T) {
	receiving(t, nil, func(p *principal) {
		a := p.agent("e1")
		holds := map[string]string{}
		for i := range 100 {
			key := fmt.Sprint("web/", i)
			holds[key] = fmt.Sprint(i)
			a.put(key, holds[key], uint64(i+1))
		}
		if differing, extra := a.compare(holds); differing+len(extra) != 0 {
			t.Errorf("%d differ, extra %v", differing, extra)
		}
		holds["web/7"], holds["web/new"] = "other", "1"
		delete(holds, "web/8")
		if differing, extra := a.compare(holds); differing != 2 || !slices.Equal(extra, []string{"web/8"}) {
			t.Errorf("%d differ, extra %v", differing, extra)
		}
		want(t, "7", p.state("web", "7"), `7`)
		a.hello.From = "another sink"
		if _, extra := a.compare(map[string]string{}); len(extra) != 0 {
			t.Errorf("another sink of the sender is told of %v", extra)
		}
		a.hello.From, a.hello.Deletion = "up", "retain"
		if differing, _ := a.compare(holds); differing != len(holds) {
			t.Errorf("%d of %d differ where the policy does", differing, len(holds))
		}
	})
}

func TestALeafThatHoldsTooMuchIsDivided(t *testing.T) {
	receiving(t, nil, func(p *principal) {
		a := p.agent("e1")
		var items []wire.Item
		for i := range listMost + 1 {
			items = append(items, wire.Item{Kind: wire.Put, Key: fmt.Sprint("web/", i), Number: uint64(i + 1)})
		}
		a.ask(items...)
		nodes, _, extra := a.difference(encodeLeaf(nil, nil))
		if len(nodes) != 1 || len(nodes[0]) != 0 || len(extra) != 0 {
			t.Errorf("nodes %x, %d extra; want the root to be asked about further", nodes, len(extra))
		}
		a.delete("web/0", 5000)
		if _, _, extra := a.difference(encodeLeaf(nil, nil)); len(extra) != listMost {
			t.Errorf("%d extra, want %d", len(extra), listMost)
		}
	})
}

// What is below is answered as it was when the root was asked about, and no longer
// than for a while.
func TestOneComparisonSeesOneState(t *testing.T) {
	receiving(t, nil, func(p *principal) {
		a := p.agent("e1")
		a.put("web/a", `1`, 1)
		a.compare(map[string]string{"web/a": `1`})
		a.put("web/b", `1`, 2)
		below := []byte{digestByte("web/b")}
		if _, _, extra := a.difference(encodeLeaf(below, nil)); slices.Contains(extra, "web/b") {
			t.Error("a comparison under way sees what came since")
		}
		time.Sleep(2 * snapshotLife)
		if _, _, extra := a.difference(encodeLeaf(below, nil)); !slices.Contains(extra, "web/b") {
			t.Error("what came since is never seen")
		}
	})
}

func TestMalformedRequestsAreErrorsAndChangeNothing(t *testing.T) {
	receiving(t, nil, func(p *principal) {
		a := p.agent("e1")
		a.put("web/a", `1`, 1)
		hello := encodeHello(&a.hello)
		put := encodeItem(&wire.Item{Kind: wire.Put, Key: "web/b", Number: 2, Payload: []byte(`1`)})
		for what, request := range map[string][]byte{
			"nothing": {}, "no sender": encodeHello(&wire.Hello{Epoch: "e"}), "no epoch": encodeHello(&wire.Hello{Sender: "edge-1"}),
			"a policy that does not exist": encodeHello(&wire.Hello{Sender: "edge-1", Epoch: "e1", Conflict: "mine"}),
			"a cut item after a whole one": append(append(slices.Clone(hello), put...), put[:len(put)-1]...),
			"an item of no kind":           append(slices.Clone(hello), 0),
		} {
			if _, err := p.Receive(p.t.Context(), request); !errors.Is(err, ErrMalformed) {
				t.Errorf("%s: %v", what, err)
			}
		}
		if _, err := p.Look(p.t.Context(), append(slices.Clone(hello), put...)); !errors.Is(err, ErrMalformed) {
			t.Errorf("a put among looks: %v", err)
		}
		want(t, "b", p.state("web", "b"), "none")
		for what, comparison := range map[string][]byte{
			"a short digest":    field(nil, 1, field(nil, 3, "x")),
			"a cut leaf":        encodeLeaf(nil, []byte("x")),
			"an item elsewhere": encodeLeaf([]byte{1}, append([]byte{2}, make([]byte, 31)...)),
			"no order":          encodeLeaf(nil, make([]byte, 64)),
		} {
			if _, err := p.Compare(p.t.Context(), append(slices.Clone(hello), wire.Append(nil, comparison)...)); !errors.Is(err, ErrMalformed) {
				t.Errorf("%s: %v", what, err)
			}
		}
	})
}
