package sim

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/pawlsync/pawl/engine/record"
	"github.com/pawlsync/pawl/engine/sink"
)

// timeout is that of one call; a request can't land later than that after its start.
const timeout = 30 * time.Second

// target is a sink and its target in one. While it is faulty it refuses, hangs,
// loses answers and lets requests land late. Its choices depend on the seed, the
// key and how many calls there were about it, not on the order of goroutines.
type target struct {
	world    *world
	name     string
	manifest sink.Manifest
	seed     uint64
	faults   float64 // share of calls that go wrong while faulty

	mu      sync.Mutex
	faulty  bool
	down    bool // nothing is answered at all
	objects map[string][]byte
	busy    map[string]bool
	calls   map[string]uint64
	newest  map[string]uint64 // generation of the newest call
	landing sync.WaitGroup    // late requests under way
}

func newTarget(w *world, name string, seed uint64, m sink.Manifest, faults float64) *target {
	m.Name, m.Version, m.Target, m.Deletes = "sim", "1", name, true
	return &target{world: w, name: name, manifest: m, seed: seed, faults: faults,
		objects: map[string][]byte{}, busy: map[string]bool{}, calls: map[string]uint64{}, newest: map[string]uint64{}}
}

func (t *target) Manifest() sink.Manifest     { return t.manifest }
func (t *target) Close(context.Context) error { return nil }

func (t *target) Observe(ctx context.Context, r *sink.Request) sink.Result {
	return t.call(ctx, "observe", r, func() sink.Result { return t.observe(r) })
}

func (t *target) Apply(ctx context.Context, r *sink.Request) sink.Result {
	return t.call(ctx, "apply", r, func() sink.Result {
		t.objects[r.Key.Name] = bytes.Clone(r.Payload)
		return sink.Result{Status: sink.OK, Observation: &sink.Observation{Exists: true, AsFound: r.Hash.Hex()}}
	})
}

func (t *target) Delete(ctx context.Context, r *sink.Request) sink.Result {
	return t.call(ctx, "delete", r, func() sink.Result {
		if _, ok := t.objects[r.Key.Name]; !ok {
			return sink.Result{Status: sink.NotFound}
		}
		delete(t.objects, r.Key.Name)
		return sink.Result{Status: sink.OK}
	})
}

func (t *target) observe(r *sink.Request) sink.Result {
	got, ok := t.objects[r.Key.Name]
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
	return sink.Result{Status: sink.OK, Observation: o}
}

// ways in which a call can go.
type way int

const (
	well     way = iota
	refused      // answered with an error, nothing written
	torn         // answered with an error, but written
	lost         // written, and the answer is lost
	late         // the answer is lost, and it is written some time later
	hung         // no answer until the deadline, nothing written
	hungLate     // no answer until the deadline, written at any time until then
	unsent       // the connection was refused
	numberOfWays
)

// call makes one call, in the way that the seed chose. effect is called with the lock held.
func (t *target) call(ctx context.Context, op string, r *sink.Request, effect func() sink.Result) sink.Result {
	began := time.Now()
	rng, choice := t.enter(op, r)
	defer t.leave(r)
	if d := time.Duration(rng.Float64() * rng.Float64() * float64(2*time.Second)); choice != unsent && !pass(ctx, d) {
		choice = late // cut off: the request is on its way
	}
	unanswered := sink.Result{Status: sink.Unreachable, Message: "no answer"}
	res := unanswered
	switch choice {
	case well:
		res = t.do(effect)
	case refused:
		res = refusal(op, rng)
	case torn:
		t.do(effect)
		res = sink.Result{Status: sink.Retry, Message: "internal error"}
	case lost:
		t.do(effect)
	case late:
		t.land(op, r, rng, began, effect)
	case hung:
		<-ctx.Done()
	case hungLate:
		t.land(op, r, rng, began, effect)
		<-ctx.Done()
	case unsent:
		res.NotSent = true
	}
	t.world.logf(r.Key, "%s of generation %d %q took %s: %s", op, r.Generation, r.Payload, time.Since(began), res.Status)
	return res
}

// enter checks what must hold of every call, and chooses its way.
func (t *target) enter(op string, r *sink.Request) (*rand.Rand, way) {
	t.mu.Lock()
	defer t.mu.Unlock()
	name := r.Key.Name
	if t.busy[name] {
		t.world.failf(r.Key, "P3: two calls at once")
	}
	if r.Generation < t.newest[name] {
		t.world.failf(r.Key, "P3: %s of generation %d after one of generation %d", op, r.Generation, t.newest[name])
	}
	t.busy[name], t.newest[name] = true, r.Generation
	t.calls[name]++
	rng := rand.New(rand.NewPCG(t.seed^hash(name), t.calls[name]))
	switch {
	case t.down:
		return rng, []way{hung, unsent, hungLate}[rng.IntN(3)]
	case t.faulty && rng.Float64() < t.faults:
		return rng, refused + way(rng.IntN(int(numberOfWays-refused)))
	}
	return rng, well
}

func (t *target) leave(r *sink.Request) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.busy[r.Key.Name] = false
}

func (t *target) do(effect func() sink.Result) sink.Result {
	t.mu.Lock()
	defer t.mu.Unlock()
	return effect()
}

// land lets a request take effect at some time until its deadline. By then nothing
// newer may have been called acknowledged (P3).
func (t *target) land(op string, r *sink.Request, rng *rand.Rand, began time.Time, effect func() sink.Result) {
	if op == "observe" {
		return
	}
	wait := time.Duration(rng.Float64() * float64(timeout-time.Since(began)))
	t.landing.Go(func() {
		time.Sleep(wait)
		t.world.checkLanding(op, r)
		t.do(effect)
		t.world.logf(r.Key, "%s of generation %d %q landed late", op, r.Generation, r.Payload)
	})
}

// refusal is an answer that is no success.
func refusal(op string, rng *rand.Rand) sink.Result {
	choices := []sink.Result{
		{Status: sink.Retry, Message: "busy"}, {Status: sink.Retry, Message: "busy"},
		{Status: sink.Unauthorized, Message: "who are you"},
		{Status: sink.Retry, RetryAfter: time.Duration(1+rng.IntN(20)) * time.Second, RetryAfterTarget: rng.IntN(2) == 0},
		{Status: sink.Fault, Message: "trap"}, {Status: sink.Fault, Message: "trap", Suspect: true},
		{Status: sink.InProgress, Message: "at it"},
	}
	if op != "observe" {
		choices = append(choices, sink.Result{Status: sink.Conflict}, sink.Result{Status: sink.Rejected, Message: "bad"})
	}
	if op == "apply" {
		choices = append(choices, sink.Result{Status: sink.AlreadyExists}, sink.Result{Status: sink.NotFound})
	}
	return choices[rng.IntN(len(choices))]
}

// pass lets d pass, or less if ctx ends.
func pass(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-ctx.Done():
		return false
	}
}

// weather sets how the target behaves from now on.
func (t *target) weather(faulty, down bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.faulty, t.down = faulty, down
}

// drift changes an object behind the engine's back.
func (t *target) drift(name string, n int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if n%3 == 0 {
		delete(t.objects, name)
	} else {
		t.objects[name] = fmt.Appendf(nil, "drifted %d", n)
	}
}

// holds returns the object, or "nothing".
func (t *target) holds(name string) string {
	t.mu.Lock()
	defer t.mu.Unlock()
	if got, ok := t.objects[name]; ok {
		return string(got)
	}
	return nothing
}

const nothing = "nothing"

// hash must not differ between runs, so that a seed means the same in all.
func hash(name string) uint64 {
	h := uint64(14695981039346656037)
	for _, c := range []byte(name) {
		h = (h ^ uint64(c)) * 1099511628211
	}
	return h
}

// bulk is a target that takes batches.
type bulk struct{ *target }

// sink is t as the engine gets it.
func (t *target) sink() sink.Sink {
	if t.manifest.BatchMax > 1 {
		return &bulk{t}
	}
	return t
}

// ApplyBatch answers each item as Apply would, or now and then the batch as a whole.
func (b *bulk) ApplyBatch(ctx context.Context, rs []*sink.Request) (results []sink.Result, whole bool) {
	for i, r := range rs {
		for _, other := range rs[:i] {
			if b.manifest.Overlap(other.Key.Name, r.Key.Name) {
				b.world.failf(r.Key, "R57: it shares a batch with %s", other.Key)
			}
		}
	}
	if res := b.refuseAll(rs[0]); res != nil {
		return []sink.Result{*res}, true
	}
	results = make([]sink.Result, len(rs))
	var all sync.WaitGroup
	for i, r := range rs {
		all.Go(func() { results[i] = b.Apply(ctx, r) })
	}
	all.Wait()
	return results, false
}

// refuseAll is the answer of a target that looked at no item.
func (b *bulk) refuseAll(first *sink.Request) *sink.Result {
	b.mu.Lock()
	defer b.mu.Unlock()
	rng := rand.New(rand.NewPCG(b.seed^hash(first.Key.Name), 1<<32|b.calls[first.Key.Name]))
	if !b.faulty || rng.Float64() > 0.3 {
		return nil
	}
	return &[]sink.Result{
		{Status: sink.Rejected, Message: "one of them is bad"}, {Status: sink.Retry, Message: "too much"},
		{Status: sink.Fault, Message: "trap"}, {Status: sink.Unreachable, NotSent: true},
	}[rng.IntN(4)]
}
