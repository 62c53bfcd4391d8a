package wasmhost

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/experimental"

	"github.com/pawlsync/pawl/engine/sink"
	"github.com/pawlsync/pawl/engine/wasmhost/abi"
)

// instance is one guest. The goroutine that runs run owns it: nobody else
// enters the guest or touches the fields below the owner's line.
type instance struct {
	sink   *Sink
	memory guestMemory
	gone   chan struct{} // closed when the owner has ended
	born   time.Time     // zero of the guest's monotonic clock

	assigned int   // calls that it has; under Sink.mu
	draining bool  // takes no more calls; under Sink.mu
	alone    bool  // has one call at a time, a suspect; constant
	noRoom   error // why it can't start; constant

	mu    sync.Mutex
	queue []event
	wake  chan struct{} // capacity 1

	// The owner's.
	ctx   *guestContext
	mod   api.Module
	mem   api.Memory
	fns   struct{ start, resume, poll, cancel api.Function }
	stack [2]uint64
	first *call   // describe or configure; nil once it has ended
	held  []*call // arrived before the first one had ended
	batch []event // being handled, from next on
	next  int

	meter    fuelMeter
	entered  *call    // that the current entry is for, if any
	live     callList // entered and not ended, in the order of entry, and so of deadlines
	calls    map[int64]*call
	ios      map[int64]*hostIO // the guest will be resumed for
	lastCall int64
	lastIO   int64
	entry    uint64 // number of entries so far
	input    []byte // of the current entry
	buffer   []byte // that input is encoded in
	want     int32  // what the guest last said that it wants
	pollWait time.Duration
	pollAt   time.Time
	idleAt   time.Time
	now      time.Time // of the current turn
	timer    *time.Timer
	line     []byte // of stderr, as yet without its end
	blocking bool   // it used io_call
	stopping bool   // ends when its calls have
	dead     bool   // the guest is not entered any more
}

// guestContext leads from wazero's imports to the instance that was entered.
type guestContext struct {
	context.Context
	in *instance
}

type eventKind uint8

const (
	evStart  eventKind = iota + 1 // a call is to be started
	evCancel                      // a call's context has ended
	evIO                          // a host I/O has ended
	evStop                        // the sink closes
)

type event struct {
	kind eventKind
	call *call
	io   *hostIO
}

func newInstance(s *Sink, alone bool, first *call) *instance {
	in := &instance{
		sink: s, alone: alone, first: first, born: time.Now(),
		gone: make(chan struct{}), wake: make(chan struct{}, 1),
		calls: make(map[int64]*call), ios: make(map[int64]*hostIO),
		timer: time.NewTimer(time.Hour), meter: newMeter(),
	}
	in.memory.sink = s
	in.noRoom = in.memory.begin(s.plugin.startBytes())
	in.memory.limit = uint64(s.limits.MemoryBytes) / pageBytes * pageBytes
	in.ctx = &guestContext{context.Background(), in}
	return in
}

// post hands an event to the owner; it never blocks.
func (in *instance) post(e event) {
	in.mu.Lock()
	in.queue = append(in.queue, e)
	in.mu.Unlock()
	select {
	case in.wake <- struct{}{}:
	default:
	}
}

// run is the owner.
func (in *instance) run() {
	defer close(in.gone)
	in.now = time.Now()
	if err := in.instantiate(); err == nil {
		in.begin(in.first)
	} else {
		in.failInstantiate(err)
	}
	for !in.turn() {
	}
	in.timer.Stop()
	if in.mod != nil {
		_ = in.mod.Close(context.Background())
	}
	in.memory.release() // also of a module that could not be instantiated
	in.sink.ended()
}

// failInstantiate ends an instance that did not come to its first call.
func (in *instance) failInstantiate(err error) {
	if errors.Is(err, errSinkClosed) || errors.Is(err, errNoMemory) {
		in.dead = true
		in.sink.drain(in)
		first, held := in.first, in.surrender()
		in.end(first, unsent(err))
		for _, c := range held {
			in.end(c, unsent(err))
		}
		return
	}
	kind, cause := kindOf(err)
	if kind == FaultTrap {
		kind = FaultStart
	}
	in.fault(in.first, kind, cause)
}

// instantiate links the module, runs _initialize and checks its ABI's version.
func (in *instance) instantiate() (err error) {
	p := in.sink.plugin
	if in.noRoom != nil {
		return in.noRoom
	}
	ctx := experimental.WithMemoryAllocator(in.ctx, &in.memory)
	if in.mod, err = p.runtime.InstantiateModule(ctx, p.compiled, wazero.NewModuleConfig().WithName("").WithStartFunctions()); err != nil {
		return err
	}
	in.mem = in.mod.ExportedMemory(exportMemory)
	in.fns.start, in.fns.resume = in.mod.ExportedFunction(exportStart), in.mod.ExportedFunction(exportResume)
	in.fns.poll, in.fns.cancel = in.mod.ExportedFunction(exportPoll), in.mod.ExportedFunction(exportCancel)
	if f := in.mod.ExportedFunction(exportInit); f != nil {
		if err := in.enterGuest(f, nil); err != nil {
			return fmt.Errorf("%s: %w", exportInit, err)
		}
	}
	if err := in.enterGuest(in.mod.ExportedFunction(exportABI), nil); err != nil {
		return fmt.Errorf("%s: %w", exportABI, err)
	}
	if v := uint32(in.stack[0]); v != abi.Version {
		return &breach{FaultContract, fmt.Errorf("it speaks ABI version %d, this host version %d", v, abi.Version)}
	}
	return nil
}

// turn handles what has come in, then waits; it reports whether the instance
// has ended.
func (in *instance) turn() (ended bool) {
	in.take()
	if len(in.batch) > 0 {
		in.now = time.Now()
	}
	for ; in.next < len(in.batch); in.next++ {
		e := in.batch[in.next]
		in.batch[in.next] = event{}
		in.handle(e)
	}
	in.expire()
	in.recycle()
	if in.leave() {
		return true
	}
	in.wait()
	return false
}

func (in *instance) take() {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.batch, in.queue, in.next = in.queue, in.batch[:0], 0
}

func (in *instance) handle(e event) {
	switch e.kind {
	case evStart:
		switch {
		case in.dead || in.stopping:
			in.sink.requeue(in, []*call{e.call})
		case in.first != nil:
			in.held = append(in.held, e.call)
		default:
			in.begin(e.call)
		}
	case evCancel:
		in.cancelled(e.call)
	case evIO:
		in.ioEnded(e.io)
	case evStop:
		in.stop()
	}
}

// surrender returns the calls that were not entered yet, to run elsewhere.
func (in *instance) surrender() []*call {
	cs := in.held
	in.held = nil
	take := func(es []event) {
		for i, e := range es {
			if e.kind == evStart {
				cs = append(cs, e.call)
				es[i] = event{}
			}
		}
	}
	if in.next < len(in.batch) {
		take(in.batch[in.next:])
	}
	in.mu.Lock()
	defer in.mu.Unlock()
	take(in.queue)
	return cs
}

// cancelled ends a call whose context has ended: as unreachable where the
// caller lost interest or host I/O was pending, else as the plugin's fault.
func (in *instance) cancelled(c *call) {
	if i := slices.Index(in.held, c); i >= 0 {
		in.held = slices.Delete(in.held, i, i+1)
		in.end(c, unsent(context.Cause(c.ctx)))
		return
	}
	if c.ended || c.id == 0 || in.calls[c.id] != c {
		return // ended, or not entered: begin looks at the context
	}
	in.timeUp(c, context.Cause(c.ctx))
}

// expire ends the calls whose deadline has passed, polls where that is due.
func (in *instance) expire() {
	if in.live.head != nil && !in.dead {
		in.now = time.Now()
	}
	for c := in.live.head; c != nil && !in.now.Before(c.deadline); c = in.live.head {
		in.timeUp(c, context.DeadlineExceeded)
	}
	if !in.dead && in.polls() && !in.now.Before(in.pollAt) {
		in.poll()
	}
}

func (in *instance) timeUp(c *call, cause error) {
	id, pending := c.id, len(c.ios)
	deadline := errors.Is(cause, context.DeadlineExceeded)
	if pending == 0 && deadline {
		in.sink.countFault(FaultDeadline)
		in.end(c, in.faulted(c, FaultDeadline, fmt.Errorf("no answer within %v, and it waits for no host I/O", c.timeout), false))
	} else {
		in.end(c, answer{result: abi.Result{Result: sink.Result{
			Status: sink.Unreachable, Message: fmt.Sprintf("%v, with %d host I/Os pending", cause, pending)}}})
	}
	in.cancelGuest(id)
}

// polls reports whether the guest is to be polled. Without calls it is not: what
// still runs in it goes on with the next entry.
func (in *instance) polls() bool { return in.want == wantPoll && in.live.head != nil }

// recycle lets an instance whose memory grew too much take no more calls.
func (in *instance) recycle() {
	if in.memory.size.Load() > in.sink.limits.RecycleBytes && !in.stopping && !in.dead && in.first == nil {
		in.stopping = true
		in.sink.recycled.Add(1)
		in.sink.drain(in)
	}
}

// stop ends every call, as the sink closes.
func (in *instance) stop() {
	in.dead = true
	in.sink.requeue(in, in.surrender())
	for c := in.live.head; c != nil; c = in.live.head {
		in.end(c, answer{result: abi.Result{Result: sink.Result{Status: sink.Unreachable, Message: errSinkClosed.Error()}}})
	}
}

// leave takes an instance that is no longer needed out of its sink.
func (in *instance) leave() bool {
	if in.first != nil {
		return false
	}
	if in.dead || in.stopping {
		return in.sink.remove(in)
	}
	if in.live.head != nil || in.now.Before(in.idleAt) {
		return false
	}
	if in.sink.remove(in) {
		return true
	}
	in.idleAt = in.now.Add(in.sink.limits.IdleTimeout)
	return false
}

// wait blocks until there is an event, or something is due.
func (in *instance) wait() {
	var due time.Time
	switch {
	case in.dead, in.stopping && in.live.head == nil: // host I/O has to end
	case in.live.head == nil:
		due = in.idleAt
	default:
		if due = in.live.head.deadline; in.polls() && in.pollAt.Before(due) {
			due = in.pollAt
		}
	}
	if due.IsZero() {
		<-in.wake
		return
	}
	in.timer.Reset(time.Until(due))
	select {
	case <-in.wake:
	case <-in.timer.C:
		in.now = time.Now()
	}
}
