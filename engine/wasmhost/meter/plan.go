package meter

// How much may be wrong, and how long it may take to the next check, in units.
const (
	// slack is how much more than it costs a way may be charged at each branch.
	slack = 24
	// maxUnchecked is how much work may lie between two checks in a function.
	maxUnchecked = 4000
	// maxQuiet is how much work a function may do, loops run once, without a
	// check at its entry.
	maxQuiet = 1000
	// maxFree is how much work a function without loops may do for which its
	// caller is charged; less if it may be reached by other ways than a call.
	maxFree     = 400
	maxFreeRefs = costIndirect
)

// successors sorts the edges by where they start; those of node n are
// out[first[n]:first[n+1]].
type successors struct {
	first []int32
	out   []edge
}

func (g *successors) fill(nodes int, edges []edge) {
	g.first = append(g.first[:0], make([]int32, nodes+1)...)
	for _, e := range edges {
		g.first[e.from+1]++
	}
	for i := range nodes {
		g.first[i+1] += g.first[i]
	}
	g.out = append(g.out[:0], make([]edge, len(edges))...)
	next := append([]int32(nil), g.first...)
	for _, e := range edges {
		g.out[next[e.from]] = e
		next[e.from]++
	}
}

func (g *successors) of(n int) []edge { return g.out[g.first[n]:g.first[n+1]] }

// plan decides where s is charged, after measure has placed the checks.
//
// Work is paid before it is done, and as far ahead as may be: node n expects
// that n.ahead was paid by whoever came there, is charged n.charge, and what both
// are worth beyond n.cost is what the next node expects at most. So no way
// through the code costs less than its nodes do; it may cost more, as a node
// pays for the dearest of its successors. The loss is kept small: a successor
// that needs more than the cheapest one and slack expects no more than that, and
// is charged for the rest itself. Loops run through a node with a check, which
// expects nothing.
func (s *scan) plan(g *successors) {
	for range 3 {
		s.payAhead(g)
		s.keepLossSmall(g)
	}
	s.payAhead(g)
	for i := range s.nodes {
		n := &s.nodes[i]
		if n.charge = max(0, n.cost+s.dearest(g.of(i))-n.ahead); n.check {
			n.charge = max(1, n.charge)
		}
	}
}

// measure makes sure that every loop has a check, and that there is not too
// much work between two of them. It returns the most work that may be done from
// the start to the end, loops run once.
func (s *scan) measure(g *successors) int64 {
	g.fill(len(s.nodes), s.edges)
	for _, e := range s.edges {
		if e.to <= e.from && e.jump && !s.nodes[e.to].check {
			s.nodes[e.from].check = true
		}
	}
	for i := len(s.nodes) - 1; i >= 0; i-- {
		n := &s.nodes[i]
		n.most = 1 << 62
		var unchecked, longest int64
		for _, e := range g.of(i) {
			if int(e.to) > i {
				next := &s.nodes[e.to]
				longest = max(longest, next.longest)
				if !next.check {
					unchecked = max(unchecked, next.unchecked)
				}
			}
		}
		n.unchecked, n.longest = unchecked+n.cost+n.quiet, longest+n.cost+n.quiet
		if n.unchecked > maxUnchecked {
			n.check = true
		}
	}
	return s.nodes[0].longest
}

// payAhead finds what each node expects to be paid already.
func (s *scan) payAhead(g *successors) {
	for i := len(s.nodes) - 1; i >= 0; i-- {
		n := &s.nodes[i]
		if n.ahead = 0; i == 0 || n.check {
			continue
		}
		var dearest int64
		for _, e := range g.of(i) {
			if int(e.to) > i {
				dearest = max(dearest, s.nodes[e.to].ahead)
			}
		}
		n.ahead = min(n.most, n.cost+dearest)
	}
}

// dearest is the most that one of these edges' ends expects.
func (s *scan) dearest(edges []edge) int64 {
	var most int64
	for _, e := range edges {
		most = max(most, s.nodes[e.to].ahead)
	}
	return most
}

func (s *scan) keepLossSmall(g *successors) {
	for i := range s.nodes {
		edges := g.of(i)
		if len(edges) < 2 {
			continue
		}
		least := s.nodes[edges[0].to].ahead
		if !s.nodes[i].selects {
			for _, e := range edges[1:] {
				least = min(least, s.nodes[e.to].ahead)
			}
		}
		for _, e := range edges {
			n := &s.nodes[e.to]
			n.most = min(n.most, least+slack)
		}
	}
}

// chargeExactly charges every node for itself.
func (s *scan) chargeExactly() {
	for i := range s.nodes {
		s.nodes[i].charge = s.nodes[i].cost
	}
}
