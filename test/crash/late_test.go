package crash

import (
	"context"
	"encoding/json"
	"errors"
	"testing"

	"github.com/pawlsync/pawl/engine/record"
	"github.com/pawlsync/pawl/internal/api"
	"github.com/pawlsync/pawl/internal/client"
)

// TestAWriteThatLandsLateUndoesNothing has one write to the target land long
// after its call ended, because the connection was cut or the daemon killed.
// Whatever is asked for meanwhile, and called delivered, stays.
func TestAWriteThatLandsLateUndoesNothing(t *testing.T) {
	for _, c := range []struct {
		name        string
		late, after string // bodies; "" is a deletion
		kill        bool   // the daemon, instead of cutting the connection
		overtaken   bool   // the newer state is asked for before the call ends
	}{
		{"an older state, its answer lost", `{"n":"older"}`, `{"n":"newer"}`, false, false},
		{"an older state, its daemon killed", `{"n":"older"}`, `{"n":"newer"}`, true, false},
		{"a deletion, its answer lost", "", `{"n":"again"}`, false, false},
		{"a deletion, its daemon killed", "", `{"n":"again"}`, true, false},
		{"a state before its deletion, its answer lost", `{"n":"older"}`, "", false, false},
		{"a state before its deletion, its daemon killed", `{"n":"older"}`, "", true, false},
		{"an older state that was replaced, its daemon killed", `{"n":"older"}`, `{"n":"newer"}`, true, true},
		{"a deletion that was taken back, its daemon killed", "", `{"n":"again"}`, true, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel() // it is mostly waiting
			target := newTarget(t, 1)
			defer target.books.histories()
			s := newSite(t, folder(t), target)
			d := s.open()
			ask(t, d, target, `{"n":"first"}`)
			settled(t, d)

			arrived := target.delayNext(!c.kill)
			ask(t, d, target, c.late)
			select {
			case <-arrived:
			case <-d.ended:
				t.Fatal(d.err)
			}
			if c.overtaken {
				ask(t, d, target, c.after)
			}
			if c.kill {
				target.alive(0)
				d.kill()
				d = s.open()
			}
			if !c.overtaken {
				retold(t, d, c.late)
				ask(t, d, target, c.after)
			}
			converge(t, d, target)
			must(t, d.terminate())
		})
	}
}

// retold waits until the target is told again what it may have missed, or
// the daemon waits for that.
func retold(t *testing.T, d *daemon, body string) {
	t.Helper()
	eventually(t, "the target is told again", func(ctx context.Context) error {
		r, err := d.Get(ctx, web("a"), client.GetOptions{})
		switch {
		case body == "" && api.CodeOf(err) == api.CodeNotFound:
			return nil
		case err != nil:
			return err
		case r.Status.Phase == record.AckedPhase && body != "", r.Status.Reason == record.ReasonSettling:
			return nil
		}
		return errors.New(string(r.Status.Phase))
	})
}

// ask puts or deletes the key a.
func ask(t *testing.T, d *daemon, target *target, body string) {
	t.Helper()
	c := &worker{load: &load{d: d, books: target.books}}
	if body == "" {
		must(t, c.remove("a"))
		return
	}
	q := target.books.ask("a", body)
	res, err := d.Put(t.Context(), web("a"), api.PutRequest{Payload: json.RawMessage(body)})
	must(t, c.answer(q, res, err))
}
