package pawl

import (
	"context"
	"errors"
	"time"
)

// Level is the severity of a log line.
type Level uint8

// The levels, the host's numbers.
const (
	LevelDebug Level = 0
	LevelInfo  Level = 1
	LevelWarn  Level = 2
	LevelError Level = 3
)

// Host does what a plugin can't do itself. In a plugin it is the engine; tests
// bring one of their own (package pawltest).
type Host interface {
	// HTTP sends a request; an error is a *Failure.
	HTTP(ctx context.Context, r *HTTPRequest) (*HTTPResponse, error)
	// Sleep returns after d, or with ctx's error.
	Sleep(ctx context.Context, d time.Duration) error
	Log(ctx context.Context, level Level, line string)
}

// ErrNoCall is returned by Do and Sleep for a context that does not come from
// a call: pass on the one that the adapter's method was given.
var ErrNoCall = errors.New("pawl: the context does not belong to a call; pass on the one that the adapter was called with (in tests see package pawltest)")

type hostKey struct{}

// WithHost returns a context in which Do, Sleep and Log go to h.
func WithHost(ctx context.Context, h Host) context.Context {
	return context.WithValue(ctx, hostKey{}, h)
}

// Do sends a request to a granted upstream and returns the whole answer. A
// status of 400 or 500 is an answer; an error says that there was none and is
// a *Failure, or StatusRetry where the host has no room for one more request.
// The call is parked meanwhile.
//
// A deadline of ctx that is nearer than the call's bounds the request.
func Do(ctx context.Context, r *HTTPRequest) (*HTTPResponse, error) {
	h, ok := ctx.Value(hostKey{}).(Host)
	if !ok {
		return nil, ErrNoCall
	}
	return h.HTTP(ctx, r)
}

// Sleep parks the call for d, or until ctx is done, whose error it returns then.
func Sleep(ctx context.Context, d time.Duration) error {
	h, ok := ctx.Value(hostKey{}).(Host)
	if !ok {
		return ErrNoCall
	}
	return h.Sleep(ctx, d)
}

// Log hands a line to the host's log, which adds sink, key and plugin and
// limits the rate. Never log payload values. Without a call's context the line is lost.
func Log(ctx context.Context, level Level, line string) {
	if h, ok := ctx.Value(hostKey{}).(Host); ok {
		h.Log(ctx, level, line)
	}
}
