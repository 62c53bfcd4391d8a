package conformance

import (
	"cmp"

	"github.com/pawlsync/pawl/engine/sink"
)

// comparisonChecks are about what Observe says of desired, acked and observed.
var comparisonChecks = []Check{
	{
		ID:    "no-op",
		Wants: "After an acknowledged Apply, Observe says match_desired yes (or gives an as_found hash that is comparable); else the engine would apply again and again.",
		Fix:   "Set match_desired by comparing the payload with what the target holds, at the fields that the adapter owns.",
		Run: func(t *T) {
			t.needsObserve()
			o := t.thing()
			o.apply(t.fixture.Payloads.Create)
			o.mustMatch(t.fixture.Payloads.Create, "right after the ack")
			r := o.want(o.content(t.fixture.Payloads.Create))
			r.Acked = nil // as after a restart that lost the ack
			res := t.sink.Observe(t.ctx, r)
			if seen := res.Observation; seen == nil || !seen.Exists || seen.MatchDesired == sink.No {
				t.Failf("without what was acked, which may be lost, Observe denies that the target matches: %s", describe(res))
			}
		},
	},
	{
		ID:    "source-changed",
		Wants: "While the target holds what was acked and something newer is desired, Observe does not match desired, and does not deny that it matches what was acked.",
		Fix:   "Compare with what the ack kept (as_found, adapter_state), not with the payload alone: by match_acked the engine tells a change of the source from one of the target.",
		Run:   sourceChanged,
	},
	{
		ID:    "drift",
		Wants: "When somebody else changes the object, Observe says so: it matches neither what is desired nor what was acked.",
		Fix:   "Read the object from the target in every Observe, and compare its content; remember nothing between calls.",
		Run:   drifts,
	},
	{
		ID:    "vanished",
		Wants: "When somebody else removes the object, Observe answers NOT_FOUND, and Apply creates it again.",
		Fix:   "Ask the target in every Observe, and let Apply create what is missing though it was acked.",
		Run:   vanished,
	},
	{
		ID:    "target-adds",
		Wants: "Fields that the target adds by itself are its own: the object still matches.",
		Fix:   "Compare only at the fields that the payload has, or had at the last ack.",
		Run: func(t *T) {
			t.needsObserve()
			if len(t.fixture.Store.Adds) == 0 {
				t.Skipf("the fixture has no store.adds")
			}
			t.store.add(t.fixture.Store.Adds)
			o := t.thing()
			o.apply(t.fixture.Payloads.Create)
			o.mustMatch(t.fixture.Payloads.Create, "after Apply to a target that adds fields")
		},
	},
	{
		ID:    "same-identity",
		Wants: "What identifies an object (uid and object; ref where an adapter gives neither) is the same in Apply and Observe, stays the same over updates, and differs between keys.",
		Fix:   "Make uid and object of what identifies the object at the target, not of its content, version or the request. A ref that is a version needs one of them beside it.",
		Run:   sameIdentity,
	},
	{
		ID:    "as-found",
		Wants: "The as_found hash of an object is the same with the ack and in every look at it, and another one when its content changed.",
		Fix:   "Hash what the target holds at the fields that the adapter owned at the ack: in a fixed order, and without times and versions.",
		Run:   asFound,
	},
	{
		ID:    "as-found-comparable",
		Wants: "as_found_comparable promises that as_found of an object that equals a payload is the payload's content hash in lower-case hex.",
		Fix:   "Use the request's content_hash, or drop the claim.",
		Run: func(t *T) {
			if !t.sink.Manifest().AsFoundComparable {
				t.Skipf("the manifest does not claim as_found_comparable")
			}
			t.needsObserve()
			o := t.thing()
			r, _ := o.apply(t.fixture.Payloads.Create)
			res := o.observe(t.fixture.Payloads.Create)
			if seen := res.Observation; seen == nil || seen.AsFound != r.Hash.Hex() {
				t.Failf("the payload's hash is %s, and Observe right after its Apply answered %s, as_found %q", r.Hash.Hex(), describe(res), asFoundOf(res))
			}
		},
	},
}

func asFoundOf(res sink.Result) string {
	if res.Observation == nil {
		return ""
	}
	return res.Observation.AsFound
}

func sourceChanged(t *T) {
	t.needsObserve()
	o := t.thing()
	o.apply(t.fixture.Payloads.Create)
	res := o.observe(t.fixture.Payloads.Update)
	if t.matches(o.current, res) {
		t.Failf("the target holds the acked content, and Observe says that it matches a newer one: %s", describe(res))
	}
	if matchesAcked(o.current, res) == sink.No {
		t.Failf("the target holds exactly what was acked, and Observe says that it does not match that: %s", describe(res))
	}
}

// meddle changes the object behind the adapter's back, after its second content
// was acked: a scripted store goes back to the first one.
func (t *T) meddle(o *thing) {
	p := t.fixture.Payloads
	if t.store == nil {
		if t.fixture.Drift == nil {
			t.Skipf("the fixture does not say under \"drift\" how somebody else changes an object at the real target")
		}
		o.apply(p.Update)
		if err := t.outside(t.ctx, t.fixture.Drift, o.key, o.n); err != nil {
			t.Failf("the kit could not change the object: %v", err)
		}
		return
	}
	o.apply(p.Create)
	first := t.snapshot()
	o.apply(p.Update)
	if holdsSame(first, t.snapshot()) {
		t.Skipf("the two payloads are one at the target, so that the kit has no other content to put there; see the check \"update\"")
	}
	t.store.restore(first)
}

func drifts(t *T) {
	t.needsObserve()
	p := t.fixture.Payloads
	o := t.thing()
	t.meddle(o)
	res := o.observe(p.Update)
	if t.matches(o.current, res) {
		t.Failf("somebody changed the object, and Observe says that it matches what is desired: %s", describe(res))
	}
	if matchesAcked(o.current, res) == sink.Yes {
		t.Failf("somebody changed the object, and Observe says that it matches what was acked: %s", describe(res))
	}
	o.apply(p.Update)
	o.mustMatch(p.Update, "after Apply put it right again")
}

func vanished(t *T) {
	t.needsObserve()
	p := t.fixture.Payloads
	o := t.thing()
	before := t.snapshot()
	o.apply(p.Create)
	o.mustMatch(p.Create, "after Apply")
	switch {
	case t.store != nil:
		t.store.restore(before)
	case t.fixture.Vanish != nil:
		if err := t.outside(t.ctx, t.fixture.Vanish, o.key, o.n); err != nil {
			t.Failf("the kit could not remove the object: %v", err)
		}
	default:
		t.Skipf("the fixture does not say under \"vanish\" how somebody else removes an object from the real target")
	}
	if res := o.observe(p.Create); !absent(res) {
		t.Failf("somebody removed the object, and Observe answered %s", describe(res))
	}
	o.apply(p.Create)
	o.mustMatch(p.Create, "after Apply created it again")
}

func sameIdentity(t *T) {
	p := t.fixture.Payloads
	o := t.thing()
	_, created := o.apply(p.Create)
	first := identityOf(created)
	if t.sink.Manifest().Observes {
		first = first.or(identityOf(o.observe(p.Create)))
	}
	_, updated := o.apply(p.Update)
	then := identityOf(updated)
	if t.sink.Manifest().Observes {
		seen := identityOf(o.observe(p.Update))
		if what := then.differs(seen); what != "" {
			t.Failf("Apply and Observe of one object disagree: %s", what)
		}
		then = then.or(seen)
	}
	if what := first.differs(then); what != "" {
		t.Failf("an update gave the object another identity: %s", what)
	}
	other := t.thing()
	_, res := other.apply(p.Create)
	second := identityOf(res)
	if t.sink.Manifest().Observes {
		second = second.or(identityOf(other.observe(p.Create)))
	}
	if first.object != "" && first.object == second.object {
		return // it says so itself, and the engine refuses the second
	}
	for _, f := range first.beside(second) {
		if f.a != "" && f.a == f.b {
			t.Failf("two keys, %q and %q, have the same %s %q", o.key, other.key, f.name, f.a)
		}
	}
}

// identity is what an observation calls its object.
type identity struct{ ref, uid, object string }

func identityOf(res sink.Result) identity {
	if o := res.Observation; o != nil && res.Status == sink.OK {
		return identity{o.Ref, o.UID, o.Object}
	}
	return identity{}
}

// named is a part of two identities.
type named struct{ name, a, b string }

// beside pairs what identifies an object. A ref is for people, and may be the version
// of what was written: it counts only where it is all that both have.
func (i identity) beside(other identity) []named {
	if (i.uid == "" || other.uid == "") && (i.object == "" || other.object == "") {
		return []named{{"ref", i.ref, other.ref}}
	}
	return []named{{"uid", i.uid, other.uid}, {"object", i.object, other.object}}
}

// differs names what both know, and know differently.
func (i identity) differs(other identity) string {
	for _, f := range i.beside(other) {
		if f.a != "" && f.b != "" && f.a != f.b {
			return f.name + " was " + f.a + ", then " + f.b
		}
	}
	return ""
}

// or fills in what i does not know from other.
func (i identity) or(other identity) identity {
	return identity{cmp.Or(i.ref, other.ref), cmp.Or(i.uid, other.uid), cmp.Or(i.object, other.object)}
}

func asFound(t *T) {
	t.needsObserve()
	p := t.fixture.Payloads
	o := t.thing()
	o.apply(p.Update)
	acked := asFoundOf(o.observe(p.Update))
	if acked == "" {
		t.Skipf("the adapter's observations have no as_found")
	}
	if a := o.acked.AsFound; a != "" && a != acked {
		t.Failf("as_found was %q with the ack, and %q when Observe looked at the same object", a, acked)
	}
	if again := asFoundOf(o.observe(p.Update)); again != acked {
		t.Failf("two looks at an unchanged object gave %q and %q", acked, again)
	}
	o = t.thing()
	t.meddle(o)
	if changed := asFoundOf(o.observe(p.Update)); o.acked.AsFound != "" && changed == o.acked.AsFound {
		t.Failf("the content changed, and as_found is still %q", changed)
	}
}
