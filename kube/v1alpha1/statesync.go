package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// Resource is what the API server calls StateSyncs in paths.
const Resource = "statesyncs"

// Finalizer keeps a StateSync until nothing more is owed to its target.
const Finalizer = "pawl.dev/statesync"

// StateSync keeps one object of a target, which pawl calls a resource of a sink, in
// the state that is written here.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=ssync,categories=pawl
// +kubebuilder:printcolumn:name="Sink",type=string,JSONPath=`.spec.sink`
// +kubebuilder:printcolumn:name="Phase",type=string,JSONPath=`.status.phase`
// +kubebuilder:printcolumn:name="Acked",type=string,JSONPath=`.status.conditions[?(@.type=="Acked")].status`
// +kubebuilder:printcolumn:name="Drifted",type=string,JSONPath=`.status.conditions[?(@.type=="Drifted")].status`
// +kubebuilder:printcolumn:name="Attempts",type=integer,JSONPath=`.status.attempts`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Key",type=string,JSONPath=`.status.key`,priority=1
// +kubebuilder:printcolumn:name="Last error",type=string,JSONPath=`.status.lastError`,priority=1
type StateSync struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// What is wanted.
	// +required
	Spec StateSyncSpec `json:"spec"`
	// What pawl knows; nobody else writes it.
	// +optional
	Status StateSyncStatus `json:"status,omitempty"`
}

// StateSyncList is a list of StateSyncs.
//
// +kubebuilder:object:root=true
type StateSyncList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []StateSync `json:"items"`
}

// StateSyncSpec is what is wanted of one resource.
//
// +kubebuilder:validation:XValidation:rule="!(has(self.payload) && has(self.payloadFrom))",message="give one of payload and payloadFrom, not both"
// +kubebuilder:validation:XValidation:rule="has(self.payload) || has(self.payloadFrom) || self.direction == 'Inbound'",message="give payload or payloadFrom; only direction Inbound needs neither"
// +kubebuilder:validation:XValidation:rule="has(self.key) == has(oldSelf.key) && (!has(self.key) || self.key == oldSelf.key)",message="key can't be changed: make another StateSync, and delete this one"
type StateSyncSpec struct {
	// The sink, one of pawl's configuration, that the resource is for. It can't be changed.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="sink can't be changed: make another StateSync, and delete this one"
	Sink string `json:"sink"`

	// The resource's key within its sink; absent: NAMESPACE/NAME of the StateSync.
	// It can't be changed.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	Key string `json:"key,omitempty"`

	// The desired state, a JSON object in the terms of the sink's plugin. It is no
	// place for secrets; payloadFrom is.
	// +optional
	// +kubebuilder:validation:Type=object
	// +kubebuilder:pruning:PreserveUnknownFields
	Payload *runtime.RawExtension `json:"payload,omitempty"`

	// Where the desired state is instead: in a ConfigMap or a Secret of the same
	// namespace. Changes there are followed.
	// +optional
	PayloadFrom *PayloadSource `json:"payloadFrom,omitempty"`

	// Which way: what is wanted goes to the target; or what the target has is taken
	// into the status, and nothing is ever sent; or each side's changes go to the other.
	// +optional
	// +kubebuilder:default=Outbound
	Direction Direction `json:"direction,omitempty"`

	// What to do where the target was changed by somebody else: only report it, apply
	// the desired state again, or accept what is there.
	// +optional
	// +kubebuilder:default=ReportOnly
	ConflictPolicy ConflictPolicy `json:"conflictPolicy,omitempty"`

	// What becomes of the target's object when the StateSync is deleted: it stays, it
	// is deleted, or what is there is stored and it is deleted. The StateSync stays
	// until that has been done.
	// +optional
	// +kubebuilder:default=Retain
	DeletionPolicy DeletionPolicy `json:"deletionPolicy,omitempty"`

	// Hold every call for the resource until this is taken back. Deletions go on.
	// +optional
	Suspend bool `json:"suspend,omitempty"`

	// How it is tried again; what is absent is the sink's.
	// +optional
	Retry *Retry `json:"retry,omitempty"`

	// What calls for this payload bear, in place of a key that pawl makes: printable
	// ASCII. Another payload needs another key, and is refused without.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=255
	// +kubebuilder:validation:Pattern=`^[!-~]([ -~]*[!-~])?$`
	IdempotencyKey string `json:"idempotencyKey,omitempty"`

	// Which state of another system, where this one was taken from, the payload is.
	// +optional
	Source *SourcePosition `json:"source,omitempty"`
}

// PayloadSource names the place of a payload.
//
// +kubebuilder:validation:XValidation:rule="has(self.configMapKeyRef) != has(self.secretKeyRef)",message="give exactly one of configMapKeyRef and secretKeyRef"
type PayloadSource struct {
	// An entry of a ConfigMap.
	// +optional
	ConfigMapKeyRef *KeyRef `json:"configMapKeyRef,omitempty"`
	// An entry of a Secret.
	// +optional
	SecretKeyRef *KeyRef `json:"secretKeyRef,omitempty"`
}

// KeyRef names one entry of an object of the StateSync's namespace.
type KeyRef struct {
	// The object's name.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
	// The entry of its data whose value is the payload.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Key string `json:"key"`
}

// Retry says how a resource is tried again.
//
// +kubebuilder:validation:XValidation:rule="!has(self.base) || !has(self.max) || duration(self.base) <= duration(self.max)",message="base is longer than max"
type Retry struct {
	// The pause after the first failure, doubled after each further one: 10ms to 1h.
	// +optional
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('10ms') && duration(self) <= duration('1h')",message="use 10ms to 1h"
	Base Duration `json:"base,omitempty"`
	// The longest such pause: 10ms to 24h.
	// +optional
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('10ms') && duration(self) <= duration('24h')",message="use 10ms to 24h"
	Max Duration `json:"max,omitempty"`
	// Failures after which it is Stalled.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000
	MaxAttempts int32 `json:"maxAttempts,omitempty"`
	// The pause while it is Stalled: 1s to 24h.
	// +optional
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('1s') && duration(self) <= duration('24h')",message="use 1s to 24h"
	Stall Duration `json:"stall,omitempty"`
}

// Duration is a span of time, such as "30s" or "1h30m".
//
// +kubebuilder:validation:MinLength=1
// +kubebuilder:validation:MaxLength=32
type Duration string

// Direction says which way a resource is kept in sync.
//
// +kubebuilder:validation:Enum=Outbound;Inbound;Both
type Direction string

// The directions.
const (
	Outbound Direction = "Outbound"
	Inbound  Direction = "Inbound"
	Both     Direction = "Both"
)

// ConflictPolicy says what to do about drift.
//
// +kubebuilder:validation:Enum=ReportOnly;SourceWins;TargetWins
type ConflictPolicy string

// The conflict policies.
const (
	ReportOnly ConflictPolicy = "ReportOnly"
	SourceWins ConflictPolicy = "SourceWins"
	TargetWins ConflictPolicy = "TargetWins"
)

// DeletionPolicy says what becomes of the target's object.
//
// +kubebuilder:validation:Enum=Retain;Delete;AckThenDelete
type DeletionPolicy string

// The deletion policies.
const (
	Retain        DeletionPolicy = "Retain"
	Delete        DeletionPolicy = "Delete"
	AckThenDelete DeletionPolicy = "AckThenDelete"
)

// SourcePosition places a payload among the states of the system that it is from. A
// payload with a smaller order than the one before, in the same epoch, was
// overtaken, and is refused.
type SourcePosition struct {
	// The incarnation of that system; orders of different epochs are not compared.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Epoch string `json:"epoch,omitempty"`
	// Grows with every change there, within an epoch.
	// +required
	// +kubebuilder:validation:Minimum=1
	Order int64 `json:"order"`
}
