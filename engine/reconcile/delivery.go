package reconcile

import (
	"strconv"
	"time"

	"github.com/pawlsync/pawl/engine/outbox"
	"github.com/pawlsync/pawl/engine/record"
	"github.com/pawlsync/pawl/engine/sink"
)

// Step is what a delivery wants next.
type Step uint8

// The steps.
const (
	Done    Step = iota // nothing; Settle it
	Observe             // call the sink's Observe
	Apply               // call Apply
	Delete              // call Delete
	Store               // make Interim's status durable (R23, R51)
)

var stepNames = [...]string{"done", "observe", "apply", "delete", "store"}

// String names the step as metrics and logs do.
func (s Step) String() string { return stepNames[s] }

// Outcome is how a delivery ended, in the one word that metrics count.
type Outcome string

// The outcomes.
const (
	Acked        Outcome = "acked"         // the target has it
	Unchanged    Outcome = "unchanged"     // a look found nothing to do
	Accepted     Outcome = "accepted"      // drift was taken over as it is
	Drifted      Outcome = "drifted"       // drift was reported
	Deleted      Outcome = "deleted"       // the target's object is gone
	Released     Outcome = "released"      // deleted here, left alone there (R52)
	NotOurs      Outcome = "not-ours"      // the object is somebody else's (R55)
	Unsettled    Outcome = "unsettled"     // waits until an unanswered call can't land any more
	Converging   Outcome = "converging"    // the target is still at it
	Retryable    Outcome = "retryable"     // failed; tried again
	Paused       Outcome = "paused"        // the target asked for a pause
	Unreachable  Outcome = "unreachable"   // no answer
	Unauthorized Outcome = "unauthorized"  // credentials refused
	Rejected     Outcome = "rejected"      // refused for good
	Obsoleted    Outcome = "obsolete"      // the target is ahead
	PluginFault  Outcome = "plugin-fault"  // the plugin failed
	Suspect      Outcome = "suspect"       // it shared the fault of another call
	Contended    Outcome = "contended"     // another resource owns the object (R37)
	MovedTarget  Outcome = "moved-target"  // a tombstone is owed to a target that is no longer there (R13)
	Undeletable  Outcome = "undeletable"   // the sink can't delete
	LookFailed   Outcome = "look-failed"   // a mere look failed; nothing changes
	NotConverged Outcome = "not-converged" // applied, but it does not match (R28)
	Missing      Outcome = "missing"       // nothing is there that could be taken in (R31)
	TakenOver    Outcome = "taken-over"    // the target's change is what is desired now (R32)
	NoContent    Outcome = "no-content"    // the adapter reported nothing that could be taken in (R31, R32)
	TooLarge     Outcome = "too-large"     // more than can be taken in (R31, R32)
)

// Outcomes lists every outcome, for documentation and metrics.
func Outcomes() []Outcome {
	return []Outcome{Acked, Unchanged, Accepted, Drifted, Deleted, Released, NotOurs, Unsettled, Converging, Retryable,
		Paused, Unreachable, Unauthorized, Rejected, Obsoleted, PluginFault, Suspect, Contended, MovedTarget, Undeletable,
		LookFailed, NotConverged, Missing, TakenOver, NoContent, TooLarge}
}

// Delivery is one attempt to bring one resource to its desired state. Ask Step,
// do what it says, Answer, and so on until Done; then Settle.
type Delivery struct {
	rules     *Rules
	key       record.Key
	desired   record.Desired
	status    record.Status
	acked     *record.Acked // by the present target; nil: never
	now       time.Time     // of the last answer
	began     time.Time
	direction record.Direction // in force, never empty
	look      bool             // nothing is owed: a drift check, or a look at start-up

	step      Step
	observed  *sink.Observation // what the last Observe saw; nil: not looked, or missing
	applied   bool              // an Apply was answered OK
	rechecked bool              // Delete met another uid once already
	vanished  bool              // what was acked was being deleted by somebody, and is gone (R36)
	uid       string            // precondition of Delete
	content   *record.Observed  // of observed, where it is taken in or reported

	// The end:
	outcome  Outcome
	reply    sink.Result // the answer that ended it
	ackedNow *record.Acked
	attempts []record.Attempt // to be remembered, in place of status.Attempted
	answered bool             // the target said something
	drifted  bool             // drift was seen and is corrected
	paths    []string
}

// Begin starts a delivery of rec. unsure: a call made by an earlier process may
// have been sent, so that the target must be looked at first.
func Begin(r *Rules, key record.Key, rec outbox.Record, now time.Time, unsure bool) *Delivery {
	d := &Delivery{rules: r, key: key, desired: rec.Desired, status: rec.Status, now: now, began: now}
	d.direction = r.direction(&rec.Desired)
	if !flipped(d.direction, &rec.Status) {
		d.acked = r.acked(&rec.Status)
	}
	d.attempts = d.mayMatter(rec.Status.Attempted)
	switch {
	case d.desired.Tombstone && !d.mirrors():
		d.beginDelete()
		return d
	case d.direction == record.Inbound:
		d.beginInbound()
		return d
	}
	d.look = d.isLook()
	switch {
	case d.oneCall(unsure):
		d.step = Apply
	case r.Manifest.Observes:
		d.step = Observe
	case d.look:
		d.end(Unchanged) // stored acks stand (R34)
	default:
		d.step = Apply
	}
	return d
}

// isLook reports whether nothing is owed to the target: it is merely looked at.
func (d *Delivery) isLook() bool {
	if d.status.Generation != d.desired.Generation || d.status.Command != record.NoCommand {
		return false
	}
	switch d.status.Phase {
	case record.AckedPhase, record.Drifted:
		return d.acked != nil || d.status.Acked == nil
	case record.Failed, record.Obsolete:
		return true
	}
	return false
}

// oneCall reports whether an Apply without a look keeps every promise (R35).
func (d *Delivery) oneCall(unsure bool) bool {
	m := &d.rules.Manifest
	return !unsure && !d.look && d.direction == record.Outbound && m.ApplyConfirms && m.ApplyIdempotent &&
		d.rules.conflict(&d.desired) == record.SourceWins &&
		d.status.Generation != d.desired.Generation && len(d.attempts) == 0 &&
		d.acked == d.status.Acked // the same target as before (R13)
}

// Step is what to do next.
func (d *Delivery) Step() Step { return d.step }

// Outcome is how the delivery ended, once Step is Done.
func (d *Delivery) Outcome() Outcome { return d.outcome }

// Reply is the answer that ended the delivery; its Status is 0 where no call did.
func (d *Delivery) Reply() sink.Result { return d.reply }

// Answered reports whether the target said anything in this delivery.
func (d *Delivery) Answered() bool { return d.answered }

// Unanswered reports whether the delivery ended for want of an answer, in the
// sense of the sink's breaker (R43, R44, R47).
func (d *Delivery) Unanswered() bool {
	return d.reply.Status == sink.Unreachable || d.reply.Status == sink.Unauthorized ||
		d.reply.Status == sink.Fault && !d.reply.Suspect
}

// Generation is the one that is delivered.
func (d *Delivery) Generation() uint64 { return d.desired.Generation }

// Object is the identity of the target's object, where the adapter reported it.
func (d *Delivery) Object() string {
	if d.ackedNow != nil {
		return d.ackedNow.Object
	}
	return ""
}

// Request is the call that Step asks for.
func (d *Delivery) Request() *sink.Request {
	if d.direction == record.Inbound { // what is declared is no content that anything could be compared with
		return &sink.Request{Key: d.key, Generation: d.desired.Generation, IdempotencyKey: IdempotencyKey(d.rules.Epoch, &d.desired),
			Acked: d.acked, Conflict: d.rules.conflict(&d.desired), UID: d.uid, Epoch: d.rules.Epoch}
	}
	return &sink.Request{
		Key: d.key, Generation: d.desired.Generation, Payload: d.desired.Payload, Hash: d.desired.Hash,
		IdempotencyKey: IdempotencyKey(d.rules.Epoch, &d.desired),
		Acked:          d.acked, Attempted: d.attempts,
		Conflict: d.rules.conflict(&d.desired), Force: d.status.Command == record.CommandForce, UID: d.uid,
		Epoch: d.rules.Epoch,
	}
}

// IdempotencyKey is the source's, where it gave one for this very content; else one that
// is stable over the retries of one generation and differs from that of any other, in
// any store.
func IdempotencyKey(epoch string, d *record.Desired) string {
	if d.IdempotencyKey != "" && !d.Tombstone && d.Origin != record.FromTarget {
		return d.IdempotencyKey
	}
	return epoch + "-" + strconv.FormatUint(d.Generation, 10) + "-" + d.Hash.String()
}

// Answer takes the result of the call that Step asked for.
func (d *Delivery) Answer(res sink.Result, now time.Time) {
	d.now = now
	d.answered = d.answered || res.Status.Answered() && res.Status != sink.Unauthorized
	if res.Observation != nil {
		d.paths = res.Observation.Differing
	}
	step := d.step
	if step != Observe {
		d.remember(res)
	}
	switch {
	case d.mirrors():
		d.sawMirrored(res)
	case d.desired.Tombstone && step == Observe:
		d.lookedForDelete(res)
	case step == Delete:
		d.deleted(res)
	case d.direction == record.Inbound:
		d.sawInbound(res)
	case step == Observe:
		d.looked(res)
	default:
		d.appliedWith(res)
	}
}

// mayMatter leaves out attempts that tell nothing any more: they can't land, and
// what they brought has been acknowledged since.
func (d *Delivery) mayMatter(attempts []record.Attempt) []record.Attempt {
	return keep(attempts, func(a record.Attempt) bool {
		return a.Deadline.After(d.now) || d.acked == nil || a.Delete || a.Hash != d.acked.Hash
	})
}

// keep returns the attempts that want chooses, in a slice of its own unless it
// chooses all.
func keep(attempts []record.Attempt, want func(record.Attempt) bool) []record.Attempt {
	kept := make([]record.Attempt, 0, len(attempts))
	for _, a := range attempts {
		if want(a) {
			kept = append(kept, a)
		}
	}
	if len(kept) == len(attempts) {
		return attempts
	}
	return kept
}

// remember keeps the content of a call that may still land. An answer says nothing
// of earlier calls that had none, not even with the same content: they are kept until
// an acknowledgement that they can't undo (confirm). A target that answered "not now" may have written all the same, and one
// whose OK proves nothing probably has: where drift is told from our own doing, that
// content is kept, with a deadline that has passed.
func (d *Delivery) remember(res sink.Result) {
	if !res.Status.Answered() && res.Status != sink.Unauthorized {
		if !res.NotSent {
			d.attempts = withAttempt(d.attempts, d.rules.attempt(&d.desired, d.now))
		}
		return
	}
	m := &d.rules.Manifest
	unproven := res.Status == sink.Retry || res.Status == sink.OK && !d.desired.Tombstone && m.Observes && !m.ApplyConfirms
	if unproven && d.rules.keepsPayloads(&d.desired) {
		a := d.rules.attempt(&d.desired, d.now)
		a.Deadline = d.now
		d.attempts = withAttempt(d.attempts, a)
	}
}

// foreign returns until when content other than the desired one may still land
// at the target, or the zero time.
func (d *Delivery) foreign() (until time.Time) {
	for _, a := range d.attempts {
		same := a.Delete == d.desired.Tombstone && a.Hash == d.desired.Hash
		if !same && a.Deadline.After(d.now) && a.Deadline.After(until) {
			until = a.Deadline
		}
	}
	return until
}

func (d *Delivery) end(o Outcome) {
	d.step = Done
	d.outcome = o
}

func (d *Delivery) endWith(o Outcome, res sink.Result) {
	d.reply = res
	d.end(o)
}

// confirm ends the delivery with the target's confirmation o, unless an
// unanswered call may still undo it (R49). One with the same content can't, but is
// remembered for what comes next; the record of a deletion goes, and with it the
// memory, so that its calls must have ended.
func (d *Delivery) confirm(o Outcome, res sink.Result, acked *record.Acked) {
	d.reply, d.ackedNow = res, acked
	if !d.foreign().IsZero() || d.desired.Tombstone && d.pendingUntil().After(d.now) {
		a := d.rules.attempt(&d.desired, d.now) // what is there now is our doing, should something newer come
		a.Deadline = d.now
		d.attempts = withAttempt(d.attempts, a)
		d.end(Unsettled)
		return
	}
	d.attempts = keep(d.attempts, func(a record.Attempt) bool { return a.Deadline.After(d.now) })
	d.end(o)
}

// ackOf is the acknowledgement that an observation gives.
func (d *Delivery) ackOf(o *sink.Observation) *record.Acked {
	a := &record.Acked{Generation: d.desired.Generation, Hash: d.desired.Hash, Target: d.rules.Manifest.Target, At: d.now}
	if o != nil {
		a.Ref, a.AsFound, a.UID, a.Cursor, a.Object, a.Adapter = o.Ref, o.AsFound, o.UID, o.Cursor, o.Object, o.AdapterState
	}
	return a
}
