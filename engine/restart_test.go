package engine_test

import (
	"testing"
	"time"
)

func TestR67_AnOperatorsHoldOfAnEmptySinkSurvivesALoss(t *testing.T) {
	inBubble(t, nil, func(b *bench) {
		b.must(b.SuspendSink(b.t.Context(), "web"))
		b.must(b.Close(b.t.Context()))
		b.disk.SetEpoch("after-restore", true)
		b.open()
		b.put("a", `1`)
		b.after(time.Minute)
		b.wantOps("a")
	})
}

func TestR67_TheFirstCallIsALookAlsoAfterAnotherRestart(t *testing.T) {
	inBubble(t, nil, func(b *bench) {
		b.must(b.SuspendSink(b.t.Context(), "web"))
		b.put("a", `1`)
		b.must(b.Suspend(b.t.Context(), web("a")))
		b.must(b.Close(b.t.Context()))
		b.disk.SetEpoch("after-restore", true)
		b.open()
		b.must(b.ResumeSink(b.t.Context(), "web"))
		b.after(time.Second)
		b.reopen()
		b.must(b.Resume(b.t.Context(), web("a")))
		b.after(time.Second)
		b.wantOps("a", "observe", "apply")
	})
}

func TestP3_WhatAKilledEngineMayHaveSentIsRememberedOverAPeacefulRestart(t *testing.T) {
	inBubble(t, nil, func(b *bench) {
		b.target.slow(time.Second)
		b.put("a", `1`)
		b.after(500 * time.Millisecond)
		b.must(b.SuspendSink(b.t.Context(), "web"))
		b.kill()
		b.open()
		b.reopen()
		b.put("a", `2`)
		b.must(b.ResumeSink(b.t.Context(), "web"))
		b.after(10 * time.Second)
		b.target.set("a", `1`) // now it lands
		b.after(2 * time.Minute)
		b.want("a", "Acked")
		if got := b.target.get("a"); got != "2" {
			t.Errorf("the target holds %s, and 2 is acked", got)
		}
	})
}
