package conformance

import (
	"net/http"
	"sync/atomic"

	"github.com/pawlsync/pawl/engine/sink"
)

// sagaChecks are about what a saga relies on, of adapters that claim it.
var sagaChecks = []Check{
	{
		ID:    "saga-mark",
		Wants: "Of an adapter that claims mark, Observe says by ours whether the write of this run and this step landed, also where its answer was lost, and never takes what others wrote for it, however equal it is.",
		Fix:   "Write saga.id and saga.step into the target in the same request as the object, and compare both with what is there; never the content.",
		Run:   sagaMark,
	},
	{
		ID:    "saga-image",
		Wants: "Asked by a saga, Observe gives the image of the object: its cid, and the content that Restore needs. A saga's write changes nothing where the object is not what the image says any more, however late that came about.",
		Fix:   "Make the write conditional at the target (If-Match, a resourceVersion, a precondition) on before.cid, or on there being nothing; answer CONFLICT, or ALREADY_EXISTS in the mode create-only, where the target refuses it for that. A look before the write is not enough.",
		Run:   sagaImage,
	},
	{
		ID:    "saga-restore",
		Wants: "Of an adapter that can undo apply, Restore removes what the step created and brings back what it replaced, as often as it is called; what others made of the object since it leaves alone, and answers CONFLICT.",
		Fix:   "Look first. Is it as before: OK. Does it bear the mark: write before.content, or delete, on the condition that it is still what the look saw. Else: CONFLICT.",
		Run:   sagaRestore,
	},
	{
		ID:    "saga-restore-delete",
		Wants: "Of an adapter that can undo delete, Restore brings back what the step deleted, as often as it is called; what others put in its place it leaves alone, and answers CONFLICT.",
		Fix:   "Create before.content on the condition that there is nothing; where there is something, OK only if it is as before.",
		Run:   sagaRestoreDelete,
	},
	{
		ID:    "saga-lock",
		Wants: "Of an adapter that claims lock, a saga's write takes all of its locks or changes nothing: where another run has one, or where one that is held is not there any more, it is a CONFLICT.",
		Fix:   "Send the locks in the request that writes, on the condition that each is free or the run's own; where held is set, that each is the run's.",
		Run:   sagaLock,
	},
	{
		ID:    "saga-unlock",
		Wants: "Unlock gives up all that the run holds, whichever step took it, and nothing of others; it may come twice, and for a run that never came; objects stay as they are.",
		Fix:   "Find what the run holds by saga.id alone, and answer OK where there is none of it.",
		Run:   sagaUnlock,
	},
}

func sagaMark(t *T) {
	t.needsMark()
	p := t.fixture.Payloads
	s := t.creates(t.thing(), p.Create)
	mustBe := func(s *player, want sink.Tri, when string) {
		if got := s.ours(); got != want {
			t.Failf("%s, Observe says ours %s, and %s is right", when, triName(got), triName(want))
		}
	}
	mustBe(s, sink.No, "before anything was written")
	s.mustWrite("where there is no object")
	mustBe(s, sink.Yes, "when the step was written")
	mustBe(s.as(s.run.ID, s.run.Step+1), sink.No, "asked for another step of the run that wrote the object")
	mustBe(s.as(hexID(), s.run.Step), sink.No, "asked for the same step of another run than wrote the object")
	u := t.updates(s.o, p.Update)
	mustBe(u, sink.No, "before an object of another run was replaced")
	u.mustWrite("where the object is another run's")
	mustBe(u, sink.Yes, "when an object of another run was replaced")

	o := t.thing()
	o.apply(p.Create)
	mustBe(t.updates(o, p.Create), sink.No, "where somebody else wrote the very content that the step wants")

	for _, lost := range []struct {
		fault *fault
		want  sink.Tri
		when  string
	}{
		{resetAfter(), sink.Yes, "when the target wrote, and its answer was lost"},
		{resetBefore(), sink.No, "when the write was lost on its way"},
	} {
		s := t.creates(t.thing(), p.Create)
		lost.fault.only = t.gate.isWrite
		t.gate.set(lost.fault)
		res := s.write()
		t.gate.set(nil)
		if res.Status != sink.Unreachable && res.Status != sink.Retry {
			t.Failf("%s, it is not known what became of the write, and the answer was %s", lost.when, describe(res))
		}
		mustBe(s, lost.want, lost.when)
	}
	marksDeletions(t)
}

// marksDeletions asks whose deletion it was, which an adapter need not know.
func marksDeletions(t *T) {
	if !t.sink.Manifest().Deletes {
		return
	}
	deletion := func() *player {
		o := t.thing()
		o.apply(t.fixture.Payloads.Create)
		s := t.play(o, nil, sink.Upsert)
		s.look()
		return s
	}
	theirs := deletion()
	theirs.o.delete()
	if theirs.ours() == sink.Yes {
		t.Failf("somebody else deleted the object that the step is to delete, and Observe says ours yes")
	}
	s := deletion()
	s.mustWrite("where the object is what the image says")
	if s.ours() == sink.No {
		t.Failf("the step deleted the object, and Observe says ours no; what is not known is unknown")
	}
}

func sagaImage(t *T) {
	t.needsMark()
	p := t.fixture.Payloads
	o := t.thing()
	outdated := t.updates(o, p.Create) // of no object
	o.apply(p.Create)
	// CreateOnly does not ask whether an equal object may be taken over.
	refuseCreation(t, o)
	stale := t.updates(o, p.Create)
	if image := stale.run.Before; !image.Exists {
		t.Failf("there is an object, and its image says that there is none")
	} else if t.sink.Manifest().RestoresApply && len(image.Content) == 0 {
		t.Failf("apply can be undone, and the image of the object has no content to bring back")
	} else if now := stale.now(); !sameObject(now, image) {
		t.Failf("nobody changed the object, and its cid was %q, then %q", image.CID, now.CID)
	}
	o.apply(p.Update)
	now := stale.now()
	if now.CID == stale.run.Before.CID {
		t.Failf("the object's content changed, and its cid is %q as before", now.CID)
	}
	stale.refused(stale.write(), now, "when somebody changed the object since the image was taken", sink.Conflict)
	outdated.refused(outdated.write(), now, "when somebody created the object since the image was taken", sink.Conflict, sink.AlreadyExists)
	o.mustMatch(p.Update, "after writes that were to change nothing")

	s := t.updates(o, p.Create)
	s.mustWrite("where the object is what the image says")
	s.refused(s.write(), s.now(), "when the very write comes a second time", sink.Conflict)
	vanishes(t)
}

// refuseCreation holds the mode create-only to its name where an equal object of
// somebody else is there.
func refuseCreation(t *T, o *thing) {
	late := t.creates(o, t.fixture.Payloads.Create)
	was := late.run.Before
	late.refused(late.write(), was, "when an equal object was there already, and the step may only create", sink.AlreadyExists, sink.Conflict)
	late.run.Before = &sink.Image{}
	late.refused(late.write(), was, "when an equal object was created since the look, and the step may only create", sink.AlreadyExists, sink.Conflict)
}

// vanishes removes the object when the adapter's write is on its way, after any
// look that came before it.
func vanishes(t *T) {
	p := t.fixture.Payloads
	o := t.thing()
	remove := t.remover(o)
	if remove == nil {
		return // at a real target whose fixture does not say how
	}
	o.apply(p.Create)
	s := t.updates(o, p.Update)
	var came atomic.Bool
	var failure error
	t.gate.set(&fault{name: "the kit removes the object first", only: t.gate.isWrite, serve: func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		if !came.Swap(true) {
			failure = remove()
		}
		next.ServeHTTP(w, r)
	}})
	res := s.write()
	t.gate.set(nil)
	if failure != nil {
		t.Failf("the kit could not remove the object: %v", failure)
	}
	s.refused(res, &sink.Image{}, "when somebody removed the object between the look and the write", sink.Conflict, sink.NotFound)
}

// remover returns what removes o's object, which is not there yet, as somebody
// else would; nil: the fixture does not say how.
func (t *T) remover(o *thing) func() error {
	if t.store != nil {
		before := t.snapshot()
		return func() error { t.store.restore(before); return nil }
	}
	if t.fixture.Vanish == nil {
		return nil
	}
	return func() error { return t.outside(t.ctx, t.fixture.Vanish, o.key, o.n) }
}
