package statesync

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/pawlsync/pawl/engine/record"
	"github.com/pawlsync/pawl/internal/source"
	"github.com/pawlsync/pawl/kube/v1alpha1"
)

// keyOf is the resource that a StateSync is of.
func keyOf(ss *v1alpha1.StateSync) record.Key {
	name := ss.Spec.Key
	if name == "" {
		name = ss.Namespace + "/" + ss.Name
	}
	return record.Key{Sink: ss.Spec.Sink, Name: name}
}

// rank puts the older StateSync first.
func rank(ss *v1alpha1.StateSync) string {
	return ss.CreationTimestamp.UTC().Format("20060102150405") + " " + ss.Namespace + "/" + ss.Name
}

// itemAt is an item with no more than a key and the StateSync that it is of.
func itemAt(key record.Key, id string) source.Item {
	return source.Item{Key: key, Place: "StateSync " + id}
}

// refusedError is a refusal of this source's own.
type refusedError struct{ reason, text string }

func (e *refusedError) Error() string { return e.text }

// item is what a StateSync asks for, or why that can't be said.
//
// It has an order (R08) only where its author gives one: the API server tells its
// newest state, and one that was restored from a backup is wanted although its
// generation is smaller.
func (b *book) item(e *entry) (source.Item, error) {
	spec := &e.sync.Spec
	it := itemAt(e.key, e.id())
	if len(b.o.Sinks) > 0 && !slices.Contains(b.o.Sinks, spec.Sink) {
		return it, &refusedError{"SinkNotAllowed", fmt.Sprintf("the source %s allows no StateSyncs for sink %q, only for %s", b.o.Name, spec.Sink, strings.Join(b.o.Sinks, ", "))}
	}
	it.Conflict, it.Deletion = conflictOf(spec.ConflictPolicy), deletionOf(spec.DeletionPolicy)
	it.Suspend, it.Direction = spec.Suspend, directionOf(spec.Direction)
	it.IdempotencyKey = spec.IdempotencyKey
	var err error
	if it.Retry, err = retryOf(spec.Retry); err != nil {
		return it, err
	}
	if p := spec.Source; p != nil {
		epoch := p.Epoch
		if epoch == "" {
			epoch = string(e.sync.UID)
		}
		it.Order = record.Order{Source: b.o.Name, Epoch: epoch, Number: uint64(p.Order)}
		it.OrderPartial = true // policies, and what payloadFrom names, change without it
	}
	switch {
	case e.ref != nil:
		it.Payload, err = b.refs.payload(*e.ref)
	case spec.Payload != nil:
		it.Payload = spec.Payload.Raw
	case spec.Direction == v1alpha1.Inbound:
		it.Payload = []byte("{}")
	default:
		err = &refusedError{"Invalid", "it has neither payload nor payloadFrom"}
	}
	return it, err
}

// retryOf reads what the API server has checked, where its CRD is not an older one.
func retryOf(r *v1alpha1.Retry) (out record.Retry, err error) {
	if r == nil {
		return out, nil
	}
	out.MaxAttempts = int(r.MaxAttempts)
	for _, f := range []struct {
		name string
		from v1alpha1.Duration
		to   *time.Duration
	}{{"base", r.Base, &out.Base}, {"max", r.Max, &out.Max}, {"stall", r.Stall, &out.Stall}} {
		if f.from == "" {
			continue
		}
		if *f.to, err = time.ParseDuration(string(f.from)); err != nil {
			return out, &refusedError{"Invalid", "retry." + f.name + " is no duration; write it as 30s or 2m"}
		}
	}
	return out, nil
}

func directionOf(d v1alpha1.Direction) record.Direction {
	switch d {
	case v1alpha1.Inbound:
		return record.Inbound
	case v1alpha1.Both:
		return record.Both
	}
	return record.Outbound
}

func conflictOf(p v1alpha1.ConflictPolicy) record.ConflictPolicy {
	switch p {
	case v1alpha1.SourceWins:
		return record.SourceWins
	case v1alpha1.TargetWins:
		return record.TargetWins
	}
	return record.ReportOnly
}

func deletionOf(p v1alpha1.DeletionPolicy) record.DeletionPolicy {
	switch p {
	case v1alpha1.Delete:
		return record.DeleteTarget
	case v1alpha1.AckThenDelete:
		return record.AckThenDelete
	}
	return record.Retain
}
