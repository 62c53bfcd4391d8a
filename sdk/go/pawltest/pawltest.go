// Package pawltest runs an adapter without a host, so that it can be tested as
// any Go code: its requests go to http.Handlers, its sleeps take no time.
//
//	s := pawltest.New(t, &adapter{}, pawltest.Options{
//		Config:   `{"path": "/things/{key}"}`,
//		Upstream: myHandler,
//	})
//	got := s.Apply(&pawl.Request{Key: "a", Payload: []byte(`{}`)})
//	if got.Status != pawl.StatusOK { … }
package pawltest

import (
	"context"
	"crypto/sha256"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	pawl "github.com/pawlsync/pawl/sdk/go"
)

// UpstreamName is the name of Options.Upstream.
const UpstreamName = "target"

// Options say what the adapter is given.
type Options struct {
	// Config is the sink's plugin config. Defaults to {}.
	Config string
	// Upstream is granted as UpstreamName. It may be nil.
	Upstream http.Handler
	// More upstreams by name; all are of kind Kind.
	Upstreams map[string]http.Handler
	// Kind of the upstreams. Defaults to "http".
	Kind string
	// MaxResponseBytes bounds a response's body. Defaults to 8 MiB.
	MaxResponseBytes int64
	// CallTimeout is each call's deadline. Defaults to 30 s.
	CallTimeout time.Duration
}

// Sink is a configured adapter. Its methods may be called from several goroutines.
type Sink struct {
	// Configured is what the adapter answered to its config.
	Configured pawl.Configured

	t       testing.TB
	adapter pawl.Adapter
	timeout time.Duration
	host    *host
}

// Outcome is how a call ended, as the engine would see it.
type Outcome struct {
	pawl.Observation
	Status      pawl.Status
	Message     string
	RetryAfter  time.Duration
	WholeTarget bool
	Err         error // what the adapter returned
}

// New configures an adapter and fails the test where that is refused.
func New(t testing.TB, a pawl.Adapter, o Options) *Sink {
	t.Helper()
	s, err := TryNew(t, a, o)
	if err != nil {
		t.Fatalf("the adapter refuses its config: %v", err)
	}
	return s
}

// TryNew is New for tests of configs that are refused.
func TryNew(t testing.TB, a pawl.Adapter, o Options) (*Sink, error) {
	t.Helper()
	if o.Config == "" {
		o.Config = "{}"
	}
	if o.Kind == "" {
		o.Kind = "http"
	}
	if o.CallTimeout == 0 {
		o.CallTimeout = 30 * time.Second
	}
	s := &Sink{t: t, adapter: a, timeout: o.CallTimeout, host: newHost(t, o)}
	c, ok := a.(pawl.Configurer)
	if !ok {
		return s, nil
	}
	ctx, cancel := s.context()
	defer cancel()
	var err error
	s.Configured, err = c.Configure(ctx, pawl.Config{Sink: "test", JSON: []byte(o.Config), Upstreams: s.host.refs(o.Kind)})
	return s, err
}

func (s *Sink) context() (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithTimeout(context.Background(), s.timeout)
	return pawl.WithHost(ctx, s.host), cancel
}

// Observe runs the adapter's Observe.
func (s *Sink) Observe(r *pawl.Request) Outcome {
	s.t.Helper()
	return s.call(r, s.adapter.Observe)
}

// Apply runs the adapter's Apply.
func (s *Sink) Apply(r *pawl.Request) Outcome {
	s.t.Helper()
	return s.call(r, s.adapter.Apply)
}

// Delete runs the adapter's Delete. Not found is StatusNotFound, which is success.
func (s *Sink) Delete(r *pawl.Request) Outcome {
	s.t.Helper()
	return s.call(r, func(ctx context.Context, r *pawl.Request) (pawl.Observation, error) {
		return pawl.Observation{Exists: true}, s.adapter.Delete(ctx, r)
	})
}

// Restore runs the adapter's Restore, which it must have, of a request with a Saga
// that has an image. That nothing is there afterwards is StatusOK.
func (s *Sink) Restore(r *pawl.Request) Outcome {
	s.t.Helper()
	if r.Saga == nil || r.Saga.Before == nil {
		s.t.Fatalf("the request for Restore of %q has no Saga.Before; the engine's always has one", r.Key)
	}
	out := s.call(r, s.adapter.(pawl.Restorer).Restore)
	if out.Err == nil {
		out.Status = pawl.StatusOK
	}
	return out
}

// Unlock runs the adapter's Unlock, which it must have, of a request with a Saga.
func (s *Sink) Unlock(r *pawl.Request) Outcome {
	s.t.Helper()
	if r.Saga == nil {
		s.t.Fatalf("the request for Unlock of %q has no Saga; the engine's always has one", r.Key)
	}
	return s.call(r, func(ctx context.Context, r *pawl.Request) (pawl.Observation, error) {
		return pawl.Observation{Exists: true}, s.adapter.(pawl.Unlocker).Unlock(ctx, r)
	})
}

// Poll runs the adapter's Poll, which it must have; an error fails the test.
func (s *Sink) Poll(cursor string) pawl.Changes {
	s.t.Helper()
	ctx, cancel := s.context()
	defer cancel()
	c, err := s.adapter.(pawl.Poller).Poll(ctx, cursor)
	if err != nil || len(c.Seen) > pawl.MaxSeen {
		s.t.Fatalf("a poll from %q ended with %d objects: %v", cursor, len(c.Seen), err)
	}
	for _, seen := range c.Seen {
		if seen.Observation.Exists && seen.Observation.Content == nil {
			s.t.Errorf("a poll saw %q, which exists, without its content", seen.Key)
		}
	}
	return c
}

// PollError runs the adapter's Poll, which it must have, and returns its error.
func (s *Sink) PollError(cursor string) error {
	s.t.Helper()
	ctx, cancel := s.context()
	defer cancel()
	_, err := s.adapter.(pawl.Poller).Poll(ctx, cursor)
	return err
}

// Compare runs the adapter's Compare, which it must have; an error fails the test.
func (s *Sink) Compare(c *pawl.Comparison) pawl.Difference {
	s.t.Helper()
	ctx, cancel := s.context()
	defer cancel()
	d, err := s.adapter.(pawl.Comparer).Compare(ctx, c)
	if err != nil {
		s.t.Fatalf("a comparison ended with: %v", err)
	}
	return d
}

// ApplyBatch runs the adapter's ApplyBatch, which it must have, and returns an
// outcome per request; an error for the batch as a whole fails the test.
func (s *Sink) ApplyBatch(rs []*pawl.Request) []Outcome {
	s.t.Helper()
	full := make([]*pawl.Request, len(rs))
	for i, r := range rs {
		full[i] = Complete(r)
	}
	ctx, cancel := s.context()
	defer cancel()
	items, err := s.adapter.(pawl.ApplyBatcher).ApplyBatch(ctx, full)
	if err != nil || len(items) != len(rs) {
		s.t.Fatalf("%d items for a batch of %d: %v", len(items), len(rs), err)
	}
	out := make([]Outcome, len(items))
	for i := range items {
		out[i] = outcome(items[i].Observation, items[i].Err)
	}
	return out
}

func (s *Sink) call(r *pawl.Request, f func(context.Context, *pawl.Request) (pawl.Observation, error)) Outcome {
	s.t.Helper()
	full := Complete(r)
	before := slices.Clone(full.Payload)
	ctx, cancel := s.context()
	defer cancel()
	o, err := f(ctx, full)
	if !slices.Equal(before, full.Payload) {
		s.t.Errorf("the adapter changed the payload of %q; it is read only", r.Key)
	}
	if n := len(o.AdapterState); n > pawl.MaxAdapterStateBytes {
		s.t.Errorf("the adapter returned %d bytes of state for %q, more than %d", n, r.Key, pawl.MaxAdapterStateBytes)
	}
	if n := len(o.Content); n > pawl.MaxImageBytes && r.Saga != nil && r.Saga.Before == nil {
		s.t.Errorf("the adapter returned %d bytes of content for %q, more than the %d that a saga keeps", n, r.Key, pawl.MaxImageBytes)
	}
	return outcome(o, err)
}

func outcome(o pawl.Observation, err error) Outcome {
	out := Outcome{Observation: o, Status: pawl.StatusOK, Err: err}
	if e := pawl.AsError(err); e != nil {
		out.Status, out.Message, out.RetryAfter, out.WholeTarget = e.Status, e.Message, e.RetryAfter, e.WholeTarget
	} else if !o.Exists {
		out.Status = pawl.StatusNotFound
	}
	return out
}

// Complete returns a copy of r with what the engine always fills in: sink,
// generation, content hash, idempotency key and conflict policy.
func Complete(r *pawl.Request) *pawl.Request {
	c := *r
	if c.Sink == "" {
		c.Sink = "test"
	}
	if c.Generation == 0 {
		c.Generation = 1
	}
	if c.ContentHash == nil && len(c.Payload) > 0 {
		c.ContentHash = Hash(c.Payload)
	}
	if c.IdempotencyKey == "" {
		c.IdempotencyKey = fmt.Sprintf("%s-%d-%.4x", c.Key, c.Generation, c.ContentHash)
	}
	if c.ConflictPolicy == 0 {
		c.ConflictPolicy = pawl.SourceWins
	}
	return &c
}

// Hash is the content hash of a payload.
func Hash(payload []byte) []byte {
	h := sha256.Sum256(payload)
	return h[:]
}

// Ack is what the engine keeps, and gives to the next call, of an Apply or a
// matching Observe of r that ended with o.
func Ack(r *pawl.Request, o Outcome) *pawl.Acked {
	full := Complete(r)
	return &pawl.Acked{Generation: full.Generation, ContentHash: full.ContentHash, Ref: o.Ref, AsFound: o.AsFound,
		UID: o.UID, Cursor: o.Cursor, AdapterState: slices.Clone(o.AdapterState)}
}

// Image is what the engine keeps, and gives to the later calls of a saga's step, of
// an Observe without one that ended with o.
func Image(o Outcome) *pawl.Image {
	return &pawl.Image{Exists: o.Exists, CID: o.CID, UID: o.UID, Content: slices.Clone(o.Content)}
}

// Sent is one request that reached the host.
type Sent struct {
	pawl.HTTPRequest
	Header http.Header
}

// Sent returns the requests made since the last call of Sent, in order.
func (s *Sink) Sent() []Sent {
	s.host.mu.Lock()
	defer s.host.mu.Unlock()
	sent := s.host.sent
	s.host.sent = nil
	return sent
}

// FailNext makes the next request fail before anything is sent.
func (s *Sink) FailNext(f pawl.Failure) {
	s.host.mu.Lock()
	defer s.host.mu.Unlock()
	s.host.failNext = &f
}

// Slept returns for how long the adapter asked to sleep, all in all. No time passes for it.
func (s *Sink) Slept() time.Duration {
	s.host.mu.Lock()
	defer s.host.mu.Unlock()
	return s.host.slept
}

// host implements pawl.Host.
type host struct {
	t     testing.TB
	bases map[string]string // base URL by upstream
	limit int64

	mu       sync.Mutex
	sent     []Sent
	failNext *pawl.Failure
	slept    time.Duration
}
