package sim

import (
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
)

// world is one simulated installation: an engine on a disk that survives it, its
// targets, and what its clients were promised.
type world struct {
	t       *testing.T
	seed    uint64
	rng     *rand.Rand // of the main goroutine
	start   time.Time
	disk    *memory.Disk
	targets []*target
	options engine.Options // its sinks are all that there ever are
	missing string         // the sink that left the configuration; "": none

	mu      sync.Mutex
	engine  *engine.Engine
	store   *memory.Store
	history []line
	failed  map[record.Key]bool
	ledger  map[record.Key]*promise
}

// line is one event of the history.
type line struct {
	at   time.Duration
	key  record.Key // zero: of the whole world
	text string
}

// promise is what is known of one resource's desired state.
type promise struct {
	// possible are the states that it may have: one, unless a client was never
	// answered. A payload, or nothing.
	possible  []string
	drifted   bool // somebody changed the target
	forgotten bool // requests of an earlier life may land at any time
}

// errDisk is what injected commit failures say.
var errDisk = errors.New("disk on fire")

func newWorld(t *testing.T, seed uint64) *world {
	w := &world{t: t, seed: seed, rng: rand.New(rand.NewPCG(seed, 1)), start: time.Now(), disk: memory.NewDisk(),
		failed: map[record.Key]bool{}, ledger: map[record.Key]*promise{}}
	pick := func(list ...record.ConflictPolicy) record.ConflictPolicy { return list[w.rng.IntN(len(list))] }
	any := []record.ConflictPolicy{record.SourceWins, record.SourceWins, record.TargetWins, record.ReportOnly}
	for _, s := range []struct {
		name     string
		policy   record.ConflictPolicy
		manifest sink.Manifest
	}{
		{"quick", record.SourceWins, sink.Manifest{Observes: true, ApplyConfirms: true, ApplyIdempotent: true}},
		{"slow", pick(any...), sink.Manifest{Observes: true, ApplyIdempotent: true}},
		{"once", pick(any...), sink.Manifest{Observes: true, ApplyConfirms: true}},
		{"blind", record.SourceWins, sink.Manifest{ApplyConfirms: true, ApplyIdempotent: true}},
		{"bulk", record.SourceWins, sink.Manifest{Observes: true, ApplyConfirms: true, ApplyIdempotent: true, BatchMax: 4,
			Overlap: func(a, b string) bool { return a[:2] == b[:2] && a[len(a)-1]%2 == b[len(b)-1]%2 }}},
	} {
		target := newTarget(w, s.name, w.rng.Uint64(), s.manifest, 0.1+0.5*w.rng.Float64())
		w.targets = append(w.targets, target)
		o := engine.SinkOptions{Name: s.name, Sink: target.sink(), Conflict: s.policy, Timeout: timeout, MaxInFlight: 1 + w.rng.IntN(8)}
		if w.rng.IntN(4) == 0 {
			o.Deletion = record.AckThenDelete
		}
		w.options.Sinks = append(w.options.Sinks, o)
	}
	w.options.Seed = seed + 1
	w.options.WatchBuffer = 1 + w.rng.IntN(200)
	w.options.Store = func(o outbox.Observer) (outbox.Store, error) {
		s, err := memory.Open(w.disk, memory.Options{Observer: o})
		w.store = s
		return s, err
	}
	w.open()
	return w
}

func (w *world) open() {
	w.mu.Lock()
	defer w.mu.Unlock()
	o := w.options
	o.Sinks = slices.DeleteFunc(slices.Clone(o.Sinks), func(s engine.SinkOptions) bool { return s.Name == w.missing })
	e, err := engine.Open(w.t.Context(), o)
	if err != nil {
		w.t.Fatalf("seed %d: open: %v", w.seed, err)
	}
	w.engine = e
}

// now returns the engine that runs at present.
func (w *world) now() *engine.Engine {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.engine
}

// restart ends the engine, in peace or by a power cut, and opens another.
func (w *world) restart(crash bool) {
	grace := time.Duration(w.rng.IntN(40)) * time.Second
	if crash {
		w.logf(record.Key{}, "power cut")
		w.store.Crash()
		grace = 0
	}
	ctx, cancel := context.WithTimeout(w.t.Context(), grace)
	defer cancel()
	began := time.Now()
	if err := w.now().Close(ctx); err != nil && !crash {
		w.failf(record.Key{}, "close: %v", err)
	}
	if took := time.Since(began); took > grace {
		w.failf(record.Key{}, "close took %s with a grace of %s", took, grace)
	}
	w.logf(record.Key{}, "closed with a grace of %s", grace)
	time.Sleep(time.Duration(w.rng.IntN(20)) * time.Second)
	w.missing = ""
	if w.rng.IntN(4) == 0 {
		w.missing = w.targets[w.rng.IntN(len(w.targets))].name
	}
	w.open()
	w.logf(record.Key{}, "opened without %q", w.missing)
}

func (w *world) logf(key record.Key, format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.history = append(w.history, line{time.Since(w.start), key, fmt.Sprintf(format, args...)})
}

// failf fails the test, once per resource, and remembers to print its history.
func (w *world) failf(key record.Key, format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	w.logf(key, "FAILED: %s", text)
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.failed[key] {
		w.failed[key] = true
		w.t.Errorf("seed %d: %s: %s", w.seed, key, text)
	}
}

// printHistory logs what happened to the resources that failed.
func (w *world) printHistory() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.failed) == 0 {
		return
	}
	var out strings.Builder
	shown := 0
	for key := range w.failed {
		if shown++; shown > 2 {
			break // the first two tell enough
		}
		fmt.Fprintf(&out, "history of %s:\n", key)
		for _, l := range w.history {
			if l.key == key || l.key == (record.Key{}) {
				fmt.Fprintf(&out, "%12s %s\n", l.at, l.text)
			}
		}
	}
	w.t.Logf("seed %d\n%s", w.seed, out.String())
}

// promised returns key's promise, which its one client may change.
func (w *world) promised(key record.Key) *promise {
	w.mu.Lock()
	defer w.mu.Unlock()
	p := w.ledger[key]
	if p == nil {
		p = &promise{possible: []string{nothing}}
		w.ledger[key] = p
	}
	return p
}

// note takes in the end of a Put, Delete or Forget that asked for want.
func (w *world) note(key record.Key, want string, err error) {
	p := w.promised(key)
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case err == nil:
		p.possible = []string{want}
	case errors.Is(err, errDisk), errors.Is(err, engine.ErrNotFound), errors.Is(err, engine.ErrNoSpace), errors.Is(err, engine.ErrUnknownSink):
		// certainly not stored
	default:
		p.possible = append(p.possible, want)
	}
}

// checkLanding: a request lands long after its answer was given up. Nothing newer
// may have been called acknowledged (P3).
func (w *world) checkLanding(op string, r *sink.Request) {
	res, err := w.now().Get(context.Background(), r.Key)
	if err != nil {
		return
	}
	w.mu.Lock()
	p := w.ledger[r.Key]
	exempt := p == nil || p.forgotten
	w.mu.Unlock()
	a := res.Status.Acked
	if exempt || a == nil || res.Status.Phase != record.AckedPhase || a.Generation <= r.Generation || op == "apply" && a.Hash == r.Hash {
		return
	}
	w.failf(r.Key, "P3: %s of generation %d lands although %d was acknowledged", op, r.Generation, a.Generation)
}
