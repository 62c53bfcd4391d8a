package engine_test

import (
	"context"
	"testing"
	"time"

	"github.com/pawlsync/pawl/engine/outbox"
	"github.com/pawlsync/pawl/engine/outbox/memory"
	"github.com/pawlsync/pawl/engine/sink"
)

// ageless is a store whose heads don't tell since when their resource has waited,
// as that of a large payload on disk.
type ageless struct{ outbox.Store }

func (s ageless) Heads(ctx context.Context, span outbox.Span, fn func(outbox.Head) bool) error {
	return s.Store.Heads(ctx, span, func(h outbox.Head) bool {
		h.WaitingSince = time.Time{}
		return fn(h)
	})
}

func TestTheAgeOfTheOldestWaitingWorkSurvivesCoalescingAndARestart(t *testing.T) {
	inBubble(t, nil, func(b *bench) {
		b.opts.Store = func(o outbox.Observer) (outbox.Store, error) {
			s, err := memory.Open(b.disk, memory.Options{Observer: o})
			return ageless{s}, err
		}
		b.target.always(sink.Result{Status: sink.Unreachable, NotSent: true})
		began := time.Now()
		b.put("old", `1`)
		b.after(time.Hour)
		b.put("old", `2`)
		b.put("new", `1`)
		b.after(time.Hour)
		check := func(when string) {
			t.Helper()
			if got := b.Sinks()[0].OldestUnacked; !got.Equal(began) {
				t.Errorf("%s the oldest work waits since %s, want %s", when, got, began)
			}
		}
		check("before a restart")
		b.reopen()
		check("after a restart")
		b.target.script(nil)
		b.after(5 * time.Minute)
		if got := b.Sinks()[0].OldestUnacked; !got.IsZero() {
			t.Errorf("all is acknowledged, and something waits since %s", got)
		}
	})
}
