package server

import (
	"encoding/json"
	"net/http"
	"testing"
	"time"

	"github.com/pawlsync/pawl/engine"
	"github.com/pawlsync/pawl/engine/record"
	"github.com/pawlsync/pawl/engine/sink"
	"github.com/pawlsync/pawl/internal/api"
)

// heard counts what reaches the observer behind.
type heard struct{ puts, calls, deliveries, acks int }

func (o *heard) PutDone(string, string, bool, time.Duration)             { o.puts++ }
func (o *heard) CallDone(record.Key, string, sink.Status, time.Duration) { o.calls++ }
func (o *heard) DeliveryDone(record.Key, engine.Outcome, time.Duration)  { o.deliveries++ }
func (o *heard) AckDone(record.Key, time.Duration)                       { o.acks++ }
func (o *heard) CompareDone(string, int, int, int)                       {}
func (o *heard) BreakerMoved(string, bool)                               {}
func (o *heard) CommitDone(int, int, time.Duration, error)               {}

func TestASinksTotalsAreInItsStatus(t *testing.T) {
	next := &heard{}
	totals := NewTotals(next)
	key := record.Key{Sink: "web", Name: "greeting"}
	for _, outcome := range []string{"accepted", "accepted", "unchanged", "conflict"} {
		totals.PutDone("web", outcome, false, 0)
	}
	totals.PutDone("no sink", "invalid", false, 0)
	totals.CallDone(key, "apply", sink.OK, 0)
	for _, outcome := range engine.Outcomes() {
		totals.DeliveryDone(key, outcome, 0)
	}
	totals.AckDone(key, 0)
	_, _, hs := start(t, Options{Totals: totals})
	want := api.SinkTotals{Puts: 2, Acked: 1, Failed: 10}
	var status api.DaemonStatus
	if _, body := ask(t, http.MethodGet, hs.URL+"/v1/status", ""); json.Unmarshal([]byte(body), &status) != nil || len(status.Sinks) != 2 {
		t.Fatalf("the status is %s", body)
	}
	for _, s := range status.Sinks {
		if s.Name == "web" && s.Totals != want {
			t.Errorf("web counts %+v, want %+v", s.Totals, want)
		}
		if s.Name != "web" && s.Totals != (api.SinkTotals{}) {
			t.Errorf("%s counts %+v, and was not called", s.Name, s.Totals)
		}
	}
	if _, ok := totals.sinks.Load("no sink"); ok {
		t.Error("a name that is no sink's is remembered")
	}
	if (*next != heard{puts: 5, calls: 1, deliveries: len(engine.Outcomes()), acks: 1}) {
		t.Errorf("the observer behind was told %+v", *next)
	}
}
