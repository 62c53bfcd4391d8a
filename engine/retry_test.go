package engine_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pawlsync/pawl/engine"
	"github.com/pawlsync/pawl/engine/record"
	"github.com/pawlsync/pawl/engine/sink"
)

// putAs stores a payload with settings of its own.
func (b *bench) putAs(p engine.Put) {
	b.t.Helper()
	if _, err := b.Put(b.t.Context(), p); err != nil {
		b.t.Fatalf("put %s: %v", p.Key, err)
	}
}

func TestR40_AResourceIsTriedAgainAsItSaysAndItsSiblingsAsTheSinkSays(t *testing.T) {
	inBubble(t, nil, func(b *bench) {
		b.target.always(sink.Result{Status: sink.Retry})
		b.putAs(engine.Put{Key: web("slow"), Payload: []byte(`1`), Retry: record.Retry{Base: time.Hour}})
		b.putAs(engine.Put{Key: web("once"), Payload: []byte(`1`), Retry: record.Retry{MaxAttempts: 1, Stall: 24 * time.Hour}})
		b.put("plain", `1`)
		b.after(20 * time.Minute) // of the sink's 2s, doubled to 5m, and 5 attempts
		for name, want := range map[string]record.Phase{"slow": record.Pending, "once": record.Stalled, "plain": record.Stalled} {
			calls := len(b.target.callsAbout(name))
			if b.want(name, string(want)); (calls == 1) != (name != "plain") {
				t.Errorf("%s was called about %d times", name, calls)
			}
		}
	})
}

func TestR02_AResourcesOwnBaseDelaySurvivesARestart(t *testing.T) {
	inBubble(t, nil, func(b *bench) {
		b.target.always(sink.Result{Status: sink.Retry})
		own := record.Retry{Base: time.Minute}
		b.putAs(engine.Put{Key: web("a"), Payload: []byte(`1`), Retry: own})
		b.settle()
		b.putAs(engine.Put{Key: web("a"), Payload: []byte(`2`), Retry: own})
		b.target.script(nil)
		b.reopen()
		if b.after(59 * time.Second); b.target.get("a") != "" {
			t.Error("the new state went within its own base delay")
		}
		b.after(2 * time.Second)
		b.want("a", "Acked")
	})
}

func TestR10b_CallsBearTheSourcesKeyOverRetriesAndRestarts(t *testing.T) {
	inBubble(t, nil, func(b *bench) {
		b.target.always(sink.Result{Status: sink.Retry})
		b.putAs(engine.Put{Key: web("a"), Payload: []byte(`1`), IdempotencyKey: "order-17"})
		b.after(time.Second)
		b.reopen()
		b.target.script(nil)
		b.after(time.Minute)
		b.want("a", "Acked")
		b.delete("a")
		b.settle()
		for _, c := range b.target.callsAbout("a") {
			if (c.idempotent == "order-17") != (c.op != "delete") || c.idempotent == "" {
				t.Errorf("%s of generation %d bears %q", c.op, c.generation, c.idempotent)
			}
		}
		if ops := b.target.ops("a"); !slices.Contains(ops, "delete") || len(ops) < 3 {
			t.Errorf("only %v", ops)
		}
	})
}

func TestR10b_OtherContentUnderAKeyIsRefused(t *testing.T) {
	inBubble(t, nil, func(b *bench) {
		b.putAs(engine.Put{Key: web("a"), Payload: []byte(`1`), IdempotencyKey: "order-17"})
		_, err := b.Put(b.t.Context(), engine.Put{Key: web("a"), Payload: []byte(`2`), IdempotencyKey: "order-17"})
		var typed *engine.Error
		if !errors.Is(err, engine.ErrKeyUsed) || !errors.As(err, &typed) || typed.Generation == 0 || !strings.Contains(typed.Hint, "key of its own") {
			t.Errorf("%v; want ErrKeyUsed with the generation and a hint", err)
		}
		b.settle()
		if got := b.target.get("a"); got != "1" {
			t.Errorf("the target has %s", got)
		}
	})
}

func TestR10_OwnSettingsOutOfBoundsAreRefused(t *testing.T) {
	inBubble(t, nil, func(b *bench) {
		for _, p := range []engine.Put{{Retry: record.Retry{Base: 1}}, {IdempotencyKey: "ü"}} {
			p.Key = web("a")
			if _, err := b.Put(b.t.Context(), p); !errors.Is(err, engine.ErrInvalid) {
				t.Errorf("%+v: %v, want ErrInvalid", p, err)
			}
		}
		b.want("a", "gone")
	})
}

func TestR71_ASagaKeepsHowAResourceIsTriedAgainAndTheKeyOnlyOfItsContent(t *testing.T) {
	inBubble(t, nil, func(b *bench) {
		own := record.Retry{Base: time.Minute, MaxAttempts: 7}
		for name, payload := range map[string]string{"same": `1`, "other": `2`} {
			b.putAs(engine.Put{Key: web(name), Payload: []byte(`1`), Retry: own, IdempotencyKey: "order-17"})
			b.settle()
			gen := hold(t, b, web(name))
			b.must(b.Adopt(b.t.Context(), []engine.Adoption{{Key: web(name), Generation: gen, Payload: []byte(payload)}}))
			b.LetGo([]record.Key{web(name)})
			r, err := b.Get(b.t.Context(), web(name))
			if err != nil || r.Desired.Retry != own || (r.Desired.IdempotencyKey == "order-17") != (name == "same") {
				t.Errorf("%s: %+v, %v", name, r.Desired, err)
			}
		}
	})
}
