package reconcile

import (
	"testing"
	"time"

	"github.com/pawlsync/pawl/engine/outbox"
	"github.com/pawlsync/pawl/engine/record"
	"github.com/pawlsync/pawl/engine/sink"
)

// acked returns a delivery of rec that was answered with success.
func acked(rec outbox.Record, now time.Time) *Delivery {
	d := Begin(&testRules, record.Key{Sink: "s", Name: "k"}, rec, now, false)
	d.Answer(sink.Result{Status: sink.OK}, now)
	return d
}

func desired(generation uint64, payload string) record.Desired {
	return record.Desired{Generation: generation, Payload: []byte(payload), Hash: record.HashOf([]byte(payload))}
}

func TestR60_AnOlderAckNeverTakesTheNewerOnesPlace(t *testing.T) {
	now := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	first := acked(outbox.Record{Desired: desired(1, `1`)}, now)
	rec := outbox.Record{Desired: desired(2, `2`)}
	rec.Status = *acked(rec, now).Settle(rec, Verdict{Now: now}).Change.Status
	change := first.Settle(rec, Verdict{Now: now})
	if st := change.Change.Status; st == nil || st.Acked.Generation != 2 || st.Phase != record.AckedPhase {
		t.Errorf("a late ack of generation 1 left %+v", st)
	}
}

func TestR61_AnOutcomeForAForgottenResourceLeavesNothing(t *testing.T) {
	now := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	d := acked(outbox.Record{Desired: desired(1, `1`)}, now)
	if s := d.Settle(outbox.Record{}, Verdict{Now: now}); !s.Change.Empty() {
		t.Errorf("it left %+v", s.Change)
	}
}
