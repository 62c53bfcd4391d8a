package saga

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/pawlsync/pawl/engine"
	"github.com/pawlsync/pawl/engine/outbox"
	"github.com/pawlsync/pawl/engine/record"
	"github.com/pawlsync/pawl/engine/sink"
)

// run is one saga under way.
type run struct {
	spec   Spec
	source []byte        // the spec as it is stored
	rules  []StepRules   // what its sinks could do when it began
	locks  []string      // for the first step's sink; none in the optimistic mode
	held   []engine.Held // by step
	known  chan struct{}
	poked  chan struct{} // capacity 1

	handedOver error // of the newest Adopt; the driver's

	mu       sync.Mutex
	state    *State
	accepted bool  // it is in the journal
	err      error // it was refused before it was in the journal
}

func (m *Manager) newRun(spec Spec, source []byte) *run {
	return &run{spec: spec, source: source, known: make(chan struct{}), poked: make(chan struct{}, 1)}
}

func (r *run) hold(resumed bool) engine.Hold {
	return engine.Hold{Holder: r.spec.ID, Keys: keysOf(&r.spec), RefusePuts: r.spec.RefusePuts, Resumed: resumed}
}

func (r *run) view() View {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.viewLocked()
}

func (r *run) viewLocked() View {
	v := View{Spec: r.spec}
	if r.state != nil {
		v.State = *r.state
		v.State.Steps = slices.Clone(r.state.Steps)
		v.Unresolved = r.state.Unresolved(time.Now())
		if v.State.Outcome != "" && !r.isKnown() { // not durable: after a crash it might be another
			v.State.Outcome, v.State.Phase = "", Forward
			if v.State.FailedStep > 0 {
				v.State.Phase = Undoing
			}
		}
	}
	return v
}

// poke wakes the run's driver.
func (r *run) poke() {
	select {
	case r.poked <- struct{}{}:
	default:
	}
}

// fail tells those who wait that the saga was never begun.
func (r *run) fail(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err != nil && r.err == nil {
		r.err = err
	}
	r.tell()
}

// tell wakes those who wait for the outcome. r.mu is held.
func (r *run) tell() {
	if !r.isKnown() {
		close(r.known)
	}
}

func (r *run) isKnown() bool { return isClosed(r.known) }

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

func newRunID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // it never fails
	return hex.EncodeToString(b[:])
}

func (m *Manager) manifest(name string) (sink.Manifest, bool) {
	man, _, ok := m.engine.Ability(name)
	return man, ok
}

// rulesOf returns what spec's sinks can do, by step, and the locks that its first sink
// is to take.
func (m *Manager) rulesOf(spec *Spec) (rules []StepRules, locks []string) {
	for _, st := range spec.Steps {
		man, timeout, _ := m.engine.Ability(st.Key.Sink)
		rules = append(rules, StepRules{Target: man.Target, Timeout: timeout, Marks: man.Marks, Locks: man.Locks, Confirms: man.ApplyConfirms})
		if spec.Mode == Pessimistic {
			locks = append(locks, lockOf(man.Target, st.Key))
		}
	}
	slices.Sort(locks)
	return rules, slices.Compact(locks)
}

func (m *Manager) coreRules(steps []StepRules) Rules { return Rules{Steps: steps, Backoff: m.backoff} }

// lockOf names the lock of one object of one target, whoever asks for it.
func lockOf(target string, key record.Key) string {
	sum := sha256.Sum256([]byte(target + "\x00" + key.Name))
	return hex.EncodeToString(sum[:16])
}

func (m *Manager) backoff(tries int) time.Duration {
	return min(m.opts.RetryBase<<min(tries-1, 16), m.opts.RetryMax)
}

// errClosing ends a driver.
var errClosing = errors.New("closing")

// drive takes a saga to its end, or until the manager closes.
func (m *Manager) drive(r *run) {
	for {
		r.mu.Lock()
		e := r.state.Next(time.Now())
		r.mu.Unlock()
		err := m.step(r, e)
		if errors.Is(err, errClosing) {
			return
		}
		if err != nil || e.Kind == End {
			m.engine.LetGo(keysOf(&r.spec))
			m.drop(r, err)
			return
		}
	}
}

// step carries one effect out. Its error ends the driver.
func (m *Manager) step(r *run, e Effect) error {
	if e.Durable {
		if err := m.persist(r, e); err != nil {
			return err
		}
	}
	switch e.Kind {
	case End:
		return nil
	case Wait:
		return m.wait(r, time.Until(e.Until))
	case Halt:
		return m.wait(r, -1)
	case Adopt:
		return m.adopted(r, e)
	}
	if m.isClosing() {
		return errClosing
	}
	if e.Kind == Restore {
		m.obs.SagaUndo(r.spec.Steps[e.Step].Key.Sink)
	}
	res, err := m.call(r, e)
	if err != nil {
		res = sink.Result{Status: sink.Unreachable, Message: err.Error()}
	}
	r.mu.Lock()
	r.state.Answered(e, res, time.Now())
	r.mu.Unlock()
	return nil
}

// persist makes r's state durable. That an outcome is, is told when the outbox had
// it, too: who then asks for the resource finds it.
func (m *Manager) persist(r *run, e Effect) error {
	for tries := 1; ; tries++ {
		err := m.opts.Failpoint("before-journal " + e.String())
		if err == nil {
			r.mu.Lock()
			ticket := m.submit(r)
			r.mu.Unlock()
			if e.Kind == Adopt { // in the same commit, or a later one
				r.handedOver = m.engine.Adopt(context.Background(), r.adoptions())
			}
			err = ticket.Wait(context.Background())
		}
		if err == nil {
			break
		}
		if errors.Is(err, outbox.ErrClosed) || m.isClosing() {
			return errClosing
		}
		if err := m.neverBegun(r, err); err != nil {
			return err
		}
		m.log.Error("the journal of a saga can't be written; it waits", "saga", r.spec.ID, "error", err)
		if err := m.wait(r, m.backoff(tries)); err != nil {
			return err
		}
	}
	m.persisted(r)
	if m.opts.Failpoint("after-journal "+e.String()) != nil {
		return errClosing
	}
	return nil
}

// neverBegun returns why r, of which nothing is in the journal, is dropped: nothing was
// written anywhere. Nil: a caller's accept may have brought it into the journal, so that
// it goes on.
func (m *Manager) neverBegun(r *run, why error) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.accepted {
		there, err := m.journal.Has(r.spec.ID)
		r.accepted = there || err != nil
	}
	if r.accepted {
		return nil
	}
	r.err = fmt.Errorf("saga %q: %w", r.spec.ID, why) // from here on nobody accepts it
	return r.err
}

// persisted tells an outcome that is durable.
func (m *Manager) persisted(r *run) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.accepted = true
	if r.state.Outcome == "" || r.isKnown() {
		return
	}
	r.tell()
	took := time.Since(r.state.Began)
	m.obs.SagaKnown(r.spec.Mode, r.state.Outcome, took)
	m.log.Info("saga", "saga", r.spec.ID, "outcome", string(r.state.Outcome), "took", took)
}

func (m *Manager) isClosing() bool { return isClosed(m.closing) }

// wait pauses a saga; d below 0: until it is poked.
func (m *Manager) wait(r *run, d time.Duration) error {
	var due <-chan time.Time
	if d >= 0 {
		timer := time.NewTimer(d)
		defer timer.Stop()
		due = timer.C
	}
	select {
	case <-due:
	case <-r.poked:
	case <-m.closing:
		return errClosing
	}
	return nil
}

// adoptions are what a committed saga hands over to the outbox.
func (r *run) adoptions() (as []engine.Adoption) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.state.Outcome != Committed {
		return nil
	}
	for i, st := range r.spec.Steps {
		as = append(as, engine.Adoption{Key: st.Key, Generation: r.state.Steps[i].Generation, Payload: st.Payload,
			Forget: st.Verb == Delete || st.After == Forget})
	}
	return as
}

// adopted sees to it that the outbox has a saga's outcome.
func (m *Manager) adopted(r *run, e Effect) error {
	for tries := 1; r.handedOver != nil; tries++ {
		if errors.Is(r.handedOver, engine.ErrClosed) || m.isClosing() {
			return errClosing
		}
		m.log.Error("the outcome of a saga can't be stored; it waits", "saga", r.spec.ID, "error", r.handedOver)
		if err := m.wait(r, m.backoff(tries)); err != nil {
			return err
		}
		r.handedOver = m.engine.Adopt(context.Background(), r.adoptions())
	}
	r.mu.Lock()
	r.state.Answered(e, sink.Result{}, time.Now())
	r.mu.Unlock()
	return nil
}

// call makes the call that e is.
func (m *Manager) call(r *run, e Effect) (res sink.Result, err error) {
	if err := m.opts.Failpoint("before " + e.String()); err != nil {
		return res, err
	}
	req, rules := r.request(e), &r.rules[e.Step]
	verb := r.spec.Steps[e.Step].Verb
	if _, _, ok := m.engine.Ability(req.Key.Sink); e.Kind == Unlock && !ok {
		return m.leave(r, req.Key, "no such sink is configured any more"), nil
	}
	res = m.engine.Call(req.Key, "saga-"+e.Kind.String(), r.deadline(e), func(ctx context.Context, s sink.Sink) sink.Result {
		man := s.Manifest()
		p, _ := s.(sink.Participant)
		switch {
		case man.Target != rules.Target && e.Kind == Unlock:
			return m.leave(r, req.Key, "it has another target now")
		case man.Target != rules.Target:
			return notSent("sink %q has the target %s now; the saga began at %s: configure that one again, or resolve the saga", req.Key.Sink, man.Target, rules.Target)
		case rules.Marks && !man.Marks || rules.Locks && !man.Locks:
			return notSent("sink %q can't do any more what the saga was begun with", req.Key.Sink)
		case e.Kind == Look || e.Kind == Ask:
			return s.Observe(ctx, req)
		case e.Kind == Write && verb == Delete:
			return s.Delete(ctx, req)
		case e.Kind == Write:
			return proven(s.Apply(ctx, req), rules.Confirms && !man.ApplyConfirms)
		case p == nil:
			return notSent("the sink takes no part in sagas any more")
		case e.Kind == Restore:
			return p.Restore(ctx, req)
		}
		return p.Unlock(ctx, req)
	})
	return res, m.opts.Failpoint("after " + e.String())
}

func notSent(format string, args ...any) sink.Result {
	return sink.Result{Status: sink.Unreachable, NotSent: true, Message: fmt.Sprintf(format, args...)}
}

// proven makes of an OK that proves nothing, where the saga relies on one that does,
// no answer: it is asked then.
func proven(res sink.Result, weaker bool) sink.Result {
	if weaker && res.Status == sink.OK {
		return sink.Result{Status: sink.Unreachable, Message: "the sink's OK proves nothing any more"}
	}
	return res
}

// leave gives up what r holds at a target that nobody can reach by its sink any more:
// its other resources are not to be held for that.
func (m *Manager) leave(r *run, key record.Key, why string) sink.Result {
	m.log.Error("locks and marks of a saga stay at a target", "saga", r.spec.ID, "run", r.state.Run, "sink", key.Sink, "why", why)
	return sink.Result{Status: sink.OK}
}

// deadline is when the request of e can't land any more: it is in the journal.
func (r *run) deadline(e Effect) time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.state.Steps[e.Step].Pending // zero for one that changes nothing
}

// request is what the call of e is about.
func (r *run) request(e Effect) *sink.Request {
	r.mu.Lock()
	defer r.mu.Unlock()
	st, spec := &r.state.Steps[e.Step], &r.spec.Steps[e.Step]
	req := &sink.Request{
		Key: spec.Key, Generation: st.Generation, Payload: spec.Payload, Hash: record.HashOf(spec.Payload),
		IdempotencyKey: fmt.Sprintf("%s-%d", r.state.Run, e.Step), Acked: r.held[e.Step].Acked, Conflict: record.SourceWins,
		Run: &sink.Run{ID: r.state.Run, Step: e.Step, Before: st.Before},
	}
	if spec.Verb == Create {
		req.Mode = sink.CreateOnly
	}
	if first := r.spec.Steps[0].Key.Sink; spec.Key.Sink == first {
		req.Run.Locks = r.locks
		for i := range r.spec.Steps {
			req.Run.Held = req.Run.Held || r.spec.Steps[i].Key.Sink == first && r.state.Steps[i].Landed
		}
	}
	return req
}
