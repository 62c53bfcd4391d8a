package engine_test

import (
	"testing"
	"time"

	"github.com/pawlsync/pawl/engine/sink"
)

func TestR01_PutOfANewKeyIsDeliveredAndAcked(t *testing.T) {
	inBubble(t, nil, func(b *bench) {
		gen := b.put("a", `{"x":1}`)
		b.settle()
		b.want("a", "Acked")
		b.wantOps("a", "apply")
		if got := b.target.get("a"); got != `{"x":1}` {
			t.Errorf("the target holds %s", got)
		}
		if a := b.status("a").Acked; a == nil || a.Generation != gen {
			t.Errorf("acked %+v, want generation %d", a, gen)
		}
	})
}

func TestR02_OnlyTheNewestOfWaitingStatesIsDelivered(t *testing.T) {
	inBubble(t, nil, func(b *bench) {
		b.target.always(sink.Result{Status: sink.Unreachable, NotSent: true})
		b.put("a", `1`)
		b.settle()
		for _, p := range []string{`2`, `3`, `4`} {
			b.put("a", p)
		}
		b.target.script(nil)
		b.after(10 * time.Second)
		b.want("a", "Acked")
		for _, c := range b.target.callsAbout("a") {
			if c.op == "apply" && c.payload != "1" && c.payload != "4" {
				t.Errorf("state %s was delivered although a newer one replaced it", c.payload)
			}
		}
	})
}

func TestR50_DeleteIsConfirmedAndTheRecordGoes(t *testing.T) {
	inBubble(t, nil, func(b *bench) {
		b.put("a", `1`)
		b.settle()
		b.delete("a")
		b.settle()
		b.want("a", "gone")
		b.wantOps("a", "apply", "delete")
	})
}

func TestR33_DriftIsFoundAndCorrected(t *testing.T) {
	inBubble(t, nil, func(b *bench) {
		b.put("a", `1`)
		b.settle()
		b.target.set("a", `9`)
		b.after(12 * time.Minute)
		if got := b.target.get("a"); got != "1" {
			t.Errorf("the target holds %s after a drift check", got)
		}
	})
}

func TestR34_RestartLooksAtEverything(t *testing.T) {
	inBubble(t, nil, func(b *bench) {
		b.put("a", `1`)
		b.settle()
		b.reopen()
		b.after(time.Second)
		b.wantOps("a", "apply", "observe")
		b.want("a", "Acked")
	})
}
