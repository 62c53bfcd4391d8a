package saga

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/pawlsync/pawl/engine/sink"
)

// budget is how much may go wrong in one run.
type budget struct{ silences, refusals, crashes, meddling, pauses uint8 }

// proc is one saga's process: what it has in memory and in its journal. States that
// a node holds are never changed; they are cloned first.
type proc struct {
	mem, disk *State
	told      Outcome // to the caller
	seen      uint16  // kinds and steps of the calls since it last paused
	over      bool
}

// node is one state of everything.
type node struct {
	now   int16
	w     world
	procs [2]proc
	left  budget
}

var epoch = time.Unix(1_000_000, 0)

func at(tick int16) time.Time   { return epoch.Add(time.Duration(tick) * time.Second) }
func tickOf(t time.Time) int16  { return int16(t.Sub(epoch) / time.Second) }
func ticks(n int) time.Duration { return time.Duration(n) * time.Second }
func (p *plan) proc(run int) proc {
	return proc{mem: Start(p.specs[run], p.rules, fmt.Sprint(run), at(0))}
}
func sinkName(target uint8) string    { return string(rune('a' + target)) }
func backoff(tries int) time.Duration { return ticks(backoffTicks) }

func (s *State) clone() *State {
	c := *s
	c.Steps = slices.Clone(s.Steps) // what a step points to is never changed
	return &c
}

// journalled is what a later process finds.
func (s *State) journalled() *State {
	c := s.clone()
	c.Tries, c.NextAt, c.Released, c.Adopted = 0, time.Time{}, 0, false
	return c
}

// appendKey appends what decides how s goes on; times count from now.
func (s *State) appendKey(b []byte, now int16) []byte {
	rel := func(t time.Time) byte {
		if t.IsZero() {
			return 0
		}
		return 1 + byte(max(0, tickOf(t)-now))
	}
	flags := func(bs ...bool) (f byte) {
		for i, on := range bs {
			if on {
				f |= 1 << i
			}
		}
		return f
	}
	b = append(b, s.Phase[0], flags(s.Outcome == Committed, s.Outcome == RolledBack, s.Stuck != "", s.Adopted),
		max(1, rel(s.Deadline)), max(1, rel(s.NextAt)), byte(s.Released))
	for i := range s.Steps {
		st := &s.Steps[i]
		before := byte(0)
		if st.Before != nil {
			before = 1 + byte(contentOf(st.Before))
		}
		b = append(b, before, byte(st.Sent), rel(st.Pending), max(1, rel(st.LateUntil)),
			flags(st.Missed, st.Doubt, st.Refusal != nil, st.Landed, st.Undone))
	}
	return b
}

func (n *node) key(b []byte) []byte {
	b = n.w.appendKey(b, n.now)
	b = append(b, n.left.silences, n.left.refusals, n.left.crashes, n.left.meddling, n.left.pauses)
	for i := range n.procs {
		p := &n.procs[i]
		over := byte(0)
		if p.over {
			over = 1
		}
		b = append(b, over, byte(len(p.told)), byte(p.seen), byte(p.seen>>8))
		if p.mem != nil {
			b = p.mem.appendKey(b, n.now)
		}
		if p.disk != nil {
			b = p.disk.appendKey(append(b, 0xff), n.now)
		}
	}
	return b
}

// event is how one node was reached from another.
type event struct {
	what   string
	proc   int
	effect Effect // Kind 0: none
	status sink.Status
	more   string
}

func (e event) String() string {
	s := e.what
	if e.effect.Kind != 0 {
		s = fmt.Sprintf("saga %d: %s%s", e.proc, e.what, e.effect)
	}
	if e.status != 0 {
		s += ": " + e.status.String()
	}
	return strings.TrimSpace(s + " " + e.more)
}

// explorer walks over all that can happen to the sagas of one plan.
type explorer struct {
	plan   *plan
	rivals int
	json   bool // the journal is read back from its bytes
	ids    map[string]int32
	queue  []node
	from   []int32 // by id: the node it was first reached from
	via    []event // by id: how
	good   []int32 // by id: where it goes when nothing goes wrong any more; -1: it is an end
	at     int32   // the node being expanded
	path   []byte
	ends   map[string]int
	fault  string // the first violation, with its story
}

func explore(p *plan, rivals int, left budget) *explorer {
	return (&explorer{plan: p, rivals: rivals}).explore(left)
}

func (x *explorer) explore(left budget) *explorer {
	p := x.plan
	x.at, x.ids, x.ends = -1, map[string]int32{}, map[string]int{}
	n := node{left: left}
	for i := range p.specs[0].Steps {
		n.w.things[i].holds = p.start[i]
	}
	for i := range x.rivals {
		n.procs[i] = p.proc(i)
	}
	x.reach(n, event{what: "start"})
	for x.at = 0; int(x.at) < len(x.from) && x.fault == ""; x.at++ {
		n := x.queue[0]
		x.queue = x.queue[1:]
		x.expand(n)
	}
	if x.fault == "" {
		x.mustEnd()
	}
	return x
}

// reach notes n, and returns its id.
func (x *explorer) reach(n node, via event) int32 {
	n.w.expire(n.now)
	x.path = n.key(x.path[:0])
	if id, ok := x.ids[string(x.path)]; ok {
		return id
	}
	id := int32(len(x.from))
	x.ids[string(x.path)] = id
	x.queue, x.from, x.via, x.good = append(x.queue, n), append(x.from, x.at), append(x.via, via), append(x.good, -1)
	return id
}

// violated notes a violation, with the way to it.
func (x *explorer) violated(format string, args ...any) {
	if x.fault != "" {
		return
	}
	var story []string
	for id := x.at; id >= 0; id = x.from[id] {
		story = append(story, x.via[id].String())
	}
	slices.Reverse(story)
	x.fault = fmt.Sprintf(format, args...) + "\n\t" + strings.Join(story, "\n\t")
}

// mustEnd checks that whatever went wrong, an end comes once nothing does any more.
func (x *explorer) mustEnd() {
	const unknown, open, ended = 0, 1, 2
	state := make([]byte, len(x.good))
	var way []int32
	for id := range x.good {
		way = way[:0]
		i := int32(id)
		for i >= 0 && state[i] == unknown {
			state[i] = open
			way = append(way, i)
			i = x.good[i]
		}
		if i >= 0 && state[i] == open {
			x.at = i
			x.violated("it goes in circles")
			return
		}
		for _, i := range way {
			state[i] = ended
		}
	}
}

// expand notes all that can come after n.
func (x *explorer) expand(n node) {
	good := int32(-1)
	for i := range x.rivals {
		if n.procs[i].over {
			continue
		}
		if next := x.step(n, i); good < 0 {
			good = next
		}
		if n.left.crashes > 0 {
			x.crash(n, i, event{what: "dies"})
		}
	}
	if good < 0 {
		x.over(&n)
		return
	}
	if n.w.down {
		up := n
		up.w.down = false
		good = x.reach(up, event{what: "the targets are back"})
	}
	x.good[x.at] = good
	x.meanwhile(n)
}

// meanwhile is what happens without the sagas' doing.
func (x *explorer) meanwhile(n node) {
	for i := range int(n.w.flights) {
		m := n
		m.w.lands(x.plan, i)
		x.reach(m, event{what: "lands: ", proc: int(n.w.flying[i].run), effect: Effect{Kind: n.w.flying[i].kind, Step: int(n.w.flying[i].step)}})
	}
	if n.left.meddling > 0 {
		for i := range x.plan.specs[0].Steps {
			for how := range 3 {
				m := n
				m.left.meddling--
				m.w.meddle(i, how)
				x.reach(m, event{what: meddlings[how], more: strconv.Itoa(i + 1)})
			}
		}
	}
	if n.left.pauses > 0 {
		m := n
		m.left.pauses--
		m.pass(m.now + sagaTicks)
		x.reach(m, event{what: "time passes"})
		if !n.w.down {
			m = n
			m.left.pauses--
			m.w.down = true
			x.reach(m, event{what: "the targets go down"})
		}
	}
}

// pass lets time pass in which nobody works.
func (n *node) pass(until int16) {
	n.now = until
	for i := range n.procs {
		n.procs[i].seen = 0
	}
}

// crash kills process i; another one finds the journal.
func (x *explorer) crash(n node, i int, when event) {
	n.left.crashes--
	p := &n.procs[i]
	p.seen = 0
	if p.disk == nil {
		p.over, p.mem = true, nil
		x.left(&n, i, true)
	} else {
		p.mem = Resume(p.disk.clone(), x.plan.specs[i], x.plan.rules, at(n.now))
	}
	when.proc = i
	x.reach(n, when)
}

// step lets process i do its next thing, in all the ways in which that can go, and
// returns the id of the one where nothing goes wrong.
func (x *explorer) step(n node, i int) int32 {
	p := &n.procs[i]
	s := p.mem.clone()
	e := s.Next(at(n.now))
	p.mem = s
	x.sane(p)
	if e.Durable {
		p.disk = x.journal(s, n.now)
		if s.Outcome != "" {
			x.tell(&n, i)
		}
	}
	if n.left.crashes > 0 && e.Durable {
		x.crash(n, i, event{what: "dies after the journal, before ", effect: e})
	}
	x.durable(p, e)
	via := event{proc: i, effect: e}
	switch e.Kind {
	case Wait:
		if !e.Until.After(at(n.now)) {
			x.violated("it waits for nothing")
		}
		n.pass(tickOf(e.Until))
		return x.reach(n, via)
	case End, Halt:
		p.over = true
		x.ended(&n, i, e.Kind)
		return x.reach(n, via)
	case Adopt:
		s.Answered(e, sink.Result{}, at(n.now))
		return x.reach(n, via)
	}
	bit := uint16(1) << (3*uint8(e.Kind-Look) + uint8(e.Step))
	if e.Kind == Unlock {
		bit = 1 << (3*4 + uint8(e.Step))
	}
	if p.seen&bit != 0 {
		x.violated("%s twice without a pause", e)
	}
	p.seen |= bit
	return x.call(n, i, e, via)
}

// call makes the call that e is, in all the ways in which it can go.
func (x *explorer) call(n node, i int, e Effect, via event) int32 {
	good := int32(-1)
	outcomes := x.outcomes(&n, i, e)
	for _, o := range outcomes {
		m := n
		m.w = o.w
		if n.left.crashes > 0 && o.w != n.w {
			x.crash(m, i, event{what: "dies within ", effect: e})
		}
		if n.left.silences < o.silences || n.left.refusals < o.refusals {
			continue
		}
		m.left.silences -= o.silences
		m.left.refusals -= o.refusals
		if o.took > 0 { // for all the others, too
			m.pass(m.now + o.took)
			m.procs[i].seen = n.procs[i].seen
		}
		m.procs[i].mem = n.procs[i].mem.clone()
		m.procs[i].mem.Answered(e, o.r, at(m.now))
		via.status, via.more = o.r.Status, o.what
		id := x.reach(m, via)
		if good < 0 {
			good = id
		}
	}
	return good
}
