package engine_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/pawlsync/pawl/engine"
	"github.com/pawlsync/pawl/engine/record"
	"github.com/pawlsync/pawl/engine/sink"
)

func TestR32_TheTargetsChangeIsTakenOverAndTheSourcesGoesThere(t *testing.T) {
	for _, poll := range []bool{false, true} {
		inBubble(t, func(o *engine.Options) {
			direction(record.Both)(o)
			watched(o, func(m *sink.Manifest) { m.Polls = poll })
		}, func(b *bench) {
			w := b.opts.Sinks[0].Sink.(*watchedTarget)
			gen := b.put("a", `1`)
			b.settle()
			b.wantTarget("a", `1`)
			w.change("a", `2`)
			b.after(67 * time.Second)
			b.wants("a", `2`, record.FromTarget)
			b.want("a", "Acked")
			if st := b.status("a"); st.Generation <= gen || st.Acked.Generation != st.Generation || st.Reason != record.ReasonTakenOver {
				t.Errorf("%+v", st)
			}
			b.put("a", `1`) // what it had: no news
			b.settle()
			b.wants("a", `2`, record.FromTarget)
			b.wantTarget("a", `2`)
			b.put("a", `3`)
			b.settle()
			b.wantTarget("a", `3`)
			b.wants("a", `3`, record.FromSource)
		})
	}
}

func TestR32_DeletedAtTheTargetRestsUntilTheSourceDeletesItToo(t *testing.T) {
	inBubble(t, func(o *engine.Options) { direction(record.Both)(o); watched(o, nil) }, func(b *bench) {
		w := b.opts.Sinks[0].Sink.(*watchedTarget)
		b.put("a", `1`)
		b.settle()
		w.change("a", ``)
		b.after(67 * time.Second)
		if st := b.status("a"); st.Phase != record.AckedPhase || st.Reason != record.ReasonTargetDeleted {
			t.Fatalf("%+v", st)
		}
		b.reopen()
		b.put("a", `1`)
		b.after(10 * time.Minute)
		b.wantTarget("a", ``)
		b.delete("a")
		b.settle()
		b.want("a", "gone")
	})
}

func TestR32_AChangeOfOursIsNeverTakenForTheTargets(t *testing.T) {
	inBubble(t, func(o *engine.Options) { direction(record.Both)(o); watched(o, polls) }, func(b *bench) {
		for i := range 5 {
			b.put("a", fmt.Sprint(i))
			b.after(20 * time.Second)
		}
		b.after(time.Hour)
		b.wants("a", `4`, record.FromSource)
		applies := 0
		for _, op := range b.target.ops("a") {
			if op == "apply" {
				applies++
			}
		}
		if applies != 5 {
			t.Errorf("%d applies of 5 changes: %v", applies, b.target.ops("a"))
		}
	})
}

func TestR32_TheTargetIsLookedAtBeforeEachApply(t *testing.T) {
	inBubble(t, func(o *engine.Options) { direction(record.Both)(o); watched(o, nil) }, func(b *bench) {
		b.put("a", `1`)
		b.settle()
		b.put("a", `2`)
		b.settle()
		b.wantTarget("a", `2`)
		b.wantOps("a", "observe", "apply", "observe", "apply") // an outbound one would need two calls
	})
}

func TestR32_NothingIsTakenOverWhileACallOfOursMayStillLand(t *testing.T) {
	inBubble(t, func(o *engine.Options) {
		direction(record.Both)(o)
		o.Sinks[0].Conflict = record.TargetWins
		watched(o, nil)
	}, func(b *bench) {
		b.target.script(func(op string, _ *sink.Request) *sink.Result {
			if op == "apply" {
				return &sink.Result{Status: sink.Unreachable, Message: "no answer"}
			}
			return nil
		})
		b.put("a", `1`)
		b.settle()
		b.target.set("a", `9`) // somebody else
		b.after(20 * time.Second)
		b.wantOps("a", "observe", "apply", "observe")
		b.wants("a", `1`, record.FromSource)
		b.after(time.Minute) // the timeout of the call is over
		b.wants("a", `9`, record.FromTarget)
		b.wantTarget("a", `9`)
	})
}
