package engine_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/pawlsync/pawl/engine"
	"github.com/pawlsync/pawl/engine/record"
	"github.com/pawlsync/pawl/engine/sink"
)

// conflict gives the only sink a conflict policy.
func conflict(p record.ConflictPolicy) func(*engine.Options) {
	return func(o *engine.Options) { o.Sinks[0].Conflict = p }
}

func (b *bench) must(err error) {
	b.t.Helper()
	if err != nil {
		b.t.Fatal(err)
	}
}

func (b *bench) wantTarget(name, payload string) {
	b.t.Helper()
	if got := b.target.get(name); got != payload {
		b.t.Errorf("the target holds %q for %s, want %q", got, name, payload)
	}
}

// truth returns a condition of a resource.
func truth(st record.Status, kind string) record.Truth {
	for _, c := range st.Conditions {
		if c.Type == kind {
			return c.Status
		}
	}
	return record.False
}

func TestR20_WhatIsThereAlreadyIsAckedWithoutAWrite(t *testing.T) {
	for _, p := range []record.ConflictPolicy{record.TargetWins, record.ReportOnly} {
		inBubble(t, conflict(p), func(b *bench) {
			b.target.set("a", `1`)
			b.put("a", `1`)
			b.settle()
			b.want("a", "Acked")
			b.wantOps("a", "observe")
		})
	}
}

func TestR21_R22_MissingAndThenChangedByTheSourceIsApplied(t *testing.T) {
	for _, p := range []record.ConflictPolicy{record.TargetWins, record.ReportOnly} {
		inBubble(t, conflict(p), func(b *bench) {
			b.put("a", `1`)
			b.settle()
			b.put("a", `2`)
			b.settle()
			b.want("a", "Acked")
			b.wantOps("a", "observe", "apply", "observe", "apply")
			b.wantTarget("a", `2`)
		})
	}
}

func TestR24_TargetWinsTakesDriftOverForThisGenerationOnly(t *testing.T) {
	inBubble(t, conflict(record.TargetWins), func(b *bench) {
		b.put("a", `1`)
		b.settle()
		b.target.set("a", `9`)
		b.after(12 * time.Minute)
		b.want("a", "Acked")
		b.wantTarget("a", `9`)
		if st := b.status("a"); truth(st, record.CondDrifted) != record.True {
			t.Errorf("conditions %v, want Drifted", st.Conditions)
		}
		b.after(time.Hour) // R22b: it stays so
		b.wantTarget("a", `9`)
		b.put("a", `2`)
		b.settle()
		b.wantTarget("a", `2`)
		if st := b.status("a"); st.Phase != record.AckedPhase || truth(st, record.CondDrifted) != record.False {
			t.Errorf("%s, conditions %v", st.Phase, st.Conditions)
		}
	})
}

func TestR25_ReportOnlyReportsAndWaitsForAWord(t *testing.T) {
	for how, leave := range map[string]func(b *bench) (holds string){
		"accepted": func(b *bench) string { b.must(b.Accept(b.t.Context(), web("a"))); return `9` },
		"forced":   func(b *bench) string { b.must(b.ApplyForce(b.t.Context(), web("a"))); return `1` },
		"reverted": func(b *bench) string { b.target.set("a", `1`); b.after(11 * time.Minute); return `1` },
	} {
		t.Run(how, func(t *testing.T) {
			inBubble(t, conflict(record.ReportOnly), func(b *bench) {
				b.put("a", `1`)
				b.settle()
				b.target.set("a", `9`)
				b.after(12 * time.Minute)
				b.want("a", "Drifted")
				if st := b.status("a"); !slices.Equal(st.DriftPaths, []string{"/"}) {
					t.Errorf("drift at %v", st.DriftPaths)
				}
				b.after(time.Hour)
				b.wantTarget("a", `9`)
				holds := leave(b)
				b.settle()
				b.want("a", "Acked")
				b.wantTarget("a", holds)
				b.after(time.Hour)
				b.want("a", "Acked")
				b.wantTarget("a", holds)
			})
		})
	}
}

func TestR26_ABlindComparisonAppliesWhatIsNewer(t *testing.T) {
	inBubble(t, conflict(record.TargetWins), func(b *bench) {
		b.target.script(func(op string, r *sink.Request) *sink.Result {
			if op == "observe" {
				return &sink.Result{Status: sink.OK, Observation: &sink.Observation{Exists: true, Ref: "obj"}}
			}
			return nil
		})
		b.put("a", `1`)
		b.settle()
		b.put("a", `2`)
		b.settle()
		b.want("a", "Acked")
		b.wantTarget("a", `2`)
	})
}

func TestR28_AnApplyThatProvesNothingIsLookedAt(t *testing.T) {
	inBubble(t, nil, func(b *bench) {
		b.target.manifest.ApplyConfirms = false
		b.reopen() // the manifest is read at Open
		b.target.script(func(op string, r *sink.Request) *sink.Result {
			if op == "apply" { // and ignores it
				return &sink.Result{Status: sink.OK}
			}
			return nil
		})
		b.target.set("a", `0`)
		b.put("a", `1`)
		b.settle()
		b.wantOps("a", "observe", "apply", "observe")
		if st := b.status("a"); st.Reason != record.ReasonNotConverged || st.Attempts != 1 || !slices.Equal(st.DriftPaths, []string{"/"}) {
			t.Errorf("reason %s, attempts %d, differs at %v", st.Reason, st.Attempts, st.DriftPaths)
		}
		b.target.script(nil)
		b.after(5 * time.Second)
		b.want("a", "Acked")
	})
}

func TestR30_ASuspendedResourceGetsNoCallsAndItsDeletionGoesOn(t *testing.T) {
	inBubble(t, nil, func(b *bench) {
		b.put("a", `1`)
		b.settle()
		b.must(b.Suspend(b.t.Context(), web("a")))
		b.put("a", `2`)
		b.reopen()
		b.after(time.Hour)
		b.wantOps("a", "apply")
		if st := b.status("a"); truth(st, record.CondSuspended) != record.True {
			t.Errorf("conditions %v, want Suspended", st.Conditions)
		}
		b.must(b.Resume(b.t.Context(), web("a")))
		b.settle()
		b.want("a", "Acked")
		b.must(b.Suspend(b.t.Context(), web("a")))
		b.delete("a")
		b.settle()
		b.want("a", "gone")
	})
}

func TestR30_TheSourcesFlagHoldsUntilThePutThatDropsIt(t *testing.T) {
	inBubble(t, nil, func(b *bench) {
		put := func(suspend bool) {
			_, err := b.Put(b.t.Context(), engine.Put{Key: web("a"), Payload: []byte(`1`), Suspend: suspend})
			b.must(err)
			b.after(time.Hour)
		}
		put(true)
		b.must(b.Resume(b.t.Context(), web("a"))) // the operator's flag is another
		b.after(time.Hour)
		b.wantOps("a")
		put(false)
		b.want("a", "Acked")
	})
}

func TestR30_ASuspendedResourceIsNotLookedAtAfterAStart(t *testing.T) {
	for phase, answer := range map[string]*sink.Result{"Acked": nil, "Failed": {Status: sink.Rejected}, "Obsolete": {Status: sink.Obsolete}} {
		t.Run(phase, func(t *testing.T) {
			inBubble(t, nil, func(b *bench) {
				b.target.script(func(string, *sink.Request) *sink.Result { return answer })
				b.put("a", `1`)
				b.settle()
				b.must(b.Suspend(b.t.Context(), web("a")))
				b.reopen()
				b.after(time.Hour)
				b.want("a", phase)
				b.wantOps("a", "apply")
			})
		})
	}
}

func TestR30_ASuspendedSinkHoldsDeletesTooAndOverARestart(t *testing.T) {
	inBubble(t, nil, func(b *bench) {
		b.put("a", `1`)
		b.settle()
		b.must(b.SuspendSink(b.t.Context(), "web"))
		b.delete("a")
		b.put("b", `1`)
		b.reopen()
		b.after(time.Hour)
		b.wantOps("a", "apply")
		b.wantOps("b")
		b.must(b.ResumeSink(b.t.Context(), "web"))
		b.settle()
		b.want("a", "gone")
		b.want("b", "Acked")
	})
}

func TestR33_AFailedLookChangesNothingButObserved(t *testing.T) {
	inBubble(t, nil, func(b *bench) {
		gen := b.put("a", `1`)
		b.settle()
		b.target.always(sink.Result{Status: sink.Retry, Message: "busy"})
		b.after(12 * time.Minute)
		st := b.status("a")
		if st.Phase != record.AckedPhase || st.Attempts != 0 || st.Acked.Generation != gen || truth(st, record.CondObserved) != record.Unknown {
			t.Errorf("%s, %d attempts, observed %s", st.Phase, st.Attempts, truth(st, record.CondObserved))
		}
	})
}

func TestR33_ASourceThatKeepsCountingDoesNotPutDriftChecksOff(t *testing.T) {
	inBubble(t, nil, func(b *bench) {
		for n := range uint64(60) { // the same content under a new number, every minute
			_, err := b.Put(b.t.Context(), engine.Put{Key: web("a"), Payload: []byte(`1`), Order: record.Order{Source: "k8s", Epoch: "e", Number: n + 1}})
			b.must(err)
			b.after(time.Minute)
		}
		if n := len(b.target.ops("a")); n < 5 {
			t.Errorf("%d calls in an hour: %v", n, b.target.ops("a"))
		}
	})
}

func TestR33_DriftChecksCanBeOff(t *testing.T) {
	inBubble(t, func(o *engine.Options) { o.Sinks[0].DriftInterval = -1 }, func(b *bench) {
		b.put("a", `1`)
		b.after(24 * time.Hour)
		b.wantOps("a", "apply")
		b.must(b.Retry(b.t.Context(), web("a"))) // but whoever asks gets a look
		b.settle()
		b.wantOps("a", "apply", "observe")
	})
}

func TestR34_TheLooksAfterAStartArePaced(t *testing.T) {
	inBubble(t, func(o *engine.Options) { o.Sinks[0].StartupRate = 10 }, func(b *bench) {
		for i := range 100 {
			b.put(fmt.Sprint("k", i), `1`)
		}
		b.settle()
		b.reopen()
		b.after(5 * time.Second)
		looked := 0
		for i := range 100 {
			looked += len(b.target.ops(fmt.Sprint("k", i))) - 1
		}
		if looked < 45 || looked > 55 {
			t.Errorf("%d looks in 5 s at 10 a second", looked)
		}
	})
}

func TestR34_WhatWasRefusedForGoodIsLookedAtAndNotApplied(t *testing.T) {
	inBubble(t, nil, func(b *bench) {
		b.target.always(sink.Result{Status: sink.Rejected})
		b.put("a", `1`)
		b.settle()
		b.target.script(nil)
		b.reopen()
		b.after(time.Hour)
		b.want("a", "Failed")
		b.wantOps("a", "apply", "observe")
	})
}

func TestR34_StoredAcksOfASinkThatCannotLookStand(t *testing.T) {
	inBubble(t, nil, func(b *bench) {
		b.target.manifest.Observes = false
		b.reopen()
		b.put("a", `1`)
		b.settle()
		b.reopen()
		b.after(24 * time.Hour)
		b.want("a", "Acked")
		b.wantOps("a", "apply")
	})
}

func TestR35_TheOneCallPathIsOfTheFirstAttemptOnly(t *testing.T) {
	inBubble(t, nil, func(b *bench) {
		b.target.always(sink.Result{Status: sink.Unreachable})
		b.put("a", `1`)
		b.settle()
		b.target.script(nil)
		b.after(5 * time.Second)
		b.wantOps("a", "apply", "observe", "apply")
	})
}

func TestR36_AnObjectThatSomebodyDeletesIsWaitedForAndPutAgain(t *testing.T) {
	inBubble(t, conflict(record.TargetWins), func(b *bench) {
		b.put("a", `1`)
		b.settle()
		b.target.script(func(op string, r *sink.Request) *sink.Result {
			return &sink.Result{Status: sink.InProgress, Message: "terminating"}
		})
		b.put("a", `2`)
		b.after(30 * time.Second)
		if st := b.status("a"); st.Reason != record.ReasonInProgress || st.Attempts != 0 {
			t.Errorf("reason %s, attempts %d", st.Reason, st.Attempts)
		}
		b.target.script(nil)
		b.target.remove("a")
		b.after(time.Minute)
		b.want("a", "Acked")
		b.wantTarget("a", `2`) // what is gone is no drift
	})
}

func (f *fakeTarget) remove(key string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.objects, key)
}

// sameObject makes every key of the target stand for one object.
func (b *bench) sameObject() {
	b.target.script(func(op string, r *sink.Request) *sink.Result {
		if op == "delete" {
			return nil
		}
		o := &sink.Observation{Exists: true, Object: "the one", MatchDesired: sink.Yes, AsFound: "x"}
		return &sink.Result{Status: sink.OK, Observation: o}
	})
}

func TestR37_TheSecondResourceOfOneObjectIsContended(t *testing.T) {
	inBubble(t, func(o *engine.Options) { o.Sinks[0].SkipStartupCheck = true }, func(b *bench) {
		b.sameObject()
		b.put("first", `1`)
		b.settle()
		b.put("second", `2`)
		b.settle()
		b.want("first", "Acked")
		st := b.status("second")
		if st.Phase != record.Failed || st.Reason != record.ReasonContended {
			t.Errorf("the second is %s %s", st.Phase, st.Reason)
		}
		b.reopen() // who owns what is known again
		b.must(b.Retry(b.t.Context(), web("second")))
		b.settle()
		b.want("second", "Failed")
		b.delete("first")
		b.settle()
		b.must(b.Retry(b.t.Context(), web("second")))
		b.settle()
		b.want("second", "Acked")
	})
}

func TestR37_DeletingTheSecondLeavesTheObjectToTheFirst(t *testing.T) {
	inBubble(t, nil, func(b *bench) {
		b.sameObject()
		b.put("first", `1`)
		b.settle()
		b.put("second", `2`)
		b.settle()
		b.delete("second")
		b.settle()
		b.want("second", "gone")
		if slices.Contains(b.target.ops("second"), "delete") {
			t.Error("the object of the first was deleted with the second")
		}
	})
}

func TestR38_AFightIsBackedOffFrom(t *testing.T) {
	inBubble(t, func(o *engine.Options) {
		o.Sinks[0].DriftInterval = time.Minute
		o.Sinks[0].StallRetry = 30 * time.Minute
	}, func(b *bench) {
		b.target.script(func(op string, r *sink.Request) *sink.Result {
			b.target.set("a", `9`) // somebody is always faster
			return nil
		})
		b.put("a", `1`)
		b.after(10 * time.Minute)
		if st := b.status("a"); st.Reason != record.ReasonFighting {
			t.Fatalf("reason %s after %v", st.Reason, b.target.ops("a"))
		}
		before := len(b.target.ops("a"))
		b.after(25 * time.Minute)
		if n := len(b.target.ops("a")) - before; n > 2 {
			t.Errorf("%d calls while it was to be left alone", n)
		}
		b.after(10 * time.Minute)
		if n := len(b.target.ops("a")) - before; n == 0 {
			t.Error("it is never looked at again")
		}
	})
}
