package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// The condition types of a StateSync. ConditionAccepted and ConditionDeleted speak of
// the StateSync, the others of the resource at its target.
const (
	// ConditionAccepted: pawl has stored what is wanted. False says why it has not;
	// the resource is then as it was before.
	ConditionAccepted = "Accepted"
	// ConditionAcked: the target has confirmed what is wanted.
	ConditionAcked = "Acked"
	// ConditionObserved: the target could be looked at the last time.
	ConditionObserved = "Observed"
	// ConditionDrifted: somebody else has changed the target.
	ConditionDrifted = "Drifted"
	// ConditionStalled: attempts ran out; it is tried again now and then.
	ConditionStalled = "Stalled"
	// ConditionSuspended: no calls are made.
	ConditionSuspended = "Suspended"
	// ConditionDeleted is there while the StateSync waits for its deletion, and says for what.
	ConditionDeleted = "Deleted"
)

// StateSyncStatus is what pawl knows of the resource.
type StateSyncStatus struct {
	// The generation of the StateSync that this speaks of.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// The resource in one word: Pending, Acked, Drifted, Stalled, Failed, Obsolete,
	// Deleting or Orphaned, as pawl says; or of the StateSync: Refused, Held (its
	// deletion waits to be confirmed) or Forgotten.
	// +optional
	Phase string `json:"phase,omitempty"`
	// The resource's key in its sink.
	// +optional
	Key string `json:"key,omitempty"`
	// Failed attempts to deliver what is wanted, since the last stall.
	// +optional
	Attempts int32 `json:"attempts,omitempty"`
	// SHA-256 of the payload that is wanted, in hexadecimal digits.
	// +optional
	DesiredHash string `json:"desiredHash,omitempty"`
	// Why the last attempt failed, or the StateSync was refused. Never shows a payload.
	// +optional
	LastError string `json:"lastError,omitempty"`
	// What the target confirmed last.
	// +optional
	Acked *AckedState `json:"acked,omitempty"`
	// What is known of the object at the target.
	// +optional
	Observed *ObservedState `json:"observed,omitempty"`
	// How far the target's changes were followed, where the plugin polls for them.
	// +optional
	Cursor string `json:"cursor,omitempty"`
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// AckedState is what the target confirmed.
type AckedState struct {
	// SHA-256 of the payload that was wanted then; absent where it is not known.
	// +optional
	Hash string `json:"hash,omitempty"`
	// When.
	Time metav1.Time `json:"time"`
}

// ObservedState is the object at the target as it was seen last.
type ObservedState struct {
	// How the target names the object.
	// +optional
	Ref string `json:"ref,omitempty"`
	// The target's unique id of it.
	// +optional
	UID string `json:"uid,omitempty"`
	// Hash of what the plugin saw of it, in the plugin's terms.
	// +optional
	AsFound string `json:"asFound,omitempty"`
	// What the target has, of a resource of direction Inbound or Both: up to 64 KiB of
	// JSON, without what the sink's configuration calls sensitive.
	// +optional
	// +kubebuilder:validation:Schemaless
	// +kubebuilder:pruning:PreserveUnknownFields
	Content *runtime.RawExtension `json:"content,omitempty"`
	// SHA-256 of what the target has, of such a resource.
	// +optional
	ContentHash string `json:"contentHash,omitempty"`
	// There is no such object, and that was accepted.
	// +optional
	Missing bool `json:"missing,omitempty"`
	// Where the target differs from what is wanted.
	// +optional
	DriftPaths []string `json:"driftPaths,omitempty"`
}
