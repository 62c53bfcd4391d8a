package meter

import "slices"

// control handles the instructions that open and close blocks, and the
// branches.
func (s *scan) control(at int, op byte) {
	switch op {
	case opBlock, opLoop, opIf:
		s.enter(at, op)
	case opElse:
		s.alternative(at)
	case opEnd:
		s.leave()
	case opBr:
		s.jump(at, s.label())
		s.cur = noNode
	case opBrIf:
		s.branch(s.label(), false)
		s.follow()
	case opBrTable:
		s.table(at)
		s.cur = noNode
	}
}

// follow starts a node that is reached from the current one alone.
func (s *scan) follow() {
	if s.cur != noNode {
		n := s.newNode(s.r.pos)
		s.edge(s.cur, n, false)
		s.cur = n
	}
}

func (s *scan) enter(at int, op byte) {
	plain := s.blockType()
	if len(s.open) > s.m.limits.Nesting {
		s.r.fail(at, "blocks nest deeper than the %d allowed", s.m.limits.Nesting)
		return
	}
	f := int32(len(s.frames))
	fr := frame{op: op, plain: plain, depth: int32(len(s.open)), start: s.cur, pending: -1}
	if op != opBlock {
		s.follow()
	}
	switch {
	case op == opLoop:
		fr.start = s.cur
		s.blocksLoop, s.blocksEnd = f, s.r.pos
	case op == opBlock && s.blocksEnd == at:
		s.blocksEnd = s.r.pos
	}
	s.frames, s.open = append(s.frames, fr), append(s.open, f)
}

// blockType reads the type of a block, and says whether it is without
// parameters and results.
func (s *scan) blockType() bool {
	r := s.r
	if r.more() {
		if c := r.b[r.pos]; c == typeNone || isValueType(c) {
			r.pos++
			return c == typeNone
		}
	}
	at := r.pos
	if i := r.signed(33); r.err == nil && (i < 0 || i >= int64(len(s.m.params))) {
		r.fail(at, "the type of a block, %d, does not exist", i)
	}
	return false
}

func (s *scan) alternative(at int) {
	fr := s.innermost()
	if fr.op != opIf {
		s.r.fail(at, "an else without an if")
		return
	}
	s.toEnd(s.cur, fr)
	fr.op = opElse
	if s.cur = fr.start; s.cur != noNode {
		s.follow()
	}
}

// toEnd adds an edge from a node to the end of a frame.
func (s *scan) toEnd(from int32, fr *frame) {
	if from != noNode {
		s.edges = append(s.edges, edge{from: from, to: noNode, next: fr.pending})
		fr.pending = int32(len(s.edges) - 1)
	}
}

func (s *scan) leave() {
	fr := s.innermost()
	if fr.op == opIf {
		s.toEnd(fr.start, fr)
	}
	if fr.pending >= 0 {
		before := s.cur
		s.cur = s.newNode(s.r.pos)
		s.edge(before, s.cur, false)
		for e := fr.pending; e >= 0; e = s.edges[e].next {
			s.edges[e].to = s.cur
		}
	}
	fr.closed, fr.end = true, s.cur
	s.open = s.open[:len(s.open)-1]
}

// table handles br_table.
func (s *scan) table(at int) {
	n := s.r.count(s.r.end, "labels")
	targets := make([]int32, 0, n+1)
	for i := 0; i <= n && s.r.err == nil; i++ {
		targets = append(targets, s.label())
	}
	if s.r.err != nil || s.cur == noNode {
		return
	}
	if s.selectEnd == at && at > 0 {
		loop := &s.frames[s.blocksLoop]
		loop.local, loop.targets = int32(s.selectLocal), targets
		s.nodes[s.cur].selects = true
	}
	// The first target comes first, and each of them once.
	first := targets[0]
	distinct := slices.Clone(targets)
	slices.Sort(distinct)
	s.branch(first, false)
	for _, t := range slices.Compact(distinct) {
		if t != first {
			s.branch(t, false)
		}
	}
}

// jump handles br. Go's compiler lets every jump within a function go through
// the start of one big loop: it stores the number of the target in a local and
// branches to the loop, which begins with a br_table on that local. Where such a
// jump leads is known, then; one that leads forward need not go around the loop,
// and only those that lead back need a check.
func (s *scan) jump(at int, f int32) {
	if s.cur == noNode || s.r.err != nil {
		return
	}
	t := s.target(at, &s.frames[f])
	switch {
	case t < 0:
		s.branch(f, true)
	case s.frames[t].closed:
		if !s.m.exact { // whose start of the loop is charged by itself
			s.nodes[s.cur].cost += int64(plain[opBrTable].cost + plain[opLocalGet].cost)
		}
		s.branch(t, true)
	default:
		depth := s.innermost().depth - s.frames[t].depth
		s.edits = append(s.edits, edit{pos: at, end: s.r.pos, kind: editBranch, arg: int(depth)})
		s.branch(t, true)
	}
}

// target is the frame to whose end a br to the start of loop leads, or -1 if
// that isn't known.
func (s *scan) target(at int, loop *frame) int32 {
	if loop.op != opLoop || !loop.plain || len(loop.targets) == 0 || s.setEnd != at || int32(s.setLocal) != loop.local {
		return -1
	}
	i := min(uint64(uint32(s.constant)), uint64(len(loop.targets)-1))
	t := loop.targets[i]
	fr := &s.frames[t]
	if fr.op != opBlock || !fr.plain || fr.depth <= loop.depth || fr.closed && fr.end == noNode {
		return -1
	}
	return t
}
