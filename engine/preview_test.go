package engine_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawlsync/pawl/engine"
	"github.com/pawlsync/pawl/engine/record"
	"github.com/pawlsync/pawl/engine/sink"
)

func (b *bench) ask(q engine.Question) engine.Preview {
	b.t.Helper()
	p, err := b.Preview(b.t.Context(), q)
	if err != nil {
		b.t.Fatalf("preview: %v", err)
	}
	return p
}

func askPut(name, payload string) engine.Question {
	return engine.Question{Key: web(name), Put: &engine.Put{Payload: []byte(payload)}}
}

func askDelete(name string) engine.Question {
	return engine.Question{Key: web(name), Delete: &engine.Delete{}}
}

func askStored(name string) engine.Question { return engine.Question{Key: web(name)} }

func (b *bench) wantAction(q engine.Question, want engine.Action, why string) engine.Preview {
	b.t.Helper()
	p := b.ask(q)
	if p.Action != want || why == "" && p.Why != "" || !strings.Contains(p.Why, why) {
		b.t.Errorf("%s: %s (%s), want %s (%s)", q.Key, p.Action, p.Why, want, why)
	}
	return p
}

func TestAPreviewSaysWhatADeliveryWouldDo(t *testing.T) {
	inBubble(t, nil, func(b *bench) {
		b.put("same", `1`)
		b.put("other", `1`)
		b.put("lost", `1`)
		b.put("edited", `1`)
		b.settle()
		b.target.set("edited", `9`)
		b.target.set("theirs", `1`)
		b.must(deleteObject(b, "lost"))

		b.wantAction(askPut("new", `1`), engine.ActionCreate, "")
		b.wantAction(askPut("theirs", `1`), engine.ActionNone, "")
		b.wantAction(askPut("same", `1`), engine.ActionNone, "")
		if p := b.wantAction(askPut("other", `2`), engine.ActionUpdate, ""); !slices.Equal(p.Differing, []string{"/"}) || p.Drift || !p.New || p.Same {
			t.Errorf("%+v", p)
		}
		b.wantAction(askDelete("same"), engine.ActionDelete, "")
		if p := b.wantAction(askDelete("lost"), engine.ActionNone, ""); !p.Same || !p.Tombstone {
			t.Errorf("%+v", p)
		}
		b.wantAction(engine.Question{Key: web("same"), Delete: &engine.Delete{Deletion: record.Retain}}, engine.ActionNone, "deletion policy")

		b.wantAction(askStored("same"), engine.ActionNone, "")
		b.wantAction(askStored("lost"), engine.ActionCreate, "")
		if p := b.wantAction(askStored("edited"), engine.ActionUpdate, ""); !p.Drift || !p.Looked || !p.Exists || p.New {
			t.Errorf("%+v", p)
		}
	})
}

func deleteObject(b *bench, name string) error {
	b.target.mu.Lock()
	defer b.target.mu.Unlock()
	delete(b.target.objects, name)
	return nil
}

func TestAPreviewIsOneLookAndChangesNothing(t *testing.T) {
	inBubble(t, nil, func(b *bench) {
		b.put("a", `1`)
		b.settle()
		b.target.set("a", `9`)
		was, err := b.Get(b.t.Context(), web("a"))
		b.must(err)
		stats := b.Stats()
		for _, q := range []engine.Question{askStored("a"), askPut("a", `2`), askDelete("a"), askPut("b", `1`)} {
			b.ask(q)
		}
		b.settle()
		b.wantOps("a", "apply", "observe", "observe", "observe")
		b.wantOps("b", "observe")
		is, err := b.Get(b.t.Context(), web("a"))
		b.must(err)
		if !reflect.DeepEqual(was, is) || b.target.get("a") != `9` || b.state("b") != "gone" {
			t.Errorf("it was %+v and is %+v", was, is)
		}
		if now := b.Stats(); now.Info.Revision != stats.Info.Revision || now.Resources != stats.Resources {
			t.Errorf("%+v became %+v", stats, now)
		}
	})
}

func TestAPreviewLeavesAttemptsAndTheBreakerAlone(t *testing.T) {
	inBubble(t, nil, func(b *bench) {
		b.target.always(sink.Result{Status: sink.Unreachable, Message: "connection refused"})
		for i := range 20 {
			p := b.wantAction(askPut(fmt.Sprint(i), `1`), engine.ActionUnknown, "connection refused")
			if p.Looked || p.Status != sink.Unreachable {
				t.Errorf("%+v", p)
			}
		}
		if s := b.Sinks()[0]; s.Breaker.String() != "closed" {
			t.Errorf("the breaker is %s", s.Breaker)
		}
	})
}

func TestAPreviewOfDriftGoesByTheConflictPolicy(t *testing.T) {
	for policy, want := range map[record.ConflictPolicy]struct {
		action engine.Action
		why    string
	}{
		record.SourceWins: {engine.ActionUpdate, ""},
		record.TargetWins: {engine.ActionNone, "lets the target win"},
		record.ReportOnly: {engine.ActionNone, "report"},
	} {
		t.Run(string(policy), func(t *testing.T) {
			inBubble(t, func(o *engine.Options) { o.Sinks[0].Conflict = policy }, func(b *bench) {
				b.put("a", `1`)
				b.settle()
				b.target.set("a", `9`)
				p := b.wantAction(askStored("a"), want.action, want.why)
				if !p.Drift || p.Same || !p.Exists {
					t.Errorf("%+v", p)
				}
			})
		})
	}
}

func TestAPreviewOfWhatWasRefusedSaysWhyNothingHappens(t *testing.T) {
	inBubble(t, nil, func(b *bench) {
		b.target.script(func(op string, _ *sink.Request) *sink.Result {
			if op == "apply" {
				return &sink.Result{Status: sink.Rejected, Message: "no"}
			}
			return nil
		})
		b.put("a", `1`)
		b.settle()
		b.want("a", "Failed")
		if p := b.wantAction(askStored("a"), engine.ActionNone, "refused it for good"); p.Same {
			t.Error("the target has nothing")
		}
		b.wantAction(askPut("a", `2`), engine.ActionCreate, "")
	})
}

func TestAPreviewTellsWhatKeepsItFromLooking(t *testing.T) {
	inBubble(t, func(o *engine.Options) { o.Sinks[0].BreakerAfter = 1 }, func(b *bench) {
		b.put("a", `1`)
		b.put("held", `1`)
		b.settle()
		quiet := func(name, why string) {
			t.Helper()
			before := len(b.target.ops(name))
			b.wantAction(askStored(name), engine.ActionUnknown, why)
			if after := len(b.target.ops(name)); after != before {
				t.Errorf("%s: the target was called", why)
			}
		}
		b.must(b.Suspend(b.t.Context(), web("a")))
		quiet("a", "suspended by an operator")
		b.must(b.Resume(b.t.Context(), web("a")))

		b.must(b.SuspendSink(b.t.Context(), "web"))
		quiet("a", "its sink is suspended (Operator)")
		b.must(b.ResumeSink(b.t.Context(), "web"))

		hold(t, b, web("held"))
		quiet("held", "saga s writes to it")
		b.LetGo([]record.Key{web("held")})

		b.target.always(sink.Result{Status: sink.Retry, RetryAfter: time.Hour, RetryAfterTarget: true})
		b.put("a", `2`)
		b.settle()
		quiet("a", "asked its callers to pause until")
		b.target.always(sink.Result{Status: sink.Unreachable})
		b.after(2 * time.Hour)
		quiet("a", "the target does not answer")
	})
}

func TestAPreviewAtASinkThatIsNotReadySaysSo(t *testing.T) {
	inBubble(t, nil, func(b *bench) {
		b.target.manifest.NotReady = "the target is away"
		b.must(b.Close(b.t.Context()))
		b.open()
		b.wantAction(askPut("a", `1`), engine.ActionUnknown, "its sink is not ready: the target is away")
		b.wantOps("a")
		b.target.manifest.NotReady = ""
	})
}

func TestAPreviewIsRefusedAsTheChangeWouldBe(t *testing.T) {
	inBubble(t, func(o *engine.Options) { o.PayloadMaxBytes = 8 }, func(b *bench) {
		_, err := b.Put(b.t.Context(), engine.Put{Key: web("a"), Payload: []byte(`1`), Owner: "one"})
		b.must(err)
		b.settle()
		for want, q := range map[error]engine.Question{
			engine.ErrUnknownSink: {Key: record.Key{Sink: "nowhere", Name: "a"}, Put: &engine.Put{Payload: []byte(`1`)}},
			engine.ErrOwned:       {Key: web("a"), Put: &engine.Put{Payload: []byte(`2`), Owner: "two"}},
			engine.ErrTooLarge:    askPut("a", `"123456789"`),
			engine.ErrNotFound:    askStored("none"),
			engine.ErrInvalid:     {Key: web("a"), Delete: &engine.Delete{Deletion: "burn"}},
		} {
			if _, err := b.Preview(b.t.Context(), q); !errors.Is(err, want) {
				t.Errorf("%v, want %v", err, want)
			}
		}
		b.wantAction(engine.Question{Key: web("a"), Put: &engine.Put{Payload: []byte(`2`), Owner: "two", TakeOver: true}}, engine.ActionUpdate, "")
		b.target.always(sink.Result{Status: sink.Rejected, Message: "the key is no UUID"})
		b.wantAction(askPut("b", `1`), engine.ActionRefused, "the key is no UUID")
	})
}

func TestAPreviewWhereTheSinkCantLookGoesByTheAcknowledgement(t *testing.T) {
	inBubble(t, func(o *engine.Options) {
		o.Sinks[0].Sink.(*fakeTarget).manifest.Observes = false
	}, func(b *bench) {
		b.put("a", `1`)
		b.settle()
		const why = "acknowledged last"
		for _, x := range []struct {
			q    engine.Question
			want engine.Action
		}{{askStored("a"), engine.ActionNone}, {askPut("a", `1`), engine.ActionNone}, {askPut("a", `2`), engine.ActionUpdate},
			{askPut("b", `1`), engine.ActionCreate}, {askDelete("a"), engine.ActionDelete}} {
			if p := b.wantAction(x.q, x.want, why); p.Looked {
				t.Errorf("%+v", p)
			}
		}
		b.wantOps("a", "apply")
	})
}

func TestP3APreviewAndADeliveryWaitForEachOther(t *testing.T) {
	inBubble(t, nil, func(b *bench) { // which fails where two calls about one resource overlap
		b.target.slow(5 * time.Second)
		b.put("a", `1`)
		b.after(time.Second) // its Apply is under way
		began := time.Now()
		if p := b.ask(askStored("a")); !p.Same || time.Since(began) != 9*time.Second {
			t.Errorf("after %v: %+v", time.Since(began), p)
		}
		answered := make(chan engine.Preview)
		go func() { answered <- b.ask(askStored("a")) }()
		b.after(time.Second) // the look is under way
		b.put("a", `2`)
		b.after(time.Second)
		if ops := b.target.ops("a"); slices.Contains(ops[2:], "apply") {
			t.Errorf("delivered beside the look: %v", ops)
		}
		<-answered
		b.after(10 * time.Second)
		b.want("a", "Acked")
		if b.target.get("a") != `2` {
			t.Error("the delivery that waited is lost")
		}
	})
}

func TestP3AHoldWaitsForTheLookUnderWay(t *testing.T) {
	inBubble(t, nil, func(b *bench) {
		b.put("a", `1`)
		b.settle()
		b.target.slow(5 * time.Second)
		answered := make(chan engine.Preview)
		go func() { answered <- b.ask(askStored("a")) }()
		b.after(time.Second)
		began := time.Now()
		hold(t, b, web("a"))
		if waited := time.Since(began); waited != 4*time.Second {
			t.Errorf("it waited %v", waited)
		}
		<-answered
	})
}

func TestP3NoCallsOverlapWhateverIsAskedAndPut(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	inBubble(t, func(o *engine.Options) { o.Sinks[0].MaxInFlight = 3 }, func(b *bench) {
		b.target.slow(20 * time.Millisecond)
		done := make(chan bool)
		for n := range 12 {
			go func() {
				r := rand.New(rand.NewPCG(seed, uint64(n)))
				for range 60 {
					name := fmt.Sprint(r.IntN(3))
					switch r.IntN(4) {
					case 0:
						b.ask(askPut(name, fmt.Sprint(r.IntN(5))))
					case 1:
						_, _ = b.Preview(b.t.Context(), askStored(name))
					case 2:
						b.put(name, fmt.Sprint(r.IntN(5)))
					default:
						_, _ = b.Delete(b.t.Context(), engine.Delete{Key: web(name)})
					}
					time.Sleep(time.Duration(r.IntN(30)) * time.Millisecond)
				}
				done <- true
			}()
		}
		for range 12 {
			<-done
		}
		b.after(time.Minute)
		for _, name := range []string{"0", "1", "2"} {
			if st := b.state(name); st != "Acked" && st != "gone" {
				t.Errorf("%s came to rest %s", name, st)
			}
		}
	})
}

func TestAPreviewSharesTheSinksRate(t *testing.T) {
	inBubble(t, func(o *engine.Options) { o.Sinks[0].Rate = 1 }, func(b *bench) {
		began := time.Now()
		for i := range 5 {
			b.ask(askPut(fmt.Sprint(i), `1`))
		}
		if took := time.Since(began); took != 4*time.Second {
			t.Errorf("five looks at one a second took %v", took)
		}
		b.put("a", `1`)
		b.settle()
		b.wantOps("a") // the rate is spent
		b.after(time.Second)
		b.want("a", "Acked")
	})
}

func TestAPreviewThatWaitsEndsWithTheEngine(t *testing.T) {
	inBubble(t, func(o *engine.Options) { o.Sinks[0].Rate = 0.001 }, func(b *bench) {
		b.ask(askPut("a", `1`))
		failed := make(chan error)
		go func() {
			_, err := b.Preview(b.t.Context(), askPut("a", `1`))
			failed <- err
		}()
		synctest.Wait()
		b.must(b.Close(b.t.Context()))
		if err := <-failed; !errors.Is(err, engine.ErrClosed) {
			t.Error(err)
		}
	})
}

func TestAPreviewWhoseCallerLeavesEndsItsLookAllTheSame(t *testing.T) {
	inBubble(t, nil, func(b *bench) {
		b.target.slow(5 * time.Second)
		ctx, cancel := context.WithTimeout(b.t.Context(), time.Second)
		defer cancel()
		if _, err := b.Preview(ctx, askPut("a", `1`)); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatal(err)
		}
		b.put("a", `1`) // waits for the look, see fakeTarget
		b.after(30 * time.Second)
		b.want("a", "Acked")
		if s := b.Sinks()[0]; s.LastError != "" {
			t.Errorf("the sink's last error is %q", s.LastError)
		}
	})
}

func TestAPreviewHasWhatTheTargetReports(t *testing.T) {
	for _, reports := range []bool{true, false} {
		inBubble(t, func(o *engine.Options) { o.Sinks[0].Sink.(*fakeTarget).manifest.ReportsContent = reports }, func(b *bench) {
			b.target.script(func(string, *sink.Request) *sink.Result {
				return &sink.Result{Status: sink.OK, Observation: &sink.Observation{Exists: true, MatchDesired: sink.No, Content: []byte(`{"a":1}`)}}
			})
			p := b.ask(askPut("a", `{"a":2}`))
			if got := string(p.Content) == `{"a":1}`; got != reports || string(p.Payload) != `{"a":2}` {
				t.Errorf("reports %v: %+v", reports, p)
			}
		})
	}
}
