package statesync

import (
	"cmp"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/pawlsync/pawl/engine"
	"github.com/pawlsync/pawl/engine/record"
	"github.com/pawlsync/pawl/internal/source"
	"github.com/pawlsync/pawl/internal/source/kube/feed"
	"github.com/pawlsync/pawl/kube/v1alpha1"
)

// Phases that are of the StateSync, beside those of its resource.
const (
	phaseRefused   = "Refused"
	phaseHeld      = "Held"
	phaseForgotten = "Forgotten"
)

// statusOf is what a StateSync's status should say. res is its resource, nil where it
// has none, or where that is another source's. old gives the times of conditions that
// stay as they are.
func statusOf(e *entry, res *engine.Resource, show shower, now time.Time) v1alpha1.StateSyncStatus {
	st := v1alpha1.StateSyncStatus{ObservedGeneration: e.answered, Key: e.key.Name}
	accepted := e.accepted
	if e.deleting() { // nothing of it is put any more, so that a new process has no answer
		st.ObservedGeneration = e.sync.Generation
		accepted = cmp.Or(accepted, e.sync.Generation)
	}
	c := conditions{old: e.sync.Status.Conditions, now: metav1.NewTime(now.Truncate(time.Second))}
	if e.refusal != nil {
		st.LastError = short(e.refusal.Error())
		c.set(v1alpha1.ConditionAccepted, metav1.ConditionFalse, reasonOf(e.refusal), st.LastError, e.answered)
	} else if e.answered > 0 {
		c.set(v1alpha1.ConditionAccepted, metav1.ConditionTrue, "Stored", "", e.answered)
	}
	switch {
	case res == nil && e.refusal != nil:
		st.Phase = phaseRefused
		c.set(v1alpha1.ConditionAcked, metav1.ConditionFalse, phaseRefused, st.LastError, e.answered)
	case res == nil:
		st.Phase, st.LastError = phaseForgotten, "it was forgotten or handed over since it was stored; pawl source rescan asks for it again"
		c.set(v1alpha1.ConditionAcked, metav1.ConditionFalse, phaseForgotten, st.LastError, e.answered)
	default:
		resourceStatus(&st, res, show)
		for _, cond := range res.Status.Conditions {
			c.set(cond.Type, metav1.ConditionStatus(cond.Status), string(cond.Reason), cond.Message, accepted)
		}
		if !c.has(v1alpha1.ConditionAcked) {
			c.set(v1alpha1.ConditionAcked, metav1.ConditionFalse, string(res.Status.Reason), res.Status.Message, accepted)
		}
		if e.deleting() && e.settled {
			deleted(&st, &c, e, res)
		}
	}
	st.Conditions = c.sorted()
	return st
}

// shower is Options.Show.
type shower = func(sink string, content []byte) json.RawMessage

// resourceStatus is the resource's part.
func resourceStatus(st *v1alpha1.StateSyncStatus, res *engine.Resource, show shower) {
	s := &res.Status
	st.Phase = string(s.Phase)
	if s.Phase == record.Delivering { // it lasts no longer than a call
		st.Phase = string(record.Pending)
	}
	st.Attempts, st.DesiredHash = int32(s.Attempts), res.Desired.Hash.Hex()
	if s.Message != "" && s.Phase != record.AckedPhase && st.LastError == "" {
		st.LastError = short(s.Message)
	}
	if a := s.Acked; a != nil {
		st.Acked = &v1alpha1.AckedState{Hash: a.Hash.Hex(), Time: metav1.NewTime(a.At.Truncate(time.Second))}
		st.Observed = &v1alpha1.ObservedState{Ref: a.Ref, UID: a.UID, AsFound: a.AsFound, Missing: a.Missing}
		st.Cursor = a.Cursor
	}
	if len(s.DriftPaths) > 0 {
		observed(st).DriftPaths = s.DriftPaths
	}
	switch o, d := s.Observed, &res.Desired; {
	case o != nil:
		st.Cursor = o.Cursor
		found(st, show(res.Key.Sink, o.Content), o.Hash)
	case d.Origin == record.FromTarget && !d.Tombstone: // taken over: what was found is what is desired
		found(st, show(res.Key.Sink, d.Payload), d.Hash)
	}
}

// found is what the target has, as it may be shown.
func found(st *v1alpha1.StateSyncStatus, shown json.RawMessage, hash record.Hash) {
	observed(st).ContentHash = hash.Hex()
	if shown != nil && len(shown) <= contentMax {
		observed(st).Content = &runtime.RawExtension{Raw: shown}
	}
}

// contentMax is how much of what a target has is written into a status, in bytes.
const contentMax = 64 << 10

func observed(st *v1alpha1.StateSyncStatus) *v1alpha1.ObservedState {
	if st.Observed == nil {
		st.Observed = &v1alpha1.ObservedState{}
	}
	return st.Observed
}

// deleted says what the deletion waits for.
func deleted(st *v1alpha1.StateSyncStatus, c *conditions, e *entry, res *engine.Resource) {
	switch {
	case res.Desired.Tombstone:
		if st.Phase == string(record.Pending) {
			st.Phase = string(record.Deleting)
		}
		message := "the target has not confirmed the deletion yet"
		if res.Status.Message != "" {
			message += ": " + res.Status.Message
		}
		c.set(v1alpha1.ConditionDeleted, metav1.ConditionFalse, "Owed", message, e.sync.Generation)
	case e.fused != nil && !errors.Is(e.fused, source.ErrFused):
		c.set(v1alpha1.ConditionDeleted, metav1.ConditionFalse, "NotStored", e.fused.Error(), e.sync.Generation)
	default:
		st.Phase = phaseHeld
		c.set(v1alpha1.ConditionDeleted, metav1.ConditionFalse, "HeldByFuse",
			"the source deletes too much at once; see what it is with pawl source status, and let it go with pawl source confirm", e.sync.Generation)
	}
}

// reasonOf is the CamelCase word for why a StateSync was refused.
func reasonOf(err error) string {
	own, isOwn := errors.AsType[*refusedError](err)
	switch {
	case isOwn:
		return own.reason
	case errors.Is(err, feed.ErrTaken):
		return "KeyTaken"
	case errors.Is(err, engine.ErrOwned):
		return "Owned"
	case errors.Is(err, engine.ErrKeyUsed):
		return "IdempotencyKeyUsed"
	case errors.Is(err, engine.ErrUnknownSink):
		return "UnknownSink"
	case errors.Is(err, engine.ErrTooLarge):
		return "TooLarge"
	case errors.Is(err, engine.ErrStale):
		return "Stale"
	case errors.Is(err, engine.ErrInvalid):
		return "Invalid"
	}
	return phaseRefused
}

// conditions are made one by one. Those whose status stays keep their time.
type conditions struct {
	old  []metav1.Condition
	now  metav1.Time
	list []metav1.Condition
}

// messageMax is less than the API server takes, in bytes.
const messageMax = 1000

// short cuts a message.
func short(message string) string {
	if len(message) <= messageMax {
		return message
	}
	return strings.ToValidUTF8(message[:messageMax], "") + "…"
}

func (c *conditions) set(kind string, status metav1.ConditionStatus, reason, message string, generation int64) {
	n := metav1.Condition{Type: kind, Status: status, Reason: cmp.Or(reason, plainReason(kind, status)), Message: short(message),
		ObservedGeneration: generation, LastTransitionTime: c.now}
	if i := slices.IndexFunc(c.old, func(o metav1.Condition) bool { return o.Type == kind && o.Status == status }); i >= 0 {
		n.LastTransitionTime = c.old[i].LastTransitionTime
	}
	c.list = slices.DeleteFunc(c.list, func(o metav1.Condition) bool { return o.Type == kind })
	c.list = append(c.list, n)
}

// plainReason is that of a condition which the engine gives none: the API wants one.
func plainReason(kind string, status metav1.ConditionStatus) string {
	switch status {
	case metav1.ConditionTrue:
		return kind
	case metav1.ConditionFalse:
		return "Not" + kind
	}
	return "Unknown"
}

func (c *conditions) has(kind string) bool {
	return slices.ContainsFunc(c.list, func(o metav1.Condition) bool { return o.Type == kind })
}

func (c *conditions) sorted() []metav1.Condition {
	slices.SortFunc(c.list, func(a, b metav1.Condition) int { return cmp.Compare(a.Type, b.Type) })
	return c.list
}
