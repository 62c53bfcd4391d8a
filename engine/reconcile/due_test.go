package reconcile

import (
	"testing"
	"time"

	"github.com/pawlsync/pawl/engine/outbox"
	"github.com/pawlsync/pawl/engine/record"
)

func TestR40_AClockThatIsSetBackMakesNobodyWaitLonger(t *testing.T) {
	now := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	back := now.Add(-24 * time.Hour)
	waiting := record.Status{Generation: 1, Phase: record.Pending, Attempts: 1, NextAt: now.Add(3 * time.Second), Delay: 3 * time.Second, FailedAt: now}
	fresh := record.Status{FailedAt: now} // of an older generation
	for name, row := range map[string]struct {
		status record.Status
		most   time.Duration
	}{"a retry": {waiting, 3 * time.Second}, "a fresh state after a failure": {fresh, testRules.Retry.Base}} {
		h := outbox.Head{Generation: 1, Status: row.status}
		p := Due(&testRules, h, false, back, 0.5)
		if wait := p.At.Sub(back); p.At.IsZero() || wait > row.most {
			t.Errorf("%s waits for %s after the clock was set back by a day, want %s at most", name, wait, row.most)
		}
	}
}
