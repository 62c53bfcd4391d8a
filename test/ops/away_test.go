package ops

import (
	"context"
	"fmt"
	"iter"
	"testing"
	"time"

	"github.com/pawlsync/pawl/internal/api"
	"github.com/pawlsync/pawl/test/ops/kit"
)

// TestWhatWaitsForATargetThatIsAwayArrivesOnceWithItsNewestState puts everything three
// times while the target is away, on the real daemon, and lets the target come back.
func TestWhatWaitsForATargetThatIsAwayArrivesOnceWithItsNewestState(t *testing.T) {
	n := kit.Many(100_000, 1_000)
	target := kit.NewTarget(t)
	d := kit.New(t, target.Config("    breaker: {probe_base: 100ms, probe_max: 1s}\n"))
	d.Start()
	target.Leave()
	for version := range 3 {
		putBatch(t, d, n, version)
	}
	d.Reaches(`pawl_breaker_state{sink="web",state="closed"}`, 0) // the alert PawlTargetDown
	d.Show("status", "does not answer", fmt.Sprintf("%d Pending", n))
	d.Show("explain web/batch/1", "connection refused")
	if age := d.Metric(`pawl_oldest_unacked_age_seconds{sink="web"}`); age <= 0 { // PawlTargetBehind
		t.Errorf("the oldest change is %gs old", age)
	}
	before := d.MemoryBytes()

	began := time.Now()
	target.Return()
	d.Reaches(`pawl_resources{phase="Acked",sink="web"}`, float64(n))
	t.Logf("%d changes arrived %v after the target's return; the daemon had %d MiB before, %d MiB after",
		n, time.Since(began).Round(time.Millisecond), before>>20, d.MemoryBytes()>>20)
	d.Show("status", fmt.Sprintf("%d Acked", n))
	if writes := target.Writes(); writes != n {
		t.Errorf("%d writes reached the target, want one of each of %d", writes, n)
	}
	for key, o := range target.Objects() {
		if o.Body != `{"version":2}` {
			t.Errorf("the target has %s of %s", o.Body, key)
		}
	}
}

// putBatch puts batch/0 and so on, all with that version.
func putBatch(t *testing.T, d *kit.Daemon, n, version int) {
	t.Helper()
	payload := fmt.Appendf(nil, `{"version":%d}`, version)
	var lines iter.Seq[api.BatchLine] = func(yield func(api.BatchLine) bool) {
		for i := range n {
			if !yield(api.BatchLine{Sink: "web", Key: fmt.Sprintf("batch/%d", i), PutRequest: api.PutRequest{Payload: payload}}) {
				return
			}
		}
	}
	for a, err := range d.Batch(context.Background(), lines) {
		kit.Must(t, err)
		if a.Error != nil {
			t.Fatal(a.Error)
		}
	}
}
