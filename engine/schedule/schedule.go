package schedule

import (
	"hash/maphash"
	"time"

	"github.com/pawlsync/pawl/engine/record"
)

// Class says how urgent a resource's work is.
type Class uint8

// The classes, most urgent first.
const (
	Fresh Class = iota // new desired state
	Retry              // work that failed or has to wait for something
	Check              // drift checks and the looks at start-up

	classes = 3
)

// String returns "fresh", "retry" or "check".
func (c Class) String() string {
	switch c {
	case Fresh:
		return "fresh"
	case Retry:
		return "retry"
	}
	return "check"
}

// Options are those of a Schedule. The zero value works.
type Options struct {
	// MaxInFlight is how many calls may be in flight over all sinks. Defaults to no
	// limit. Sinks take turns at what is free but keep what they hold, so a
	// limit below those of a few sinks together lets targets that hang delay others.
	MaxInFlight int
}

// Plan says when a resource is to be delivered.
type Plan struct {
	At    time.Time    // when it is due; the zero time: never, it is parked
	Class Class        // one that doesn't exist counts as Check
	Phase record.Phase // for counting only
	Since time.Time    // when its unacknowledged state was put; zero when nothing is unacknowledged
}

// Entry is what is known of one resource.
type Entry struct {
	Plan
	InFlight bool // between Next and Done
	Held     bool // between Done and Settle or Release
	Removed  bool // removed while in flight; Plan is of the past
	Unsure   bool // as set by SetUnsure
}

// Schedule holds every resource's plan. See the package's documentation for its
// states and order.
type Schedule struct {
	options Options
	clock   clock
	seed    maphash.Seed // makes floods of colliding keys impossible; decides nothing else
	slab    slab
	names   names
	table   table

	byName    map[string]*sink // never ranged over where order matters
	sinks     []*sink          // by id; nil where free
	freeSinks []uint32
	ready     queue // sinks that have something dispatchable, by turn
	timed     queue // sinks that will have, by when
	turn      int64

	live     int // entries, removed ones aside
	inFlight int
	calls    int               // in flight
	batches  map[uint32]*batch // by entry in flight, of sinks that take batches
	held     int
	unsure   int
}

// New returns an empty Schedule.
func New(o Options) *Schedule {
	s := &Schedule{options: o, seed: maphash.MakeSeed(), byName: map[string]*sink{}, batches: map[uint32]*batch{}}
	s.slab.free = none
	s.table.init()
	return s
}

// Set makes p the plan of key: of a new entry, or instead of the old plan. It ends
// neither a flight nor a hold. A name longer than record.MaxKeyBytes is no
// resource's and is ignored.
func (s *Schedule) Set(key record.Key, p Plan) { s.put(key, p, false) }

// Settle is Set that also ends the hold of a delivery that is Done: its outcome
// is stored and p follows from it. Without a hold it is Set.
func (s *Schedule) Settle(key record.Key, p Plan) { s.put(key, p, true) }

func (s *Schedule) put(key record.Key, p Plan, settle bool) {
	if len(key.Name) > record.MaxKeyBytes {
		return
	}
	k := s.sink(key.Sink)
	hash := s.hash(k, key.Name)
	id, ok := s.lookup(k, key.Name, hash)
	if !ok {
		id = s.add(k, key.Name, hash)
	}
	e := s.slab.at(id)
	if ok && !e.is(removed) {
		k.phases[e.phase]--
	} else {
		e.unmark(removed)
		s.live++
	}
	e.phase = phaseIndex(p.Phase)
	k.phases[e.phase]++
	s.setAge(k, id, p.Since)
	if settle {
		s.unhold(e)
	}
	due := never
	if !p.At.IsZero() {
		due = s.clock.from(p.At)
	}
	s.setDue(k, id, min(p.Class, Check), due)
	s.place(k)
}

// setDue changes when, and as what, an entry is due.
func (s *Schedule) setDue(k *sink, id uint32, c Class, due int64) {
	e := s.slab.at(id)
	want := e.waiting() && due != never
	if e.queued(byDue) && (!want || e.class() != c) {
		k.due[e.class()].remove(&s.slab, byDue, id)
	}
	e.setClass(c)
	e.t[byDue] = due
	switch {
	case !want:
	case e.queued(byDue):
		k.due[c].fix(&s.slab, byDue, id)
	default:
		k.due[c].push(&s.slab, byDue, id)
	}
}

// setAge changes since when an entry is unacknowledged.
func (s *Schedule) setAge(k *sink, id uint32, since time.Time) {
	e := s.slab.at(id)
	t := int64(0)
	if !since.IsZero() {
		t = max(1, wallNanos(since))
	}
	if t == e.t[byAge] {
		return
	}
	e.t[byAge] = t
	switch {
	case t == 0:
		k.age.remove(&s.slab, byAge, id)
	case e.queued(byAge):
		k.age.fix(&s.slab, byAge, id)
	default:
		k.age.push(&s.slab, byAge, id)
	}
}

func (s *Schedule) unhold(e *entry) {
	if e.is(held) {
		e.unmark(held)
		s.held--
	}
}

// Remove takes key out. While it is in flight that happens when it is Done.
func (s *Schedule) Remove(key record.Key) {
	k, id, ok := s.find(key)
	if !ok || s.slab.at(id).is(removed) {
		return
	}
	e := s.slab.at(id)
	s.live--
	k.phases[e.phase]--
	s.setAge(k, id, time.Time{})
	if e.is(inFlight) {
		e.mark(removed)
		return
	}
	s.unhold(e)
	s.setDue(k, id, e.class(), never)
	s.drop(k, id)
	s.place(k)
	s.tidy(k)
}

// Release ends the hold of key without a new plan: the outcome of its delivery
// could not be stored. It is due by its last plan.
func (s *Schedule) Release(key record.Key) {
	k, id, ok := s.find(key)
	if !ok {
		return
	}
	e := s.slab.at(id)
	s.unhold(e)
	s.setDue(k, id, e.class(), e.t[byDue])
	s.place(k)
}

// SetUnsure notes whether a call of key may have been sent whose fate isn't
// known. Of an unknown key it notes nothing. A new entry is sure.
func (s *Schedule) SetUnsure(key record.Key, on bool) {
	_, id, ok := s.find(key)
	switch {
	case !ok:
	case on && !s.slab.at(id).is(unsure):
		s.slab.at(id).mark(unsure)
		s.unsure++
	case !on && s.slab.at(id).is(unsure):
		s.slab.at(id).unmark(unsure)
		s.unsure--
	}
}

// Unsure returns what SetUnsure noted.
func (s *Schedule) Unsure(key record.Key) bool {
	_, id, ok := s.find(key)
	return ok && s.slab.at(id).is(unsure)
}

// Lookup returns what is known of key. Times are in UTC; one that was set before
// the clock was set back says when it will come by the clock as it is now.
func (s *Schedule) Lookup(key record.Key) (Entry, bool) {
	_, id, ok := s.find(key)
	if !ok {
		return Entry{}, false
	}
	e := s.slab.at(id)
	p := Plan{Class: e.class(), Phase: phases[e.phase]}
	if due := e.t[byDue]; due != never {
		p.At = s.clock.wall(due)
	}
	if since := e.t[byAge]; since != 0 {
		p.Since = time.Unix(0, since).UTC()
	}
	return Entry{
		Plan: p, InFlight: e.is(inFlight), Held: e.is(held), Removed: e.is(removed), Unsure: e.is(unsure),
	}, true
}

func (s *Schedule) hash(k *sink, name string) uint32 {
	return uint32((maphash.String(s.seed, name) ^ uint64(k.id)*0x9e3779b97f4a7c15) >> 32)
}

// find returns key's sink and entry.
func (s *Schedule) find(key record.Key) (*sink, uint32, bool) {
	k := s.byName[key.Sink]
	if k == nil {
		return nil, none, false
	}
	id, ok := s.lookup(k, key.Name, s.hash(k, key.Name))
	return k, id, ok
}

func (s *Schedule) lookup(k *sink, name string, hash uint32) (uint32, bool) {
	g, tag := s.table.segment(hash), tagOf(hash)
	for i := hash % segSlots; g.tags[i] != 0; i = (i + 1) % segSlots {
		if g.tags[i] != tag {
			continue
		}
		e := s.slab.at(g.ids[i])
		if e.hash == hash && e.sink == k.id && string(s.names.bytes(e.name, int(e.size))) == name {
			return g.ids[i], true
		}
	}
	return none, false
}

// add makes an entry that is parked.
func (s *Schedule) add(k *sink, name string, hash uint32) uint32 {
	id, e := s.slab.take()
	e.t[byDue] = never
	e.name, e.size = s.names.put(name), uint16(len(name))
	e.hash, e.sink = hash, k.id
	s.table.insert(&s.slab, hash, id)
	k.entries++
	return id
}

// drop frees an entry that is in no heap.
func (s *Schedule) drop(k *sink, id uint32) {
	e := s.slab.at(id)
	if e.is(unsure) {
		s.unsure--
	}
	s.table.remove(&s.slab, e.hash, id)
	s.names.drop(e.name, int(e.size))
	s.slab.release(id)
	k.breaker.forget(id)
	k.entries--
}

func (s *Schedule) key(id uint32) record.Key {
	e := s.slab.at(id)
	return record.Key{Sink: s.sinks[e.sink].name, Name: string(s.names.bytes(e.name, int(e.size)))}
}

// sink returns the sink of that name, which need not be configured.
func (s *Schedule) sink(name string) *sink {
	if k := s.byName[name]; k != nil {
		return k
	}
	k := &sink{name: name}
	k.breaker.reset()
	if n := len(s.freeSinks); n > 0 {
		k.id = s.freeSinks[n-1]
		s.freeSinks = s.freeSinks[:n-1]
		s.sinks[k.id] = k
	} else {
		k.id = uint32(len(s.sinks))
		s.sinks = append(s.sinks, k)
	}
	s.byName[name] = k
	return k
}

// tidy drops a sink of which there is nothing to remember.
func (s *Schedule) tidy(k *sink) {
	if k.configured || k.suspended || k.entries > 0 {
		return
	}
	delete(s.byName, k.name)
	s.sinks[k.id] = nil
	s.freeSinks = append(s.freeSinks, k.id)
}
