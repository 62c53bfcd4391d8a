package engine_test

import (
	"testing"
	"time"

	"github.com/pawlsync/pawl/engine"
	"github.com/pawlsync/pawl/engine/record"
	"github.com/pawlsync/pawl/engine/sink"
)

func TestR51_WhatIsThereIsStoredBeforeItIsDeleted(t *testing.T) {
	inBubble(t, func(o *engine.Options) { o.Sinks[0].Deletion = record.AckThenDelete }, func(b *bench) {
		b.put("a", `1`)
		b.settle()
		b.target.set("a", `9`)
		stored := ""
		b.target.script(func(op string, r *sink.Request) *sink.Result {
			if op == "delete" {
				stored = b.status("a").Acked.AsFound
			}
			return nil
		})
		b.delete("a")
		b.settle()
		b.want("a", "gone")
		b.wantOps("a", "apply", "observe", "delete")
		if want := record.HashOf([]byte(`9`)).Hex(); stored != want {
			t.Errorf("stored as found %q, want the hash of what was there", stored)
		}
	})
}

func TestR52_RetainLeavesTheObject(t *testing.T) {
	inBubble(t, func(o *engine.Options) { o.Sinks[0].Deletion = record.Retain }, func(b *bench) {
		b.put("a", `1`)
		b.settle()
		b.delete("a")
		b.settle()
		b.want("a", "gone")
		b.wantOps("a", "apply")
		b.wantTarget("a", `1`)
	})
}

func TestR53_ADeletionUnderWayIsFollowedToItsEnd(t *testing.T) {
	inBubble(t, nil, func(b *bench) {
		b.put("a", `1`)
		b.settle()
		b.target.script(func(op string, r *sink.Request) *sink.Result { return &sink.Result{Status: sink.InProgress} })
		b.delete("a")
		b.settle()
		b.want("a", "Deleting")
		b.after(10 * time.Minute)
		b.want("a", "Deleting")
		if n := len(b.target.ops("a")); n < 8 || n > 16 {
			t.Errorf("%d calls in ten minutes, want 5 s doubled to 1 min between them", n)
		}
		b.target.script(nil)
		b.target.remove("a")
		b.after(time.Minute)
		b.want("a", "gone")
	})
}

// holds makes the target's object one of that uid, which only a Delete with it deletes.
func (b *bench) holds(uid string, ours sink.Tri) {
	b.target.script(func(op string, r *sink.Request) *sink.Result {
		switch {
		case op == "delete" && r.UID != uid:
			return &sink.Result{Status: sink.Conflict}
		case op == "delete":
			return nil
		}
		return &sink.Result{Status: sink.OK, Observation: &sink.Observation{Exists: true, UID: uid, Ours: ours, MatchDesired: sink.Yes}}
	})
}

func TestR55_OnlyOurObjectIsDeleted(t *testing.T) {
	for what, row := range map[string]struct {
		uid  string
		ours sink.Tri
		want string
		gone bool // from the target
	}{
		"the acked uid":                      {"u1", sink.Unknown, "gone", true},
		"another uid with our mark":          {"u2", sink.Yes, "gone", true},
		"somebody else's":                    {"u2", sink.No, "gone", false},
		"another uid and nobody can tell":    {"u2", sink.Unknown, "Failed", false},
		"a recreated one of ours, no marker": {"", sink.Yes, "gone", true},
	} {
		t.Run(what, func(t *testing.T) {
			inBubble(t, nil, func(b *bench) {
				b.target.manifest.ReportsUID = true
				b.reopen()
				b.target.set("a", `1`)
				b.holds("u1", sink.Yes)
				b.put("a", `1`)
				b.settle()
				b.holds(row.uid, row.ours)
				b.delete("a")
				b.settle()
				b.want("a", row.want)
				if got := b.target.get("a") == ""; got != row.gone {
					t.Errorf("the object is gone: %t, want %t", got, row.gone)
				}
				if row.want != "Failed" {
					return
				}
				if st := b.status("a"); st.Reason != record.ReasonNotOurs {
					t.Errorf("reason %s", st.Reason)
				}
				b.must(b.Accept(b.t.Context(), web("a")))
				b.settle()
				b.want("a", "gone")
				b.wantTarget("a", "")
			})
		})
	}
}
