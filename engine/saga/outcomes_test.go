package saga

import (
	"github.com/pawlsync/pawl/engine/sink"
)

// outcome is one way in which a call can go, the first being the right one.
type outcome struct {
	w                  world // afterwards
	r                  sink.Result
	took               int16
	silences, refusals uint8 // what it costs
	what               string
}

// outcomes lists them for process i's call e.
func (x *explorer) outcomes(n *node, i int, e Effect) []outcome {
	p, s := x.plan, n.procs[i].mem
	step := uint8(e.Step)
	if n.w.down {
		return []outcome{{w: n.w, r: sink.Result{Status: sink.Unreachable, NotSent: true}, what: "down"}}
	}
	silent := sink.Result{Status: sink.Unreachable}
	refused := sink.Result{Status: sink.Unauthorized}
	switch e.Kind {
	case Look, Ask:
		os := []outcome{{w: n.w, r: p.observe(&n.w, uint8(i), step)}, {w: n.w, r: silent, silences: 1, what: "lost"}}
		if e.Kind == Look {
			os = append(os, outcome{w: n.w, r: refused, refusals: 1})
		}
		return os
	case Unlock:
		done := n.w
		status := p.unlock(&done, uint8(i), step)
		return []outcome{
			{w: done, r: sink.Result{Status: status}},
			{w: done, r: silent, silences: 1, what: "done, answer lost"},
			{w: n.w, r: silent, silences: 1, what: "lost"},
			{w: n.w, r: refused, refusals: 1},
		}
	}
	if s.Steps[e.Step].Before == nil {
		x.violated("%s without an image", e)
		return nil
	}
	rq := request{kind: e.Kind, run: uint8(i), step: step, before: contentOf(s.Steps[e.Step].Before), until: tickOf(s.Steps[e.Step].Pending)}
	for j := range s.Steps {
		rq.held = rq.held || p.locksAt(uint8(j)) && s.Steps[j].Landed
	}
	done, late := n.w, n.w
	flies := late.fly(rq)
	if e.Kind == Restore {
		return restores(n, sink.Result{Status: p.restore(&done, rq)}, done, late, flies)
	}
	return x.writes(n, sink.Result{Status: p.write(&done, rq)}, done, late, flies, p.verb(uint8(i), step) == Delete, p.rules.Steps[step].Confirms)
}

// restores are the ways of a Restore.
func restores(n *node, truth sink.Result, done, late world, flies bool) []outcome {
	silent := sink.Result{Status: sink.Unreachable}
	os := []outcome{
		{w: done, r: truth},
		{w: done, r: silent, silences: 1, what: "done, answer lost"},
		{w: n.w, r: sink.Result{Status: sink.Unreachable, NotSent: true}, silences: 1, what: "not sent"},
		{w: n.w, r: sink.Result{Status: sink.Unauthorized}, refusals: 1},
	}
	if flies {
		os = append(os, outcome{w: late, r: silent, silences: 1, what: "on its way"})
	}
	return os
}

// writes are the ways of a Write.
func (x *explorer) writes(n *node, truth sink.Result, done, late world, flies, deletes, confirms bool) []outcome {
	silent, retry := sink.Result{Status: sink.Unreachable}, sink.Result{Status: sink.Retry}
	os := []outcome{
		{w: done, r: truth},
		{w: done, r: silent, silences: 1, what: "written, answer lost"},
		{w: done, r: silent, took: callTicks, silences: 1, what: "written, timed out"},
		{w: n.w, r: silent, took: callTicks, silences: 1, what: "timed out"},
		{w: n.w, r: sink.Result{Status: sink.Unreachable, NotSent: true}, silences: 1, what: "not sent"},
		{w: done, r: retry, silences: 1, what: "written all the same"},
		{w: n.w, r: retry, silences: 1},
	}
	if flies {
		os = append(os,
			outcome{w: late, r: silent, silences: 1, what: "on its way"},
			outcome{w: late, r: retry, silences: 1, what: "a proxy's, on its way"})
	}
	for _, status := range x.plan.statuses {
		os = append(os, outcome{w: n.w, r: sink.Result{Status: status}, refusals: 1})
	}
	if truth.Status != sink.OK {
		return os
	}
	// A proxy tries again what was written, and hands on the second answer.
	os = append(os, outcome{w: done, r: sink.Result{Status: sink.Conflict}, refusals: 1, what: "of a proxy's second try"})
	if deletes {
		os = append(os, outcome{w: done, r: sink.Result{Status: sink.NotFound}, refusals: 1, what: "of a proxy's second try"},
			outcome{w: done, r: sink.Result{Status: sink.InProgress}, what: "202"})
	} else {
		os = append(os, outcome{w: done, r: sink.Result{Status: sink.AlreadyExists}, refusals: 1, what: "of a proxy's second try"})
		if flies && !confirms {
			os = append(os, outcome{w: late, r: truth, silences: 1, what: "but not persisted yet"})
		}
	}
	return os
}
