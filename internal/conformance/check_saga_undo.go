package conformance

import (
	"github.com/pawlsync/pawl/engine/sink"
)

func sagaRestore(t *T) {
	if !t.sink.Manifest().RestoresApply {
		t.Skipf("the manifest does not claim that apply can be undone")
	}
	t.needsMark()
	undoesCreation(t)
	undoesUpdate(t)
	sparesRecreated(t)
	sparesChanged(t)
}

func undoesCreation(t *T) {
	o, before := t.thing(), t.snapshot()
	s := t.creates(o, t.fixture.Payloads.Create)
	s.mustRestore("a creation that was never written")
	s.mustWrite("where there is no object")
	s.mustRestore("a creation")
	if s.now().Exists {
		t.Failf("Restore of a creation answered OK, and the object is there")
	}
	s.undone(before)
}

func undoesUpdate(t *T) {
	p := t.fixture.Payloads
	o := t.thing()
	o.apply(p.Create)
	was, before := o.mustMatch(p.Create, "after Apply"), t.snapshot()
	s := t.updates(o, p.Update)
	s.mustRestore("an update that was never written")
	s.mustWrite("where the object is what the image says")
	o.mustMatch(p.Update, "after a saga's Apply")
	s.mustRestore("an update")
	s.broughtBack(was, p.Create, before)
}

// broughtBack fails the check where the object is not as it was, when Observe saw it so.
func (s *player) broughtBack(was sink.Result, template []byte, before map[string]object) {
	now := s.o.mustMatch(template, "after Restore answered OK")
	if a, b := asFoundOf(was), asFoundOf(now); a != b {
		s.t.Failf("Restore answered OK, and as_found of the object was %q before the step, and is %q", a, b)
	}
	s.undone(before)
}

// undone fails the check where something is left of the step.
func (s *player) undone(before map[string]object) {
	if s.ours() == sink.Yes {
		s.t.Failf("Restore answered OK, and Observe still says that the object bears the step's mark")
	}
	s.mustUnlock("after Restore")
	if s.t.store != nil && !holdsSame(before, s.t.snapshot()) {
		s.t.Failf("after Restore and Unlock, the target does not hold what it held before the step")
	}
}

// sparesRecreated has somebody put an equal object in the place of the saga's.
// Without a uid, nothing tells the two apart.
func sparesRecreated(t *T) {
	m := t.sink.Manifest()
	if !m.ReportsUID || !m.Deletes {
		return
	}
	o := t.thing()
	s := t.creates(o, t.fixture.Payloads.Create)
	s.mustWrite("where there is no object")
	o.delete()
	o.acked = nil
	o.apply(t.fixture.Payloads.Create)
	s.refused(s.restore(), s.now(), "when somebody else removed what the step created, and created an equal object", sink.Conflict)
}

// sparesChanged has somebody change what the saga wrote.
func sparesChanged(t *T) {
	p := t.fixture.Payloads
	o := t.thing()
	third := p.Removed
	if third == nil {
		third = p.Update // as equal as it is, it bears no mark
	}
	change := t.changer(o, third)
	if change == nil {
		return // at a real target whose fixture does not say how
	}
	o.apply(p.Create)
	s := t.updates(o, p.Update)
	s.mustWrite("where the object is what the image says")
	if err := change(); err != nil {
		t.Failf("the kit could not change the object: %v", err)
	}
	s.refused(s.restore(), s.now(), "when somebody else changed what the step wrote", sink.Conflict)
}

// changer returns what gives o's object another content, as somebody else would:
// third at the scripted store, else what the fixture's drift makes of the second;
// nil: the fixture does not say how.
func (t *T) changer(o *thing, third []byte) func() error {
	if t.store != nil {
		o.apply(third)
		changed := t.snapshot()
		return func() error { t.store.restore(changed); return nil }
	}
	if t.fixture.Drift == nil {
		return nil
	}
	return func() error { return t.outside(t.ctx, t.fixture.Drift, o.key, o.n) }
}

func sagaRestoreDelete(t *T) {
	if !t.sink.Manifest().RestoresDelete {
		t.Skipf("the manifest does not claim that delete can be undone")
	}
	t.needsMark()
	p := t.fixture.Payloads
	o := t.thing()
	o.apply(p.Update)
	was, before := o.mustMatch(p.Update, "after Apply"), t.snapshot()
	s := t.deletes(o)
	s.mustRestore("a deletion that was never written")
	s.mustWrite("where the object is what the image says")
	if s.now().Exists {
		t.Failf("Delete answered OK, and the object is there")
	}
	s.mustRestore("a deletion")
	s.broughtBack(was, p.Update, before)

	o = t.thing()
	replace := t.replacer(o)
	o.apply(p.Update)
	s = t.deletes(o)
	s.mustWrite("where the object is what the image says")
	replace()
	s.refused(s.restore(), s.now(), "when somebody else put another object in the place of the deleted one", sink.Conflict)
}

// deletes makes a step of a new run that deletes the object, and looks.
func (t *T) deletes(o *thing) *player {
	s := t.play(o, nil, sink.Upsert)
	if image := s.look(); len(image.Content) == 0 {
		t.Failf("delete can be undone, and the image of the object has no content to bring back")
	}
	return s
}

// replacer returns what puts another object in the place of o's, which is gone then.
func (t *T) replacer(o *thing) func() {
	change := t.changer(o, t.fixture.Payloads.Create)
	return func() {
		if change != nil && change() == nil {
			return
		}
		// The fixture's drift changes an object, and can't make one.
		o.acked = nil
		o.apply(t.fixture.Payloads.Create)
	}
}
