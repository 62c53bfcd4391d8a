package reconcile

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	"github.com/pawlsync/pawl/engine/outbox"
	"github.com/pawlsync/pawl/engine/record"
)

// Why a Put or Delete was refused, for errors.Is.
var (
	ErrNotFound = errors.New("not found")
	ErrStale    = errors.New("stale")
	ErrConflict = errors.New("generation conflict")
	ErrOwned    = errors.New("owned by another source")
	ErrKeyUsed  = errors.New("idempotency key used before")
)

// Refusal says why a change was refused, and what is there instead.
type Refusal struct {
	Err        error // ErrNotFound, ErrStale, ErrConflict, ErrOwned or ErrKeyUsed
	Generation uint64
	Message    string
}

// Error returns the cause and the details.
func (r *Refusal) Error() string { return r.Err.Error() + ": " + r.Message }

// Unwrap returns the cause.
func (r *Refusal) Unwrap() error { return r.Err }

// PutRequest is a desired state on its way in.
type PutRequest struct {
	Desired record.Desired // without Generation and times
	// OrderPartial: the order's number does not cover the content (R08).
	OrderPartial bool
	IfGeneration *uint64 // R09; 0: must not exist
	// TakeOver: the resource is Desired.Owner's from now on, whoever owned it before.
	TakeOver bool
}

// DeleteRequest is a deletion on its way in.
type DeleteRequest struct {
	Deletion     record.DeletionPolicy
	DeletionElse record.DeletionPolicy // where neither Deletion nor the resource says
	Order        record.Order
	OrderPartial bool
	IfGeneration *uint64
	Owner        string // who asks
	TakeOver     bool   // whoever owns it
}

// Facts are what the engine knows and the record does not.
type Facts struct {
	Now time.Time
	// MaybeSent: a call about the present state is in flight, or may have been
	// sent by an earlier process whose end nobody saw.
	MaybeSent bool
}

// Answer is what a caller of Put or Delete learns.
type Answer struct {
	Generation uint64 // of what was desired already; 0: the change's own, yet to be given
	Replaced   bool
}

// AcceptPut decides on a Put (R01 to R09).
func AcceptPut(r *Rules, cur outbox.Record, p PutRequest, f Facts) (outbox.Change, Answer, error) {
	old := &cur.Desired
	if err := admit(old, p.IfGeneration); err != nil {
		return outbox.Change{}, Answer{}, err
	}
	if err := mayChange(old, p.Desired.Owner, p.TakeOver); err != nil {
		return outbox.Change{}, Answer{}, err
	}
	repeats := r.repeats(old, &p.Desired)
	same := old.Exists() && samePolicies(old, &p.Desired) && (repeats || !old.Tombstone && SameContent(old, &p.Desired))
	if err := inOrder(old, p.Desired.Order, same || p.OrderPartial); err != nil {
		return outbox.Change{}, Answer{}, err
	}
	if err := keyFits(old, &p.Desired); err != nil {
		return outbox.Change{}, Answer{}, err
	}
	agrees := same && !repeats && old.Origin == record.FromTarget // the source says now what the target did
	if same && !agrees && !newerOrder(old.Order, p.Desired.Order) && old.Owner == p.Desired.Owner {
		return outbox.Change{}, Answer{Generation: old.Generation}, nil // R03
	}
	d := p.Desired
	if d.Order == (record.Order{}) {
		d.Order = old.Order
	}
	if same { // the content stands; only the source's position moved on, or it has an owner now
		kept := *old
		kept.Order, kept.Owner = d.Order, d.Owner
		if agrees {
			kept.Origin, kept.SourceHash = record.FromSource, record.Hash{}
		}
		return outbox.Change{Desired: &kept}, Answer{Generation: old.Generation}, nil
	}
	if repeats { // of its policies alone something is new
		d.Payload, d.Hash, d.Tombstone, d.Origin, d.SourceHash = old.Payload, old.Hash, old.Tombstone, old.Origin, old.SourceHash
	}
	change, replaced := replace(r, cur, &d, f)
	return change, Answer{Replaced: replaced}, nil
}

// AcceptDelete decides on a Delete (R05, R08, R09).
func AcceptDelete(r *Rules, cur outbox.Record, del DeleteRequest, f Facts) (outbox.Change, Answer, error) {
	old := &cur.Desired
	if !old.Exists() {
		return outbox.Change{}, Answer{}, &Refusal{Err: ErrNotFound, Message: "there is no such resource"}
	}
	if err := admit(old, del.IfGeneration); err != nil {
		return outbox.Change{}, Answer{}, err
	}
	if err := mayChange(old, del.Owner, del.TakeOver); err != nil {
		return outbox.Change{}, Answer{}, err
	}
	if !old.Tombstone && old.Owner == "" && del.Owner != "" && !del.TakeOver { // to want it gone is no claim to it
		return outbox.Change{}, Answer{}, &Refusal{Err: ErrOwned, Generation: old.Generation,
			Message: fmt.Sprintf("no source owns it; %q deletes what it put", del.Owner)}
	}
	policy := cmp.Or(del.Deletion, old.Deletion, del.DeletionElse)
	same := old.Tombstone && policy == old.Deletion && old.Origin != record.FromTarget // of the target's, both have deleted it now
	if err := inOrder(old, del.Order, same || del.OrderPartial); err != nil {
		return outbox.Change{}, Answer{}, err
	}
	if same && newerOrder(old.Order, del.Order) { // only the source's position moved on
		kept := *old
		kept.Order = del.Order
		return outbox.Change{Desired: &kept}, Answer{Generation: old.Generation}, nil
	}
	if same {
		return outbox.Change{}, Answer{Generation: old.Generation}, nil
	}
	d := record.Desired{
		Tombstone: true, Deletion: policy, Conflict: old.Conflict, Owner: old.Owner, Order: del.Order,
		Suspend: old.Suspend, Direction: old.Direction, Retry: old.Retry, IdempotencyKey: old.IdempotencyKey,
	}
	if d.Order == (record.Order{}) {
		d.Order = old.Order
	}
	change, replaced := replace(r, cur, &d, f)
	return change, Answer{Replaced: replaced}, nil
}

// mayChange keeps what one source owns from everybody else (R15b): two that want
// different things of one key would undo each other for ever. What nobody owns, or
// its owner has deleted, is free.
func mayChange(old *record.Desired, who string, takeOver bool) error {
	if !old.Exists() || old.Tombstone || old.Owner == "" || old.Owner == who || takeOver {
		return nil
	}
	asks := "who asks is no source"
	if who != "" {
		asks = fmt.Sprintf("%q can't change it", who)
	}
	return &Refusal{Err: ErrOwned, Generation: old.Generation, Message: fmt.Sprintf("it belongs to source %q; %s", old.Owner, asks)}
}

// AcceptHandOver makes to the owner of what from owns; content, policies and
// generation stay (R15b).
func AcceptHandOver(cur outbox.Record, from, to string) (outbox.Change, error) {
	old := &cur.Desired
	switch {
	case !old.Exists():
		return outbox.Change{}, &Refusal{Err: ErrNotFound, Message: "there is no such resource"}
	case old.Owner == to:
		return outbox.Change{}, nil
	case old.Owner != from:
		return outbox.Change{}, &Refusal{Err: ErrOwned, Generation: old.Generation, Message: fmt.Sprintf("it belongs to source %q, not to %q", old.Owner, from)}
	}
	kept := *old
	kept.Owner, kept.Order = to, record.Order{} // the new owner counts anew
	return outbox.Change{Desired: &kept}, nil
}

// admit checks a condition on the generation (R09).
func admit(old *record.Desired, want *uint64) error {
	if want == nil {
		return nil
	}
	have := uint64(0)
	if old.Exists() {
		have = old.Generation
	}
	switch {
	case have == *want:
		return nil
	case have == 0:
		return &Refusal{Err: ErrConflict, Message: fmt.Sprintf("generation %d was expected, but the resource does not exist", *want)}
	case *want == 0:
		return &Refusal{Err: ErrConflict, Generation: have, Message: fmt.Sprintf("the resource exists already, at generation %d", have)}
	}
	return &Refusal{Err: ErrConflict, Generation: have, Message: fmt.Sprintf("generation %d was expected, but it is at %d", *want, have)}
}

// inOrder checks the source's order (R08). equalIsFine: nothing is lost when
// the number is the stored one.
func inOrder(old *record.Desired, o record.Order, equalIsFine bool) error {
	was := old.Order
	if o == (record.Order{}) || o.Source != was.Source || o.Epoch != was.Epoch {
		return nil
	}
	if o.Number > was.Number || o.Number == was.Number && equalIsFine {
		return nil
	}
	what := "is older than"
	if o.Number == was.Number {
		what = "comes with other content than"
	}
	return &Refusal{Err: ErrStale, Generation: old.Generation,
		Message: fmt.Sprintf("number %d of source %q %s the stored number %d", o.Number, o.Source, what, was.Number)}
}

func newerOrder(was, o record.Order) bool { return o != (record.Order{}) && o != was }

// keyFits refuses content under an idempotency key that the state before has given for
// other content (R10b), or that was deleted since: a target that knows the key would
// answer that it is done, and do nothing (P2).
func keyFits(old, d *record.Desired) error {
	if d.IdempotencyKey == "" || !old.Exists() || old.IdempotencyKey != d.IdempotencyKey {
		return nil
	}
	what := "the content changed and its idempotency key did not"
	switch {
	case old.Origin == record.FromTarget: // the key was given for what the source had put
		if ContentHash(d.Payload) == old.SourceHash {
			return nil
		}
	case old.Tombstone:
		what = "it was deleted, and comes back with the same idempotency key"
	case SameContent(old, d):
		return nil
	}
	return &Refusal{Err: ErrKeyUsed, Generation: old.Generation, Message: what + ": a target that knows the key would answer without doing it"}
}

// replace makes d the desired state and keeps what is still needed of the old
// one: how long work has waited, and content that may be at the target.
func replace(r *Rules, cur outbox.Record, d *record.Desired, f Facts) (outbox.Change, bool) {
	old, st := &cur.Desired, &cur.Status
	d.PutAt, d.WaitingSince = f.Now, f.Now
	waited := old.Exists() && !settled(old, st)
	if waited && !old.WaitingSince.IsZero() {
		d.WaitingSince = old.WaitingSince
	}
	change := outbox.Change{Desired: d, NewGeneration: true}
	if old.Exists() {
		change.Status = remember(r, old, d, st, f)
	}
	return change, waited
}

// settled reports whether st closes the books on what old desires.
func settled(old *record.Desired, st *record.Status) bool {
	return st.Generation == old.Generation && (st.Phase == record.AckedPhase || st.Phase == record.Obsolete)
}

// remember returns st with what the replaced content leaves behind, or nil if
// that is nothing: content that was sent but not known to be acknowledged may
// be at the target, or still land there (P3). After a call that failed it says how d
// is tried again (R02).
func remember(r *Rules, old, d *record.Desired, st *record.Status, f Facts) *record.Status {
	next := *st
	changed := !st.FailedAt.IsZero() && st.Retry != d.Retry
	next.Retry = d.Retry
	// Of accepted drift the hash is zero: the target does not hold this payload.
	if a := st.Acked; a != nil && a.Generation == old.Generation && a.Hash == old.Hash && a.Payload == nil && r.keepsPayloads(old) && !old.Tombstone {
		acked := *a
		acked.Payload = old.Payload
		next.Acked, changed = &acked, true
	}
	if f.MaybeSent {
		next.Attempted = withAttempt(st.Attempted, r.attempt(old, f.Now))
		changed = true
	}
	if kept, ok := withContent(next.Attempted, old); ok {
		next.Attempted, changed = kept, true
	}
	if !changed {
		return nil
	}
	return &next
}

// MaybeSent returns rec with the memory of a call about what it desires that may
// have been sent, by a process that was killed or by a delivery whose outcome could
// not be stored.
func MaybeSent(r *Rules, rec outbox.Record, now time.Time) outbox.Record {
	rec.Status.Attempted = withAttempt(rec.Status.Attempted, r.attempt(&rec.Desired, now))
	return rec
}

// attempt is what is remembered of a call about d that was never answered.
func (r *Rules) attempt(d *record.Desired, now time.Time) record.Attempt {
	a := record.Attempt{Generation: d.Generation, Hash: d.Hash, Delete: d.Tombstone, Deadline: now.Add(r.Timeout)}
	if r.keepsPayloads(d) {
		a.Payload = d.Payload
	}
	return a
}

// maxAttempted bounds how much unanswered content is remembered per resource;
// of more, the oldest goes: its deadline is the nearest.
const maxAttempted = 8

// withAttempt returns list and a, which takes the place of an earlier attempt
// at the same content.
func withAttempt(list []record.Attempt, a record.Attempt) []record.Attempt {
	out := make([]record.Attempt, 0, len(list)+1)
	for _, x := range list {
		if x.Hash != a.Hash || x.Delete != a.Delete {
			out = append(out, x)
		} else if x.Deadline.After(a.Deadline) {
			a.Deadline = x.Deadline
		}
	}
	out = append(out, a)
	if n := len(out) - maxAttempted; n > 0 {
		out = out[n:]
	}
	return out
}

// withContent returns list with the payload of attempts at what old desired, and
// whether that changed anything. While it is desired the record itself holds it;
// once it is replaced, nothing else tells an adapter what such a call may have left
// at the target, and it must go when neither the new content nor an
// acknowledgement names it (R05, R22).
func withContent(list []record.Attempt, old *record.Desired) ([]record.Attempt, bool) {
	for i, a := range list {
		if a.Hash == old.Hash && !a.Delete && !old.Tombstone && a.Payload == nil && old.Payload != nil {
			kept := append([]record.Attempt(nil), list...)
			kept[i].Payload = old.Payload
			return kept, true
		}
	}
	return list, false
}

func samePolicies(a, b *record.Desired) bool {
	return a.Conflict == b.Conflict && a.Deletion == b.Deletion && a.Suspend == b.Suspend && a.Direction == b.Direction &&
		a.Retry == b.Retry && a.IdempotencyKey == b.IdempotencyKey
}
