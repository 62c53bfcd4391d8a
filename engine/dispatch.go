package engine

import (
	"time"

	"github.com/pawlsync/pawl/engine/schedule"
)

// dispatchBurst is how many deliveries are started before the lock is given up,
// so that commits are not held up by a flood of due work.
const dispatchBurst = 128

// maxSettling is how many deliveries may wait for their outcome to be stored.
// Where sinks are faster than the store, it is the store that sets the pace, and
// not memory that fills up.
const maxSettling = 8192

// dispatch starts deliveries as they become due, until the engine closes.
func (e *Engine) dispatch() {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-e.closing:
			return
		case <-e.kick:
		case <-timer.C:
		}
		for e.start(timer) {
			if e.open() != nil {
				return
			}
		}
	}
}

// start starts one burst and reports whether more is due; if not, it sets timer
// for when there will be.
func (e *Engine) start(timer *time.Timer) (more bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	now := time.Now()
	for started := 0; started < dispatchBurst; {
		if e.closed {
			return false
		}
		if e.settling >= maxSettling {
			return false // a delivery that lands wakes the dispatcher
		}
		d, ok := e.sched.Next(now)
		if !ok {
			if wake, ok := e.sched.Wake(now); ok {
				timer.Reset(wake.Sub(now))
			}
			return false
		}
		started += e.launch(d, now)
	}
	return true
}

// launch starts a delivery, or a batch of them where the sink takes batches, and
// returns how many; e.mu is held.
func (e *Engine) launch(d schedule.Dispatch, now time.Time) int {
	batch := e.gather(d, now)
	t := e.targets.of(d.Key.Sink)
	f := t.fitting()
	f.deliveries += len(batch)
	jobs := make([]departure, len(batch))
	for i, d := range batch {
		jobs[i] = departure{d, t, f, e.flights.depart(d.Key)}
	}
	if len(jobs) == 1 {
		e.running.Go(func() { e.deliver(jobs[0]) })
	} else {
		e.running.Go(func() { e.deliverBatch(jobs) })
	}
	return len(jobs)
}

// departure is a dispatch, the sink that it goes to and the flight that it began.
type departure struct {
	schedule.Dispatch
	target  *target
	fitting *fitting
	flight  *flight
}
