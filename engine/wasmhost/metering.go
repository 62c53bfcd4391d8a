package wasmhost

import (
	"runtime"
	"time"

	"github.com/tetratelabs/wazero/api"
)

// Compiled code can't be pre-empted. So package meter rewrites each module to
// count what it does and to call the host when its fuel is used up, about every
// millisecond of work; fuel that is left when an entry ends serves the next one,
// so that short entries cost nothing. That call, and a host function that has
// done much work for the guest, is a checkpoint: Go's scheduler and collector
// get their turn, the sink is charged, and it is decided whether the guest may
// go on.
//
// What counts against an entry's budget is the CPU time of the thread, not the
// time that passes: a busy machine is not the guest's fault.

// How much fuel a refill gives, in units of package meter. The most is small
// enough that a guest which turns to code that is slow per unit (each load
// misses the cache) still comes back within some ten milliseconds.
const (
	sliceFirst = 100_000
	sliceLeast = 10_000
	sliceMost  = 2_000_000
	sliceTime  = time.Millisecond
)

// tooLow is how many times what was estimated may pass, a slice aside, before
// the estimate is no longer trusted. Where that was a busy machine's fault nothing
// is lost but the time to look at the clock, less than a microsecond an entry.
const tooLow = 4

// unitsPerCall and unitsPerByte are what the host's own work for a guest counts,
// in the guest's units.
const (
	unitsPerCall = 100
	unitsPerByte = 1
	unitsPerIO   = 20_000 // a goroutine and an exchange, or a timer
)

// fuelMeter is the account of one instance; it is the owner's.
type fuelMeter struct {
	slice   int64   // units that the next refill gives
	given   int64   // units that the last one gave
	debt    int64   // units of the host's work since the last checkpoint
	perUnit float64 // nanoseconds of CPU time, as seen lately

	// What an entry did before its first checkpoint is estimated by its units. A
	// guest can learn to make that estimate too low; so it is held against the time
	// that passed, and an instance for which it was far too low is timed from then on.
	began   time.Time     // of the current entry
	passed  time.Duration // in entries since the last checkpoint, but for the current one
	exact   bool          // entries are timed from their beginning to their end
	carried time.Duration // CPU time of earlier entries that the sink is still to be charged for

	// Of the current entry:
	used   time.Duration // CPU time and sleep, as far as checkpoints saw it
	timed  bool          // there was a checkpoint: mark is valid
	whole  bool          // that one was a refill: since then the guest used just this fuel
	locked bool          // the goroutine is locked to its thread
	mark   time.Duration // the thread's CPU time when the last checkpoint ended
}

func newMeter() fuelMeter { return fuelMeter{slice: sliceFirst, perUnit: 1} }

// enterGuest runs f for c, or for no call, with its arguments on in.stack, as
// one entry.
func (in *instance) enterGuest(f api.Function, c *call) error {
	in.entered = c
	in.sink.touch(in.now)
	in.meter.enter()
	err := f.CallWithStack(in.ctx, in.stack[:])
	in.meter.leave()
	in.entered = nil
	return err
}

// enter and leave are the beginning and the end of an entry.
func (m *fuelMeter) enter() {
	m.used, m.timed, m.whole = 0, false, false
	if m.began = time.Now(); m.exact {
		m.lock()
	}
}

func (m *fuelMeter) leave() {
	switch {
	case m.exact && m.timed:
		m.carried += threadCPU() - m.mark
	case !m.timed:
		m.passed += time.Since(m.began)
	}
	m.unlock()
}

// refill is an import of rewritten modules.
func refill(in *instance, stack []uint64) {
	m := &in.meter
	in.checkpoint(m.given)
	m.given = m.slice
	stack[0] = uint64(m.given)
}

// tooDeep is an import of rewritten modules.
func tooDeep(*instance, []uint64) {
	violate(FaultDepth, "its calls nest deeper than the limit stack_max_bytes allows")
}

// charge counts work that the host did for the guest, within an entry. Without
// it a guest could keep the host busy for next to no fuel.
func (in *instance) charge(units int64) {
	m := &in.meter
	if m.debt += units; m.debt >= m.slice {
		in.checkpoint(0)
	}
}

// chargeBytes is charge for a host function that looks at n bytes.
func (in *instance) chargeBytes(n int) { in.charge(unitsPerCall + unitsPerByte*int64(n)) }

// slept counts time that the guest slept in the host: an entry that sleeps for
// ever is to end as one that computes for ever does.
func (in *instance) slept(d time.Duration) {
	in.meter.used += d
	in.budget()
}

// checkpoint charges the sink for what was done since the last one, and ends the
// entry or lets it go on. fuel is what the guest has used up since the last
// refill; 0: this is none.
func (in *instance) checkpoint(fuel int64) {
	m := &in.meter
	took := m.took(fuel)
	m.used += took
	took, m.carried = took+m.carried, 0
	s, now := in.sink, time.Now()
	s.touch(now) // an entry may be long
	s.cpu.Add(int64(took))
	held := s.host.processors.spend(s, took, now)
	if s.closing() {
		panic(&breach{kindClosed, errSinkClosed})
	}
	in.budget()
	m.unlock()
	runtime.Gosched()
	if held {
		in.holdBack()
	}
	m.lock()
}

func (in *instance) budget() {
	if most := in.sink.limits.EntryCPU; in.meter.used > most {
		violate(FaultBudget, "it took %v of CPU time in one entry, more than the limit entry_cpu of %v", in.meter.used.Round(time.Millisecond), most)
	}
}

// took is the CPU time since the last checkpoint. What came before the first one
// of an entry, some of it in earlier entries, is estimated by the units.
func (m *fuelMeter) took(fuel int64) time.Duration {
	took := time.Duration(float64(fuel+m.debt) * m.perUnit)
	if m.timed {
		took = threadCPU() - m.mark
		if fuel > 0 && m.whole {
			m.learn(fuel, took)
		}
	} else {
		passed := m.passed + time.Since(m.began)
		m.exact = m.exact || passed > sliceTime+tooLow*took
	}
	m.debt, m.whole, m.passed = 0, fuel > 0, 0
	return took
}

// learn makes the slice one of sliceTime. It shrinks at once and grows slowly.
func (m *fuelMeter) learn(units int64, took time.Duration) {
	now := max(float64(took), 1) / float64(units)
	m.perUnit = (3*m.perUnit + now) / 4
	m.slice = min(max(int64(float64(sliceTime)/max(now, m.perUnit)), sliceLeast), 2*m.slice, sliceMost)
}

// lock keeps the goroutine on its thread, so that threadCPU at the next
// checkpoint has counted the guest and nothing else.
func (m *fuelMeter) lock() {
	runtime.LockOSThread()
	m.mark, m.timed, m.locked = threadCPU(), true, true
}

func (m *fuelMeter) unlock() {
	if m.locked {
		m.locked = false
		runtime.UnlockOSThread()
	}
}

// holdBack sleeps until the sink may use a processor again. A call that is over,
// or a sink that closes, does not wait.
func (in *instance) holdBack() {
	s, began := in.sink, time.Now()
	defer func() { s.throttled.Add(int64(time.Since(began))) }()
	for now := began; ; now = time.Now() {
		wait := s.host.processors.wait(s, now)
		if c := in.entered; c != nil {
			wait = min(wait, c.deadline.Sub(now))
		}
		if wait <= 0 || !in.sleep(wait) {
			return
		}
	}
}

// sleep waits for d; false: the call that was entered has ended, or the sink
// closes.
func (in *instance) sleep(d time.Duration) bool {
	var over <-chan struct{}
	if in.entered != nil {
		over = in.entered.ctx.Done()
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-over:
	case <-in.sink.shutting:
	}
	return false
}
