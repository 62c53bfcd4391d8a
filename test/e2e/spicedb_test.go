package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/pawlsync/pawl/engine"
	"github.com/pawlsync/pawl/engine/record"
	"github.com/pawlsync/pawl/engine/wasmhost"
	"github.com/pawlsync/pawl/test/e2e/servers"
)

// spice is what the tests share: one server, and the plugin.
type spice struct {
	zed
	plugin *wasmhost.Plugin
}

func TestSpiceDB(t *testing.T) {
	if testing.Short() {
		t.Skip("real servers are slow to build and to start")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Minute)
	defer cancel()
	db, err := servers.StartSpiceDB(ctx, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer db.Stop()
	s := &spice{zed{db}, shippedPlugin(t, "spicedb")}
	s.post(t, "/v1/schema/write", map[string]any{"schema": schema})
	for name, test := range map[string]func(*spice, *testing.T){
		"AnObjectThroughItsLife":  (*spice).life,
		"DriftUnderEachPolicy":    (*spice).drift,
		"ListsOfRelationships":    (*spice).lists,
		"CaveatsAndExpirations":   (*spice).traits,
		"Preconditions":           (*spice).preconditions,
		"WhatSpiceDBRefuses":      (*spice).refusals,
		"ScopesHaveOneOwner":      (*spice).owners,
		"Batches":                 (*spice).batches,
		"AThousandObjects":        (*spice).thousand,
		"MoreThanOneWriteHolds":   (*spice).large,
		"DeletionUnderEachPolicy": (*spice).deletions,
		"TheNetworkBreaks":        (*spice).faults,
		"SpiceDBIsInTrouble":      (*spice).troubles,
		"WhatWasNeverAnswered":    (*spice).unanswered,
		"ThroughTheProgram":       (*spice).program,
		"Conformance":             (*spice).conformance,
	} {
		t.Run(name, func(t *testing.T) { test(s, t) })
	}
}

// often is a sink whose resources are looked at all the time.
var often = engine.SinkOptions{DriftInterval: 100 * time.Millisecond, ReportInterval: 100 * time.Millisecond, FightsPerHour: 1000}

func (s *spice) rig(t *testing.T, config string, o engine.SinkOptions) *rig {
	return start(t, connect(t, s.plugin, s.Address, s.Key, config), o)
}

func (s *spice) life(t *testing.T) {
	r := s.rig(t, `{}`, often)
	r.acked(t, "life", `{"relationships":["document:life#viewer@user:anne","document:life#editor@user:bob"]}`)
	s.expect(t, "document:life", "document:life#editor@user:bob", "document:life#viewer@user:anne")

	r.acked(t, "life", `{"relationships":["document:life#viewer@group:eng#member","document:life#editor@user:bob"]}`)
	s.expect(t, "document:life", "document:life#editor@user:bob", "document:life#viewer@group:eng#member")

	_, before := s.read(t, "document:life")
	applies := r.sink.applies.Load()
	r.seenBy(t, 5)
	if _, after := s.read(t, "document:life"); after != before || r.sink.applies.Load() != applies {
		t.Errorf("looking at what is as desired wrote: revision %s, then %s; %d applies", before, after, r.sink.applies.Load()-applies)
	}

	r.acked(t, "life", `{"relationships":[],"scope":{"resource":"document:life"}}`)
	s.expect(t, "document:life")
	r.acked(t, "life", `{"relationships":["document:life#viewer@user:*"]}`)
	s.expect(t, "document:life", "document:life#viewer@user:*")
	r.deleted(t, "life", "")
	s.expect(t, "document:life")
}

func (s *spice) drift(t *testing.T) {
	const want, other = "document:drift#viewer@user:anne", "document:drift#viewer@user:mallory"
	const payload = `{"relationships":["` + want + `"]}`
	for _, c := range []struct {
		policy record.ConflictPolicy
		after  []string
		phase  record.Phase
	}{
		{record.SourceWins, []string{want}, record.AckedPhase},
		{record.TargetWins, []string{other}, record.AckedPhase},
		{record.ReportOnly, []string{other}, record.Drifted},
	} {
		t.Run(string(c.policy), func(t *testing.T) {
			o := often
			o.Conflict = c.policy
			r := s.rig(t, `{}`, o)
			r.acked(t, "drift", payload)
			s.write(t, "TOUCH", other)
			s.write(t, "DELETE", want)
			if c.policy == record.SourceWins {
				s.becomes(t, "document:drift", want)
			}
			eventually(t, "the drift is noticed", func() bool {
				st := r.status(t, "drift")
				return st.Phase == c.phase && (c.policy == record.SourceWins || len(st.DriftPaths) == 2)
			})
			r.seenBy(t, 3)
			s.expect(t, "document:drift", c.after...)
			if c.policy != record.SourceWins {
				got := strings.Join(r.status(t, "drift").DriftPaths, "; ")
				if got != want+" is missing; "+other+" is not desired" {
					t.Errorf("the drift is told as %q", got)
				}
			}
			if c.policy == record.ReportOnly {
				if err := r.ApplyForce(t.Context(), zedKey("drift")); err != nil {
					t.Fatal(err)
				}
			} else if c.policy == record.TargetWins {
				r.put(t, "drift", `{"relationships":["`+want+`","document:drift#editor@user:anne"]}`)
				s.becomes(t, "document:drift", want, "document:drift#editor@user:anne")
			}
			if c.policy != record.TargetWins {
				s.becomes(t, "document:drift", want)
			}
			r.deleted(t, "drift", "")
			s.expect(t, "document:drift")
		})
	}
}

func (s *spice) lists(t *testing.T) {
	r := s.rig(t, `{}`, often)
	s.write(t, "TOUCH", "document:l1#viewer@user:other", "document:l2#viewer@user:banned")
	r.acked(t, "lists", `{"touch":["document:l1#viewer@user:anne","document:l2#editor@user:anne"],"delete":["document:l2#viewer@user:banned"]}`)
	s.expect(t, "document:l1", "document:l1#viewer@user:anne", "document:l1#viewer@user:other")
	s.expect(t, "document:l2", "document:l2#editor@user:anne")

	s.write(t, "DELETE", "document:l1#viewer@user:anne")
	s.write(t, "TOUCH", "document:l2#viewer@user:banned")
	s.becomes(t, "document:l1", "document:l1#viewer@user:anne", "document:l1#viewer@user:other")
	s.becomes(t, "document:l2", "document:l2#editor@user:anne")

	_, before := s.read(t, "document:l1")
	r.seenBy(t, 5)
	if _, after := s.read(t, "document:l1"); before != after {
		t.Errorf("looking at what is as desired wrote: revision %s, then %s", before, after)
	}

	// What is named no more was ours, and goes; what others put stays.
	r.acked(t, "lists", `{"touch":["document:l1#editor@user:anne"]}`)
	s.expect(t, "document:l1", "document:l1#editor@user:anne", "document:l1#viewer@user:other")
	s.expect(t, "document:l2")
	r.deleted(t, "lists", "")
	s.expect(t, "document:l1", "document:l1#viewer@user:other")
}

func (s *spice) traits(t *testing.T) {
	r := s.rig(t, `{}`, often)
	soon := time.Now().Add(2 * time.Hour).UTC().Truncate(time.Second).Format(time.RFC3339)
	const gone = "2001-01-01T00:00:00Z"
	payload := `{"relationships":[
		"document:traits#viewer@user:anne[office_hours:{\"zone\":\"utc\",\"from\":9}]",
		{"resource":"document:traits","relation":"viewer","subject":"user:bob","expires_at":"` + soon + `"},
		"document:traits#viewer@user:late[expiration:` + gone + `]"]}`
	r.acked(t, "traits", payload)
	anne := `document:traits#viewer@user:anne[office_hours:{"from":9,"zone":"utc"}]`
	bob := "document:traits#viewer@user:bob[expiration:" + soon + "]"
	s.expect(t, "document:traits", anne, bob)

	_, before := s.read(t, "document:traits")
	r.seenBy(t, 5)
	if _, after := s.read(t, "document:traits"); before != after {
		t.Errorf("equal caveats and expirations were written again: revision %s, then %s", before, after)
	}

	s.write(t, "TOUCH", "document:traits#viewer@user:anne", "document:traits#viewer@user:bob") // without either
	s.becomes(t, "document:traits", anne, bob)

	changed := strings.Replace(payload, `:9}`, `:10}`, 1)
	r.acked(t, "traits", changed)
	s.expect(t, "document:traits", strings.Replace(anne, ":9", ":10", 1), bob)
	r.deleted(t, "traits", "")
	s.expect(t, "document:traits")
}

func (s *spice) preconditions(t *testing.T) {
	r := s.rig(t, `{}`, engine.SinkOptions{MaxAttempts: 1000})
	g := r.put(t, "pre", `{"relationships":["document:pre#viewer@user:anne"],
		"preconditions":[{"must_match":{"resource_type":"document","resource_id":"pre-gate","relation":"editor"}}]}`)
	eventually(t, "the precondition is told", func() bool {
		st := r.status(t, "pre")
		return st.Reason == record.ReasonConflict && strings.Contains(st.Message, "PRECONDITION_FAILURE")
	})
	s.expect(t, "document:pre")
	s.write(t, "TOUCH", "document:pre-gate#editor@user:anne")
	if res := r.settle(t, "pre", g); !res.Done {
		t.Fatalf("%+v", res)
	}
	s.expect(t, "document:pre", "document:pre#viewer@user:anne")
}

func (s *spice) refusals(t *testing.T) {
	r := s.rig(t, `{}`, engine.SinkOptions{})
	for name, c := range map[string]struct{ payload, want string }{
		"unknown definition": {`{"relationships":["folder:refuse#viewer@user:anne"]}`, "folder"},
		"unknown relation":   {`{"relationships":["document:refuse#owner@user:anne"]}`, "owner"},
		"wrong subject":      {`{"relationships":["document:refuse#editor@group:eng"]}`, "group"},
		"a permission":       {`{"relationships":["document:refuse#view@user:anne"]}`, "view"},
		"unknown caveat":     {`{"relationships":["document:refuse#viewer@user:anne[no_such_caveat]"]}`, "no_such_caveat"},
		"context":            {`{"relationships":["document:refuse#viewer@user:anne[office_hours:{\"from\":\"hidden\"}]"]}`, "context"},
		"malformed":          {`{"relationships":["document:refuse#viewer"]}`, "relationships[0]: a relationship is written as"},
		"twice":              {`{"touch":["document:refuse#viewer@user:anne","document:refuse#viewer@user:anne[office_hours]"]}`, "comes twice"},
		"misspelt":           {`{"relationship":[]}`, `did you mean "relationships"`},
		"no scope":           {`{"relationships":[]}`, "scope"},
		"two objects":        {`{"relationships":["document:refuse#viewer@user:a1","document:else#viewer@user:a1"]}`, "not in the scope"},
	} {
		t.Run(name, func(t *testing.T) {
			res := r.settle(t, name, r.put(t, name, c.payload))
			if res.Phase != record.Failed || res.Reason != record.ReasonRejected || !strings.Contains(res.Message, c.want) || strings.Contains(res.Message, "hidden") {
				t.Errorf("%s (%s): %s", res.Phase, res.Reason, res.Message)
			}
		})
	}
	// What SpiceDB knows nothing of is not there: such resources can be deleted.
	r.deleted(t, "unknown definition", "")
	s.expect(t, "document:refuse")

	wrong := start(t, connect(t, s.plugin, s.Address, "wrong-key", `{}`), engine.SinkOptions{})
	wrong.put(t, "key", `{"relationships":["document:refuse#viewer@user:anne"]}`)
	eventually(t, "the credentials are refused", func() bool { return wrong.status(t, "key").Reason == record.ReasonUnauthorized })
}

func (s *spice) owners(t *testing.T) {
	r := s.rig(t, `{}`, often)
	r.acked(t, "first", `{"relationships":["document:owners#viewer@user:anne"]}`)
	res := r.settle(t, "second", r.put(t, "second", `{"relationships":["document:owners#editor@user:bob"],"scope":{"resource":"document:owners","relations":["editor"]}}`))
	if res.Phase != record.Failed || res.Reason != record.ReasonContended || !strings.Contains(res.Message, "first") {
		t.Errorf("a second owner: %+v", res)
	}
	s.becomes(t, "document:owners", "document:owners#viewer@user:anne")

	fine := s.rig(t, `{"prune_scope":"relation"}`, often)
	fine.acked(t, "viewers", `{"relationships":["document:shared#viewer@user:anne"],"scope":{"resource":"document:shared","relations":["viewer"]}}`)
	fine.acked(t, "editors", `{"relationships":["document:shared#editor@user:bob"],"scope":{"resource":"document:shared","relations":["editor"]}}`)
	s.expect(t, "document:shared", "document:shared#editor@user:bob", "document:shared#viewer@user:anne")
	res = fine.settle(t, "all", fine.put(t, "all", `{"relationships":["document:shared#editor@user:bob"]}`))
	if res.Phase != record.Failed || !strings.Contains(res.Message, "exactly one relation") {
		t.Errorf("a scope of another grain: %+v", res)
	}
	fine.deleted(t, "viewers", "")
	s.expect(t, "document:shared", "document:shared#editor@user:bob")
}

func (s *spice) batches(t *testing.T) {
	r, f := s.introuble(t, engine.SinkOptions{}) // counts writes, and answers none
	if err := r.SuspendSink(t.Context(), zedSink); err != nil {
		t.Fatal(err)
	}
	generations := map[string]uint64{}
	for i := range 40 {
		name := fmt.Sprintf("b%d", i)
		relation := "viewer"
		if i == 17 {
			relation = "no_such_relation"
		}
		generations[name] = r.put(t, name, fmt.Sprintf(`{"touch":["document:batch%d#%s@user:anne","document:batch%d#editor@user:bob"]}`, i, relation, i))
	}
	if err := r.ResumeSink(t.Context(), zedSink); err != nil {
		t.Fatal(err)
	}
	for name, g := range generations {
		res := r.settle(t, name, g)
		if bad := name == "b17"; res.Done == bad || bad && !strings.Contains(res.Message, "no_such_relation") {
			t.Errorf("%s: %+v", name, res)
		}
	}
	s.expect(t, "document:batch16", "document:batch16#editor@user:bob", "document:batch16#viewer@user:anne")
	s.expect(t, "document:batch17")
	// Halving 40 resources finds one in at most 12 further writes; one by one would take 40.
	calls := r.sink.batches.Load() + r.sink.applies.Load()
	if n := int64(f.seen()); r.sink.batches.Load() == 0 || n > calls+12 {
		t.Errorf("%d writes of %d calls, %d of them batches", n, calls, r.sink.batches.Load())
	}
}

func (s *spice) thousand(t *testing.T) {
	r := s.rig(t, `{}`, engine.SinkOptions{})
	const n = 1000
	generations := make([]uint64, n)
	for i := range n {
		generations[i] = r.put(t, fmt.Sprintf("k%d", i), fmt.Sprintf(`{"relationships":["document:many%d#viewer@user:u%d","document:many%d#editor@user:u%d"]}`, i, i, i, i+1))
	}
	for i, g := range generations {
		if res := r.settle(t, fmt.Sprintf("k%d", i), g); !res.Done {
			t.Fatalf("k%d: %+v", i, res)
		}
	}
	for _, i := range []int{0, 1, n / 2, n - 1} {
		s.expect(t, fmt.Sprintf("document:many%d", i), fmt.Sprintf("document:many%d#editor@user:u%d", i, i+1), fmt.Sprintf("document:many%d#viewer@user:u%d", i, i))
	}
	t.Logf("%d applies, %d batches", r.sink.applies.Load(), r.sink.batches.Load())
}

// large is one object of more rows than a write and a read hold.
func (s *spice) large(t *testing.T) {
	r := s.rig(t, `{"read_page":700}`, engine.SinkOptions{})
	list := func(from, to int) string {
		var b strings.Builder
		for i := from; i < to; i++ {
			fmt.Fprintf(&b, `,"document:large#viewer@user:u%d"`, i)
		}
		return `{"relationships":[` + b.String()[1:] + `]}`
	}
	r.acked(t, "large", list(0, 2500))
	if rows, _ := s.read(t, "document:large"); len(rows) != 2500 {
		t.Errorf("%d rows, want 2500", len(rows))
	}
	r.acked(t, "large", list(1500, 3000))
	if rows, _ := s.read(t, "document:large"); len(rows) != 1500 {
		t.Errorf("%d rows, want 1500", len(rows))
	}
	r.deleted(t, "large", "")
	s.expect(t, "document:large")
}

func (s *spice) deletions(t *testing.T) {
	r := s.rig(t, `{}`, engine.SinkOptions{})
	for _, c := range []struct {
		policy record.DeletionPolicy
		stays  bool
	}{{record.DeleteTarget, false}, {record.AckThenDelete, false}, {record.Retain, true}} {
		for form, payload := range map[string]string{
			"prune": `{"relationships":["document:del#viewer@user:anne"]}`,
			"touch": `{"touch":["document:del#viewer@user:anne"]}`,
		} {
			r.acked(t, form, payload)
			r.deleted(t, form, c.policy)
			if c.stays {
				s.expect(t, "document:del", "document:del#viewer@user:anne")
				s.write(t, "DELETE", "document:del#viewer@user:anne")
			} else {
				s.expect(t, "document:del")
			}
		}
	}
	// Somebody was quicker.
	r.acked(t, "gone", `{"relationships":["document:del#viewer@user:anne"]}`)
	s.write(t, "DELETE", "document:del#viewer@user:anne")
	r.deleted(t, "gone", "")
}
