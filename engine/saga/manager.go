package saga

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/pawlsync/pawl/engine"
	"github.com/pawlsync/pawl/engine/record"
)

// What goes wrong, for errors.Is; also those of engine.Engine.Hold.
var (
	ErrNotFound    = errors.New("no such saga")
	ErrOther       = errors.New("another saga has that id")
	ErrClosed      = errors.New("no sagas are run any more")
	ErrNothingToDo = errors.New("nothing to resolve")
)

// Options configure a Manager. The zero value works.
type Options struct {
	// Retention is how long an ended saga is remembered, so that the same id is the
	// same saga. Defaults to 7 days.
	Retention time.Duration
	// RetryBase is the first pause after a try in vain, doubled up to RetryMax.
	// Default to 100ms and 10s.
	RetryBase, RetryMax time.Duration
	Logger              *slog.Logger // Defaults to none.
	Observer            Observer     // Defaults to none.
	// Failpoint is called at named points of every saga, for tests: "before-journal
	// E", "after-journal E", "before E" and "after E", where E is a call such as
	// "write 1" (of the first step), "look 2", "ask 1", "restore 1", "unlock 1", or
	// "adopt 1", "end 1". It may block, or end the process. An error of it is, in this order: that
	// the journal can't be written; that the process ends here; that the call was not
	// made, and is without an answer; that the answer was lost. Defaults to none.
	Failpoint func(point string) error
}

// Observer is told what sagas do, for metrics. Its methods must return quickly.
type Observer interface {
	// SagaKnown: a saga's outcome is durable, so long after its start.
	SagaKnown(mode Mode, outcome Outcome, took time.Duration)
	// SagaUndo: a step is being taken back.
	SagaUndo(sink string)
}

type nopObserver struct{}

func (nopObserver) SagaKnown(Mode, Outcome, time.Duration) {}
func (nopObserver) SagaUndo(string)                        {}

// Manager runs sagas over the sinks of one engine.
type Manager struct {
	opts    Options
	log     *slog.Logger
	obs     Observer
	engine  *engine.Engine
	journal engine.Journal

	mu     sync.Mutex
	byID   map[string]*run  // not ended
	lost   map[string]error // under way, and could not be taken up; why
	closed bool

	closing chan struct{}
	running sync.WaitGroup
}

// New returns a Manager whose Prepare is to be the engine's; it runs nothing before.
func New(o Options) *Manager {
	def := func(d *time.Duration, v time.Duration) {
		if *d <= 0 {
			*d = v
		}
	}
	def(&o.Retention, 7*24*time.Hour)
	def(&o.RetryBase, 100*time.Millisecond)
	def(&o.RetryMax, 10*time.Second)
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Observer == nil {
		o.Observer = nopObserver{}
	}
	if o.Failpoint == nil {
		o.Failpoint = func(string) error { return nil }
	}
	return &Manager{opts: o, log: o.Logger, obs: o.Observer, byID: map[string]*run{}, lost: map[string]error{}, closing: make(chan struct{})}
}

// View is a saga as its readers see it. It is a copy.
type View struct {
	Spec  Spec
	State State
	// Unresolved: its deadline has passed, or it can't go on without an operator, and
	// nobody can say how it ends.
	Unresolved bool
}

// Run runs a saga and waits until its outcome is durable, or ctx ends: the saga
// goes on then, and the View has no Outcome. An ID that is known is that saga.
//
// # Errors
//
// ErrInvalid, ErrOther, ErrClosed, and those of engine.Engine.Hold: nothing was
// written then.
func (m *Manager) Run(ctx context.Context, spec Spec) (View, error) {
	for {
		r, ended, err := m.begin(ctx, spec)
		if err != nil {
			return View{}, err
		}
		if ended != nil {
			return view(ended), nil
		}
		v, err := m.await(ctx, r)
		gaveUp := errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
		if !gaveUp || ctx.Err() != nil {
			return v, err
		}
		// Another caller had begun it, and did not wait until its resources were free.
	}
}

// Start is Run that returns as soon as it is durable that the saga will be run.
func (m *Manager) Start(ctx context.Context, spec Spec) (View, error) {
	r, ended, err := m.begin(ctx, spec)
	if err != nil {
		return View{}, err
	}
	if ended != nil {
		return view(ended), nil
	}
	if err := m.accept(ctx, r); err != nil {
		return View{}, err
	}
	return r.view(), nil
}

// Wait waits for a saga's outcome as Run does. Its errors are those of Get.
func (m *Manager) Wait(ctx context.Context, id string) (View, error) {
	if r := m.of(id); r != nil {
		return m.await(ctx, r)
	}
	return m.Get(id)
}

func (m *Manager) await(ctx context.Context, r *run) (View, error) {
	select {
	case <-r.known:
	case <-m.closing:
		return r.view(), fmt.Errorf("saga %q: %w; if it was begun, the next process ends it", r.spec.ID, ErrClosed)
	case <-ctx.Done():
		// Whoever is told that it goes on must find it after a crash.
		if err := m.accept(context.WithoutCancel(ctx), r); err != nil {
			return View{}, err
		}
	}
	r.mu.Lock()
	v, err, begun := r.viewLocked(), r.err, r.state != nil
	r.mu.Unlock()
	if !begun && err == nil { // who wanted to begin it found that it had ended
		return m.Get(r.spec.ID)
	}
	return v, err
}

// accept makes durable that the saga is run.
func (m *Manager) accept(ctx context.Context, r *run) error {
	r.mu.Lock()
	if r.accepted || r.err != nil || r.state == nil {
		defer r.mu.Unlock()
		if r.state == nil && r.err == nil {
			return fmt.Errorf("saga %q: %w: it waits for a delivery that is under way; ask again", r.spec.ID, context.DeadlineExceeded)
		}
		return r.err
	}
	ticket := m.submit(r)
	r.mu.Unlock()
	if err := ticket.Wait(ctx); err != nil {
		return fmt.Errorf("saga %q: %w", r.spec.ID, err)
	}
	return nil
}

// begin finds the saga that spec asks for, or starts it: r is not nil while it is
// under way, ended is not nil when it has ended.
func (m *Manager) begin(ctx context.Context, spec Spec) (r *run, ended *found, err error) {
	source, err := json.Marshal(spec)
	if err != nil {
		return nil, nil, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	fresh := m.newRun(spec, source)
	other, err := m.reserve(fresh)
	if err != nil {
		return nil, nil, err
	}
	if other != nil {
		return other, nil, same(other.source, source, spec.ID)
	}
	if ended, err = m.prepare(ctx, fresh); ended != nil || err != nil {
		m.drop(fresh, err)
		m.running.Done()
		if err == nil {
			err = same(ended.source, source, spec.ID)
		}
		return nil, ended, err
	}
	go func() {
		defer m.running.Done()
		m.drive(fresh)
	}()
	return fresh, nil, nil
}

// reserve enters r under its id, from where on nobody else begins that saga, or
// returns the one that is under way.
func (m *Manager) reserve(r *run) (other *run, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return nil, ErrClosed
	}
	if other := m.byID[r.spec.ID]; other != nil {
		return other, nil
	}
	m.byID[r.spec.ID] = r
	m.running.Add(1)
	return nil, nil
}

// prepare makes r ready to be driven, unless it has ended already.
func (m *Manager) prepare(ctx context.Context, r *run) (ended *found, err error) {
	if ended, err = m.read(r.spec.ID); !errors.Is(err, ErrNotFound) {
		return ended, err
	}
	if err := r.spec.Validate(m.manifest); err != nil {
		return nil, err
	}
	found, err := m.engine.Hold(ctx, r.hold(false))
	if err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.rules, r.locks = m.rulesOf(&r.spec)
	r.state = Start(&r.spec, m.coreRules(r.rules), newRunID(), time.Now())
	r.held = found
	for i := range found {
		r.state.Steps[i].Generation = found[i].Generation
	}
	return nil, nil
}

func same(stored, asked []byte, id string) error {
	if !bytes.Equal(stored, asked) {
		return fmt.Errorf("%w: %q was asked for with other content before; use another id", ErrOther, id)
	}
	return nil
}

// drop takes a saga off that has ended, or was never begun for the reason err.
func (m *Manager) drop(r *run, err error) {
	m.mu.Lock()
	delete(m.byID, r.spec.ID)
	m.mu.Unlock()
	r.fail(err)
}

func (m *Manager) of(id string) *run {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.byID[id]
}

// Close ends the running of sagas when their calls under way have ended; the next
// process takes them up. It is to be called before the engine's Close.
func (m *Manager) Close(ctx context.Context) error {
	m.mu.Lock()
	if !m.closed {
		m.closed = true
		close(m.closing)
	}
	m.mu.Unlock()
	done := make(chan struct{})
	go func() {
		m.running.Wait()
		close(done)
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("close sagas: %w", ctx.Err())
	}
}

// keysOf are the resources of a saga.
func keysOf(s *Spec) []record.Key {
	keys := make([]record.Key, len(s.Steps))
	for i := range s.Steps {
		keys[i] = s.Steps[i].Key
	}
	return keys
}
