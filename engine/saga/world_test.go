package saga

import (
	"slices"

	"github.com/pawlsync/pawl/engine/sink"
)

// This file is the world that the exploration plays sagas in: targets with one
// object for each step, adapters that keep the contract of engine/sink/saga.go, and
// requests that are on their way. Values are small and comparable, so that two
// worlds can be told apart by their bytes.

// callTicks is how long a call may take; backoffTicks is between tries in vain.
const (
	callTicks    = 2
	backoffTicks = 1
	sagaTicks    = 4
)

// content is what an object holds.
type content uint8

const (
	nothing content = iota
	original
	foreign // a third party's
	written // and onwards: written by run 0, run 1
)

// thing is one object at a target.
type thing struct {
	holds content
	mark  uint8 // run+1 of who wrote it; 0: it bears no mark
	tomb  uint8 // run+1 of who deleted it, where the target keeps that
}

// request is a write or a restore on its way.
type request struct {
	kind      Kind
	run, step uint8
	held      bool
	before    content
	until     int16 // it lands before, or never
}

// world is all targets.
type world struct {
	things  [3]thing
	locks   [2]uint8 // by target: run+1 of the holder; all rivals are after the same objects
	flying  [3]request
	flights uint8
	touched uint8 // bit i: a third party changed things[i]
	down    bool
}

// ability is what one target can do.
type ability struct {
	name                        string
	marks, tombs, locks, undoes bool
}

var (
	locker  = ability{"locker", true, true, true, true}     // as a relationship store
	marker  = ability{"marker", true, true, false, true}    // no locks
	keeper  = ability{"keeper", true, false, false, false}  // as an object store: a deletion leaves no mark
	plain   = ability{"plain", false, false, false, false}  // can only look
	latched = ability{"latched", false, false, true, false} // locks, but no marks
)

func (a ability) manifest(confirms bool) sink.Manifest {
	return sink.Manifest{Name: a.name, Observes: true, Deletes: true, ApplyConfirms: confirms,
		Marks: a.marks, Locks: a.locks, RestoresApply: a.undoes, RestoresDelete: a.undoes}
}

// plan is a saga in the world: which target each step goes to, and what that can do.
type plan struct {
	specs    [2]*Spec // by run
	rules    Rules
	targets  [3]uint8
	can      [2]ability
	start    [3]content
	loose    bool // a Restore of a deletion looks only whether the object is gone
	statuses []sink.Status
}

func (p *plan) verb(run, i uint8) Verb { return p.specs[run].Steps[i].Verb }
func (p *plan) at(i uint8) *ability    { return &p.can[p.targets[i]] }
func (p *plan) locksAt(i uint8) bool {
	return p.specs[0].Mode == Pessimistic && p.targets[i] == p.targets[0]
}
func (r *request) me() uint8      { return r.run + 1 }
func (r *request) wrote() content { return written + content(r.run) }
func (p *plan) wants(i int, run int) content {
	if p.specs[run].Steps[i].Verb == Delete {
		return nothing
	}
	return written + content(run)
}

// write carries a write out as the contract says.
func (p *plan) write(w *world, r request) sink.Status {
	t, can := &w.things[r.step], p.at(r.step)
	lock := &w.locks[p.targets[r.step]]
	if p.locksAt(r.step) && (*lock != 0 && *lock != r.me() || r.held && *lock != r.me()) {
		return sink.Conflict
	}
	switch {
	case t.holds == r.before:
	case p.verb(r.run, r.step) == Create && t.holds != nothing:
		return sink.AlreadyExists
	case p.verb(r.run, r.step) == Delete && t.holds == nothing:
		return sink.NotFound
	default:
		return sink.Conflict
	}
	*t = thing{}
	switch {
	case p.verb(r.run, r.step) == Delete && can.tombs:
		t.tomb = r.me()
	case p.verb(r.run, r.step) != Delete:
		t.holds = r.wrote()
		if can.marks {
			t.mark = r.me()
		}
	}
	if p.locksAt(r.step) {
		*lock = r.me()
	}
	return sink.OK
}

// restore carries a restore out as the contract says.
func (p *plan) restore(w *world, r request) sink.Status {
	t, can := &w.things[r.step], p.at(r.step)
	if !can.undoes {
		panic("a step that can't be undone is to be undone")
	}
	stands := t.mark == r.me() && t.holds == r.wrote()
	if p.verb(r.run, r.step) == Delete {
		stands = t.holds == nothing && (p.loose || t.tomb == r.me())
	}
	switch {
	case stands:
		*t = thing{holds: r.before}
		if r.before >= written { // the image has the mark in it
			t.mark = uint8(r.before-written) + 1
		}
	case t.holds == r.before && t.mark != r.me():
	default:
		return sink.Conflict
	}
	return sink.OK
}

// unlock gives up locks and marks of deletions; objects are left as they are.
func (p *plan) unlock(w *world, run, step uint8) sink.Status {
	target := p.targets[step]
	if w.locks[target] == run+1 {
		w.locks[target] = 0
	}
	for i := range p.specs[0].Steps {
		if p.targets[i] == target && w.things[i].tomb == run+1 {
			w.things[i].tomb = 0
		}
	}
	return sink.OK
}

// observe looks. Of a deletion that leaves no mark it says the worst that the
// contract allows: that it certainly is not ours.
func (p *plan) observe(w *world, run, step uint8) sink.Result {
	t, can := &w.things[step], p.at(step)
	o := &sink.Observation{Exists: t.holds != nothing, MatchDesired: sink.TriOf(t.holds == written+content(run))}
	if can.marks {
		o.Ours = sink.TriOf(t.mark == run+1)
		if p.verb(run, step) == Delete {
			o.Ours = sink.TriOf(t.tomb == run+1)
		}
	}
	if !o.Exists {
		return sink.Result{Status: sink.NotFound, Observation: o}
	}
	o.CID, o.Content = string(rune('a'+t.holds)), []byte{byte(t.holds)}
	return sink.Result{Status: sink.OK, Observation: o}
}

// contentOf is what an image says that there was.
func contentOf(i *sink.Image) content {
	if !i.Exists {
		return nothing
	}
	return content(i.Content[0])
}

// fly puts a request on its way; it reports false where too many are.
func (w *world) fly(r request) bool {
	if int(w.flights) == len(w.flying) {
		return false
	}
	w.flying[w.flights] = r
	w.flights++
	return true
}

// lands lets the flying request i land.
func (w *world) lands(p *plan, i int) {
	r := w.flying[i]
	w.drop(i)
	if r.kind == Write {
		p.write(w, r)
	} else {
		p.restore(w, r)
	}
}

func (w *world) drop(i int) {
	w.flights--
	w.flying[i] = w.flying[w.flights]
	w.flying[w.flights] = request{}
}

// expire forgets requests that can land no more.
func (w *world) expire(now int16) {
	for i := int(w.flights) - 1; i >= 0; i-- {
		if now >= w.flying[i].until {
			w.drop(i)
		}
	}
}

var meddlings = [...]string{"a third party replaces", "a third party removes", "a third party changes, marks and all,"}

// meddle is what a third party can do to an object: replace it, remove it, or
// change it and leave the marks.
func (w *world) meddle(i int, how int) {
	w.touched |= 1 << i
	switch how {
	case 0:
		w.things[i] = thing{holds: foreign}
	case 1:
		w.things[i] = thing{}
	case 2:
		w.things[i].holds = foreign
	}
}

// appendKey appends w's bytes; requests in any order are the same.
func (w *world) appendKey(b []byte, now int16) []byte {
	for _, t := range w.things {
		b = append(b, byte(t.holds)|t.mark<<3|t.tomb<<5)
	}
	down := byte(0)
	if w.down {
		down = 1
	}
	b = append(b, w.locks[0]|w.locks[1]<<2|w.touched<<4|down<<7, w.flights)
	var keys [3]uint32
	for i, r := range w.flying[:w.flights] {
		held := uint32(0)
		if r.held {
			held = 1
		}
		keys[i] = uint32(r.until-now)<<16 | uint32(r.kind)<<12 | uint32(r.run)<<10 | uint32(r.step)<<8 | held<<7 | uint32(r.before)
	}
	slices.Sort(keys[:w.flights])
	for _, k := range keys[:w.flights] {
		b = append(b, byte(k>>24), byte(k>>16), byte(k>>8), byte(k))
	}
	return b
}
