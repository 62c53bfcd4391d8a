package e2e

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pawlsync/pawl/engine"
	"github.com/pawlsync/pawl/engine/outbox"
	"github.com/pawlsync/pawl/engine/outbox/memory"
	"github.com/pawlsync/pawl/engine/record"
	"github.com/pawlsync/pawl/engine/saga"
	"github.com/pawlsync/pawl/engine/sink"
)

// sagaRun lets the engine run sagas whose steps are all SpiceDB's: both go through, or
// nothing of either is left.
func (s *sagas) sagaRun(t *testing.T) {
	manager := saga.New(saga.Options{RetryBase: 50 * time.Millisecond})
	e, err := engine.Open(t.Context(), engine.Options{
		Store:   func(o outbox.Observer) (outbox.Store, error) { return memory.New(memory.Options{Observer: o}), nil },
		Prepare: manager.Prepare, Logger: slog.New(slog.NewTextHandler(t.Output(), nil)),
		Sinks: []engine.SinkOptions{{Name: zedSink, Sink: connect(t, s.plugin, s.Address, s.Key, `{"sagas":true}`)}},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := manager.Close(context.Background()); err != nil {
			t.Error(err)
		}
		if err := e.Close(context.Background()); err != nil {
			t.Error(err)
		}
	}()
	const anne, bob, carol = "document:run#viewer@user:anne", "document:run#editor@user:bob", "document:run-old#viewer@user:carol"
	for _, mode := range []saga.Mode{saga.Pessimistic, saga.Optimistic} {
		t.Run(string(mode), func(t *testing.T) {
			s.touch(t, carol+caveated)
			run := func(id string, last string) saga.View {
				v, err := manager.Run(t.Context(), saga.Spec{ID: string(mode) + id, Mode: mode, Timeout: time.Minute, Steps: []saga.Step{
					{Key: zedKey("run"), Verb: saga.Create, Payload: []byte(`{"relationships":["` + anne + `"],"scope":{"resource":"document:run","relations":["viewer"]}}`)},
					{Key: zedKey("document:run-old"), Verb: saga.Delete},
					{Key: zedKey("last"), Verb: saga.Create, Payload: []byte(`{"touch":["` + last + `"]}`)},
				}})
				if err != nil {
					t.Fatal(err)
				}
				eventually(t, "it gives up what it holds", func() bool {
					v, err = manager.Get(v.Spec.ID)
					return err == nil && v.State.Phase == saga.Ended
				})
				rows, _ := s.read(t, "lock")
				for _, r := range rows {
					if strings.Contains(r, v.State.Run) {
						t.Errorf("it ended and holds %s", r)
					}
				}
				return v
			}
			v := run("refused", "document:run#view@user:bob") // a permission: nobody writes that
			if v.State.Outcome != saga.RolledBack || v.State.FailedStep != 3 || v.State.Steps[2].Refusal.Status != sink.Rejected {
				t.Fatalf("%+v", v.State)
			}
			s.expect(t, "document:run")
			s.expect(t, "document:run-old", carol+caveated)

			if v = run("done", bob); v.State.Outcome != saga.Committed {
				t.Fatalf("%+v", v.State)
			}
			s.expect(t, "document:run", anne, bob)
			s.expect(t, "document:run-old")

			if v = run("again", bob); v.State.Outcome != saga.RolledBack || v.State.Steps[0].Refusal.Status != sink.AlreadyExists {
				t.Fatalf("what is there already was created again: %+v", v.State)
			}
			s.expect(t, "document:run", anne, bob)
			// They are ordinary resources now.
			for _, name := range []string{"run", "last"} {
				eventually(t, name+" is acknowledged", func() bool {
					got, err := e.Get(t.Context(), zedKey(name))
					return err == nil && got.Status.Phase == record.AckedPhase
				})
				if _, err := e.Delete(t.Context(), engine.Delete{Key: zedKey(name)}); err != nil {
					t.Fatal(err)
				}
			}
			s.becomes(t, "document:run")
		})
	}
}

// sagaRaces: two runs want the same object at the same time, over and over, with locks
// and without. Exactly one has it, and the other gains nothing.
func (s *sagas) sagaRaces(t *testing.T) {
	const rounds = 1000
	for i := range rounds {
		object := fmt.Sprintf("document:race%d", i)
		var locks []string
		if i%2 == 0 {
			locks = []string{lockOf(object)}
		}
		anne, bob := object+"#editor@user:anne", object+"#editor@user:bob"
		payload := func(row string) string { return `{"relationships":["` + row + `"]}` }
		if i%4 == 0 { // the locks alone keep these apart
			payload = func(row string) string { return `{"touch":["` + row + `"]}` }
		}
		a := s.play(t, "create", "x", payload(anne), locks...)
		b := s.play(t, "create", "x", payload(bob), locks...)
		var wg sync.WaitGroup
		results := [2]sink.Result{}
		for j, p := range []*player{a, b} {
			wg.Go(func() {
				p.look()
				results[j] = p.write()
			})
		}
		wg.Wait()
		won, lost, row := a, 1, anne
		if results[1].Status == sink.OK {
			won, lost, row = b, 0, bob
		}
		if results[1-lost].Status != sink.OK {
			t.Fatalf("round %d: nobody won: %+v", i, results)
		}
		if st := results[lost].Status; st != sink.Conflict && st != sink.AlreadyExists {
			t.Fatalf("round %d: the loser is told %v %s", i, st, results[lost].Message)
		}
		loser := []*player{a, b}[lost]
		if won.ours() != sink.Yes || loser.ours() != sink.No {
			t.Fatalf("round %d: the marks are wrong", i)
		}
		must(t, "an undo of what was not written", loser.restore(), sink.OK)
		s.expect(t, object, row)
		must(t, "unlock", won.unlock(), sink.OK)
		if t.Failed() {
			t.Fatalf("round %d", i)
		}
	}
}
