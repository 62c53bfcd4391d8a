package metrics

import (
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/pawlsync/pawl/engine"
	"github.com/pawlsync/pawl/engine/record"
	"github.com/pawlsync/pawl/engine/sink"
)

func TestASinkOrSourceThatIsGoneLeavesNoSeries(t *testing.T) {
	reg := prometheus.NewRegistry()
	o := New(reg)
	for _, name := range []string{"gone", "stays"} {
		key := record.Key{Sink: name, Name: "a"}
		o.PutDone(name, "accepted", true, time.Millisecond)
		o.CallDone(key, "apply", sink.OK, time.Second)
		o.DeliveryDone(key, engine.Outcomes()[0], time.Second)
		o.AckDone(key, time.Second)
		o.BreakerMoved(name, true)
		o.SagaUndo(name)
		o.CompareDone(name, 10, 2, 1)
		o.SourceChanged(name, "put", "changed", 1)
	}
	o.ForgetSink("gone")
	o.ForgetSource("gone")
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	stays := 0
	for _, f := range families {
		for _, m := range f.GetMetric() {
			for _, l := range m.GetLabel() {
				if l.GetValue() == "gone" {
					t.Errorf("%s has %v", f.GetName(), m.GetLabel())
				}
				if l.GetValue() == "stays" {
					stays++
				}
			}
		}
	}
	if stays == 0 {
		t.Error("nothing is left of the others")
	}
	o.PutDone("gone", "invalid", false, 0) // it is a name like any other again
	families, _ = reg.Gather()
	for _, f := range families {
		if strings.Contains(f.String(), `"gone"`) {
			t.Errorf("%s counts a name that is no sink's", f.GetName())
		}
	}
}
