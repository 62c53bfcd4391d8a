package engine_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pawlsync/pawl/engine"
	"github.com/pawlsync/pawl/engine/record"
	"github.com/pawlsync/pawl/engine/sink"
)

// recorder is a Tracer that writes down what it is told, by resource.
type recorder struct {
	mu    sync.Mutex
	lines map[string][]string
}

func (r *recorder) note(key record.Key, format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.lines == nil {
		r.lines = map[string][]string{}
	}
	r.lines[key.Name] = append(r.lines[key.Name], fmt.Sprintf(format, args...))
}

func (r *recorder) told(name string) []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.lines[name])
}

func (r *recorder) PutBegan(_ context.Context, key record.Key, op string) engine.PutTrace {
	r.note(key, "%s", op)
	return recordedPut{r, key}
}

func (r *recorder) DeliveryBegan(key record.Key, s engine.DeliveryStart) engine.DeliveryTrace {
	r.note(key, "delivery attempt=%d put=%v", s.Attempt, s.Put)
	return recordedDelivery{r, key}
}

type recordedPut struct {
	r   *recorder
	key record.Key
}

func (p recordedPut) Taken()                        { p.r.note(p.key, "taken") }
func (p recordedPut) Done(outcome string, old bool) { p.r.note(p.key, "%s replaced=%v", outcome, old) }

type recordedDelivery struct {
	r   *recorder
	key record.Key
}

// stepOf names the delivery whose step a context is of.
type stepOf struct{}

func (d recordedDelivery) Step(ctx context.Context, what string) (context.Context, func(string)) {
	if first := ctx.Value(stepOf{}); first != nil {
		what += fmt.Sprintf(" with %v", first)
	}
	return context.WithValue(ctx, stepOf{}, d.key.Name), func(status string) { d.r.note(d.key, "%s: %s", what, status) }
}

func (d recordedDelivery) Done(outcome string, last bool) {
	d.r.note(d.key, "%s last=%v", outcome, last)
}

// traced runs test with a recorder.
func traced(t *testing.T, tweak func(*engine.Options), test func(b *bench, r *recorder)) {
	t.Helper()
	r := &recorder{}
	inBubble(t, func(o *engine.Options) {
		o.Tracer = r
		if tweak != nil {
			tweak(o)
		}
	}, func(b *bench) { test(b, r) })
}

func wantTold(t *testing.T, r *recorder, name string, want ...string) {
	t.Helper()
	if got := inOrder(r.told(name)); !slices.Equal(got, want) {
		t.Errorf("the tracer was told of %s:\n%s\nwant:\n%s", name, strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// inOrder has the answer of a Put where the Put was taken: a delivery may begin before
// its caller was answered, and then be told of first.
func inOrder(told []string) []string {
	const taken, answer = "taken", "accepted replaced=false"
	for i := range told {
		if n := slices.Index(told[i:], answer); told[i] == taken && n > 0 {
			told = slices.Insert(slices.Delete(told, i+n, i+n+1), i+1, answer)
		}
	}
	return told
}

func TestATracerIsToldOfAChangeFromPutToAcknowledgement(t *testing.T) {
	traced(t, nil, func(b *bench, r *recorder) {
		b.put("a", `1`)
		b.settle()
		b.put("a", `1`)
		wantTold(t, r, "a", "put", "taken", "accepted replaced=false",
			"delivery attempt=1 put=true", "apply: ok", "commit: ok", "acked last=true",
			"put", "unchanged replaced=false")
	})
}

func TestATracerIsToldWhichDeliveryIsTheLast(t *testing.T) {
	traced(t, nil, func(b *bench, r *recorder) {
		b.target.always(sink.Result{Status: sink.Retry, Message: "not now"})
		b.put("a", `1`)
		b.settle()
		b.target.script(nil)
		b.after(time.Minute)
		b.want("a", "Acked")
		wantTold(t, r, "a", "put", "taken", "accepted replaced=false",
			"delivery attempt=1 put=true", "apply: retry", "commit: ok", "retryable last=false",
			"delivery attempt=2 put=true", "observe: not-found", "apply: ok", "commit: ok", "acked last=true")
	})
}

func TestATracerIsToldOfADeletion(t *testing.T) {
	traced(t, nil, func(b *bench, r *recorder) {
		b.put("a", `1`)
		b.settle()
		before := len(r.told("a"))
		b.delete("a")
		b.settle()
		told := strings.Join(inOrder(r.told("a")[before:]), ", ")
		want := "delete, taken, accepted replaced=false, delivery attempt=1 put=true, delete: ok, commit: ok, deleted last=true"
		if told != want {
			t.Errorf("the tracer was told: %s\nwant: %s", told, want)
		}
	})
}

func TestWhatALookOrAnEarlierProcessBeganIsNoPutToATracer(t *testing.T) {
	traced(t, func(o *engine.Options) { o.Sinks[0].DriftInterval = time.Hour }, func(b *bench, r *recorder) {
		b.put("a", `1`)
		b.settle()
		before := len(r.told("a"))
		b.after(2 * time.Hour)
		if told := r.told("a")[before:]; len(told) == 0 || told[0] != "delivery attempt=1 put=false" {
			t.Errorf("of a look the tracer was told %q", told)
		}
		b.must(b.SuspendSink(b.t.Context(), "web"))
		b.put("b", `1`)
		b.reopen()
		before = len(r.told("b"))
		b.must(b.ResumeSink(b.t.Context(), "web"))
		b.settle()
		if told := r.told("b")[before:]; len(told) == 0 || told[0] != "delivery attempt=1 put=false" {
			t.Errorf("of what an earlier process was given the tracer was told %q", told)
		}
	})
}

// contextual is a sink that tells whose step its calls are.
type contextual struct {
	batchTarget
	r *recorder
}

func (c *contextual) ApplyBatch(ctx context.Context, rs []*sink.Request) ([]sink.Result, bool) {
	c.r.note(web("call"), "%v", ctx.Value(stepOf{}))
	return c.batchTarget.ApplyBatch(ctx, rs)
}

func (c *contextual) Apply(ctx context.Context, r *sink.Request) sink.Result {
	c.r.note(web("call"), "%v", ctx.Value(stepOf{}))
	return c.batchTarget.Apply(ctx, r)
}

func TestACallRunsInTheStepOfItsDelivery(t *testing.T) {
	c := &contextual{batchTarget: batchTarget{fakeTarget: newTarget()}}
	c.manifest.BatchMax = 8
	traced(t, func(o *engine.Options) { o.Sinks[0].Sink = c }, func(b *bench, r *recorder) {
		c.r = r
		b.put("alone", `1`)
		b.settle()
		b.must(b.SuspendSink(b.t.Context(), "web"))
		b.put("a", `1`)
		b.put("b", `1`)
		b.must(b.ResumeSink(b.t.Context(), "web"))
		b.settle()
		wantTold(t, r, "call", "alone", "a")
		if told := r.told("a"); !slices.Contains(told, "apply-batch: ok") {
			t.Errorf("of the batch's first the tracer was told %q", told)
		}
		if told := r.told("b"); !slices.Contains(told, "apply-batch with a: ok") {
			t.Errorf("of the batch's second the tracer was told %q", told)
		}
	})
}

func TestATracerIsToldThatTheStoreFailed(t *testing.T) {
	traced(t, nil, func(b *bench, r *recorder) {
		b.target.slow(time.Second)
		b.put("a", `1`)
		b.settle()
		b.disk.FailCommits(1, errors.New("disk"))
		b.after(2 * time.Second)
		told := r.told("a")
		if !slices.Contains(told, "commit: error") || !slices.Contains(told, "error last=false") {
			t.Errorf("the tracer was told %q", told)
		}
	})
}
