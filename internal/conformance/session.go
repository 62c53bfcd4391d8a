package conformance

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/pawlsync/pawl/engine/record"
	"github.com/pawlsync/pawl/engine/sink"
)

// Session is a plugin at work with a fixture, one op after the other by hand,
// for one resource. What an Apply is acknowledged with goes to the next op, as
// the engine would have it.
type Session struct {
	kit   *kit
	t     *T
	thing *thing
	seen  int // exchanges that were told of
	lines int // log lines that were told of
}

// Call is one op and how it ended.
type Call struct {
	Op        string
	Result    sink.Result
	Exchanges []Exchange
	Lines     []Line // of the log: the plugin's, and the host's about it
}

// OK reports whether the call ended well: to Observe and Delete that there is no
// object is an answer like others.
func (c *Call) OK() bool {
	return c.Result.Status == sink.OK || c.Op != "apply" && c.Result.Status == sink.NotFound
}

// Ops names the ops that a Session does.
func Ops() []string { return []string{"observe", "apply", "delete"} }

// ErrOp is the error of an op that a Session does not do.
var ErrOp = errors.New("unknown op")

// Start opens a plugin for the resource key, with a payload or, where that is
// nil, the first one of the fixture.
//
// # Errors
//
// It says why the plugin can't be loaded or refuses its config.
func Start(ctx context.Context, wasm []byte, name, key string, o Options) (*Session, error) {
	o = o.withDefaults()
	if err := o.Fixture.validate(); err != nil {
		return nil, err
	}
	if err := (record.Key{Sink: "run", Name: key}).Validate(); err != nil {
		return nil, err
	}
	k, err := newKit(ctx, wasm, name, o)
	if err == nil {
		err = k.loadErr
	}
	if err != nil {
		return nil, err
	}
	s := &Session{kit: k}
	stage, err := k.stage("run", o.Fixture.Config)
	if err == nil {
		if err = stage.Open(ctx); err != nil {
			stage.Close()
		}
	}
	if err != nil {
		k.close()
		return nil, err
	}
	s.t = &T{Stage: stage, ctx: ctx, kit: k, check: "run"}
	s.thing = s.t.named(key, "run-1")
	return s, nil
}

// Close ends the session.
func (s *Session) Close() {
	s.t.Close()
	s.kit.close()
}

// Do makes one call. payload is the desired content; nil: the fixture's first.
func (s *Session) Do(ctx context.Context, op string, payload []byte) (*Call, error) {
	if payload == nil {
		payload = s.thing.content(s.t.fixture.Payloads.Create)
	}
	c := &Call{Op: op}
	t := s.t
	switch op {
	case "observe":
		c.Result = t.sink.Observe(ctx, s.thing.want(payload))
	case "apply":
		r := s.thing.want(payload)
		if c.Result = t.sink.Apply(ctx, r); c.Result.Status == sink.OK {
			s.thing.ack(r, c.Result.Observation)
		}
	case "delete":
		r := s.thing.tombstone()
		if s.thing.acked != nil && t.sink.Manifest().ReportsUID {
			r.UID = s.thing.acked.UID
		}
		if c.Result = t.sink.Delete(ctx, r); gone(c.Result) {
			s.thing.acked, s.thing.current = nil, nil
		}
	default:
		return nil, fmt.Errorf("%w %q; use %s", ErrOp, op, strings.Join(Ops(), ", "))
	}
	all, lines := t.gate.last(maxKept), t.book.of(t.name)
	c.Exchanges, c.Lines = slices.Clone(all[min(s.seen, len(all)):]), slices.Clone(lines[min(s.lines, len(lines)):])
	s.seen, s.lines = len(all), len(lines)
	return c, ctx.Err()
}
