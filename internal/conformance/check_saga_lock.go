package conformance

import "github.com/pawlsync/pawl/engine/sink"

func sagaLock(t *T) {
	t.needsLock()
	p := t.fixture.Payloads
	shared, free := hexID(), hexID()
	first := t.creates(t.thing(), p.Create, shared, hexID())
	first.mustWrite("where all locks are free")

	second := t.creates(t.thing(), p.Create, shared, free)
	second.refused(second.write(), second.run.Before, "when another run has one of the locks", sink.Conflict)
	third := t.creates(t.thing(), p.Create, free)
	third.mustWrite("with a lock that a refused write of another run was to take with others")

	own := first.next(t.thing(), p.Create, false)
	own.mustWrite("where the run has its locks already, and does not know it")
	held := own.next(t.thing(), p.Create, true)
	held.mustWrite("where the run holds its locks")
	first.mustUnlock("when its run holds locks")
	broken := held.next(t.thing(), p.Create, true)
	broken.refused(broken.write(), broken.run.Before, "when the run does not hold its locks any more", sink.Conflict)
	third.mustUnlock("when its run holds a lock")
	second.mustWrite("when the other runs gave up their locks")
}

func sagaUnlock(t *T) {
	t.needsLock()
	p := t.fixture.Payloads
	theirs := t.creates(t.thing(), p.Create, hexID())
	theirs.mustWrite("where the lock is free")
	never := t.creates(t.thing(), p.Create, hexID())
	never.mustUnlock("for a run that wrote nothing")

	lock := hexID()
	first := t.creates(t.thing(), p.Create, lock, hexID())
	first.mustWrite("where all locks are free")
	later := first.next(t.thing(), p.Create, true)
	later.mustWrite("where the run holds its locks")
	images := []*sink.Image{first.now(), later.now()}
	later.mustUnlock("of the last step")
	later.mustUnlock("a second time")
	for i, s := range []*player{first, later} {
		if now := s.now(); !sameObject(now, images[i]) {
			t.Failf("Unlock changed an object that the run wrote: its cid was %q, and is %q", images[i].CID, now.CID)
		}
	}
	t.creates(t.thing(), p.Create, lock).mustWrite("with a lock that its run gave up by Unlock")
	theirs.next(t.thing(), p.Create, true).mustWrite("with a lock that is held, when another run gave up its own")
}
