package sim

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pawlsync/pawl/engine"
	"github.com/pawlsync/pawl/engine/outbox"
	"github.com/pawlsync/pawl/engine/outbox/memory"
	"github.com/pawlsync/pawl/engine/record"
	"github.com/pawlsync/pawl/engine/sink"
	"github.com/pawlsync/pawl/internal/bubble"
)

// A chain is two Pawls of direction both: what a source puts into the first goes to
// the second, and from there to a target, which somebody edits at the same time. Calls
// fail, answers are lost, requests land late, and either Pawl is killed. Then both
// sides keep still, and the chain must come to rest, at what one of the two wanted
// last, and stay there (R32).

func TestAChainOfBothDirectionsComesToRest(t *testing.T) {
	if *seedFlag != 0 {
		playChain(t, *seedFlag)
		return
	}
	n := *seedsFlag
	if n == 0 {
		n = 150
		if testing.Short() {
			n = 40
		}
	}
	base := rand.Uint64() >> 20
	t.Logf("seeds %d to %d; -seed plays one of them alone", base, base+uint64(n)-1)
	for i := range n {
		if playChain(t, base+uint64(i)); t.Failed() {
			return
		}
	}
}

// chain is source, first, second, target.
type chain struct {
	t      *testing.T
	seed   uint64
	pawls  [2]*pawl
	target *edited

	mu      sync.Mutex
	faulty  bool
	landing sync.WaitGroup
	began   time.Time
	history []string
}

func playChain(t *testing.T, seed uint64) {
	bubble.Test(t, func(t *testing.T) {
		c := newChain(t, seed)
		rng := rand.New(rand.NewPCG(seed, 2))
		var sides sync.WaitGroup
		sides.Go(func() { c.source(rand.New(rand.NewPCG(seed, 3))) })
		sides.Go(func() { c.edit(rand.New(rand.NewPCG(seed, 4))) })
		for range 2 + rng.IntN(5) {
			time.Sleep(time.Duration(rng.IntN(90)) * time.Second)
			c.pawls[rng.IntN(2)].restart(rng.IntN(2) == 0)
		}
		sides.Wait()
		c.setFaulty(false)
		time.Sleep(time.Hour)
		c.landing.Wait()
		c.check()
		c.inCalm(rng)
		if t.Failed() {
			t.Logf("seed %d:\n%s", seed, strings.Join(c.history, "\n"))
		}
		for _, p := range c.pawls {
			_ = p.get().Close(t.Context())
		}
	})
}

const chainKeys = 3

func newChain(t *testing.T, seed uint64) *chain {
	c := &chain{t: t, seed: seed, faulty: true, began: time.Now()}
	rng := rand.New(rand.NewPCG(seed, 1))
	c.target = &edited{objects: map[string][]byte{}, last: map[string]string{}}
	policies := []record.ConflictPolicy{record.SourceWins, record.TargetWins}
	confirms, share := rng.IntN(2) == 0, 0.3*rng.Float64()
	policy := func() record.ConflictPolicy { return policies[rng.IntN(2)] }
	c.pawls[1] = newPawl(c, "second", seed, policy(), &link{c: c, name: "target", to: c.target, confirms: confirms, share: share, rng: rand.New(rand.NewPCG(seed, 5))})
	c.pawls[0] = newPawl(c, "first", seed, policy(), &link{c: c, name: "second", to: c.pawls[1], confirms: true, share: share, rng: rand.New(rand.NewPCG(seed, 6))})
	return c
}

func (c *chain) logf(format string, args ...any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.history = append(c.history, fmt.Sprintf("%10s "+format, append([]any{time.Since(c.began).Round(time.Millisecond)}, args...)...))
}

func (c *chain) setFaulty(on bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.faulty = on
}

func chainKey(i int) string { return fmt.Sprintf("k%d", i) }

// source changes what it wants of the first Pawl; it asks again until it is told.
func (c *chain) source(rng *rand.Rand) {
	for n := range 4 + rng.IntN(20) {
		time.Sleep(time.Duration(rng.IntN(60_000)) * time.Millisecond)
		key, content := chainKey(rng.IntN(chainKeys)), fmt.Sprintf(`"s%d"`, n)
		if rng.IntN(6) == 0 {
			content = ""
		}
		c.pawls[0].until(func(ctx context.Context, e *engine.Engine) error { return want(ctx, e, key, content, record.Order{}) })
		c.target.note("source "+key, content)
		c.logf("the source wants %s to be %s", key, content)
	}
}

// edit changes what the target has, of what is declared.
func (c *chain) edit(rng *rand.Rand) {
	for n := range 4 + rng.IntN(20) {
		time.Sleep(time.Duration(rng.IntN(60_000)) * time.Millisecond)
		key, content := chainKey(rng.IntN(chainKeys)), fmt.Sprintf(`"t%d"`, n)
		if rng.IntN(6) == 0 {
			content = ""
		}
		c.target.mu.Lock()
		c.target.write(key, content)
		c.target.last["target "+key] = content
		c.target.mu.Unlock()
		c.logf("somebody makes %s of the target %s", key, content)
	}
}

// check says whether all agree on what one side wanted last, and stay so.
func (c *chain) check() {
	first, second := c.pawls[0].get(), c.pawls[1].get()
	state := func() string {
		return fmt.Sprint(first.Stats().Info.Revision, second.Stats().Info.Revision, c.target.writes)
	}
	for i := range chainKeys {
		key := chainKey(i)
		declared, a := desiredOf(c.t, first, key)
		_, b := desiredOf(c.t, second, key)
		there := c.target.read(key)
		source, target := c.target.last["source "+key], c.target.last["target "+key]
		switch {
		case !declared: // nobody cares any more; what somebody made since stays
			if b != "" || there != "" && there != target {
				c.t.Errorf("seed %d: %s is declared no more, the second has %q, the target %q; the source wanted %q last, the target's side %q", c.seed, key, b, there, source, target)
			}
		case a != b || b != there || a != source && a != target:
			c.t.Errorf("seed %d: %s is %q, %q and %q; the source wanted %q last, the target's side %q", c.seed, key, a, b, there, source, target)
		}
	}
	before := state()
	time.Sleep(3 * time.Hour)
	if after := state(); after != before {
		c.t.Errorf("seed %d: it does not stay at rest: revisions and writes were %s, then %s", c.seed, before, after)
	}
}

// inCalm changes one side at a time, while nothing fails and the source goes on
// saying what it said last, as one does that is read again and again: the change of the
// side that changed stands, whatever the conflict policies are.
func (c *chain) inCalm(rng *rand.Rand) {
	key := chainKey(rng.IntN(chainKeys))
	source := `"s0"`
	say := func() {
		c.pawls[0].until(func(ctx context.Context, e *engine.Engine) error { return want(ctx, e, key, source, record.Order{}) })
	}
	settle := func(content, what string) {
		for range 5 {
			say()
			time.Sleep(time.Minute)
		}
		_, a := desiredOf(c.t, c.pawls[0].get(), key)
		_, b := desiredOf(c.t, c.pawls[1].get(), key)
		if there := c.target.read(key); a != content || b != content || there != content {
			c.t.Errorf("seed %d: after %s, %s is %q, %q and %q, want %q", c.seed, what, key, a, b, there, content)
		}
	}
	// Whatever the storm left: gone at both ends, so that what follows is a first life.
	c.pawls[0].until(func(ctx context.Context, e *engine.Engine) error { return want(ctx, e, key, "", record.Order{}) })
	time.Sleep(5 * time.Minute)
	_ = c.target.set(c.t.Context(), key, "", record.Order{})
	settle(source, "the source's Put")
	for i, content := range []string{`"t100"`, `"t101"`, ``, `"t102"`, `"t103"`} {
		_ = c.target.set(c.t.Context(), key, content, record.Order{})
		settle(content, fmt.Sprintf("change %d of the target", i))
	}
	source = `"s1"`
	settle(source, "a change of the source")
	_ = c.target.set(c.t.Context(), key, ``, record.Order{})
	settle(``, "a deletion at the target")
	source = `"s2"`
	settle(source, "a change of the source after that")
}

// desiredOf is what e wants of key, "" for nothing.
func desiredOf(t *testing.T, e *engine.Engine, key string) (declared bool, content string) {
	r, err := e.Get(t.Context(), record.Key{Sink: "next", Name: key})
	if errors.Is(err, engine.ErrNotFound) {
		return false, ""
	}
	if err != nil {
		t.Error(err)
	}
	if r.Status.Phase != record.AckedPhase {
		t.Errorf("%s is %s (%s)", key, r.Status.Phase, r.Status.Reason)
	}
	return true, string(r.Desired.Payload)
}

// want puts content, or deletes where there is none.
func want(ctx context.Context, e *engine.Engine, key, content string, order record.Order) error {
	k := record.Key{Sink: "next", Name: key}
	if content == "" {
		_, err := e.Delete(ctx, engine.Delete{Key: k, Order: order})
		if errors.Is(err, engine.ErrNotFound) {
			return nil
		}
		return err
	}
	_, err := e.Put(ctx, engine.Put{Key: k, Payload: []byte(content), Order: order})
	return err
}

// side is what a link leads to.
type side interface {
	read(key string) string
	// set makes key content, "" for nothing; order places it among the same sender's.
	set(ctx context.Context, key, content string, order record.Order) error
}

// edited is the target: its objects, and what each side wanted last.
type edited struct {
	mu      sync.Mutex
	objects map[string][]byte
	last    map[string]string
	writes  int
}

func (e *edited) note(side, content string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.last[side] = content
}

func (e *edited) write(key, content string) {
	e.writes++
	if e.objects[key] = []byte(content); content == "" {
		delete(e.objects, key)
	}
}

func (e *edited) read(key string) string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return string(e.objects[key])
}

func (e *edited) set(_ context.Context, key, content string, _ record.Order) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.write(key, content)
	return nil
}

// pawl is one of the two, and what its predecessor sends to.
type pawl struct {
	c    *chain
	name string
	opts engine.Options
	disk *memory.Disk

	mu     sync.Mutex
	engine *engine.Engine
	store  *memory.Store
}

func newPawl(c *chain, name string, seed uint64, policy record.ConflictPolicy, next *link) *pawl {
	p := &pawl{c: c, name: name, disk: memory.NewDisk()}
	p.opts = engine.Options{Seed: seed + 1, Sinks: []engine.SinkOptions{{
		Name: "next", Sink: next, Direction: record.Both, Conflict: policy, Timeout: timeout,
	}}}
	p.opts.Store = func(o outbox.Observer) (outbox.Store, error) {
		s, err := memory.Open(p.disk, memory.Options{Observer: o})
		p.store = s
		return s, err
	}
	p.open()
	return p
}

func (p *pawl) open() {
	e, err := engine.Open(p.c.t.Context(), p.opts)
	if err != nil {
		p.c.t.Fatalf("seed %d: open: %v", p.c.seed, err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.engine = e
}

func (p *pawl) get() *engine.Engine {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.engine
}

func (p *pawl) restart(crash bool) {
	if crash {
		p.store.Crash()
	}
	ctx, cancel := context.WithTimeout(p.c.t.Context(), time.Second)
	defer cancel()
	_ = p.get().Close(ctx)
	p.open()
	p.c.logf("the %s was opened again, killed: %t", p.name, crash)
}

// until does it until it is done, over restarts.
func (p *pawl) until(do func(context.Context, *engine.Engine) error) {
	for do(p.c.t.Context(), p.get()) != nil {
		time.Sleep(100 * time.Millisecond)
	}
}

func (p *pawl) read(key string) string {
	r, err := p.get().Get(p.c.t.Context(), record.Key{Sink: "next", Name: key})
	if err != nil {
		return ""
	}
	return string(r.Desired.Payload)
}

func (p *pawl) set(ctx context.Context, key, content string, order record.Order) error {
	return want(ctx, p.get(), key, content, order)
}

// link is the sink that leads to the next side.
type link struct {
	c        *chain
	name     string
	to       side
	confirms bool
	share    float64 // of calls that go wrong

	mu  sync.Mutex
	rng *rand.Rand
}

func (l *link) Manifest() sink.Manifest {
	return sink.Manifest{Name: "link", Version: "1", Target: l.name, Observes: true, Deletes: true, ReportsContent: true,
		ApplyConfirms: l.confirms, ApplyIdempotent: true}
}

func (l *link) Close(context.Context) error { return nil }

// fate is how a call goes: refused, lost on its way, answer lost, late, or well.
func (l *link) fate() (kind int, took, late time.Duration) {
	l.c.mu.Lock()
	faulty := l.c.faulty
	l.c.mu.Unlock()
	l.mu.Lock()
	defer l.mu.Unlock()
	kind, took, late = goes, time.Duration(l.rng.IntN(1500))*time.Millisecond, time.Duration(l.rng.IntN(25_000))*time.Millisecond
	if faulty && l.rng.Float64() < l.share {
		kind = l.rng.IntN(goes)
	}
	return kind, took, late
}

// The fates of a call.
const (
	isRefused = iota
	isLost
	isUnanswered
	isLate
	goes
)

func (l *link) write(ctx context.Context, r *sink.Request, content string) sink.Result {
	kind, took, late := l.fate()
	land := func() error {
		l.c.logf("%s of %s becomes %q, generation %d", r.Key.Name, l.name, content, r.Generation)
		return l.to.set(l.c.t.Context(), r.Key.Name, content, record.Order{Source: "sender", Epoch: r.Epoch, Number: r.Generation})
	}
	if !pass(ctx, took) {
		return sink.Result{Status: sink.Unreachable, Message: "cut off"}
	}
	none := sink.Result{Status: sink.Unreachable, Message: "no answer"}
	switch kind {
	case isRefused:
		return sink.Result{Status: sink.Retry, Message: "not now"}
	case isLost:
		return none
	case isUnanswered:
		_ = land()
		return none
	case isLate:
		l.c.landing.Go(func() { time.Sleep(late); _ = land() })
		return none
	}
	switch err := land(); {
	case errors.Is(err, engine.ErrStale):
		return sink.Result{Status: sink.Obsolete, Message: err.Error()}
	case err != nil:
		return none
	}
	return sink.Result{Status: sink.OK, Observation: &sink.Observation{Exists: content != "", AsFound: record.HashOf([]byte(content)).Hex()}}
}

func (l *link) Apply(ctx context.Context, r *sink.Request) sink.Result {
	return l.write(ctx, r, string(r.Payload))
}

func (l *link) Delete(ctx context.Context, r *sink.Request) sink.Result {
	return l.write(ctx, r, "")
}

func (l *link) Observe(ctx context.Context, r *sink.Request) sink.Result {
	kind, took, _ := l.fate()
	if !pass(ctx, took) || kind != goes && kind != isRefused {
		return sink.Result{Status: sink.Unreachable, Message: "no answer"}
	}
	if kind == isRefused {
		return sink.Result{Status: sink.Retry, Message: "not now"}
	}
	got := []byte(l.to.read(r.Key.Name))
	if len(got) == 0 {
		return sink.Result{Status: sink.NotFound}
	}
	o := &sink.Observation{Exists: true, Content: got, AsFound: record.HashOf(got).Hex(), MatchDesired: sink.TriOf(bytes.Equal(got, r.Payload))}
	if a := r.Acked; a != nil {
		o.MatchAcked = sink.TriOf(a.AsFound == o.AsFound)
	}
	o.MatchAttempted = sink.TriOf(slices.ContainsFunc(r.Attempted, func(a record.Attempt) bool { return a.Hash == record.HashOf(got) }))
	return sink.Result{Status: sink.OK, Observation: o}
}
