package wasmhost

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pawlsync/pawl/engine/record"
	"github.com/pawlsync/pawl/engine/sink"
	"github.com/pawlsync/pawl/engine/upstream"
	"github.com/pawlsync/pawl/engine/wasmhost/abi"
)

// Upstream is an address that a sink's plugin may send requests to.
type Upstream interface {
	Name() string    // what the plugin calls it
	Kind() string    // "http", "kubernetes", …
	BaseURL() string // without user information and query
	// Do sends r; exactly one of its results is not nil. It returns soon after
	// ctx ends.
	Do(ctx context.Context, r *upstream.Request) (*upstream.Response, *upstream.Failure)
}

// SinkConfig is what a plugin is opened with.
type SinkConfig struct {
	Name      string
	Config    []byte     // a JSON object; empty: {}
	Upstreams []Upstream // granted, in the order of the configuration
	Limits    Limits
	// Replaces is the sink that this one is to take the place of, or nil. Keys that
	// either suspects of a fault run alone in both.
	Replaces *Sink
	// Unknown is appended to every message that the guest gets: fields that no
	// message of this version has, as a later host may send them. It is for the
	// conformance kit; else nil.
	Unknown []byte
}

// Sink is a configured plugin. It is a sink.Batcher; ApplyBatch works where
// Manifest().BatchMax is above 1. It is a sink.Participant, a sink.Poller and a
// sink.Comparer too; what of that works the manifest says.
type Sink struct {
	host      *Host
	plugin    *Plugin
	name      string
	configure []byte // the encoded input of configure
	unknown   []byte // see SinkConfig
	upstreams map[string]Upstream
	limits    Limits
	manifest  sink.Manifest
	ops       []abi.Op
	log       *slog.Logger
	guestLog  *guestLog
	suspects  *suspects

	faults        [len(faultKinds)]atomic.Int64
	limited       [len(limitsTold)]limitCount
	cpu           atomic.Int64  // nanoseconds of CPU time that guests used
	throttled     atomic.Int64  // nanoseconds that entries were held back for the sink's share of CPU
	active        atomic.Int64  // when a guest was last entered, Unix nanoseconds
	ios           atomic.Int64  // host I/Os under way
	memory        memoryBudget  // of all instances
	account       account       // the sink's part in the host's processors
	shutting      chan struct{} // closed when the sink closes
	restarts      atomic.Int64
	recycled      atomic.Int64
	responseBytes atomic.Int64 // responses that wait for their call to be resumed
	requestBytes  atomic.Int64 // requests that wait for an upstream

	owners sync.WaitGroup // of instances, those too that have left instances but not yet ended

	mu        sync.Mutex
	closed    bool
	instances []*instance // all that have not ended, draining ones too
	waiting   callList
	isolated  callList // calls that wait to run alone
	inFlight  int
	bytes     int64
	blocking  bool // the plugin uses io_call: one call per instance
}

var (
	_ sink.Batcher     = (*Sink)(nil)
	_ sink.Participant = (*Sink)(nil)
	_ sink.Poller      = (*Sink)(nil)
	_ sink.Comparer    = (*Sink)(nil)
)

// Open configures the plugin for one sink.
//
// # Errors
//
// An *Error that wraps ErrConfig: the plugin refused the configuration; the
// message says what it said; ErrUnready: it could not reach its target, try
// again later; ErrFault: it broke the contract.
func (p *Plugin) Open(ctx context.Context, c SinkConfig) (*Sink, error) {
	fail := func(err error, hint string) (*Sink, error) {
		return nil, &Error{Op: "open", Plugin: p.name, Sink: c.Name, Err: err, Hint: hint}
	}
	limits := c.Limits.withDefaults(p.host.memory)
	if err := errors.Join(record.ValidateSink(c.Name), limits.validate(p.host.memory), p.checkMemory(limits)); err != nil {
		return fail(fmt.Errorf("%w: %w", ErrConfig, err), "")
	}
	s := newSink(p, c, limits)
	a, err := s.boot(ctx, abi.OpConfigure, s.configure)
	if err == nil {
		err = s.configured(a.result)
	}
	if err != nil {
		_ = s.Close(context.WithoutCancel(ctx))
		return fail(err, openHint(err))
	}
	return s, nil
}

func openHint(err error) string {
	switch {
	case errors.Is(err, ErrConfig):
		return "correct the sink's plugin configuration"
	case errors.Is(err, ErrUnready):
		return "it may pass; try again"
	}
	return ""
}

func (p *Plugin) checkMemory(l Limits) error {
	if n := p.startBytes(); n > l.MemoryBytes {
		return fmt.Errorf("the plugin starts with %d bytes of memory, more than the limit memory_max_bytes of %d", n, l.MemoryBytes)
	}
	return nil
}

func newSink(p *Plugin, c SinkConfig, l Limits) *Sink {
	s := &Sink{
		host:      p.host,
		plugin:    p,
		name:      c.Name,
		unknown:   c.Unknown,
		upstreams: make(map[string]Upstream, len(c.Upstreams)),
		limits:    l,
		log:       p.host.log.With("plugin", p.name, "sink", c.Name),
		suspects:  newSuspects(),
		shutting:  make(chan struct{}),
		account:   newAccount(l.CPUShare, time.Now()),
	}
	s.memory.limit = l.SinkMemoryBytes
	s.guestLog = newGuestLog(s.log, l.LogLines, l.LogBytes)
	p.host.join(s)
	if c.Replaces != nil {
		s.suspects = c.Replaces.suspects
	}
	in := abi.Configure{Sink: c.Name, Config: c.Config}
	if len(in.Config) == 0 {
		in.Config = []byte("{}")
	}
	for _, u := range c.Upstreams {
		s.upstreams[u.Name()] = u
		in.Upstreams = append(in.Upstreams, abi.UpstreamRef{Name: u.Name(), Kind: u.Kind(), BaseURL: u.BaseURL()})
	}
	s.configure = abi.AppendConfigure(nil, &in)
	return s
}

// configured takes over what configure answered: the target's identity, and
// where it sent a manifest, flags and ops for this sink.
func (s *Sink) configured(r abi.Result) error {
	if err := configureError(r); err != nil {
		return err
	}
	m := s.plugin.manifest
	if o := r.Observation; o != nil && o.Content != nil {
		own, err := abi.DecodeManifest(o.Content)
		if err != nil {
			return fmt.Errorf("%w: the manifest that configure answered: %w", ErrInvalid, err)
		}
		own.Name, own.Version = m.Name, m.Version
		if m = *own; !m.FindsByKey {
			m.FindsByKey = s.plugin.manifest.FindsByKey
		}
		if err := checkManifest(&m); err != nil {
			return fmt.Errorf("%w: after configure, %w", ErrInvalid, err)
		}
	}
	s.ops = m.Ops
	s.manifest = s.plugin.sinkManifest(&m, r.Target)
	return nil
}

func configureError(r abi.Result) error {
	switch r.Status {
	case sink.OK:
		return nil
	case sink.Unreachable, sink.Retry, sink.InProgress, sink.Unauthorized:
		return fmt.Errorf("%w: %s: %s", ErrUnready, r.Status, r.Message)
	}
	return fmt.Errorf("%w: %s: %s", ErrConfig, r.Status, r.Message)
}

// Manifest implements sink.Sink.
func (s *Sink) Manifest() sink.Manifest { return s.manifest }

// Observe implements sink.Sink.
func (s *Sink) Observe(ctx context.Context, r *sink.Request) sink.Result {
	return s.one(ctx, abi.OpObserve, r)
}

// Apply implements sink.Sink.
func (s *Sink) Apply(ctx context.Context, r *sink.Request) sink.Result {
	return s.one(ctx, abi.OpApply, r)
}

// Delete implements sink.Sink.
func (s *Sink) Delete(ctx context.Context, r *sink.Request) sink.Result {
	return s.one(ctx, abi.OpDelete, r)
}

// Restore implements sink.Participant.
func (s *Sink) Restore(ctx context.Context, r *sink.Request) sink.Result {
	return s.one(ctx, abi.OpRestore, r)
}

// Unlock implements sink.Participant. A plugin that lists no such op took no locks,
// and its marks are part of its objects: there is nothing to give up. Where there
// are locks all the same, of a module that was replaced, it is told.
func (s *Sink) Unlock(ctx context.Context, r *sink.Request) sink.Result {
	if !slices.Contains(s.ops, abi.OpUnlock) && (r.Run == nil || len(r.Run.Locks) == 0) {
		return sink.Result{Status: sink.OK}
	}
	return s.one(ctx, abi.OpUnlock, r)
}

// ApplyBatch implements sink.Batcher. Where the batch got no answer, or its
// instance faulted, each request has its own copy of that result.
func (s *Sink) ApplyBatch(ctx context.Context, rs []*sink.Request) (results []sink.Result, whole bool) {
	a := s.do(ctx, abi.OpApplyBatch, rs)
	switch {
	case a.whole:
		return []sink.Result{a.result.Result}, true
	case a.batch != nil:
		return a.batch, false
	}
	return slices.Repeat([]sink.Result{a.result.Result}, len(rs)), false
}

func (s *Sink) one(ctx context.Context, op abi.Op, r *sink.Request) sink.Result {
	return s.do(ctx, op, []*sink.Request{r}).result.Result
}

// do runs one call to its end; ctx ends it early.
func (s *Sink) do(ctx context.Context, op abi.Op, reqs []*sink.Request) answer {
	if !slices.Contains(s.ops, op) {
		return s.hasNo(op)
	}
	c := s.newCall(ctx, op, reqs)
	s.submit(c)
	return s.await(c)
}

func (s *Sink) newCall(ctx context.Context, op abi.Op, reqs []*sink.Request) *call {
	return &call{
		op: op, ctx: ctx, reqs: reqs, weight: weigh(reqs), timeout: s.limits.CallTimeout,
		done: make(chan struct{}, 1),
	}
}

// await returns c's answer; it asks for it early when c's context ends.
func (s *Sink) await(c *call) answer {
	select {
	case <-c.done:
	case <-c.ctx.Done():
		s.cancel(c)
		<-c.done
	}
	return c.answer
}

// Close implements sink.Sink. Calls that are in flight against the contract
// end as unreachable.
func (s *Sink) Close(ctx context.Context) error {
	defer s.host.leave(s)
	s.shut()
	ended := make(chan struct{})
	go func() {
		s.owners.Wait()
		close(ended)
	}()
	select {
	case <-ended:
		return nil
	case <-ctx.Done():
		return &Error{Op: "close", Plugin: s.plugin.name, Sink: s.name, Err: context.Cause(ctx)}
	}
}

// Stats is a moment's view of a sink, for metrics.
type Stats struct {
	Instances   int
	InFlight    int   // calls that an instance has
	Waiting     int   // calls that wait for admission
	MemoryBytes int64 // of all instances' linear memories
	HeldBytes   int64 // payloads and responses that wait in the host
	Restarts    int64 // calls that a fault of another one's made run again
	Recycled    int64 // instances replaced because their memory grew
	LinesLost   int64 // log lines over the rate
	IOs         int64 // host I/Os under way
	Faults      map[FaultKind]int64
	Limited     map[Limit]int64 // times that a limit held a guest back without a fault
	CPU         time.Duration   // CPU time that guests used
	Throttled   time.Duration   // that entries were held back for the sink's share of CPU
}

// Stats returns the sink's counters and gauges.
func (s *Sink) Stats() Stats {
	st := Stats{
		Restarts: s.restarts.Load(), Recycled: s.recycled.Load(), LinesLost: s.guestLog.lost.Load(),
		IOs: s.ios.Load(), CPU: time.Duration(s.cpu.Load()), Throttled: time.Duration(s.throttled.Load()),
		Faults: make(map[FaultKind]int64, len(faultKinds)), Limited: make(map[Limit]int64, len(limitsTold)),
	}
	for i, l := range limitsTold {
		st.Limited[l] = s.limited[i].n.Load()
	}
	for i, k := range faultKinds {
		st.Faults[k] = s.faults[i].Load()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	st.Instances, st.InFlight, st.Waiting = len(s.instances), s.inFlight, s.waiting.n+s.isolated.n
	st.HeldBytes = s.bytes + s.responseBytes.Load()
	for _, in := range s.instances {
		st.MemoryBytes += in.memory.size.Load()
	}
	return st
}

func (s *Sink) countFault(k FaultKind) { s.faults[slices.Index(faultKinds[:], k)].Add(1) }

func (s *Sink) newFault(key string, k FaultKind, err error) *Fault {
	return &Fault{Plugin: s.plugin.name, Sink: s.name, Key: key, Kind: k, Err: err}
}

// timeLeft is what the adapter is told of the call's deadline.
func timeLeft(c *call, now time.Time) uint32 {
	left := c.deadline.Sub(now)
	if d, ok := c.ctx.Deadline(); ok {
		left = min(left, d.Sub(now))
	}
	return uint32(max(left.Milliseconds(), 1))
}
