package hostile

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/pawlsync/pawl/engine"
	"github.com/pawlsync/pawl/engine/record"
	"github.com/pawlsync/pawl/engine/sink"
)

// What the neighbour gets to do: far below what it could, and its target takes
// as long as one that is near by.
const (
	neighbourRate = 100 // resources per second
	targetLatency = 5 * time.Millisecond
)

// patience is the end of a test that hangs, and no claim.
const patience = 90 * time.Second

// neighbour puts resources at a fixed rate, each at its time whether or not the
// earlier ones were served, and measures from that time until the engine has the
// target's word.
type neighbour struct {
	put func(key string) error

	mu    sync.Mutex
	n     int
	since map[string]time.Time
	took  []sample
	done  chan struct{} // signalled at every acknowledgement
}

// sample is one resource of the neighbour's.
type sample struct {
	due  time.Time
	took time.Duration
}

func newNeighbour(put func(key string) error) *neighbour {
	return &neighbour{put: put, since: map[string]time.Time{}, done: make(chan struct{}, 1)}
}

// acked is told of every acknowledgement.
func (n *neighbour) acked(key string, at time.Time) {
	n.mu.Lock()
	defer n.mu.Unlock()
	since, ok := n.since[key]
	if !ok {
		return
	}
	delete(n.since, key)
	n.took = append(n.took, sample{since, at.Sub(since)})
	select {
	case n.done <- struct{}{}:
	default:
	}
}

// work puts resources until over is closed.
func (n *neighbour) work(over <-chan struct{}) error {
	began := time.Now()
	tick := time.NewTicker(time.Second / neighbourRate)
	defer tick.Stop()
	var puts sync.WaitGroup
	errs := make(chan error, 1)
	for i, running := 0, true; running; {
		for ; ; i++ {
			due := began.Add(time.Duration(i) * time.Second / neighbourRate)
			if time.Now().Before(due) {
				break
			}
			key := n.expect(due)
			puts.Go(func() {
				if err := n.put(key); err != nil {
					select {
					case errs <- err:
					default:
					}
				}
			})
		}
		select {
		case <-tick.C:
		case <-over:
			running = false
		}
	}
	puts.Wait()
	select {
	case err := <-errs:
		return err
	default:
		return nil
	}
}

func (n *neighbour) expect(due time.Time) (key string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.n++
	key = fmt.Sprintf("n-%d", n.n)
	n.since[key] = due
	return key
}

// during measures a phase: for as long as meanwhile runs, and until all that
// fell due by then was served.
func (n *neighbour) during(meanwhile func()) (phase, error) {
	over := make(chan struct{})
	go func() {
		defer close(over)
		meanwhile()
	}()
	began := time.Now()
	if err := n.work(over); err != nil {
		return phase{}, err
	}
	end := time.NewTimer(patience)
	defer end.Stop()
	for {
		took, missing := n.collect()
		if missing == 0 {
			return summary(took, began, time.Now()), nil
		}
		select {
		case <-n.done:
		case <-end.C:
			return phase{}, fmt.Errorf("%d of the neighbour's resources were not served", missing)
		}
	}
}

// collect takes what was measured, once nothing is missing.
func (n *neighbour) collect() (took []sample, missing int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if missing = len(n.since); missing == 0 {
		took, n.took = n.took, nil
	}
	return took, missing
}

// phase is what one stretch of time was like for the neighbour.
type phase struct {
	from, to time.Time
	served   int
	rate     float64 // served per second
	p50, p99 time.Duration
}

func summary(took []sample, from, to time.Time) phase {
	if len(took) == 0 {
		return phase{from: from, to: to}
	}
	slices.SortFunc(took, func(a, b sample) int { return int(a.took - b.took) })
	at := func(q float64) time.Duration { return took[int(q*float64(len(took)-1)+0.5)].took }
	return phase{
		from: from, to: to, served: len(took), rate: float64(len(took)) / to.Sub(from).Seconds(),
		p50: at(0.5), p99: at(0.99),
	}
}

func (p phase) String() string {
	return fmt.Sprintf("%d at %.0f/s, p50 %v, p99 %v", p.served, p.rate, p.p50.Round(10*time.Microsecond), p.p99.Round(10*time.Microsecond))
}

// bell is the engine's observer that tells the neighbour of acknowledgements.
type bell struct{ n *neighbour }

func (b bell) AckDone(key record.Key, _ time.Duration) {
	if key.Sink == goodSink {
		b.n.acked(key.Name, time.Now())
	}
}

func (bell) PutDone(string, string, bool, time.Duration)             {}
func (bell) CallDone(record.Key, string, sink.Status, time.Duration) {}
func (bell) DeliveryDone(record.Key, engine.Outcome, time.Duration)  {}
func (bell) CompareDone(string, int, int, int)                       {}
func (bell) BreakerMoved(string, bool)                               {}
func (bell) CommitDone(int, int, time.Duration, error)               {}
