package wasmhost

import (
	"testing"
	"time"

	"github.com/pawlsync/pawl/internal/bubble"
)

// In these tests a host has 2 processors, and so one that is free for all.
func processorsHost(shares ...float64) (*Host, []*Sink) {
	h := &Host{processors: &processors{free: 1}, sinks: map[*Sink]struct{}{}}
	var sinks []*Sink
	for _, share := range shares {
		s := &Sink{host: h, account: newAccount(share, time.Now())}
		s.active.Store(time.Now().Add(-time.Hour).UnixNano())
		h.join(s)
		sinks = append(sinks, s)
	}
	return h, sinks
}

// use lets s use the processors for d, from 1 ms to the next, and returns the CPU
// time that it got.
func use(h *Host, s *Sink, d time.Duration) (used time.Duration) {
	for end := time.Now().Add(d); time.Now().Before(end); {
		s.touch(time.Now())
		time.Sleep(time.Millisecond) // of the guest's work, in the test's own time
		used += time.Millisecond
		if h.processors.spend(s, time.Millisecond, time.Now()) {
			for wait := h.processors.wait(s, time.Now()); wait > 0; wait = h.processors.wait(s, time.Now()) {
				time.Sleep(wait)
			}
		}
	}
	return used
}

func near(t *testing.T, what string, got, want time.Duration) {
	t.Helper()
	if got < want*9/10 || got > want*11/10 {
		t.Errorf("%s used %v of CPU time, not about %v", what, got, want)
	}
}

func TestASinkThatIsAloneMayUseAll(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		h, s := processorsHost(0.1, 0.1)
		h.processors.free = 0.01
		near(t, "it", use(h, s[0], 10*time.Second), 10*time.Second)
	})
}

func TestWhatIsIdleMayBeUsedByASinkOverItsShare(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		h, s := processorsHost(0.1, 0.1)
		done := make(chan struct{})
		go func() { // active, with next to no use
			defer close(done)
			for range 1000 {
				s[1].touch(time.Now())
				time.Sleep(10 * time.Millisecond)
			}
		}()
		near(t, "it", use(h, s[0], 10*time.Second), 10*time.Second)
		<-done
	})
}

func TestSinksOverTheirSharesLeaveHalfOfTheProcessors(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		h, s := processorsHost(0.1, 0.1)
		var b time.Duration
		done := make(chan struct{})
		go func() { b = use(h, s[1], 20*time.Second); close(done) }()
		a := use(h, s[0], 20*time.Second)
		<-done
		if sum := a + b; sum < 16*time.Second || sum > 24*time.Second {
			t.Errorf("they used %v and %v of 40s; half of it is free", a, b)
		}
		if a < b/2 || b < a/2 {
			t.Errorf("they used %v and %v", a, b)
		}
	})
}

func TestWhereNothingIsFreeASinkHasItsShare(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		h, s := processorsHost(0.1, 0.3)
		h.processors.free = 0
		var b time.Duration
		done := make(chan struct{})
		go func() { b = use(h, s[1], 60*time.Second); close(done) }()
		a := use(h, s[0], 60*time.Second)
		<-done
		near(t, "one of 0.1", a, 6100*time.Millisecond) // and what it had saved
		near(t, "one of 0.3", b, 18300*time.Millisecond)
	})
}

func TestWhatASinkUsedAloneIsNotHeldAgainstIt(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		h, s := processorsHost(0.1, 0.1)
		h.processors.free = 0
		use(h, s[0], 10*time.Second)
		s[1].touch(time.Now())
		h.processors.spend(s[0], time.Millisecond, time.Now())
		if owed := time.Duration(-s[0].account.saved); owed > time.Millisecond {
			t.Errorf("it owes %v for what it used while it was alone", owed)
		}
	})
}
