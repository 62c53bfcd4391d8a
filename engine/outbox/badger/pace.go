package badger

import (
	"context"
	"time"
)

// A read of the whole store competes with those who write, for processors and for the
// disk, while nobody waits for its end. So it works in portions, and rests between them
// as long as somebody writes.
const (
	// paceItems is how many items are read between two looks at the clock.
	paceItems = 256
	// paceWork is the least that is done between two rests.
	paceWork = 2 * time.Millisecond
	// paceRest is how many times as long as the work before it a rest is.
	paceRest = 3
	// maxPaceRest bounds a rest: on a machine that has no time for anything, a read
	// is to end all the same.
	maxPaceRest = 20 * time.Millisecond
	// paceQuiet is for how long nothing was committed in a store that nobody uses.
	paceQuiet = time.Second
)

// pace says when a long read rests, and for how long. One goroutine uses it.
type pace struct {
	began   time.Time // of the work since the last rest; zero: there was none yet
	commits uint64    // of the store, at the last look
	used    time.Time // when a look last found more of them; zero: none did
}

// due returns how long to rest now, 0: not at all. commits is how many the store has
// made. Where it is above 0, rested is to be called after the rest.
func (p *pace) due(now time.Time, commits uint64) time.Duration {
	if p.began.IsZero() {
		p.began, p.commits = now, commits
		return 0
	}
	work := now.Sub(p.began)
	if work < paceWork {
		return 0
	}
	if commits != p.commits {
		p.commits, p.used = commits, now
	}
	if p.used.IsZero() || now.Sub(p.used) >= paceQuiet {
		p.began = now
		return 0
	}
	return min(paceRest*work, maxPaceRest)
}

// rested begins the next portion.
func (p *pace) rested(now time.Time) { p.began = now }

// yield lets those who write go first. Its error is why the read ends early.
func (s *Store) yield(ctx context.Context, p *pace) error {
	if err := s.interrupted(ctx); err != nil {
		return err
	}
	rest := p.due(time.Now(), s.queue.Stats().Commits)
	if rest == 0 {
		return nil
	}
	if h := s.opts.hooks.rest; h != nil {
		h(rest)
	}
	t := time.NewTimer(rest)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	case <-s.life.Done():
	}
	p.rested(time.Now())
	return s.interrupted(ctx)
}
