// Package engine keeps other systems in the state that somebody wants.
//
// An Engine holds the newest desired state of every resource in a durable,
// coalescing outbox and lets go only when the resource's target acknowledged
// that very generation.
//
// The way of one resource, in the order of the files: Put stores the desired
// state (put.go); the commit makes it durable, plans it and wakes watchers
// (commit.go); the dispatcher starts what is due (dispatch.go); a delivery asks
// the pure core (engine/reconcile) for each step, calls the sink and settles the
// outcome in the store (deliver.go), whose commit closes the circle.
package engine

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/pawlsync/pawl/engine/outbox"
	"github.com/pawlsync/pawl/engine/reconcile"
	"github.com/pawlsync/pawl/engine/record"
	"github.com/pawlsync/pawl/engine/schedule"
)

// Engine keeps resources in their desired state. All methods may be called from
// many goroutines.
type Engine struct {
	opts    Options
	log     *slog.Logger
	obs     Observer
	tracer  Tracer // nil: none
	store   outbox.Store
	targets *targets
	fallen  *reconcile.Rules // of resources whose sink is not configured
	opened  uint64           // the revision found at Open: what is older may have been sent by a predecessor
	killed  bool             // the predecessor was: what was not acknowledged may have been sent by it

	mu       sync.Mutex // guards what follows; held shortly, never over I/O
	sched    *schedule.Schedule
	random   *rand.Rand
	settling int // flights whose outcome is being stored
	objects  objects
	holds    holds
	intake   intake
	changes  ring
	closed   bool

	flights flights
	looks   looks
	waiters waiters

	kick    chan struct{} // wakes the dispatcher
	closing chan struct{}
	calls   context.Context // of calls to sinks; ends when Close loses patience
	cut     context.CancelFunc
	running sync.WaitGroup // the dispatcher, every delivery, and every sink that is being replaced or removed

	configuring sync.Mutex // held while sinks are added and removed; comes first of all locks
}

// Open opens the store, plans every resource in it and starts delivering. The
// engine is in charge of the store and the sinks from then on, and closes both.
func Open(ctx context.Context, o Options) (*Engine, error) {
	o.setDefaults()
	if err := o.validate(); err != nil {
		return nil, err
	}
	seed := o.Seed
	if seed == 0 {
		seed = rand.Uint64()
	}
	e := &Engine{
		opts: o, log: o.Logger, obs: o.Observer, tracer: o.Tracer,
		targets: newTargets(),
		sched:   schedule.New(schedule.Options{MaxInFlight: o.MaxInFlight}),
		random:  rand.New(rand.NewPCG(seed, seed^0x9e3779b97f4a7c15)),
		flights: newFlights(),
		looks:   looks{byKey: map[record.Key]*look{}},
		objects: newObjects(),
		holds:   holds{byKey: map[record.Key]*Hold{}},
		intake:  intake{},
		waiters: waiters{byKey: map[record.Key][]*waiter{}},
		kick:    make(chan struct{}, 1),
		closing: make(chan struct{}),
	}
	e.calls, e.cut = context.WithCancel(context.WithoutCancel(ctx))
	store, err := o.Store(e)
	if err != nil {
		e.cut()
		return nil, fmt.Errorf("engine: open the store: %w", err)
	}
	e.store = store
	if err := e.setUp(ctx); err != nil {
		e.cut()
		store.Close()
		return nil, fmt.Errorf("engine: %w", err)
	}
	e.running.Go(e.dispatch)
	for _, t := range e.targets.all() {
		e.keep(t)
	}
	return e, nil
}

// keep begins what goes on as long as t is configured.
func (e *Engine) keep(t *target) {
	e.running.Go(func() { e.keepComparing(t) })
	e.running.Go(func() { e.keepPolling(t) })
}

// runningMark is the document that is there while an engine has the store open. One
// that is found at Open was left by an engine that was killed: of its last calls
// nobody knows the end.
const runningMark = "running"

// lookedMark is the document that holds the epoch of a restored store, or one that
// lost data, once every resource in it was looked at (R67).
const lookedMark = "looked"

// setUp makes sinks and plans out of options and store.
func (e *Engine) setUp(ctx context.Context) error {
	info := e.store.Info()
	e.opened = info.Revision
	e.changes = newRing(e.opts.WatchBuffer, info.Epoch, info.Revision)
	none := SinkOptions{}
	none.setDefaults()
	e.fallen = &reconcile.Rules{Conflict: none.Conflict, Deletion: none.Deletion, Timeout: none.Timeout, OrderRetention: e.opts.OrderRetention}
	for i := range e.opts.Sinks {
		if err := e.addTarget(&e.opts.Sinks[i], info); err != nil {
			return err
		}
	}
	ended, err := e.store.Meta(runningMark)
	if err != nil {
		return fmt.Errorf("read whether the last run ended in peace: %w", err)
	}
	e.killed = ended != nil
	if err := e.store.SetMeta(runningMark, []byte("yes")); err != nil {
		return fmt.Errorf("note that the store is in use: %w", err)
	}
	if err := e.plan(ctx, info); err != nil {
		return err
	}
	if e.opts.Prepare != nil {
		if err := e.opts.Prepare(e); err != nil {
			return err
		}
	}
	return e.releaseEmpty(info)
}

// plan rebuilds the schedule. Everything is looked at again, paced per sink
// (R34); what waits goes when it was due.
func (e *Engine) plan(ctx context.Context, info outbox.Info) error {
	now := time.Now()
	looks := map[string]int{}
	looked, err := e.store.Meta(lookedMark)
	if err != nil {
		return fmt.Errorf("read whether a restored store was looked at: %w", err)
	}
	restored := info.Lossy && string(looked) != info.Epoch
	oldest := map[string]outbox.Head{} // by sink, of those whose age the store did not tell
	err = e.store.Heads(ctx, outbox.Span{}, func(h outbox.Head) bool {
		if h.Key.Sink == journalSink {
			return true
		}
		e.mu.Lock()
		defer e.mu.Unlock()
		p := e.due(h, now)
		if t := e.targets.of(h.Key.Sink); t != nil && t.fitting().looksAtStart(p) {
			p.Class = schedule.Check
			p.At = now.Add(t.fitting().pace(looks[h.Key.Sink]))
			looks[h.Key.Sink]++
		}
		if h.WaitingSince.IsZero() && waits(p.Phase) {
			p.Since = now
			if o, ok := oldest[h.Key.Sink]; !ok || h.Generation < o.Generation {
				oldest[h.Key.Sink] = h
			}
		}
		e.sched.Set(h.Key, p)
		if h.Generation != 0 && !h.Gone && (restored || e.killed && (p.Phase != record.AckedPhase || h.Status.Command != record.NoCommand)) {
			e.sched.SetUnsure(h.Key, true)
		}
		e.intake.set(h.Key, h.Status.Direction.TakesIn() && !h.Gone)
		if h.Status.Acked != nil {
			e.objects.claim(h.Key, h.Status.Acked.Object)
		}
		return ctx.Err() == nil
	})
	if err == nil {
		err = ctx.Err() // a plan that lacks some would forget them
	}
	if err != nil {
		return err
	}
	e.tellAges(oldest)
	return nil
}

// tellAges reads since when the oldest waiting resource of each sink has waited,
// where that needs its payload. The others count from now: reading all would take
// as long as delivering them.
func (e *Engine) tellAges(oldest map[string]outbox.Head) {
	for _, h := range oldest {
		rec, err := e.store.Get(h.Key)
		if err != nil {
			continue // its delivery will tell
		}
		e.mu.Lock()
		if entry, ok := e.sched.Lookup(h.Key); ok {
			entry.Since = rec.Desired.WaitingSince
			e.sched.Set(h.Key, entry.Plan)
		}
		e.mu.Unlock()
	}
}

// waits reports whether a resource of that phase is unacknowledged, and its age of
// interest.
func waits(p record.Phase) bool {
	switch p {
	case record.Pending, record.Stalled, record.Deleting:
		return true
	}
	return false
}

// due plans one resource; e.mu is held.
func (e *Engine) due(h outbox.Head, now time.Time) schedule.Plan {
	t := e.targets.of(h.Key.Sink)
	switch {
	case t == nil && h.Gone: // it is no resource any more; its order is remembered until the sink returns
		return schedule.Plan{}
	case t == nil:
		return schedule.Plan{Phase: record.Orphaned, Since: h.WaitingSince}
	}
	p := reconcile.Due(t.fitting().rules, h, h.Suspend || h.Status.Suspended, now, e.random.Float64())
	if e.holds.byKey[h.Key] != nil {
		p.At = time.Time{} // until it is let go
	}
	return p
}

// Close stops accepting changes and starting deliveries, waits for those in
// flight until ctx ends, cuts off what is left, and closes store and sinks. What
// was cut off is remembered as unanswered and looked at after the next Open.
func (e *Engine) Close(ctx context.Context) error {
	e.mu.Lock()
	if e.closed {
		e.mu.Unlock()
		return ErrClosed
	}
	e.closed = true
	close(e.closing)
	e.changes.close()
	e.waiters.wakeAll()
	e.mu.Unlock()

	landed := make(chan struct{})
	go func() {
		e.running.Wait()
		close(landed)
	}()
	select {
	case <-landed:
	case <-ctx.Done():
		e.cut()
		<-landed
	}
	e.cut()
	err := e.closeStore()
	for _, t := range e.targets.all() {
		if cerr := t.fitting().sink.Close(context.WithoutCancel(ctx)); err == nil && cerr != nil {
			err = fmt.Errorf("close sink %q: %w", t.name, cerr)
		}
	}
	return err
}

// closeStore closes the store; no delivery is under way.
func (e *Engine) closeStore() error {
	e.mu.Lock()
	unsure := e.sched.Stats().Unsure > 0
	e.mu.Unlock()
	var err error
	if !unsure && !e.flights.lostAny() { // else the next start must know as little as this one
		err = e.store.SetMeta(runningMark, nil)
	}
	if info := e.store.Info(); err == nil && info.Lossy && !unsure {
		err = e.store.SetMeta(lookedMark, []byte(info.Epoch))
	}
	if errors.Is(err, outbox.ErrNoSpace) {
		// The next start takes this end for a crash, which costs looks and no more.
		e.log.Warn("the disk is too full to note the end; the next start looks at what was unacknowledged", "error", err)
		err = nil
	}
	return errors.Join(err, e.store.Close())
}

// open reports ErrClosed once Close was called.
func (e *Engine) open() error {
	select {
	case <-e.closing:
		return ErrClosed
	default:
		return nil
	}
}

// wakeDispatcher makes the dispatcher look again.
func (e *Engine) wakeDispatcher() { nudge(e.kick) }
