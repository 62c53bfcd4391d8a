// Package v1alpha1 holds the custom resource StateSync of the API group pawl.dev,
// for Go programs that write StateSyncs, and for the CustomResourceDefinition in
// deploy/crds, which is made from these types.
//
// To make both anew: go test ./kube/v1alpha1 -run Fresh -update
//
// +kubebuilder:object:generate=true
// +groupName=pawl.dev
package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupVersion is the group and version of the types here.
var GroupVersion = schema.GroupVersion{Group: "pawl.dev", Version: "v1alpha1"}

// AddToScheme makes the types known to a scheme.
func AddToScheme(s *runtime.Scheme) error {
	s.AddKnownTypes(GroupVersion, &StateSync{}, &StateSyncList{})
	metav1.AddToGroupVersion(s, GroupVersion)
	return nil
}
