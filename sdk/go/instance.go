package pawl

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

// imports are the host's functions, as ABI.md has them. A Go interface only so
// that the instance can be tested without a wasm runtime.
type imports interface {
	input() []byte // a fresh copy of the current entry's input
	result(call int64, msg []byte)
	ioStart(call int64, kind int32, msg []byte) int64
	ioCancel(io int64)
	log(call int64, level int32, line string)
}

const (
	ioHTTP  = 1
	ioSleep = 2
)

// What an entry returns: what the instance wants next.
const (
	wantNothing = 0 // no call is live
	wantIO      = 1 // every live call waits for host I/O
	wantPoll    = 2 // some call waits for something else: enter again soon
)

// quietYields is how many yields in a row must bring nothing new before an
// entry returns while calls are live. One is not enough: now and then the
// scheduler takes the entry, out of turn, before a goroutine that can run.
const quietYields = 2

// maxIdleWorkers bounds the goroutines kept for later calls. A kept one saves
// the growing of its stack, which costs more than the call itself.
const maxIdleWorkers = 512

// instance runs the calls of one plugin instance. The entries (start, resume,
// poll, cancel) are called by the host, one at a time; each lets the
// goroutines run until nothing moves any more, and returns.
//
// A wasm guest has one thread, but its goroutines can still be pre-empted for
// a collection: hence the lock. It is never held over a yield or while an
// adapter runs.
type instance struct {
	plugin *plugin
	host   imports

	mu      sync.Mutex
	calls   map[int64]*call
	ios     map[int64]*ioWait
	idle    []*worker // last in, first out: the warmest stack is used first
	scratch []byte    // for messages to the host, which copies at once
	waiting int       // live calls with at least one I/O under way

	moves  atomic.Uint32 // counts whatever happens, for settle
	forked atomic.Int32  // live calls that have had two I/Os under way at once
}

func newInstance(p *plugin, h imports) *instance {
	return &instance{plugin: p, host: h, calls: map[int64]*call{}, ios: map[int64]*ioWait{}}
}

// worker is a goroutine that runs one call after the other.
type worker struct{ next chan *call }

// ioWait is one I/O of one call.
type ioWait struct {
	id       int64
	call     *call
	done     chan struct{} // capacity 1: the waker never blocks
	response []byte        // valid once done, unless dropped
	dropped  bool          // the call ended first
}

// start begins a call.
func (in *instance) start(op int32, id int64) int32 {
	c := &call{in: in, id: id, op: Op(op), input: in.host.input()}
	in.mu.Lock()
	in.calls[id] = c
	var w *worker
	if n := len(in.idle); n > 0 {
		w, in.idle = in.idle[n-1], in.idle[:n-1]
	}
	in.mu.Unlock()
	if w == nil {
		w = &worker{next: make(chan *call, 1)}
		go in.work(w)
	}
	w.next <- c
	return in.settle(false)
}

// resume hands an I/O its response. An I/O that nobody waits for any more is no
// fault: its call may have ended in between.
func (in *instance) resume(io int64) int32 {
	response := in.host.input()
	in.mu.Lock()
	if w := in.ios[io]; w != nil {
		w.response = response
		in.endIO(w)
	}
	in.mu.Unlock()
	return in.settle(true)
}

// cancel ends a call for the host: its context is done and its waits return.
func (in *instance) cancel(id int64) int32 {
	in.mu.Lock()
	if c := in.calls[id]; c != nil {
		in.endCall(c, context.Canceled)
	}
	in.mu.Unlock()
	return in.settle(false)
}

// settle lets goroutines run until nothing moves and says what is wanted next.
// quick: no goroutine was begun in this entry but by adapters. Then, where every call
// has one I/O at a time, as most have, nothing can be left to run once all wait
// again; the yields that would make sure are a tenth of what a delivery costs.
func (in *instance) settle(quick bool) int32 {
	for quiet := 0; ; {
		before := in.moves.Load()
		runtime.Gosched()
		want := in.want()
		if want == wantNothing || want == wantIO && quick && in.forked.Load() == 0 {
			return want
		}
		if in.moves.Load() != before {
			quiet = 0
		} else if quiet++; quiet == quietYields {
			return want
		}
	}
}

// want says what the calls that are live wait for.
func (in *instance) want() int32 {
	in.mu.Lock()
	defer in.mu.Unlock()
	switch len(in.calls) {
	case 0:
		return wantNothing
	case in.waiting:
		return wantIO
	}
	return wantPoll
}

func (in *instance) work(w *worker) {
	for {
		c := <-w.next
		in.run(c)
		in.mu.Lock()
		keep := len(in.idle) < maxIdleWorkers
		if keep {
			in.idle = append(in.idle, w)
		}
		in.mu.Unlock()
		in.moves.Add(1)
		if !keep {
			return
		}
	}
}

// run serves c and sends its result, unless the host gave it up meanwhile. It
// lets a panic through after saying which call it was.
func (in *instance) run(c *call) {
	returned := false
	defer func() {
		if returned {
			return
		}
		p := recover()
		if p == nil {
			p = "the adapter ended its goroutine (runtime.Goexit)"
		}
		in.host.log(c.id, int32(LevelError), "panic: "+panicText(p))
		panic(p)
	}()
	c.serve()
	returned = true
}

func panicText(p any) string {
	switch p := p.(type) {
	case error:
		return p.Error()
	case string:
		return p
	}
	return "a value that is neither an error nor a string"
}

// endCall takes c off the books and wakes whatever waits for it. The host has
// cancelled or will cancel its I/O. Needs the lock.
func (in *instance) endCall(c *call, err error) {
	if c.err != nil {
		return
	}
	c.err = err
	delete(in.calls, c.id)
	if c.forked {
		in.forked.Add(-1)
	}
	if len(c.ios) > 0 {
		in.waiting--
	}
	for _, w := range c.ios {
		delete(in.ios, w.id)
		w.dropped = true
		w.done <- struct{}{}
	}
	c.ios = nil
	if c.done != nil {
		close(c.done)
	}
	in.moves.Add(1)
}

// endIO takes w off the books and wakes its waiter. Needs the lock; w is live.
func (in *instance) endIO(w *ioWait) {
	delete(in.ios, w.id)
	c := w.call
	for i := range c.ios {
		if c.ios[i] == w {
			last := len(c.ios) - 1
			c.ios[i], c.ios[last] = c.ios[last], nil
			c.ios = c.ios[:last]
			break
		}
	}
	if len(c.ios) == 0 {
		in.waiting--
	}
	w.done <- struct{}{}
	in.moves.Add(1)
}

// do runs one I/O of c and returns its response. ctx is c or derived from it.
func (in *instance) do(ctx context.Context, c *call, kind int32, encode func(b []byte) []byte) ([]byte, error) {
	in.mu.Lock()
	if c.err != nil {
		in.mu.Unlock()
		return nil, c.err
	}
	in.scratch = encode(in.scratch[:0])
	id := in.host.ioStart(c.id, kind, in.scratch)
	if id < 0 {
		in.mu.Unlock()
		return nil, refusal(id)
	}
	w := &ioWait{id: id, call: c, done: make(chan struct{}, 1)}
	in.ios[id] = w
	switch c.ios = append(c.ios, w); len(c.ios) {
	case 1:
		in.waiting++
	case 2:
		if !c.forked {
			c.forked = true
			in.forked.Add(1)
		}
	}
	in.mu.Unlock()
	in.moves.Add(1)

	if ctx == context.Context(c) { // the usual case: endCall wakes it
		<-w.done
	} else {
		select {
		case <-w.done:
		case <-ctx.Done():
			return nil, in.abandon(w, ctx.Err())
		}
	}
	if w.dropped {
		return nil, context.Canceled
	}
	return w.response, nil
}

// abandon gives up an I/O whose derived context is done while its call goes on.
func (in *instance) abandon(w *ioWait, err error) error {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.ios[w.id] == w {
		in.host.ioCancel(w.id)
		in.endIO(w)
	}
	return err
}

// refusal turns a negative answer of io_start into an error.
func refusal(code int64) error {
	switch code {
	case -1:
		return context.Canceled // the call has ended
	case -2:
		// It may be that other calls of the sink have them all: nothing of this
		// call's content is wrong, and later there is room.
		return Retry("too many requests are under way, in this call or in the sink")
	case -3:
		return &Failure{Kind: FailDenied, Message: "the request is larger than the host allows"}
	}
	return &Failure{Kind: FailDenied, Message: "the host refused the request"}
}

// timeoutOf is what a derived context leaves of the call's time; 0: all of it.
func timeoutOf(ctx context.Context, c *call) time.Duration {
	if ctx == context.Context(c) {
		return 0
	}
	d, ok := ctx.Deadline()
	if !ok || d.Equal(c.deadlineIfAsked()) {
		return 0
	}
	return max(time.Until(d), time.Millisecond)
}
