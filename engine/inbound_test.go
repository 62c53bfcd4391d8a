package engine_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pawlsync/pawl/engine"
	"github.com/pawlsync/pawl/engine/record"
	"github.com/pawlsync/pawl/engine/sink"
)

// watchedTarget is a fakeTarget that reports what it holds, and keeps a log of its
// changes for polls. A cursor is a place in the log.
type watchedTarget struct {
	*fakeTarget

	mu      sync.Mutex
	log     []string // keys, in the order of their changes; those before forgotten can't be told any more
	trimmed int      // how much of the log is forgotten
	page    int      // objects of one answer; 0: all
	cursors []string // that polls asked from
	refuse  *sink.Result
	grace   int // polls that are answered before it is
}

func watched(o *engine.Options, tweak func(m *sink.Manifest)) *watchedTarget {
	f := o.Sinks[0].Sink.(*fakeTarget)
	f.manifest.ReportsContent = true
	if tweak != nil {
		tweak(&f.manifest)
	}
	w := &watchedTarget{fakeTarget: f}
	o.Sinks[0].Sink = w
	return w
}

func polls(m *sink.Manifest) { m.Polls = true }

func (w *watchedTarget) Observe(ctx context.Context, r *sink.Request) sink.Result {
	res := w.fakeTarget.Observe(ctx, r)
	if o := res.Observation; o != nil && o.Exists {
		o.Content = []byte(w.get(r.Key.Name))
	}
	return res
}

func (w *watchedTarget) Apply(ctx context.Context, r *sink.Request) sink.Result {
	defer w.changed(r.Key.Name)
	return w.fakeTarget.Apply(ctx, r)
}

// change is what somebody does at the target; "" deletes.
func (w *watchedTarget) change(name, payload string) {
	if w.set(name, payload); payload == "" {
		w.lose(name)
	}
	w.changed(name)
}

// lose makes the target's object go, and leaves no trace of that in the log.
func (f *fakeTarget) lose(name string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.objects, name)
}

func (w *watchedTarget) changed(name string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.log = append(w.log, name)
}

func (w *watchedTarget) Poll(_ context.Context, cursor string) (sink.Changes, sink.Result) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.cursors = append(w.cursors, cursor)
	if w.refuse != nil {
		if w.grace--; w.grace < 0 {
			return sink.Changes{}, *w.refuse
		}
	}
	at, _ := strconv.Atoi(cursor)
	c := sink.Changes{Reset: cursor != "" && at < w.trimmed}
	if c.Reset {
		at = 0
	}
	names := w.log[at:]
	if at == 0 { // the whole: of what was forgotten too
		names = w.log
	}
	if w.page > 0 && len(names) > w.page {
		names, c.More = names[:w.page], true
	}
	for _, name := range names {
		o := sink.Observation{}
		if got := w.get(name); got != "" {
			o = sink.Observation{Exists: true, Content: []byte(got), AsFound: record.HashOf([]byte(got)).Hex()}
		}
		c.Seen = append(c.Seen, sink.Seen{Key: web(name), Observation: o})
	}
	c.Cursor = strconv.Itoa(at + len(names))
	return c, sink.Result{Status: sink.OK}
}

// refuseFrom answers polls but the next n with res; a zero one ends that.
func (w *watchedTarget) refuseFrom(n int, res sink.Result) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.refuse, w.grace = &res, n; res.Status == 0 {
		w.refuse = nil
	}
}

func (w *watchedTarget) asked() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.cursors)
}

func direction(d record.Direction) func(*engine.Options) {
	return func(o *engine.Options) { o.Sinks[0].Direction = d }
}

// has checks what is known of the target's object.
func (b *bench) has(name, content string) {
	b.t.Helper()
	o := b.status(name).Observed
	if got := ""; o != nil {
		if got = string(o.Content); got == content {
			return
		}
		b.t.Errorf("%s is known as %q, want %q", name, got, content)
	} else if content != "" {
		b.t.Errorf("nothing is known of %s, want %q", name, content)
	}
}

// wants checks what is desired, and whose idea it was.
func (b *bench) wants(name, payload string, origin record.Origin) {
	b.t.Helper()
	r, err := b.Get(b.t.Context(), web(name))
	b.must(err)
	if got := string(r.Desired.Payload); got != payload || r.Desired.Origin != origin {
		b.t.Errorf("%s is desired as %q of origin %q, want %q of %q", name, got, r.Desired.Origin, payload, origin)
	}
}

func TestR31_WhatTheTargetHasIsTakenInByLooks(t *testing.T) {
	inBubble(t, func(o *engine.Options) { direction(record.Inbound)(o); watched(o, nil) }, func(b *bench) {
		b.target.set("a", `{"v":1}`)
		b.put("a", `{}`)
		b.put("b", `{}`)
		b.settle()
		b.want("a", "Acked")
		b.has("a", `{"v":1}`)
		b.want("b", "Pending")
		if st := b.status("b"); st.Reason != record.ReasonMissing {
			t.Errorf("%+v", st)
		}
		b.target.set("a", `{"v":2}`)
		b.target.set("b", `{"w":1}`)
		b.after(67 * time.Second) // a minute, jittered
		b.has("a", `{"v":2}`)
		b.want("b", "Acked")
		b.has("b", `{"w":1}`)
		b.target.lose("a")
		b.after(67 * time.Second)
		b.want("a", "Pending")
		b.has("a", "")
		if i := slices.IndexFunc(b.target.calls, func(c call) bool { return c.op != "observe" }); i >= 0 {
			t.Errorf("the target was written to: %+v", b.target.calls[i])
		}
	})
}

func TestR31_AnInboundDeclarationLeavesItsObjectWhenItGoes(t *testing.T) {
	inBubble(t, func(o *engine.Options) { watched(o, nil) }, func(b *bench) {
		b.target.set("a", `1`)
		_, err := b.Put(b.t.Context(), engine.Put{Key: web("a"), Payload: []byte(`{}`), Direction: record.Inbound})
		b.must(err)
		b.settle()
		b.has("a", `1`)
		b.delete("a")
		b.settle()
		b.want("a", "gone")
		b.wantTarget("a", `1`)
		b.wantOps("a", "observe")
	})
}

func TestR31_WatchersAndListsSeeTheHashAndNotTheContent(t *testing.T) {
	inBubble(t, func(o *engine.Options) { direction(record.Inbound)(o); watched(o, nil) }, func(b *bench) {
		b.target.set("a", `{"secret":1}`)
		token := ""
		page, err := b.List(b.t.Context(), engine.ListOptions{})
		b.must(err)
		token = page.Token
		b.put("a", `{}`)
		b.settle()
		ctx, cancel := context.WithCancel(b.t.Context())
		defer cancel()
		var last record.Status
		for ev, err := range b.Watch(ctx, engine.WatchOptions{From: token}) {
			b.must(err)
			if last = ev.Resource.Status; last.Phase == record.AckedPhase {
				break
			}
		}
		page, err = b.List(b.t.Context(), engine.ListOptions{})
		b.must(err)
		for how, o := range map[string]*record.Observed{"watch": last.Observed, "list": page.Items[0].Status.Observed} {
			if o == nil || o.Content != nil || o.Hash != record.HashOf([]byte(`{"secret":1}`)) {
				t.Errorf("%s shows %+v", how, o)
			}
		}
	})
}

func TestR31_ASinkThatReportsNoContentIsAClearError(t *testing.T) {
	inBubble(t, nil, func(b *bench) {
		_, err := b.Put(b.t.Context(), engine.Put{Key: web("a"), Direction: record.Both})
		if !errors.Is(err, engine.ErrInvalid) || !strings.Contains(err.Error(), "reports_content") {
			t.Errorf("%v", err)
		}
		if _, err := b.Put(b.t.Context(), engine.Put{Key: web("a"), Direction: "sideways"}); !errors.Is(err, engine.ErrInvalid) || !strings.Contains(err.Error(), "use outbound") {
			t.Errorf("%v", err)
		}
		b.must(b.Close(b.t.Context()))
		o := b.opts
		o.Sinks = slices.Clone(o.Sinks)
		o.Sinks[0].Direction = record.Inbound
		if _, err := engine.Open(b.t.Context(), o); err == nil || !strings.Contains(err.Error(), `sink "web"`) || !strings.Contains(err.Error(), "reports_content") {
			t.Errorf("%v", err)
		}
	})
}

func TestR31_PollsTellOfChangesWithoutLooks(t *testing.T) {
	var w *watchedTarget
	inBubble(t, func(o *engine.Options) { direction(record.Inbound)(o); w = watched(o, polls) }, func(b *bench) {
		b.settle() // nothing to poll for yet: the first poll comes in a minute
		for i := range 20 {
			w.change(fmt.Sprint(i), `1`)
			b.put(fmt.Sprint(i), `{}`)
		}
		b.after(time.Minute + time.Second) // the first poll tells of everything
		looked := len(b.target.calls)
		w.change("7", `2`)
		w.change("8", ``)
		w.change("stranger", `1`)
		b.after(time.Minute + time.Second)
		b.has("7", `2`)
		b.want("8", "Pending")
		b.want("stranger", "gone")
		if n := len(b.target.calls); n != looked {
			t.Errorf("%d looks for what a poll told", n-looked)
		}
		if got := w.asked(); !slices.Equal(got, []string{"", "20"}) {
			t.Errorf("polled from %q", got)
		}
	})
}

func TestR31_TheCursorSurvivesARestart(t *testing.T) {
	var w *watchedTarget
	inBubble(t, func(o *engine.Options) {
		direction(record.Inbound)(o)
		w = watched(o, polls)
		o.Sinks[0].SkipStartupCheck = true
	}, func(b *bench) {
		b.settle()
		w.change("a", `1`)
		b.put("a", `{}`)
		b.after(time.Minute + time.Second)
		b.must(b.Close(b.t.Context()))
		w.change("a", `2`)
		b.open()
		b.settle()
		b.has("a", `2`)
		if got := w.asked(); !slices.Equal(got, []string{"", "1"}) {
			t.Errorf("polled from %q", got)
		}
	})
}

func TestR31_ARestartInTheMiddleOfTheWholeBeginsItAgain(t *testing.T) {
	var w *watchedTarget
	inBubble(t, func(o *engine.Options) { direction(record.Inbound)(o); w = watched(o, polls) }, func(b *bench) {
		b.settle() // nothing to poll for yet: the first poll comes in a minute
		w.page = 1
		w.change("a", `1`)
		w.change("b", `1`)
		w.refuseFrom(1, sink.Result{Status: sink.Unreachable, Message: "down"})
		b.put("a", `{}`)
		b.after(time.Minute + time.Second)
		w.refuseFrom(0, sink.Result{})
		b.reopen()
		b.settle()
		if got := w.asked(); !slices.Equal(got, []string{"", "1", "", "1"}) {
			t.Errorf("polled from %q", got)
		}
	})
}

func TestR31_WhatAWholeDoesNotTellOfIsLookedFor(t *testing.T) {
	var w *watchedTarget
	inBubble(t, func(o *engine.Options) {
		direction(record.Inbound)(o)
		w = watched(o, polls)
		o.Sinks[0].DriftInterval = -1 // nothing but polls leads to a look
	}, func(b *bench) {
		b.settle()
		w.change("a", `1`)
		w.change("b", `1`)
		b.put("a", `{}`)
		b.put("b", `{}`)
		b.after(time.Minute + time.Second)
		// The target loses its log, and an object that it doesn't speak of again.
		w.lose("a")
		w.mu.Lock()
		w.log, w.trimmed = []string{"b", "c", "d"}, 3
		w.mu.Unlock()
		b.after(time.Minute + time.Second)
		b.want("a", "Pending")
		b.has("b", `1`)
	})
}

func TestR31_APollThatFailsIsTriedAgainFromTheSameCursor(t *testing.T) {
	var w *watchedTarget
	inBubble(t, func(o *engine.Options) { direction(record.Inbound)(o); w = watched(o, polls) }, func(b *bench) {
		b.settle() // nothing to poll for yet: the first poll comes in a minute
		w.change("a", `1`)
		b.put("a", `{}`)
		b.after(time.Minute + time.Second)
		w.change("a", `2`)
		w.refuseFrom(0, sink.Result{Status: sink.Retry, Message: "busy", RetryAfter: 5 * time.Minute})
		b.after(time.Minute + time.Second)
		w.refuseFrom(0, sink.Result{})
		b.after(4 * time.Minute)
		b.has("a", `1`) // the target asked for five minutes
		b.after(time.Minute + time.Second)
		b.has("a", `2`)
		if got := w.asked(); !slices.Equal(got, []string{"", "1", "1"}) {
			t.Errorf("polled from %q", got)
		}
	})
}

func TestR31_APollThatDoesNotMoveOnIsAFault(t *testing.T) {
	inBubble(t, func(o *engine.Options) {
		direction(record.Inbound)(o)
		w := watched(o, polls)
		o.Sinks[0].Sink = standstill{w}
		o.Sinks[0].DriftInterval = -1
	}, func(b *bench) {
		b.settle()
		b.put("a", `{}`)
		b.after(time.Minute + time.Second)
		if s := b.Sinks()[0]; s.LastErrorStatus != sink.Fault || !strings.Contains(s.LastError, "did not move on") {
			t.Errorf("%+v", s)
		}
	})
}

// standstill says that there is more, for ever.
type standstill struct{ *watchedTarget }

func (standstill) Poll(context.Context, string) (sink.Changes, sink.Result) {
	return sink.Changes{More: true}, sink.Result{Status: sink.OK}
}

func TestR31_EachChangeThatWasTakenInIsARowOfTheHistory(t *testing.T) {
	inBubble(t, func(o *engine.Options) { direction(record.Inbound)(o); watched(o, nil) }, func(b *bench) {
		rows := func() (n int) {
			for _, h := range b.status("a").History {
				if h.Message == "the target's change was taken in" {
					n++
				}
			}
			return n
		}
		b.target.set("a", `1`)
		b.put("a", `null`)
		b.settle()
		for i := range 3 {
			if got := rows(); got != i {
				t.Errorf("%d rows after %d changes", got, i)
			}
			b.after(10 * time.Minute) // looks that find nothing new leave none
			b.target.set("a", strconv.Itoa(i+2))
			b.after(67 * time.Second)
		}
	})
}
