package wasmhost

import (
	"math"
	"runtime"
	"sync"
	"time"
)

// processors shares the machine's processors among the sinks of a host. While
// all guests together use less than half of them nobody is held back, and a sink
// that is alone never is: so what is idle can be used. Otherwise a sink that has
// used more than its share (Limits.CPUShare) sleeps until it has earned what it
// used. Sinks within their share are never held back.
//
// It is safe for concurrent use.
type processors struct {
	free float64 // how many of them guests may use before anybody is held back

	mu    sync.Mutex
	level float64 // nanoseconds of CPU time of all guests, decaying
	at    time.Time
}

func newProcessors() *processors {
	return &processors{free: float64(runtime.GOMAXPROCS(0)) / 2}
}

const (
	// processorsWindow is over what time use is averaged, and how long a sink
	// counts as active after an entry.
	processorsWindow = 100 * time.Millisecond
	// shareBurst is how long a share may be saved up.
	shareBurst = time.Second
	// processorsLook is how often one who sleeps looks whether it still must.
	processorsLook = 10 * time.Millisecond
)

// account is a sink's part in its host's processors.
type account struct {
	share float64 // of one processor
	// Under processors.mu:
	saved float64 // nanoseconds that the sink may use; below 0: it must wait
	at    time.Time
}

func newAccount(share float64, now time.Time) account {
	return account{share: share, saved: share * float64(shareBurst), at: now}
}

func (a *account) earn(now time.Time) {
	if d := now.Sub(a.at); d > 0 {
		a.saved = min(a.saved+a.share*float64(d), a.share*float64(shareBurst))
		a.at = now
	}
}

// spend charges s for CPU time, and reports whether it must wait.
func (p *processors) spend(s *Sink, used time.Duration, now time.Time) bool {
	contended := p.use(used, now) && s.host.othersActive(s, now)
	p.mu.Lock()
	defer p.mu.Unlock()
	a := &s.account
	a.earn(now)
	a.saved -= float64(used)
	if !contended {
		a.saved = max(a.saved, 0) // what nobody else wanted is free
	}
	return a.saved < 0
}

// use adds to what all guests use, and reports whether that is more than is free.
func (p *processors) use(used time.Duration, now time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if d := now.Sub(p.at); d > 0 {
		p.level *= math.Exp(-float64(d) / float64(processorsWindow))
		p.at = now
	}
	p.level += float64(used)
	return p.level > p.free*float64(processorsWindow)
}

// wait is how long s is to sleep before it asks again; 0: it may go on.
func (p *processors) wait(s *Sink, now time.Time) time.Duration {
	if !p.use(0, now) || !s.host.othersActive(s, now) {
		return 0
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	s.account.earn(now)
	if s.account.saved >= 0 {
		return 0
	}
	return min(time.Duration(-s.account.saved/s.account.share)+1, processorsLook)
}

// touch notes that the sink is active.
func (s *Sink) touch(now time.Time) { s.active.Store(now.UnixNano()) }

// closing reports whether the sink closes.
func (s *Sink) closing() bool {
	select {
	case <-s.shutting:
		return true
	default:
		return false
	}
}

// join and leave keep the list of sinks that share the processors.
func (h *Host) join(s *Sink) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.sinks[s] = struct{}{}
}

func (h *Host) leave(s *Sink) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.sinks, s)
}

// othersActive reports whether another sink of the host had an entry lately.
func (h *Host) othersActive(s *Sink, now time.Time) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	since := now.Add(-processorsWindow).UnixNano()
	for other := range h.sinks {
		if other != s && other.active.Load() >= since {
			return true
		}
	}
	return false
}
