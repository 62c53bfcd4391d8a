package reconcile

import (
	"testing"
	"time"

	"github.com/pawlsync/pawl/engine/outbox"
	"github.com/pawlsync/pawl/engine/record"
	"github.com/pawlsync/pawl/engine/sink"
)

func TestR31_R32_WhatAPollSawIsTakenInOrLookedAt(t *testing.T) {
	began := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	r := testRules
	r.Manifest.ReportsContent, r.Manifest.Polls = true, true
	known := func(d record.Direction) outbox.Record {
		p := []byte(`{"a":1}`)
		return outbox.Record{
			Desired: record.Desired{Generation: 3, Payload: p, Hash: record.HashOf(p), Direction: d},
			Status: record.Status{Generation: 3, Phase: record.AckedPhase, Direction: d, LookedAt: began.Add(-time.Minute),
				Acked: &record.Acked{Generation: 3, Hash: record.HashOf(p), Target: "t1"}, Observed: &record.Observed{Content: p, Hash: record.HashOf(p)}},
		}
	}
	with := func(d record.Direction, change func(*outbox.Record)) outbox.Record {
		rec := known(d)
		change(&rec)
		return rec
	}
	there := func(content string) sink.Observation { return sink.Observation{Exists: true, Content: []byte(content)} }
	same, news, gone := there(`{ "a": 1 }`), there(`{"a":2}`), sink.Observation{}
	for _, c := range []struct {
		name   string
		rec    outbox.Record
		seen   sink.Observation
		stored record.Phase // of the status that is stored; empty: nothing is
		look   bool
	}{
		{"inbound, as known", known(record.Inbound), same, "", false},
		{"inbound, changed", known(record.Inbound), news, record.AckedPhase, false},
		{"inbound, gone", known(record.Inbound), gone, record.Pending, false},
		{"inbound, looked at since", with(record.Inbound, func(r *outbox.Record) { r.Status.LookedAt = began.Add(time.Second) }), news, "", true},
		{"inbound, ordered by an operator", with(record.Inbound, func(r *outbox.Record) { r.Status.Command = record.CommandForce }), news, "", true},
		{"inbound, suspended by its source", with(record.Inbound, func(r *outbox.Record) { r.Desired.Suspend = true }), news, "", false},
		{"inbound, suspended by an operator", with(record.Inbound, func(r *outbox.Record) { r.Status.Suspended = true }), news, "", false},
		{"inbound, being deleted", with(record.Inbound, func(r *outbox.Record) { r.Desired.Tombstone = true }), news, "", false},
		{"both, as desired", known(record.Both), same, "", false},
		{"both, changed", known(record.Both), news, "", true},
		{"both, gone", known(record.Both), gone, "", true},
		{"both, on its way", with(record.Both, func(r *outbox.Record) { r.Desired.Generation = 4 }), news, "", false},
		{"both, deleted at the target", with(record.Both, func(r *outbox.Record) {
			r.Desired.Tombstone, r.Desired.Origin = true, record.FromTarget
		}), gone, "", false},
		{"both, made there again", with(record.Both, func(r *outbox.Record) {
			r.Desired.Tombstone, r.Desired.Origin = true, record.FromTarget
		}), news, "", true},
		{"both, deleted by the source", with(record.Both, func(r *outbox.Record) { r.Desired.Tombstone = true }), news, "", false},
		{"outbound", known(record.Outbound), news, "", false},
		{"forgotten", outbox.Record{}, news, "", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			change, look := TakeIn(&r, record.Key{Sink: "s", Name: "k"}, c.rec, c.seen, began, began.Add(2*time.Second))
			stored := record.Phase("")
			if change.Status != nil {
				stored = change.Status.Phase
			}
			if stored != c.stored || look != c.look || change.Desired != nil {
				t.Errorf("stored %q, look %t, want %q, %t; %+v", stored, look, c.stored, c.look, change)
			}
		})
	}
}
