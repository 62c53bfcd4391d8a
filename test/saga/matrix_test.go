package saga

import (
	"fmt"
	"regexp"
	"slices"
	"sync"
	"testing"
	"time"
)

// trials are all cases of the matrix.
func trials() (all []trial) {
	for _, mode := range []string{"pessimistic", "optimistic"} {
		for i := range operations {
			op := &operations[i]
			if op.optimisticOnly && mode == "pessimistic" {
				continue
			}
			all = append(all, op.trials(mode, false)...)
			all = append(all, op.trials(mode, true)...)
		}
	}
	return all
}

// trials are the cases of one operation, forward or back. What a refused saga does
// before its last write is the same as that of another one.
func (o *operation) trials(mode string, refused bool) (all []trial) {
	add := func(point string, a at, faults ...string) {
		for _, f := range faults {
			all = append(all, trial{mode: mode, op: o, refused: refused, point: point, at: a, fault: f})
		}
	}
	points := func(names ...string) {
		for _, n := range names {
			add(n, at{}, killed, twice)
		}
	}
	n := len(o.steps)
	if !refused {
		for i := range o.steps {
			points(fmt.Sprintf("before look %d", i+1), fmt.Sprintf("after look %d", i+1),
				fmt.Sprintf("before-journal write %d", i+1), fmt.Sprintf("after-journal write %d", i+1))
			if a := o.look(i); a != (at{}) {
				add(fmt.Sprintf("look %d", i+1), a, lost, down)
			}
			add(fmt.Sprintf("write %d", i+1), o.steps[i].write, lost, late, down, away, killed, killedLate)
			points(fmt.Sprintf("after write %d", i+1))
		}
	} else {
		add(fmt.Sprintf("write %d", n), o.steps[n-1].write, lost, late, down, killed, killedLate)
		points(fmt.Sprintf("after write %d", n))
		for i := n - 2; i >= 0; i-- {
			points(fmt.Sprintf("before-journal restore %d", i+1), fmt.Sprintf("after-journal restore %d", i+1))
			add(fmt.Sprintf("restore %d", i+1), o.steps[i].restore, lost, late, down, away, killed, killedLate)
			points(fmt.Sprintf("after restore %d", i+1))
		}
	}
	points("before-journal adopt 1", "after-journal adopt 1")
	for i := range o.steps {
		if i < 2 { // the first at each sink
			points(fmt.Sprintf("before unlock %d", i+1), fmt.Sprintf("after unlock %d", i+1))
		}
	}
	add("unlock", at{grants, "remove", 1}, lost, late, down, killed, killedLate)
	points("before-journal end 1", "after-journal end 1")
	return all
}

// Cases at a time: of those that share a daemon, and daemons that are killed.
const (
	together = 24
	daemons  = 6
)

// partOf is how many of the cases an ordinary run plays: every so-manieth.
const partOf = 16

func TestMatrix(t *testing.T) {
	w := open(t)
	all := trials()
	if *onlyFlag != "" {
		only := regexp.MustCompile(*onlyFlag)
		all = slices.DeleteFunc(all, func(c trial) bool { return !only.MatchString(c.String()) })
	} else if !*wholeFlag {
		rnd, part := random(t), []trial(nil)
		for i := rnd.IntN(partOf); i < len(all); i += partOf {
			part = append(part, all[i])
		}
		all = part
	}
	var mu sync.Mutex
	results := map[trial]string{}
	queue := map[bool]chan trial{}
	for _, kills := range []bool{false, true} {
		queue[kills] = make(chan trial, len(all))
	}
	for _, c := range all {
		queue[c.kills()] <- c
	}
	close(queue[false])
	close(queue[true])
	play := func(d *daemon, kills bool) {
		for c := range queue[kills] {
			if kills {
				d.kill()
				if c.at != (at{}) {
					if err := d.start(t.Context(), ""); err != nil {
						t.Errorf("%v: %v", &c, err)
						return
					}
				}
			}
			began := time.Now()
			outcome, err := c.run(t.Context(), d)
			t.Logf("%v: %s in %v", &c, outcome, time.Since(began).Round(time.Millisecond))
			if err != nil {
				t.Errorf("%v: %v", &c, err)
				outcome = failed
			}
			mu.Lock()
			results[c] = outcome
			mu.Unlock()
		}
	}
	shared := w.newDaemon(t)
	must(t, shared.start(t.Context(), ""))
	var wg sync.WaitGroup
	for range together {
		wg.Go(func() { play(shared, false) })
	}
	for range daemons {
		d := w.newDaemon(t)
		wg.Go(func() { play(d, true) })
	}
	wg.Wait()
	if held, err := w.rows(t.Context(), "lock"); err != nil || len(held) > 0 {
		t.Errorf("in the end there are locks or marks: %q %v", held, err)
	}
	t.Logf("%d of %d cases", len(results), len(trials()))
	if *tableFlag != "" {
		must(t, writeTable(*tableFlag, results))
	}
}
