package conformance

import (
	"bytes"
	"time"

	"github.com/pawlsync/pawl/engine/sink"
)

// lifecycleChecks follow one resource from its first content to its end.
var lifecycleChecks = []Check{
	{
		ID:    "observe-absent",
		Wants: "Observe of an object that does not exist answers NOT_FOUND.",
		Fix:   "Turn the target's answer for a missing object (404, an empty list) into NOT_FOUND, not into an error or an empty object.",
		Run: func(t *T) {
			t.needsObserve()
			if res := t.thing().observe(t.fixture.Payloads.Create); !absent(res) {
				t.Failf("of a key that was never applied, Observe answered %s", describe(res))
			}
		},
	},
	{
		ID:    "create",
		Wants: "Apply creates an object that does not exist; then it is there, and matches.",
		Fix:   "Create where the target has no object; answer OK only after the target did.",
		Run:   create,
	},
	{
		ID:    "update",
		Wants: "Apply of another content replaces the first; then Observe matches the second and not the first.",
		Fix:   "Send the whole payload of the request, not what an earlier call had; let Observe compare what it read from the target with the request's payload.",
		Run:   update,
	},
	{
		ID:    "field-removed",
		Wants: "A field that was in the payload at the last ack, and is not any more, differs for as long as the target still has it; Apply removes it.",
		Fix:   "Compare at the fields that are owned now or were at the last ack: return their names as adapter_state with an ack, and read them from acked.adapter_state. A target that merges needs to be told of the removal (null, a list of fields).",
		Run:   fieldRemoved,
	},
	{
		ID:    "apply-twice",
		Wants: "The same Apply twice ends as one does: OK, and one object with the same content. finds_by_key promises that, and apply_idempotent that nothing else is needed.",
		Fix:   "Find the object by the resource's key (a path, a name, a label that you search for), never by what the target made up for an earlier call.",
		Run:   applyTwice,
	},
	{
		ID:    "observe-writes-nothing",
		Wants: "Observe changes nothing at the target, whether the object matches, differs or is missing: a resource that is as desired costs no write.",
		Fix:   "Only read in Observe. If the target reads by POST, name those paths under \"reads\" in the fixture.",
		Run:   observeWritesNothing,
	},
	{
		ID:    "delete",
		Wants: "Delete removes the object: then Observe says that there is none.",
		Fix:   "Answer OK only when the object is gone, IN_PROGRESS while the target deletes it.",
		Run:   deletes,
	},
	{
		ID:    "delete-again",
		Wants: "Delete of an object that does not exist is a success: OK or NOT_FOUND. An answer may have been lost, so a delete can come twice.",
		Fix:   "Turn the target's 404 into NOT_FOUND (or OK) in Delete.",
		Run: func(t *T) {
			t.needsDelete()
			if res := t.sink.Delete(t.ctx, t.thing().tombstone()); !gone(res) {
				t.Failf("of a key that was never applied, Delete answered %s", describe(res))
			}
			o := t.thing()
			o.apply(t.fixture.Payloads.Create)
			o.delete()
			if res := t.sink.Delete(t.ctx, o.tombstone()); !gone(res) {
				t.Failf("the second Delete of an object answered %s", describe(res))
			}
		},
	},
	{
		ID:    "recreate",
		Wants: "A resource that was deleted can be applied again, and what was known of its first life counts no more.",
		Fix:   "Keep nothing of a resource in the plugin between calls; what is to be kept belongs in adapter_state.",
		Run:   recreate,
	},
	{
		ID:    "delete-uid",
		Wants: "An adapter that claims reports_uid gives the object's uid with every observation, and Delete of another uid than the object's leaves it alone.",
		Fix:   "Fill in uid wherever exists is set; in Delete compare it with the request's uid and answer CONFLICT where they differ. Or drop the claim.",
		Run:   deleteUID,
	},
}

func create(t *T) {
	o := t.thing()
	before := t.snapshot()
	_, res := o.apply(t.fixture.Payloads.Create)
	if seen := res.Observation; seen != nil && seen.MatchDesired == sink.No {
		t.Failf("Apply answered OK and that the target does not match: %s", describe(res))
	}
	if t.store != nil && len(t.snapshot()) <= len(before) {
		t.Failf("Apply answered OK, but the target holds nothing new")
	}
	if t.sink.Manifest().Observes {
		o.mustMatch(t.fixture.Payloads.Create, "after Apply")
	}
}

// snapshot is what the scripted store holds; of a real target, nothing.
func (t *T) snapshot() map[string]object {
	if t.store == nil {
		return nil
	}
	return t.store.snapshot()
}

// holdsSame reports whether two snapshots hold the same objects and contents.
func holdsSame(a, b map[string]object) bool {
	if len(a) != len(b) {
		return false
	}
	for path, o := range a {
		if p, ok := b[path]; !ok || !bytes.Equal(o.body, p.body) {
			return false
		}
	}
	return true
}

func update(t *T) {
	o := t.thing()
	o.apply(t.fixture.Payloads.Create)
	before := t.snapshot()
	o.apply(t.fixture.Payloads.Update)
	if t.store != nil && holdsSame(before, t.snapshot()) {
		t.Failf("Apply of another content answered OK, but the target holds what it held before")
	}
	if !t.sink.Manifest().Observes {
		return
	}
	o.mustMatch(t.fixture.Payloads.Update, "after Apply of the second content")
	if res := o.observe(t.fixture.Payloads.Create); t.matches(o.current, res) {
		t.Failf("the target holds the second content, and Observe says that it matches the first: %s", describe(res))
	}
}

func fieldRemoved(t *T) {
	t.needsObserve()
	p := t.fixture.Payloads
	if p.Removed == nil {
		t.Skipf("the fixture has no payloads.removed, and update is no JSON object with two fields")
	}
	o := t.thing()
	o.apply(p.Update)
	if res := o.observe(p.Removed); t.matches(o.current, res) {
		t.Failf("the target still has a field that is not desired any more, and Observe says that it matches: %s", describe(res))
	}
	o.apply(p.Removed)
	o.mustMatch(p.Removed, "after Apply of the content without the field")
}

func applyTwice(t *T) {
	o := t.thing()
	r, first := o.apply(t.fixture.Payloads.Create)
	before := t.snapshot()
	r.Acked = nil // the ack may have been lost
	second := t.sink.Apply(t.ctx, r)
	if second.Status != sink.OK {
		t.Failf("the second time, Apply answered %s", describe(second))
	}
	if t.store != nil && !holdsSame(before, t.snapshot()) {
		t.Failf("after the second Apply the target holds %d objects instead of %d, or other contents", len(t.snapshot()), len(before))
	}
	if what := identityOf(first).differs(identityOf(second)); what != "" {
		t.Failf("the second Apply speaks of another object than the first: %s", what)
	}
	if t.sink.Manifest().Observes {
		o.mustMatch(t.fixture.Payloads.Create, "after the second Apply")
	}
}

func observeWritesNothing(t *T) {
	t.needsObserve()
	p := t.fixture.Payloads
	o, other := t.thing(), t.thing()
	o.apply(p.Create)
	for _, c := range []struct {
		when string
		look func()
	}{
		{"while the target matches", func() { o.observe(p.Create) }},
		{"while the target differs", func() { o.observe(p.Update) }},
		{"of an object that does not exist", func() { other.observe(p.Create) }},
	} {
		before, content := t.gate.writeCount(), t.snapshot()
		c.look()
		if n := t.gate.writeCount() - before; n > 0 {
			t.Failf("%s, Observe sent %d requests that write", c.when, n)
		}
		if !holdsSame(content, t.snapshot()) {
			t.Failf("%s, Observe changed the target", c.when)
		}
	}
}

func deletes(t *T) {
	t.needsDelete()
	o := t.thing()
	before := t.snapshot()
	o.apply(t.fixture.Payloads.Create)
	o.delete()
	if n := len(t.snapshot()); n > len(before) {
		t.Failf("Delete answered that the object is gone, but the target holds %d objects more than before it was applied", n-len(before))
	}
	if !t.sink.Manifest().Observes {
		return
	}
	if res := o.observe(t.fixture.Payloads.Create); !absent(res) {
		t.Failf("after Delete, Observe answered %s", describe(res))
	}
}

func recreate(t *T) {
	t.needsDelete()
	o := t.thing()
	o.apply(t.fixture.Payloads.Update)
	o.delete()
	o.acked, o.current = nil, nil
	o.apply(t.fixture.Payloads.Create)
	if t.sink.Manifest().Observes {
		o.mustMatch(t.fixture.Payloads.Create, "applied again after it was deleted")
	}
}

func deleteUID(t *T) {
	if !t.sink.Manifest().ReportsUID {
		t.Skipf("the manifest does not claim reports_uid")
	}
	t.needsDelete()
	t.needsObserve()
	o := t.thing()
	o.apply(t.fixture.Payloads.Create)
	look := o.mustMatch(t.fixture.Payloads.Create, "after Apply")
	if look.Observation.UID == "" {
		t.Failf("Observe of an object that exists gives no uid: %s", describe(look))
	}
	r := o.tombstone()
	r.UID = look.Observation.UID + "-of-another"
	t.sink.Delete(t.ctx, r)
	if absent(o.observe(t.fixture.Payloads.Create)) {
		t.Failf("asked to delete the object of another uid, Delete removed this one")
	}
	o.mustMatch(t.fixture.Payloads.Create, "after a Delete of another uid")
}

// pause waits a moment for a target that is at work.
func (t *T) pause() {
	timer := time.NewTimer(200 * time.Millisecond)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-t.ctx.Done():
		t.Failf("it took too long: %v", t.ctx.Err())
	}
}
