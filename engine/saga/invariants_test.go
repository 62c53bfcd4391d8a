package saga

import (
	"bytes"
	"encoding/json"
)

// journal returns what the next process finds of s.
func (x *explorer) journal(s *State, now int16) *State {
	j := s.journalled()
	if !x.json {
		return j
	}
	var back State
	b, err := json.Marshal(s)
	if err == nil {
		err = json.Unmarshal(b, &back)
	}
	if err != nil || !bytes.Equal(back.appendKey(nil, now), j.appendKey(nil, now)) {
		x.violated("the journal forgets: %s, %v", b, err)
	}
	return &back
}

// durable checks that the journal has what has to be known if e is done and the
// process dies.
func (x *explorer) durable(p *proc, e Effect) {
	switch e.Kind {
	case Write, Restore:
		if p.disk == nil || p.disk.Phase != p.mem.Phase || !p.disk.Steps[e.Step].Pending.Equal(p.mem.Steps[e.Step].Pending) {
			x.violated("%s, and the journal does not know", e)
		}
	case Adopt, Unlock, End:
		if p.disk == nil || p.disk.Outcome == "" {
			x.violated("%s, and the journal does not know the outcome", e)
		}
	}
}

// sane checks what holds at every moment.
func (x *explorer) sane(p *proc) {
	s := p.mem
	for i := range s.Steps {
		st := &s.Steps[i]
		if st.Doubt && s.Phase != Forward {
			x.violated("step %d is in doubt, and it is %s", i+1, s.Phase)
		}
		if st.Landed && (st.Doubt || st.Refusal != nil) {
			x.violated("step %d has landed, and is in doubt or refused", i+1)
		}
		if st.Undone && s.Outcome == Committed {
			x.violated("step %d is undone, and it is committed", i+1)
		}
	}
	if p.told != "" && p.told != s.Outcome {
		x.violated("the caller was told %s, now it is %q", p.told, s.Outcome)
	}
}

// tell tells the caller of process i its outcome, which is durable.
func (x *explorer) tell(n *node, i int) {
	p := &n.procs[i]
	if p.told == "" {
		p.told = p.mem.Outcome
		x.truth(n, i)
	}
}

// truth checks that what the caller was told is true, unless a third party, or a
// rival, changed it.
func (x *explorer) truth(n *node, i int) {
	told := n.procs[i].told
	for j := range x.plan.specs[i].Steps {
		t := n.w.things[j]
		free := x.rivals > 1 || n.w.touched&(1<<j) != 0
		switch {
		case told == Committed && t.holds != x.plan.wants(j, i) && !free:
			x.violated("committed, and object %d holds %d", j+1, t.holds)
		case told == RolledBack && t.holds != x.plan.start[j] && !free:
			x.violated("rolled back, and object %d holds %d", j+1, t.holds)
		case told == RolledBack && (t.mark == uint8(i)+1 || t.holds == written+content(i)):
			x.violated("rolled back, and object %d is still ours", j+1)
		}
	}
	for _, r := range n.w.flying[:n.w.flights] {
		if told == RolledBack && int(r.run) == i && r.kind == Write {
			x.violated("rolled back, and its write %d may still land", r.step+1)
		}
	}
}

// left checks that nothing is left behind; gone: not even a write that landed.
func (x *explorer) left(n *node, i int, gone bool) {
	me := uint8(i) + 1
	for target, holder := range n.w.locks {
		if holder == me {
			x.violated("it ended, and holds a lock at %s", sinkName(uint8(target)))
		}
	}
	for _, r := range n.w.flying[:n.w.flights] {
		if int(r.run) == i && n.now < r.until {
			x.violated("it ended, and its %s %d may still land", r.kind, r.step+1)
		}
	}
	for j, t := range n.w.things {
		if t.tomb == me || gone && (t.mark == me || t.holds == written+content(i)) {
			x.violated("it ended, and its mark is left at object %d", j+1)
		}
	}
}

// ended checks an end of process i.
func (x *explorer) ended(n *node, i int, kind Kind) {
	told := n.procs[i].told
	if kind == Halt {
		x.ends["Stuck"]++
		if n.w.touched == 0 && (x.rivals == 1 || x.plan.specs[0].Mode == Pessimistic) {
			x.violated("stuck, and nobody else changed anything: %s", n.procs[i].mem.Stuck)
		}
		if told != "" {
			x.violated("stuck, and the caller was told %s", told)
		}
		return
	}
	x.ends[string(told)]++
	if told == "" {
		x.violated("it ended, and the caller was told nothing")
	}
	x.truth(n, i)
	x.left(n, i, false)
}

// over checks an end of all: of rivals exactly one or none won, or one after the
// other did, and then the objects are all as one of them wants them.
func (x *explorer) over(n *node) {
	if x.rivals == 1 {
		return
	}
	p, a, b := x.plan, n.procs[0].told, n.procs[1].told
	stuck := a == "" && n.procs[0].mem != nil || b == "" && n.procs[1].mem != nil
	all := func(want func(j int) content) bool {
		for j := range p.specs[0].Steps {
			if n.w.things[j].holds != want(j) {
				return false
			}
		}
		return true
	}
	wants := func(run int) func(int) content { return func(j int) content { return p.wants(j, run) } }
	switch both := a == Committed && b == Committed; {
	case both:
		for j := range p.specs[0].Steps {
			if p.verb(0, uint8(j)) == Create && p.verb(1, uint8(j)) == Create {
				x.violated("both created object %d", j+1)
			}
		}
		if p.specs[0].Mode == Pessimistic && !all(wants(0)) && !all(wants(1)) {
			x.violated("both committed, and the objects are of both")
		}
	case a == Committed && !all(wants(0)), b == Committed && !all(wants(1)):
		x.violated("one committed, and not all is as it wants it")
	case a != Committed && b != Committed && !stuck && !all(func(j int) content { return p.start[j] }):
		x.violated("none committed, and not all is as it was")
	}
	x.ends["both over"]++
}
