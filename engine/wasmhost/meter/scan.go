package meter

// A function's code is scanned into a graph: nodes are stretches of code that
// run as a whole, edges are what may follow. Code that can't be reached has no
// node (noNode).
type node struct {
	pos   int   // where its charge and check go: the byte before which they stand
	cost  int64 // units, calls of functions that don't charge themselves included
	quiet int64 // units that called functions charge themselves, without a check
	check bool  // fuel is checked here
	// selects marks the start of a loop which jumps to where the function was
	// left, mostly to its beginning; see jump.
	selects bool

	// Filled in by plan.
	ahead     int64 // paid by whoever comes here; see plan
	most      int64 // ahead is kept at or below it
	unchecked int64 // most units from here to the next check
	longest   int64 // most units from here to the end, loops run once
	charge    int64 // units that are charged here
}

const noNode = -1

// edge says that to may follow from; it is a way back if to is not behind from.
type edge struct {
	from, to int32
	next     int32 // of the edges whose end is not known yet: the next of the same frame
	jump     bool  // by an unconditional br, which may be checked where it starts
}

// edit replaces the bytes from pos to end, or stands before pos.
type edit struct {
	pos, end int
	kind     editKind
	arg      int
	dynamic  dynamic
}

type editKind uint8

const (
	editCall    editKind = iota // the call of function arg, inside of a counted call if it is counted
	editCounted                 // a call that may be part of a recursion: count depth around it
	editRefFunc                 // ref.func arg
	editBranch                  // br arg
	editDynamic                 // charge by the operand, before pos
)

// frame is a block that was opened.
type frame struct {
	op      byte
	plain   bool  // it has no parameters and no results
	depth   int32 // how many frames are around it
	start   int32 // of a loop its node, of an if the node with the condition
	end     int32 // the node behind its end once that is reached
	pending int32 // edges to its end
	closed  bool
	// A loop that starts by a jump to one of many blocks, by the value of a local.
	local   int32
	targets []int32 // frames
}

// scan is the graph of one function, and what is to be changed in it.
type scan struct {
	m *module
	r *reader

	nodes  []node
	edges  []edge
	edits  []edit
	frames []frame

	cur      int32   // the node that runs here
	open     []int32 // the frames that are open, the innermost last
	locals   int
	passed   int64 // bytes that a call passes or gets, at most
	scratch  bool  // it needs the scratch local
	loops    bool  // it has a way back
	indirect bool  // it has a call_indirect
	code     int   // where its instructions start
	groups   span  // its declarations of locals, without their number
	ngroups  int

	// What recognises jumps that go through the start of a loop: the last
	// constant, the local that it was stored in, the last local that was read
	// after nothing but blocks since loop blocksLoop; and where each of them ended.
	constEnd, constant     int
	setEnd, setLocal       int
	blocksEnd              int
	blocksLoop             int32
	selectEnd, selectLocal int

	// callee says what a call of function f means for its caller. It is nil while
	// the call graph isn't known.
	callee  func(f int) callee
	calls   []int // the functions that it calls, in the order of the code
	counted bool  // it has calls of functions that are counted
	leaf    bool  // it calls no function that charges itself
}

// callee is what the call of a function means.
type callee struct {
	free    bool  // it does not charge itself
	cost    int64 // to be charged by the caller
	quiet   int64 // work that the function charges itself, without a check
	counted bool  // depth is counted
}

// maxNode is the cost after which a node is split.
const maxNode = 1000

func (s *scan) newNode(pos int) int32 {
	s.nodes = append(s.nodes, node{pos: pos})
	return int32(len(s.nodes) - 1)
}

func (s *scan) edge(from, to int32, jump bool) {
	if from == noNode {
		return
	}
	if to <= from {
		s.loops = true
	}
	s.edges = append(s.edges, edge{from: from, to: to, next: -1, jump: jump})
}

// branch adds an edge from the current node to where a branch to frame f goes.
func (s *scan) branch(f int32, jump bool) {
	fr := &s.frames[f]
	switch {
	case s.cur == noNode || fr.op == 0:
	case fr.op == opLoop:
		s.edge(s.cur, fr.start, jump)
		if !jump {
			s.nodes[fr.start].check = true
		}
	case fr.closed:
		s.edge(s.cur, fr.end, jump)
	default:
		s.edges = append(s.edges, edge{from: s.cur, to: noNode, next: fr.pending, jump: jump})
		fr.pending = int32(len(s.edges) - 1)
	}
}

// innermost is the frame that was opened last.
func (s *scan) innermost() *frame { return &s.frames[s.open[len(s.open)-1]] }

func (s *scan) label() int32 {
	at := s.r.pos
	l := s.r.u32()
	if s.r.err == nil && int64(l) >= int64(len(s.open)) {
		s.r.fail(at, "label %d does not exist: %d are open", l, len(s.open))
	}
	if s.r.err != nil {
		return 0
	}
	return s.open[len(s.open)-1-int(l)]
}

// reset makes s ready for the function's body, whose locals it reads.
func (s *scan) reset(params int, body span) {
	m := s.m
	*s = scan{m: m, r: s.r, nodes: s.nodes[:0], edges: s.edges[:0], edits: s.edits[:0], frames: s.frames[:0], open: s.open[:0],
		calls: s.calls[:0], callee: s.callee, leaf: true}
	s.r.pos, s.r.end, s.r.err = body.from, body.to, nil
	s.locals = params
	s.ngroups = s.r.count(1<<32-1, "groups of locals")
	s.groups.from = s.r.pos
	for i := 0; i < s.ngroups && s.r.err == nil; i++ {
		at := s.r.pos
		n := s.r.u32()
		s.r.valueType()
		if s.r.err == nil && int64(n) > int64(m.limits.Locals-s.locals) {
			s.r.fail(at, "more than the %d locals allowed", m.limits.Locals)
		}
		s.locals += int(n)
	}
	s.groups.to = s.r.pos
	s.code = s.r.pos
	s.cur = s.newNode(s.code)
	s.frames, s.open = append(s.frames, frame{op: 0, pending: -1}), append(s.open, 0)
}

// function scans one function's body.
func (s *scan) function(params int, body span) *Error {
	s.reset(params, body)
	for s.r.err == nil && len(s.open) > 0 {
		s.instruction()
	}
	if s.r.more() {
		s.r.fail(s.r.pos, "%d bytes are left after its end", s.r.end-s.r.pos)
	}
	return s.r.err
}

func (s *scan) instruction() {
	r := s.r
	at := r.pos
	op := r.byte()
	in := plain[op]
	switch in.imm {
	case immMisc:
		in = s.prefixed(&misc)
	case immVector:
		in = s.prefixed(&vector)
	}
	if r.err != nil {
		return
	}
	if s.cur != noNode {
		n := &s.nodes[s.cur]
		if n.cost >= maxNode {
			next := s.newNode(at)
			s.edge(s.cur, next, false)
			s.cur = next
			n = &s.nodes[next]
		}
		n.cost += int64(in.cost)
		if in.dynamic.mul != 0 {
			s.scratch = true
			s.edits = append(s.edits, edit{pos: at, end: at, kind: editDynamic, dynamic: in.dynamic})
		}
	}
	switch in.imm {
	case immBlock, immElse, immEnd, immBr, immBrTable:
		s.control(at, op)
		return
	}
	s.immediates(at, op, in.imm)
	if op == opReturn || op == opUnreachable {
		s.cur = noNode
	}
}

// prefixed reads the second opcode. That of a vector instruction must be written
// in the shortest way: wazero takes its first byte for all of it, and must see
// the same instructions as this rewriter.
func (s *scan) prefixed(t *[256]instr) instr {
	at := s.r.pos
	op := s.r.u32()
	n := s.r.pos - at
	if s.r.err == nil && (op > 0xff || t[op].imm == immUnknown) {
		s.r.fail(at-1, "the instruction %#x %#x is unknown or not allowed", s.r.b[at-1], op)
	}
	if s.r.err == nil && t == &vector && (n > 2 || n == 2 && op < 0x80) {
		s.r.fail(at-1, "the number of an instruction is longer than it needs to be")
	}
	if s.r.err != nil {
		return instr{}
	}
	return t[op]
}

func (s *scan) needsMemory(at int) {
	if s.m.memories == 0 {
		s.r.fail(at, "memory 0 does not exist: the module has none")
	}
}

func (s *scan) zero(at int) {
	if c := s.r.byte(); s.r.err == nil && c != 0 {
		s.r.fail(at, "memory %d does not exist", c)
	}
	s.needsMemory(at)
}

func (s *scan) dataIndex(at int) {
	if s.m.data < 0 {
		s.r.fail(at, "there is no data count section, which this instruction needs")
	}
	s.r.index(s.m.data, "data segment")
}

func (s *scan) immediates(at int, op byte, kind imm) {
	r, m := s.r, s.m
	switch kind {
	case immNone:
	case immCall:
		s.call(at, r.index(len(m.funcs), "function"))
	case immIndirect:
		t := r.index(len(m.params), "type")
		r.index(m.tables, "table")
		if s.cur != noNode && r.err == nil {
			s.indirect, s.passed = true, max(s.passed, m.passed[t])
			s.edits = append(s.edits, edit{pos: at, end: r.pos, kind: editCounted, arg: -1})
		}
	case immLocal:
		s.local(at, op, r.index(s.locals, "local"))
	case immGlobal:
		r.index(m.globals, "global")
	case immTable:
		r.index(m.tables, "table")
	case immMemArg, immMemLane:
		s.needsMemory(at)
		if align := r.u32(); r.err == nil && align > 4 {
			r.fail(at, "an alignment of 1<<%d is not possible", align)
		}
		r.u32()
		if kind == immMemLane {
			r.byte()
		}
	case immMemory:
		s.zero(at)
	case immTwoMem:
		s.zero(at)
		s.zero(at)
	case immI32:
		s.constant, s.constEnd = int(r.signed(32)), r.pos
	case immI64:
		r.signed(64)
	case imm4:
		r.skip(4)
	case imm8:
		r.skip(8)
	case imm16:
		r.skip(16)
	case immLane:
		r.byte()
	case immRefType:
		r.refType()
	case immRefFunc:
		f := r.index(len(m.funcs), "function")
		if r.err == nil {
			m.referred[f] = true
			s.edits = append(s.edits, edit{pos: at, end: r.pos, kind: editRefFunc, arg: f})
		}
	case immSelect:
		if n := r.u32(); r.err == nil && n != 1 {
			r.fail(at, "a select of %d types", n)
		}
		r.valueType()
	case immDataMem:
		s.dataIndex(at)
		s.zero(at)
	case immData:
		s.dataIndex(at)
	case immElemTable:
		r.index(m.elements, "element segment")
		r.index(m.tables, "table")
	case immElem:
		r.index(m.elements, "element segment")
	case immTwoTables:
		r.index(m.tables, "table")
		r.index(m.tables, "table")
	default:
		r.fail(at, "the instruction %#x is unknown or not allowed", op)
	}
}

func (s *scan) call(at, f int) {
	if s.r.err != nil {
		return
	}
	kind := editCall
	if s.cur != noNode {
		s.calls = append(s.calls, f)
		s.passed = max(s.passed, s.m.passed[s.m.funcs[f]])
		if s.callee != nil {
			c := s.callee(f)
			s.nodes[s.cur].cost += c.cost
			s.nodes[s.cur].quiet += c.quiet
			s.leaf = s.leaf && c.free
			if c.counted {
				kind, s.counted = editCounted, true
			}
		}
	}
	s.edits = append(s.edits, edit{pos: at, end: s.r.pos, kind: kind, arg: f})
}

// local notes what recognises jumps through the start of a loop.
func (s *scan) local(at int, op byte, i int) {
	switch {
	case op == opLocalSet && s.constEnd == at:
		s.setLocal, s.setEnd = i, s.r.pos
	case op == opLocalGet && s.blocksEnd == at:
		s.selectLocal, s.selectEnd = i, s.r.pos
	}
}
