package pawl

import (
	"context"
	"errors"
	"time"
)

// call is one call of the host. It is the adapter's context and, through
// hostKey, the Host behind it: one allocation for all.
type call struct {
	in      *instance
	id      int64
	op      Op
	input   []byte
	request Request
	answer  answer

	// Under in.mu:
	err      error         // not nil: the call is over
	done     chan struct{} // made when somebody asks
	deadline time.Time     // set when somebody asks
	ios      []*ioWait
	forked   bool // has had two I/Os under way at once
}

// serve runs the call and sends its answer, unless the host gave it up.
func (c *call) serve() {
	in := c.in
	in.plugin.serve(c, c.op, c.input, &c.request, &c.answer)
	in.mu.Lock()
	defer in.mu.Unlock()
	if c.err != nil {
		return
	}
	in.scratch = c.answer.append(in.scratch[:0])
	in.host.result(c.id, in.scratch)
	in.endCall(c, errEnded)
}

// errEnded is what leftover goroutines of an answered call get.
var errEnded = errors.New("pawl: the call has been answered already")

// Deadline returns when the host gives the call up, counted from the first
// question: reading the clock costs a host call, and most adapters never ask.
func (c *call) Deadline() (time.Time, bool) {
	ms := c.request.TimeoutMillis
	if ms == 0 {
		return time.Time{}, false
	}
	c.in.mu.Lock()
	defer c.in.mu.Unlock()
	if c.deadline.IsZero() {
		c.deadline = time.Now().Add(time.Duration(ms) * time.Millisecond)
	}
	return c.deadline, true
}

func (c *call) deadlineIfAsked() time.Time {
	c.in.mu.Lock()
	defer c.in.mu.Unlock()
	return c.deadline
}

// Done is closed when the host gives the call up, or when it was answered.
func (c *call) Done() <-chan struct{} {
	c.in.mu.Lock()
	defer c.in.mu.Unlock()
	if c.done == nil {
		c.done = make(chan struct{})
		if c.err != nil {
			close(c.done)
		}
	}
	return c.done
}

// Err is not nil once Done is closed.
func (c *call) Err() error {
	c.in.mu.Lock()
	defer c.in.mu.Unlock()
	if c.err != nil {
		return context.Canceled
	}
	return nil
}

// Value knows the call's host.
func (c *call) Value(key any) any {
	if _, ok := key.(hostKey); ok {
		return c
	}
	return nil
}

// HTTP implements Host.
func (c *call) HTTP(ctx context.Context, r *HTTPRequest) (*HTTPResponse, error) {
	if r.Timeout == 0 {
		if t := timeoutOf(ctx, c); t != 0 {
			bounded := *r
			bounded.Timeout = t
			r = &bounded
		}
	}
	msg, err := c.in.do(ctx, c, ioHTTP, func(b []byte) []byte { return appendHTTPRequest(b, r) })
	if err == nil {
		var resp *HTTPResponse
		if resp, err = decodeHTTPResponse(msg); err == nil {
			return resp, nil
		}
	}
	return nil, asFailure(err, r.Upstream)
}

// asFailure makes every error of HTTP a *Failure that names its upstream, but for
// the host's wish that it be tried again later.
func asFailure(err error, upstream string) error {
	if e, ok := err.(*Error); ok {
		return e
	}
	if f, ok := err.(*Failure); ok {
		f.Upstream = upstream
		return f
	}
	f := &Failure{Kind: FailProtocol, Upstream: upstream, Message: err.Error(), MaybeSent: true}
	switch {
	case err == context.DeadlineExceeded:
		f.Kind = FailTimeout
	case err == context.Canceled, err == errEnded:
		f.Kind = FailCancelled
	}
	return f
}

// Sleep implements Host.
func (c *call) Sleep(ctx context.Context, d time.Duration) error {
	_, err := c.in.do(ctx, c, ioSleep, func(b []byte) []byte { return appendSleep(b, d) })
	return err
}

// Log implements Host.
func (c *call) Log(_ context.Context, level Level, line string) {
	c.in.host.log(c.id, int32(level), line)
}
