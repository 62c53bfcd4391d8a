package statesync

import (
	"context"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/pawlsync/pawl/engine/record"
	"github.com/pawlsync/pawl/kube/v1alpha1"
)

var eventsResource = schema.GroupVersionResource{Version: "v1", Resource: "events"}

// warnings are the phases that somebody should look at.
var warnings = map[string]bool{
	string(record.Drifted): true, string(record.Stalled): true, string(record.Failed): true, string(record.Orphaned): true,
	phaseRefused: true, phaseHeld: true, phaseForgotten: true,
}

// tell makes a Kubernetes event of a phase that is news. One that can't be written is
// only logged: the status says the same.
func (d *desk) tell(ctx context.Context, e *entry, now *v1alpha1.StateSyncStatus) error {
	if now.Phase == e.sync.Status.Phase || now.Phase == string(record.Pending) {
		return nil
	}
	event := eventOf(d.o.Name, e, now, time.Now())
	if _, err := d.events.Namespace(e.sync.Namespace).Create(ctx, event, metav1.CreateOptions{FieldManager: manager}); err != nil && ctx.Err() == nil {
		d.o.Logger.Debug("an event can't be written", "source", d.o.Name, "statesync", e.id(), "cause", err)
	}
	return nil
}

// eventOf is the event that says a phase.
func eventOf(source string, e *entry, now *v1alpha1.StateSyncStatus, at time.Time) *unstructured.Unstructured {
	kind, message := "Normal", "the resource "+e.key.String()+" is "+now.Phase
	if warnings[now.Phase] {
		kind = "Warning"
	}
	if now.LastError != "" {
		message += ": " + now.LastError
	}
	stamp := at.UTC().Format(time.RFC3339)
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Event",
		"metadata": map[string]any{"namespace": e.sync.Namespace, "name": fmt.Sprintf("%s.%x", e.sync.Name, at.UnixNano())},
		"involvedObject": map[string]any{
			"apiVersion": v1alpha1.GroupVersion.String(), "kind": "StateSync", "namespace": e.sync.Namespace, "name": e.sync.Name,
			"uid": string(e.sync.UID), "resourceVersion": e.sync.ResourceVersion,
		},
		"type": kind, "reason": now.Phase, "message": short(message), "count": int64(1),
		"firstTimestamp": stamp, "lastTimestamp": stamp,
		"source":             map[string]any{"component": "pawl"},
		"reportingComponent": "pawl.dev/pawl", "reportingInstance": source,
	}}
}
