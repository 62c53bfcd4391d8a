package engine_test

import (
	"errors"
	"testing"
	"time"

	"github.com/pawlsync/pawl/engine"
	"github.com/pawlsync/pawl/engine/record"
	"github.com/pawlsync/pawl/engine/sink"
)

func TestR31_AnInboundResourceNeverDiffers(t *testing.T) {
	inBubble(t, func(o *engine.Options) { direction(record.Inbound)(o); watched(o, nil) }, func(b *bench) {
		w := b.opts.Sinks[0].Sink.(*watchedTarget)
		w.change("a", `{"v":5}`)
		b.put("a", `null`)
		b.put("none", `null`)
		b.settle()
		w.change("a", `{"v":6}`)
		const why = "inbound: nothing is ever sent"
		if p := b.wantAction(askStored("a"), engine.ActionNone, why); !p.Same || p.Drift || !p.Exists || len(p.Differing) > 0 {
			t.Errorf("%+v", p)
		}
		if p := b.wantAction(askStored("none"), engine.ActionNone, why); !p.Same || p.Exists {
			t.Errorf("%+v", p)
		}
		for _, q := range []engine.Question{askPut("a", `1`), askPut("new", `1`), askDelete("a")} {
			if p := b.wantAction(q, engine.ActionNone, why); !p.Same {
				t.Errorf("%+v", p)
			}
		}
		b.target.always(sink.Result{Status: sink.Rejected, Message: "the key is no UUID"})
		b.wantAction(askPut("bad", `1`), engine.ActionRefused, "the key is no UUID")
	})
}

func TestR32_APreviewOfBothSaysWhoseChangeWins(t *testing.T) {
	inBubble(t, func(o *engine.Options) { direction(record.Both)(o); watched(o, polls) }, func(b *bench) {
		w := b.opts.Sinks[0].Sink.(*watchedTarget)
		for _, name := range []string{"same", "theirs", "lost", "back"} {
			b.put(name, `1`)
		}
		b.settle()
		w.change("back", ``)
		b.after(67 * time.Second)
		w.set("back", `3`) // no poll comes before the looks below
		w.set("theirs", `2`)
		w.lose("lost")

		const taken = "direction both: the target's change is taken over"
		if p := b.wantAction(askStored("same"), engine.ActionNone, ""); !p.Same {
			t.Errorf("%+v", p)
		}
		for _, name := range []string{"theirs", "lost"} {
			if p := b.wantAction(askStored(name), engine.ActionNone, taken); p.Same || !p.Drift {
				t.Errorf("%s: %+v", name, p)
			}
		}
		if p := b.wantAction(askStored("back"), engine.ActionNone, taken); !p.Tombstone || p.Same || !p.Drift {
			t.Errorf("%+v", p)
		}
		b.wantAction(askPut("theirs", `7`), engine.ActionUpdate, "") // both changed, and the source wins
	})
}

func TestR32_APreviewOfWhatBothSidesWantIsTheSame(t *testing.T) {
	inBubble(t, func(o *engine.Options) {
		direction(record.Both)(o)
		o.Sinks[0].Conflict = record.TargetWins
		watched(o, nil)
	}, func(b *bench) {
		b.opts.Sinks[0].Sink.(*watchedTarget).set("a", `{"b":1, "c":2}`)
		if p := b.wantAction(askPut("a", `{"c":2,"b":1}`), engine.ActionNone, ""); !p.Same || p.Drift || len(p.Differing) > 0 {
			t.Errorf("%+v", p)
		}
	})
}

func TestR31_APreviewOfADirectionThatTheAdapterCantIsRefused(t *testing.T) {
	inBubble(t, nil, func(b *bench) {
		q := askPut("a", `1`)
		q.Put.Direction = record.Inbound
		if _, err := b.Preview(b.t.Context(), q); !errors.Is(err, engine.ErrInvalid) {
			t.Errorf("%v, want %v, as of the Put", err, engine.ErrInvalid)
		}
	})
}
