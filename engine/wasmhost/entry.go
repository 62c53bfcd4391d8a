package wasmhost

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"time"

	"github.com/tetratelabs/wazero/api"

	"github.com/pawlsync/pawl/engine/sink"
	"github.com/pawlsync/pawl/engine/wasmhost/abi"
)

// What a guest wants next.
const (
	wantNothing = 0
	wantIO      = 1
	wantPoll    = 2
)

// Between these an instance that wants to be polled is.
const (
	pollMin = time.Millisecond
	pollMax = 10 * time.Millisecond
)

// maxKeptBuffer is the largest input buffer that an instance keeps.
const maxKeptBuffer = 1 << 20

// spareBuffers are larger ones that no instance keeps: batches, which have megabytes,
// would otherwise take such a one from the collector each.
var spareBuffers sync.Pool // of *[]byte

// begin enters the guest to start c. The call's deadline runs from here.
func (in *instance) begin(c *call) {
	if c.ctx.Err() != nil {
		in.end(c, unsent(context.Cause(c.ctx)))
		return
	}
	in.lastCall++
	c.id = in.lastCall
	in.now = time.Now()
	c.deadline = in.now.Add(c.timeout)
	in.calls[c.id] = c
	in.live.pushBack(c)
	if c.op == abi.OpApplyBatch && in.buffer == nil {
		if spare, ok := spareBuffers.Get().(*[]byte); ok {
			in.buffer = *spare
		}
	}
	in.buffer = append(in.encode(in.buffer[:0], c), in.sink.unknown...)
	in.stack[0], in.stack[1] = uint64(c.op), uint64(c.id)
	in.enter(in.fns.start, c, in.buffer)
}

func (in *instance) encode(b []byte, c *call) []byte {
	switch c.op {
	case abi.OpDescribe, abi.OpConfigure:
		return append(b, c.input...)
	case abi.OpApplyBatch:
		return abi.AppendBatchRequest(b, c.reqs, timeLeft(c, in.now))
	case abi.OpPoll, abi.OpCompare:
		return c.encode(b, timeLeft(c, in.now))
	}
	return abi.AppendRequest(b, c.reqs[0], timeLeft(c, in.now))
}

// resume enters the guest with what io ended with.
func (in *instance) resume(io *hostIO) {
	in.buffer = in.buffer[:0]
	if io.kind == abi.IOHTTP {
		in.buffer = append(abi.AppendHTTPResponse(in.buffer, io.response, io.failure), in.sink.unknown...)
	}
	in.stack[0] = uint64(io.id)
	in.enter(in.fns.resume, io.call, in.buffer)
}

// poll enters the guest with nothing new; it waits longer from time to time.
func (in *instance) poll() {
	wait := min(in.pollWait*2, pollMax)
	in.enter(in.fns.poll, nil, nil)
	in.pollWait, in.pollAt = wait, in.now.Add(wait)
}

// cancelGuest tells the guest that the call id is over.
func (in *instance) cancelGuest(id int64) {
	if in.dead {
		return
	}
	in.stack[0] = uint64(id)
	in.enter(in.fns.cancel, nil, nil)
}

// enter runs one entry of the guest for c, or for none, with its arguments on
// in.stack, and judges what comes back.
func (in *instance) enter(f api.Function, c *call, input []byte) {
	in.entry++
	if c != nil {
		c.entry = in.entry
	}
	in.input = input
	err := in.enterGuest(f, c)
	in.input = nil
	if cap(in.buffer) > maxKeptBuffer {
		spare := in.buffer
		spareBuffers.Put(&spare)
		in.buffer = nil
	}
	if errors.Is(err, errSinkClosed) {
		in.stop()
		return
	}
	if err != nil {
		kind, cause := kindOf(err)
		if bug := runtime.Error(nil); errors.As(err, &bug) {
			in.sink.log.Error("a panic of the host's own within an entry of the guest; please report it", "trace", err.Error())
		}
		in.fault(c, kind, cause)
		return
	}
	in.want = int32(in.stack[0])
	in.pollWait, in.pollAt = pollMin, in.now.Add(pollMin)
	switch {
	case in.want < wantNothing || in.want > wantPoll:
		in.fault(c, FaultContract, fmt.Errorf("an entry returned %d, which is none of 0, 1 and 2", in.want))
	case in.want != wantPoll && in.live.head != nil && len(in.ios) == 0:
		in.fault(c, FaultStuck, fmt.Errorf("it holds %d calls, waits for no host I/O, and does not ask to be polled", in.live.n))
	}
}

// end is how a call ends, whichever way. It is delivered once its host I/O has
// ended too: until then its key is not free.
func (in *instance) end(c *call, a answer) {
	c.ended, c.answer = true, a
	if c.id != 0 {
		delete(in.calls, c.id)
		in.live.remove(c)
	}
	for i := len(c.ios) - 1; i >= 0; i-- {
		in.drop(c.ios[i])
	}
	in.idleAt = in.now.Add(in.sink.limits.IdleTimeout)
	if len(c.ios) == 0 {
		in.deliver(c)
	}
}

func (in *instance) deliver(c *call) {
	r := &c.answer.result.Result
	if c.answer.manifest == nil && c.answer.batch == nil && !r.Status.Answered() {
		r.NotSent = !c.maybeSent
	}
	if c == in.first {
		in.ready(c)
	} else {
		if c.isolated && !in.dead {
			in.sink.suspects.clear(c)
		}
		in.sink.release(in, c)
	}
	c.done <- struct{}{}
}

// ready follows the end of describe or configure: the calls that waited for it
// are started, or end as it did.
func (in *instance) ready(first *call) {
	in.first = nil
	if in.dead || in.stopping || first.op == abi.OpDescribe {
		return
	}
	if r := first.answer.result; r.Status != sink.OK {
		in.refused(r)
		return
	}
	// The calls are handed back to the queue rather than entered: this may be
	// within an entry of the guest.
	for _, c := range in.held {
		in.post(event{kind: evStart, call: c})
	}
	in.held = nil
}

// refused ends the calls of an instance whose configure did not say OK. What
// the target said stands; that the plugin refuses the configuration which it
// accepted at Open is its fault.
func (in *instance) refused(r abi.Result) {
	r.Observation, r.Message = nil, "configure: "+r.Message
	a := answer{result: r}
	switch r.Status {
	case sink.Unreachable, sink.Unauthorized, sink.Retry:
	default:
		a = in.faulted(nil, FaultStart, fmt.Errorf("configure answered %s: %s", r.Status, r.Message), false)
		in.sink.countFault(FaultStart)
	}
	in.stopping = true
	in.sink.drain(in)
	for _, c := range in.surrender() {
		in.end(c, a)
	}
}

// faulted is the answer of a call that ends by a fault.
func (in *instance) faulted(entered *call, kind FaultKind, err error, suspect bool) answer {
	key := ""
	if entered != nil {
		key = entered.key()
	}
	f := in.sink.newFault(key, kind, err)
	return answer{fault: f, result: abi.Result{Result: sink.Result{
		Status: sink.Fault, Message: f.Error(), Suspect: suspect}}}
}

// fault discards the instance after the guest broke the contract or trapped in
// an entry for the call entered, or for none. Of the calls that it held
//
//   - the one entered, or the only one, is guilty: it ends as a fault and runs
//     alone next. A batch is a suspect only, as one of its requests is guilty;
//   - those that took part in the entry by an import, or in an entry for none may
//     have, as they wait for no host I/O, are suspects: they end as a fault that
//     is not charged, and run alone next;
//   - the others have done nothing. Where certainly nothing of theirs was sent
//     they start again together in another instance, once; else they end as a
//     fault that is not charged, so that the target is looked at.
//
// Calls that were not entered yet move to another instance.
func (in *instance) fault(entered *call, kind FaultKind, err error) {
	in.dead = true
	alone := in.live.n == 1
	if entered == nil && alone {
		entered = in.live.head
	}
	in.sink.countFault(kind)
	f := in.sink.newFault("", kind, err)
	if entered != nil {
		f.Key = entered.key()
	}
	in.sink.log.Error("plugin fault: its instance is discarded",
		"key", f.Key, "kind", string(kind), "cause", err, "calls", in.live.n)
	in.sink.drain(in)
	if in.lastCall <= 1 { // first's: it never came to a call of the sink's
		in.failStart(kind, err)
		return
	}
	guilty := func(c *call) bool { return c == entered || alone }
	tookPart := func(c *call) bool {
		return guilty(c) || c.entry == in.entry || entered == nil && len(c.ios) == 0
	}
	var again []*call
	for c := in.live.head; c != nil; {
		next := c.next
		if !tookPart(c) && !c.maybeSent && !c.waitsForHTTP() && c.restarts == 0 {
			in.detach(c)
			again = append(again, c)
		}
		c = next
	}
	// Before anybody hears of the fault: what its caller does next finds the
	// others on their way.
	in.sink.restarts.Add(int64(len(again)))
	in.sink.requeue(in, append(again, in.surrender()...))
	for c := in.live.head; c != nil; c = in.live.head {
		suspect := !guilty(c) || len(c.reqs) > 1
		if tookPart(c) {
			in.sink.suspects.add(c)
		}
		in.end(c, in.faulted(entered, kind, err, suspect))
	}
}

// detach makes a live call one that was not entered yet.
func (in *instance) detach(c *call) {
	delete(in.calls, c.id)
	in.live.remove(c)
	for i := len(c.ios) - 1; i >= 0; i-- {
		c.ios[i].orphan = true // a timer that could not be stopped will still say so
		in.drop(c.ios[i])
	}
	c.ios = nil
	c.id, c.entry, c.restarts = 0, 0, c.restarts+1
}

// failStart ends an instance that faulted before it came to a call of its
// sink's, be it after it had answered configure, and all the calls that it was
// given: another instance would fault alike, and they would move for ever.
func (in *instance) failStart(kind FaultKind, err error) {
	held := in.surrender()
	if first := in.first; first != nil {
		err = fmt.Errorf("an instance did not start: %s: %w", first.op, err)
		in.end(first, in.faulted(nil, kind, err, false))
	} else {
		err = fmt.Errorf("an instance did not start: it had answered, but %w", err)
	}
	for _, c := range held {
		in.end(c, in.faulted(c, kind, err, false))
	}
}

// result takes a call's answer from the guest, within an entry.
func (in *instance) result(c *call, b []byte) {
	a, err := in.decodeAnswer(c, b)
	if err != nil {
		c.entry = in.entry
		violate(FaultMalformed, "the answer to %s: %w", c.op, err)
	}
	in.end(c, a)
}

func (in *instance) decodeAnswer(c *call, b []byte) (a answer, err error) {
	switch c.op {
	case abi.OpDescribe:
		a.manifest, err = abi.DecodeManifest(b)
	case abi.OpApplyBatch:
		var rs []sink.Result
		rs, a.whole, err = abi.DecodeBatchResult(b, len(c.reqs))
		if a.whole {
			a.result.Result = rs[0]
		} else {
			a.batch = rs
		}
		for i := range rs {
			tidy(&rs[i])
		}
	case abi.OpPoll:
		a.changes, a.result.Result, err = abi.DecodePollResult(b, in.sink.name)
	case abi.OpCompare:
		a.difference, a.result.Result, err = abi.DecodeCompareResult(b)
	default:
		if a.result, err = abi.DecodeResult(b); err == nil {
			err = checkImage(c, a.result.Observation)
		}
	}
	tidy(&a.result.Result)
	return a, err
}

// checkImage bounds content that the engine keeps as an image, to give it back
// with every later call of that step.
func checkImage(c *call, o *sink.Observation) error {
	if o == nil || len(o.Content) <= sink.MaxImage || len(c.reqs) != 1 {
		return nil
	}
	if run := c.reqs[0].Run; run == nil || run.Before != nil {
		return nil
	}
	return fmt.Errorf("%w: the content of its observation has %d bytes, more than the %d of an object that a saga can bring back",
		abi.ErrMalformed, len(o.Content), sink.MaxImage)
}

// Bounds on what people read.
const (
	maxMessage   = 2048
	maxDiffering = 256
)

// tidy cuts what is for people to a size that logs and status can take.
func tidy(r *sink.Result) {
	r.Message = cut(r.Message, maxMessage)
	if o := r.Observation; o != nil && len(o.Differing) > maxDiffering {
		o.Differing = append(o.Differing[:maxDiffering:maxDiffering], fmt.Sprintf("… and %d more", len(o.Differing)-maxDiffering))
	}
}
