package statesync

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/pawlsync/pawl/engine/record"
	"github.com/pawlsync/pawl/kube/v1alpha1"
)

func TestAStateSyncSaysHowItIsTriedAgainAndItsKey(t *testing.T) {
	e := known()
	e.sync.Spec.Payload = &runtime.RawExtension{Raw: []byte("{}")}
	e.sync.Spec.Retry = &v1alpha1.Retry{Base: "1s", Max: "1m30s", MaxAttempts: 3, Stall: "1h"}
	e.sync.Spec.IdempotencyKey = "order-17"
	it, err := (&book{o: &Options{}}).item(e)
	want := record.Retry{Base: time.Second, Max: 90 * time.Second, MaxAttempts: 3, Stall: time.Hour}
	if err != nil || it.Retry != want || it.IdempotencyKey != "order-17" || string(it.Payload) != "{}" {
		t.Errorf("%+v, %v", it, err)
	}
}

func TestARetryThatIsNoDurationIsRefused(t *testing.T) {
	for _, r := range []v1alpha1.Retry{{Base: "soon"}, {Max: "1"}, {Stall: "h"}} {
		e := known()
		e.sync.Spec.Payload = &runtime.RawExtension{Raw: []byte("{}")}
		e.sync.Spec.Retry = &r
		if _, err := (&book{o: &Options{}}).item(e); reasonOf(err) != "Invalid" {
			t.Errorf("%+v: %v, want it refused as Invalid", r, err)
		}
	}
}
