package engine

import (
	"context"
	"fmt"
	"time"

	"github.com/pawlsync/pawl/engine/outbox"
	"github.com/pawlsync/pawl/engine/reconcile"
	"github.com/pawlsync/pawl/engine/record"
	"github.com/pawlsync/pawl/engine/schedule"
	"github.com/pawlsync/pawl/engine/sink"
)

// Question asks what a delivery would find at the target, and what it would do there.
type Question struct {
	Key record.Key
	// Put or Delete is taken as if it was made now; its own Key counts for nothing.
	// Neither: what is stored.
	Put    *Put
	Delete *Delete
}

// Action is what a delivery would do at the target.
type Action string

// The actions.
const (
	ActionNone    Action = "none"    // no call that changes anything; see Preview.Same and Why
	ActionCreate  Action = "create"  // apply what the target does not have
	ActionUpdate  Action = "update"  // apply what differs there
	ActionDelete  Action = "delete"  // delete it there
	ActionRefused Action = "refused" // the target refuses it, see Why
	ActionUnknown Action = "unknown" // it can't be told, see Why
)

// Preview answers a Question.
type Preview struct {
	Key        record.Key
	Generation uint64 // of what is stored; 0: nothing is
	Tombstone  bool   // what is asked about is a deletion
	Payload    []byte // what is asked about; read only
	// New: what is asked about differs from what is stored, so that it would be a
	// generation of its own.
	New    bool
	Action Action
	// Why is what keeps it unknown, the target's words where it refuses it, or why a
	// difference is left as it is.
	Why string

	// Looked: the target was looked at. Else what follows goes by what it
	// acknowledged last, and says nothing where Action is ActionUnknown.
	Looked bool
	Exists bool // the target has the object
	Same   bool // it is as asked; of a deletion: there is none; of direction inbound always
	Drift  bool // somebody else changed it
	// Differing are the paths where it is not as asked, as the adapter names them;
	// none may be told of an object that differs.
	Differing []string
	Content   []byte // what the target has, in the form of a payload; nil where the adapter does not report it
	// Status is how the look ended; 0: none was made.
	Status sink.Status
}

// Preview answers q by at most one Observe. It stores nothing, is no delivery and
// counts as no attempt. The sink's rate, breaker, pause and suspension hold for it as
// for a delivery; it waits for the delivery of the resource that is under way, and
// others of it wait for the look.
//
// # Errors
//
// What refuses the Put or Delete: ErrUnknownSink, ErrInvalid, ErrTooLarge, ErrStale,
// ErrConflict, ErrOwned; ErrNotFound where nothing is stored that is asked about;
// ErrClosed; the error of ctx; outbox.ErrDamaged.
func (e *Engine) Preview(ctx context.Context, q Question) (Preview, error) {
	_, p, err := e.supposed(&q)
	if err != nil {
		return p, fail("preview", q.Key, err, hintFor(err))
	}
	t := e.targets.of(q.Key.Sink)
	if t == nil {
		return p.unknown("its sink is not configured"), nil
	}
	why, err := e.visit(ctx, t)
	if err != nil {
		return p, fail("preview", q.Key, err, "")
	}
	if why != "" {
		return p.unknown(why), nil
	}
	end, err := e.looks.begin(ctx, q.Key, &e.flights)
	if err != nil {
		return p, fail("preview", q.Key, err, "a call about it is still in flight")
	}
	rec, p, err := e.supposed(&q) // a delivery may have changed it meanwhile
	if err != nil {
		end()
		return p, fail("preview", q.Key, err, hintFor(err))
	}
	if why := e.untouchable(q.Key, &rec); why != "" {
		end()
		return p.unknown(why), nil
	}
	seen := make(chan Preview, 1)
	go func() { // which a caller that leaves does not cut off: the target would seem not to answer
		defer end()
		seen <- e.foresee(t, rec, p)
	}()
	select {
	case p = <-seen:
		return p, nil
	case <-ctx.Done():
		return p, fail("preview", q.Key, ctx.Err(), "the target has not answered yet")
	}
}

// supposed returns the record as it would be if what q asks about was stored.
func (e *Engine) supposed(q *Question) (rec outbox.Record, p Preview, err error) {
	p = Preview{Key: q.Key}
	if err := e.open(); err != nil {
		return rec, p, err
	}
	if err := invalid(q.Key.Validate()); err != nil {
		return rec, p, err
	}
	cur, err := e.store.Get(q.Key)
	if err != nil {
		return rec, p, err
	}
	if cur.Desired.Exists() {
		p.Generation = cur.Desired.Generation
	}
	change, err := e.change(q, cur)
	if err != nil {
		return rec, p, err
	}
	rec = cur
	if change.Desired != nil {
		rec.Desired = *change.Desired
	}
	if change.Status != nil {
		rec.Status = *change.Status
	}
	if change.NewGeneration {
		rec.Desired.Generation = e.store.Info().Revision + 1 // as good as any that is not taken
		p.New = true
	}
	p.Tombstone, p.Payload = rec.Desired.Tombstone, rec.Desired.Payload
	return rec, p, nil
}

// change is what storing what q asks about would change of cur.
func (e *Engine) change(q *Question, cur outbox.Record) (outbox.Change, error) {
	facts := e.facts(q.Key, cur, time.Now())
	switch {
	case q.Put != nil:
		put := *q.Put
		put.Key = q.Key
		if err := e.check(&put); err != nil {
			return outbox.Change{}, err
		}
		t, err := e.target("preview", q.Key)
		if err != nil {
			return outbox.Change{}, err
		}
		req := put.request()
		if err := t.fitting().canTakeIn(&req.Desired); err != nil {
			return outbox.Change{}, err
		}
		change, _, err := reconcile.AcceptPut(t.fitting().rules, cur, req, facts)
		return change, err
	case q.Delete != nil:
		if err := invalid(q.Delete.Deletion.Validate(), q.Delete.DeletionElse.Validate()); err != nil {
			return outbox.Change{}, err
		}
		change, _, err := reconcile.AcceptDelete(e.rulesOf(q.Key), cur, q.Delete.request(), facts)
		return change, err
	case !cur.Desired.Exists():
		return outbox.Change{}, &reconcile.Refusal{Err: ErrNotFound, Message: "there is no such resource"}
	}
	return outbox.Change{}, nil
}

// visit waits until the sink's rate allows a call, or says what else keeps calls from
// it.
func (e *Engine) visit(ctx context.Context, t *target) (why string, err error) {
	for {
		if err := ctx.Err(); err != nil {
			return "", err
		}
		e.mu.Lock()
		block, until := e.sched.Visit(t.name, time.Now())
		e.mu.Unlock()
		switch block {
		case schedule.Open:
			return "", nil
		case schedule.Broken:
			return "the target does not answer, and its sink waits for that", nil
		case schedule.Pausing:
			return "the target asked its callers to pause until " + until.Format(time.RFC3339), nil
		case schedule.Suspending:
			return t.notVisited(), nil
		}
		timer := time.NewTimer(time.Until(until))
		select {
		case <-timer.C:
		case <-ctx.Done():
		case <-e.closing:
			err = ErrClosed
		}
		timer.Stop()
		if err != nil {
			return "", err
		}
	}
}

// notVisited says why a sink takes no calls at all.
func (t *target) notVisited() string {
	if why := t.fitting().rules.Manifest.NotReady; why != "" {
		return "its sink is not ready: " + why
	}
	return fmt.Sprintf("its sink is suspended (%s)", t.suspended())
}

// untouchable says why no call may be made about this very resource.
func (e *Engine) untouchable(key record.Key, rec *outbox.Record) string {
	e.mu.Lock()
	h := e.holds.byKey[key] // not e.held: a hold that is being taken counts, once it has the lock
	e.mu.Unlock()
	if h != nil {
		return fmt.Sprintf("saga %s writes to it", h.Holder)
	}
	if reason, message := e.heldBack(key, rec); reason != record.ReasonNone {
		return message
	}
	return ""
}

// foresee makes the look, where the sink can, and says what would follow.
func (e *Engine) foresee(t *target, rec outbox.Record, p Preview) Preview {
	core := reconcile.Foresee(t.fitting().rules, p.Key, rec, time.Now())
	if core.Step() == reconcile.Observe {
		res := e.Call(p.Key, reconcile.Observe.String(), time.Time{}, func(ctx context.Context, s sink.Sink) sink.Result {
			return s.Observe(ctx, core.Request())
		})
		p.Status = res.Status
		core.Answer(res, time.Now())
		switch res.Status {
		case sink.OK, sink.NotFound:
			p.Looked = true
		case sink.Rejected:
			p.Action, p.Why = ActionRefused, res.Message
			return p
		default:
			return p.unknown(said(res))
		}
		if res.Observation != nil && t.fitting().rules.Manifest.ReportsContent {
			p.Content = res.Observation.Content
		}
	}
	f := core.Foreseen(p.Looked)
	p.Exists, p.Same, p.Drift, p.Differing = f.Exists, f.Same, f.Drift, f.Differing
	p.Action, p.Why = action(&f), left[f.Outcome]
	switch {
	case f.Inbound:
		p.Why = "inbound: nothing is ever sent"
	case p.Same:
		p.Why = ""
	case p.Action == ActionNone && rec.Status.Phase == record.Failed && !p.Tombstone:
		p.Why = "the target refused it for good before; it is sent again when it changes, or is retried"
	case p.Action == ActionNone && rec.Status.Phase == record.Obsolete && !p.Tombstone:
		p.Why = "the target holds something newer"
	}
	if !p.Looked && p.Why == "" {
		p.Why = "the sink can't look; this goes by what the target acknowledged last"
	}
	return p
}

func action(f *reconcile.Foresight) Action {
	switch {
	case f.Next == reconcile.Delete:
		return ActionDelete
	case f.Next != reconcile.Apply, f.Same:
		return ActionNone
	case f.Exists:
		return ActionUpdate
	}
	return ActionCreate
}

// left says why a delivery that ends so leaves a difference as it is.
var left = map[reconcile.Outcome]string{
	reconcile.Unchanged:   "it was accepted as it is",
	reconcile.Accepted:    "the conflict policy lets the target win",
	reconcile.Drifted:     "the conflict policy is to report that only",
	reconcile.Released:    "the deletion policy leaves the target's object where it is",
	reconcile.NotOurs:     "the object can't be told to be ours",
	reconcile.Undeletable: "the sink can't delete",
	reconcile.MovedTarget: "its object is at another target than the sink's present one",
	reconcile.Unsettled:   "an earlier call was not answered and may still land; that is waited for first",
	reconcile.Contended:   "another resource keeps the same object",
	reconcile.TakenOver:   "direction both: the target's change is taken over",
	reconcile.NoContent:   "direction both: the adapter reported no content that could be taken over",
	reconcile.TooLarge:    "direction both: what the target has is too large to be taken over",
}

// said is what a look that failed says.
func said(res sink.Result) string {
	if res.Message == "" {
		return res.Status.String()
	}
	return res.Status.String() + ": " + res.Message
}

func (p Preview) unknown(why string) Preview {
	p.Action, p.Why = ActionUnknown, why
	return p
}
