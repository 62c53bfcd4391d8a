package engine_test

import (
	"bytes"
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawlsync/pawl/engine"
	"github.com/pawlsync/pawl/engine/outbox"
	"github.com/pawlsync/pawl/engine/outbox/memory"
	"github.com/pawlsync/pawl/engine/record"
	"github.com/pawlsync/pawl/engine/sink"
	"github.com/pawlsync/pawl/internal/bubble"
)

// fakeTarget is a sink and its target in one: it keeps objects, and can be told
// to answer otherwise. It checks on every call that no other call about the same
// resource is in flight (P3).
type fakeTarget struct {
	manifest sink.Manifest

	mu      sync.Mutex
	objects map[string][]byte
	busy    map[string]bool
	calls   []call
	overlap []string // keys that two calls were about at once: must stay empty
	// answer, where set, is asked first; nil means: as usual.
	answer func(op string, r *sink.Request) *sink.Result
	// latency, where set, is waited for within each call.
	latency time.Duration
}

type call struct {
	op         string
	key        string
	generation uint64
	payload    string
	idempotent string
	at         time.Time
}

func newTarget() *fakeTarget {
	return &fakeTarget{
		manifest: sink.Manifest{Name: "fake", Version: "1", Target: "t1", Observes: true, Deletes: true, ApplyConfirms: true, ApplyIdempotent: true},
		objects:  map[string][]byte{}, busy: map[string]bool{},
	}
}

func (f *fakeTarget) Manifest() sink.Manifest     { return f.manifest }
func (f *fakeTarget) Close(context.Context) error { return nil }

func (f *fakeTarget) enter(ctx context.Context, op string, r *sink.Request) *sink.Result {
	f.mu.Lock()
	if f.busy[r.Key.Name] {
		f.overlap = append(f.overlap, r.Key.Name)
	}
	f.busy[r.Key.Name] = true
	f.calls = append(f.calls, call{op, r.Key.Name, r.Generation, string(r.Payload), r.IdempotencyKey, time.Now()})
	answer, latency := f.answer, f.latency
	f.mu.Unlock()
	if latency > 0 {
		select {
		case <-time.After(latency):
		case <-ctx.Done():
			return &sink.Result{Status: sink.Unreachable, Message: ctx.Err().Error()}
		}
	}
	if answer != nil {
		return answer(op, r)
	}
	return nil
}

func (f *fakeTarget) leave(r *sink.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.busy[r.Key.Name] = false
}

func (f *fakeTarget) Observe(ctx context.Context, r *sink.Request) sink.Result {
	defer f.leave(r)
	if res := f.enter(ctx, "observe", r); res != nil {
		return *res
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	got, ok := f.objects[r.Key.Name]
	if !ok {
		return sink.Result{Status: sink.NotFound}
	}
	o := &sink.Observation{Exists: true, AsFound: record.HashOf(got).Hex(), MatchDesired: sink.TriOf(bytes.Equal(got, r.Payload))}
	if a := r.Acked; a != nil {
		o.MatchAcked = sink.TriOf(a.AsFound == o.AsFound)
	}
	for _, a := range r.Attempted {
		if a.Hash == record.HashOf(got) {
			o.MatchAttempted = sink.Yes
		}
	}
	if o.MatchDesired == sink.No {
		o.Differing = []string{"/"}
	}
	return sink.Result{Status: sink.OK, Observation: o}
}

func (f *fakeTarget) Apply(ctx context.Context, r *sink.Request) sink.Result {
	defer f.leave(r)
	if res := f.enter(ctx, "apply", r); res != nil {
		return *res
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.objects[r.Key.Name] = bytes.Clone(r.Payload)
	return sink.Result{Status: sink.OK, Observation: &sink.Observation{Exists: true, AsFound: r.Hash.Hex()}}
}

func (f *fakeTarget) Delete(ctx context.Context, r *sink.Request) sink.Result {
	defer f.leave(r)
	if res := f.enter(ctx, "delete", r); res != nil {
		return *res
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if _, ok := f.objects[r.Key.Name]; !ok {
		return sink.Result{Status: sink.NotFound}
	}
	delete(f.objects, r.Key.Name)
	return sink.Result{Status: sink.OK}
}

func (f *fakeTarget) script(answer func(op string, r *sink.Request) *sink.Result) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.answer = answer
}

// always makes the target answer every call with res.
func (f *fakeTarget) always(res sink.Result) {
	f.script(func(string, *sink.Request) *sink.Result { return &res })
}

// slow makes every call take d.
func (f *fakeTarget) slow(d time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.latency = d
}

func (f *fakeTarget) set(key, payload string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.objects[key] = []byte(payload)
}

func (f *fakeTarget) get(key string) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return string(f.objects[key])
}

// ops returns the calls made about key so far, such as "observe apply".
func (f *fakeTarget) ops(key string) []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	var out []string
	for _, c := range f.calls {
		if c.key == key {
			out = append(out, c.op)
		}
	}
	return out
}

func (f *fakeTarget) callsAbout(key string) []call {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(f.calls), func(c call) bool { return c.key != key })
}

// bench is an engine over a memory store in a bubble of its own.
type bench struct {
	*engine.Engine
	t      *testing.T
	disk   *memory.Disk
	store  *memory.Store // the one that is open
	target *fakeTarget
	opts   engine.Options
}

// inBubble runs test with an engine whose clock is fake.
func inBubble(t *testing.T, tweak func(*engine.Options), test func(b *bench)) {
	t.Helper()
	bubble.Test(t, func(t *testing.T) {
		b := &bench{t: t, disk: memory.NewDisk(), target: newTarget()}
		b.opts = engine.Options{
			Sinks: []engine.SinkOptions{{Name: "web", Sink: b.target}},
			Seed:  1,
			Store: func(o outbox.Observer) (outbox.Store, error) {
				s, err := memory.Open(b.disk, memory.Options{Observer: o})
				b.store = s
				return s, err
			},
		}
		if tweak != nil {
			tweak(&b.opts)
		}
		b.open()
		defer func() {
			b.Close(t.Context())
			if len(b.target.overlap) > 0 {
				t.Errorf("two calls at once about %v", b.target.overlap)
			}
		}()
		test(b)
	})
}

func (b *bench) open() {
	b.t.Helper()
	e, err := engine.Open(b.t.Context(), b.opts)
	if err != nil {
		b.t.Fatalf("open: %v", err)
	}
	b.Engine = e
}

// reopen closes the engine in peace and opens another on the same store.
func (b *bench) reopen() {
	b.t.Helper()
	if err := b.Close(b.t.Context()); err != nil {
		b.t.Fatalf("close: %v", err)
	}
	b.open()
}

func web(name string) record.Key { return record.Key{Sink: "web", Name: name} }

// put stores a payload and returns its generation.
func (b *bench) put(name, payload string) uint64 {
	b.t.Helper()
	res, err := b.Put(b.t.Context(), engine.Put{Key: web(name), Payload: []byte(payload)})
	if err != nil {
		b.t.Fatalf("put %s: %v", name, err)
	}
	return res.Generation
}

func (b *bench) delete(name string) {
	b.t.Helper()
	if _, err := b.Delete(b.t.Context(), engine.Delete{Key: web(name)}); err != nil {
		b.t.Fatalf("delete %s: %v", name, err)
	}
}

// state returns a resource's phase, or "gone".
func (b *bench) state(name string) string {
	b.t.Helper()
	r, err := b.Get(b.t.Context(), web(name))
	if err != nil {
		return "gone"
	}
	return string(r.Status.Phase)
}

func (b *bench) status(name string) record.Status {
	b.t.Helper()
	r, err := b.Get(b.t.Context(), web(name))
	if err != nil {
		b.t.Fatalf("get %s: %v", name, err)
	}
	return r.Status
}

// settle lets everything that can happen without the clock happen.
func (b *bench) settle() { synctest.Wait() }

// after lets d pass and everything that is due then happen.
func (b *bench) after(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func (b *bench) want(name, phase string) {
	b.t.Helper()
	if got := b.state(name); got != phase {
		b.t.Errorf("%s is %s, want %s", name, got, phase)
	}
}

func (b *bench) wantOps(name string, want ...string) {
	b.t.Helper()
	if got := b.target.ops(name); !slices.Equal(got, want) {
		b.t.Errorf("calls about %s: %v, want %v", name, got, want)
	}
}
