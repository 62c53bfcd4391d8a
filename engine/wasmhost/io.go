package wasmhost

import (
	"context"
	"fmt"
	"time"

	"github.com/pawlsync/pawl/engine/upstream"
	"github.com/pawlsync/pawl/engine/wasmhost/abi"
)

// hostIO is one host I/O of a call. Its goroutine or timer writes response or
// failure, then posts evIO; everything else is the owner's.
type hostIO struct {
	id       int64
	kind     abi.IOKind
	call     *call
	stop     func() bool // ends it early; true: it has ended and posts nothing
	dropped  bool        // the guest is not resumed for it
	orphan   bool        // its call has moved to another instance
	response *upstream.Response
	failure  *upstream.Failure
}

// Codes that io_start, io_call and result answer instead of an id.
const (
	codeEnded    = -1 // the call has ended
	codeTooMany  = -2 // the call has too many I/Os under way
	codeTooLarge = -3 // the message is too large
	codeDenied   = -4 // this kind of I/O, or any in this op, is not granted
)

// startIO begins an I/O that the guest is resumed for. request is the
// message's bytes in the guest's memory.
func (in *instance) startIO(c *call, kind abi.IOKind, request []byte) int64 {
	if code := in.admitIO(c, kind, len(request)); code != 0 {
		return code
	}
	in.lastIO++
	io := &hostIO{id: in.lastIO, kind: kind, call: c}
	if kind == abi.IOSleep {
		timer := time.AfterFunc(in.decodeSleep(request), func() {
			in.sink.ios.Add(-1)
			in.post(event{kind: evIO, io: io})
		})
		io.stop = func() bool {
			stopped := timer.Stop()
			if stopped {
				in.sink.ios.Add(-1)
			}
			return stopped
		}
	} else {
		q := in.decodeHTTP(request)
		ctx, cancel := context.WithDeadline(c.ctx, c.deadline)
		io.stop = func() bool { cancel(); return false }
		size := int64(len(request))
		in.sink.requestBytes.Add(size)
		go func() {
			defer cancel()
			io.response, io.failure = in.exchange(ctx, q)
			in.sink.requestBytes.Add(-size)
			in.sink.responseBytes.Add(io.bytes())
			in.sink.ios.Add(-1)
			in.post(event{kind: evIO, io: io})
		}()
	}
	in.sink.ios.Add(1)
	in.ios[io.id] = io
	c.ios = append(c.ios, io)
	return io.id
}

func (in *instance) admitIO(c *call, kind abi.IOKind, size int) int64 {
	switch {
	case kind != abi.IOHTTP && kind != abi.IOSleep, c.op == abi.OpDescribe:
		return codeDenied
	case int64(size) > in.sink.limits.MessageBytes:
		in.sink.held(LimitMessage, c.key())
		return codeTooLarge
	case len(c.ios) >= in.sink.limits.CallIOs:
		in.sink.held(LimitCallIOs, c.key())
		return codeTooMany
	case in.sink.ios.Load() >= int64(in.sink.limits.SinkIOs):
		in.sink.held(LimitSinkIOs, c.key())
		return codeTooMany
	case in.sink.requestsFull(int64(size)):
		in.sink.held(LimitInFlight, c.key())
		return codeTooMany
	}
	in.charge(unitsPerIO + int64(size)*unitsPerByte)
	return 0
}

// requestsFull reports whether a request of n bytes has to wait until others have
// ended; one is always admitted. They have room for what calls may have as payloads,
// twice: for how a target wants it written.
func (s *Sink) requestsFull(n int64) bool {
	held := s.requestBytes.Load()
	return held > 0 && held+n > 2*s.limits.InFlightBytes
}

// callIO runs an I/O while the guest is blocked in it, and makes the response
// the current input. It returns the input's length or a code.
func (in *instance) callIO(c *call, kind abi.IOKind, request []byte) int64 {
	if code := in.admitIO(c, kind, len(request)); code != 0 {
		return code
	}
	in.blocks()
	ctx, cancel := context.WithDeadline(c.ctx, c.deadline)
	defer cancel()
	in.sink.ios.Add(1)
	defer in.sink.ios.Add(-1)
	in.buffer = in.buffer[:0]
	if kind == abi.IOSleep {
		sleep(ctx, in.decodeSleep(request))
	} else {
		response, failure := in.exchange(ctx, in.decodeHTTP(request))
		c.maybeSent = c.maybeSent || failure == nil || failure.MaybeSent
		in.buffer = append(abi.AppendHTTPResponse(in.buffer, response, failure), in.sink.unknown...)
	}
	in.now = time.Now()
	in.input = in.buffer
	return int64(len(in.input))
}

// blocks makes the sink give one call to each instance, and moves the calls
// elsewhere that would wait behind this one.
func (in *instance) blocks() {
	if in.blocking {
		return
	}
	in.blocking = true
	in.sink.block()
	if in.first == nil {
		in.sink.requeue(in, in.surrender())
	}
}

func sleep(ctx context.Context, d time.Duration) {
	if ctx.Err() != nil {
		return // without a timer, for a guest that goes on and on
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}

func (in *instance) decodeSleep(b []byte) time.Duration {
	d, err := abi.DecodeSleep(b)
	if err != nil {
		violate(FaultMalformed, "the input of an I/O: %w", err)
	}
	return d
}

func (in *instance) decodeHTTP(b []byte) *abi.HTTPRequest {
	q, err := abi.DecodeHTTPRequest(b)
	if err != nil {
		violate(FaultMalformed, "the input of an I/O: %w", err)
	}
	return q
}

// exchange sends a request through the upstream that it names, if that was
// granted. Exactly one of its results is not nil.
func (in *instance) exchange(ctx context.Context, q *abi.HTTPRequest) (*upstream.Response, *upstream.Failure) {
	up := in.sink.upstreams[q.Upstream]
	if up == nil {
		return nil, &upstream.Failure{Upstream: q.Upstream, Kind: upstream.FailDenied,
			Message: fmt.Sprintf("upstream %q is not granted to sink %q", q.Upstream, in.sink.name)}
	}
	response, failure := up.Do(ctx, &q.Request)
	if response == nil && failure == nil {
		failure = &upstream.Failure{Upstream: q.Upstream, Kind: upstream.FailProtocol, Message: "no answer", MaybeSent: true}
	}
	return response, failure
}

// bytes is what a response holds in the host until its call is resumed.
func (io *hostIO) bytes() int64 {
	if io.response == nil {
		return 0
	}
	return int64(len(io.response.Body))
}

// drop makes the guest hear no more of io, and ends it.
func (in *instance) drop(io *hostIO) {
	io.dropped = true
	delete(in.ios, io.id)
	if io.stop() {
		io.call.forget(io)
	}
}

// ioEnded takes io off the books; its call is resumed, or where it has ended
// and this was its last I/O, delivered.
func (in *instance) ioEnded(io *hostIO) {
	in.sink.responseBytes.Add(-io.bytes())
	if io.orphan {
		return
	}
	c := io.call
	c.forget(io)
	if io.kind == abi.IOHTTP && (io.failure == nil || io.failure.MaybeSent) {
		c.maybeSent = true
	}
	switch {
	case c.ended && len(c.ios) == 0:
		in.deliver(c)
	case c.ended, io.dropped:
	default:
		delete(in.ios, io.id)
		in.resume(io)
	}
}
