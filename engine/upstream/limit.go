package upstream

import (
	"context"
	"sync"
	"time"
)

// gate bounds how many requests are under way and how many begin per second.
type gate struct {
	slots chan struct{}
	rate  *rate // nil: no bound
}

func newGate(c Config) *gate {
	g := &gate{slots: make(chan struct{}, c.MaxConcurrent)}
	if c.RatePerSecond > 0 {
		g.rate = newRate(c.RatePerSecond)
	}
	return g
}

// enter waits for its turn, in order of arrival, or until ctx ends. Whoever
// entered leaves.
func (g *gate) enter(ctx context.Context) error {
	select {
	case g.slots <- struct{}{}:
	default:
		select {
		case g.slots <- struct{}{}:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	if g.rate == nil {
		return nil
	}
	if err := g.rate.wait(ctx); err != nil {
		g.leave()
		return err
	}
	return nil
}

func (g *gate) leave() { <-g.slots }

// rate is the generic cell rate algorithm: turns lie one interval apart, and
// turns of up to a second that nobody took may be taken at once.
type rate struct {
	interval time.Duration
	ahead    time.Duration // how far the next turn may lie in the future and be taken now

	mu   sync.Mutex
	next time.Time
}

func newRate(perSecond float64) *rate {
	interval := time.Duration(float64(time.Second) / perSecond)
	return &rate{interval: interval, ahead: max(0, time.Second-interval)}
}

// wait takes the next turn and waits for it. A turn beyond ctx's deadline is
// not taken, and the answer is immediate.
func (r *rate) wait(ctx context.Context) error {
	r.mu.Lock()
	now := time.Now()
	if r.next.Before(now) {
		r.next = now
	}
	delay := r.next.Sub(now) - r.ahead
	if deadline, ok := ctx.Deadline(); ok && delay > 0 && now.Add(delay).After(deadline) {
		r.mu.Unlock()
		return context.DeadlineExceeded
	}
	r.next = r.next.Add(r.interval)
	r.mu.Unlock()
	if delay <= 0 {
		return nil
	}
	timer := time.NewTimer(delay)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
