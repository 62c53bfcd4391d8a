package conformance

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/pawlsync/pawl/engine/sink"
)

// faultChecks are about a target that fails: each way must become the status
// that the engine acts on rightly, and never OK.
var faultChecks = []Check{
	breaking{
		id: "fault-refused", how: "refuses connections", status: sink.Unreachable, cut: true,
		fix: "Return the SDK's error of the request as it is, or UNREACHABLE: the engine then waits for the target, and counts nothing against the resource.",
	}.check(),
	breaking{
		id: "fault-reset", how: "cuts the connection, be it before it read the request or instead of the answer", status: sink.Unreachable,
		faults: []func() *fault{resetBefore, resetAfter},
		fix:    "Return the SDK's error of the request as it is, or UNREACHABLE: nothing is known of what the target did. Never take a request that was sent for one that succeeded.",
	}.check(),
	breaking{
		id: "fault-truncated", how: "cuts off its answer", status: sink.Unreachable, also: []sink.Status{sink.Retry}, faults: []func() *fault{truncated},
		fix: "An answer that did not come whole is none: return the SDK's error of the request as it is.",
	}.check(),
	breaking{
		id: "fault-401", how: "refuses the credentials (401)", status: sink.Unauthorized,
		faults: answers(401, `{"error":"who are you?"}`, "Content-Type", "application/json"),
		fix:    "Turn 401 (and 403) into UNAUTHORIZED: the engine then says loudly that an operator is needed.",
	}.check(),
	breaking{
		id: "fault-422", how: "refuses the content (422)", status: sink.Rejected, anyOther: true,
		faults: answers(422, `{"error":"no such colour"}`, "Content-Type", "application/json"),
		fix:    "Turn 4xx answers that a later try can't change into REJECTED in Apply: the resource then waits for another content instead of trying for ever. To Observe and Delete they are errors too.",
	}.check(),
	breaking{
		id: "fault-429", how: "asks for patience (429 with Retry-After)", status: sink.Retry, after: true,
		faults: answers(429, "slow down", "Retry-After", retryAfterSeconds),
		fix:    "Turn 429 into RETRY, with the header's time as retry_after and for the whole target: the engine pauses the sink for so long, and counts nothing against the resource.",
	}.check(),
	breaking{
		id: "fault-500", how: "fails (500)", status: sink.Retry,
		faults: answers(500, `{"error":"oops"}`, "Content-Type", "application/json"),
		fix:    "Turn 5xx into RETRY. It says nothing about the object: neither that it is as desired, nor that it is missing.",
	}.check(),
	breaking{
		id: "fault-503", how: "is overloaded (503 with Retry-After)", status: sink.Retry, after: true,
		faults: answers(503, "come back later", "Retry-After", retryAfterSeconds),
		fix:    "Turn 503 into RETRY, with the header's time as retry_after and for the whole target.",
	}.check(),
	breaking{
		id: "fault-redirect", how: "redirects to another host (302)", anyOther: true, anyApply: true,
		faults: answers(302, "", "Location", "http://elsewhere.invalid/login"),
		fix:    "Only 2xx is success. The host follows redirects of reads within the target; any other 3xx that arrives is an error, say REJECTED.",
	}.check(),
	{
		ID:    "fault-slow",
		Wants: "A target that does not answer in time is UNREACHABLE, and the plugin works on when it does again.",
		Fix:   "Where the adapter sets a timeout of its own, return its error; never OK. Release what a cancelled call held.",
		Run:   slowTarget,
	},
	{
		ID:    "fault-garbage",
		Wants: "Where the target answers 200 with something unreadable, Observe does not match, and the plugin does not trap.",
		Fix:   "Take what can't be read for a difference, or answer RETRY; check every error of decoding.",
		Run:   garbage,
	},
	{
		ID:    "confirms-202",
		Wants: "apply_confirms promises that OK proves persistence: 202 Accepted does not, as long as the object is not there.",
		Fix:   "Answer RETRY to a 202 until a look at the object shows the content; or drop the claim, then the engine looks by itself.",
		Run:   accepted,
	},
	{
		ID:    "messages",
		Wants: "An answer other than OK and NOT_FOUND says in one readable line what is wrong.",
		Fix:   "Give every error a message: what the target answered to what, and what an operator can do.",
		Run:   messages,
	},
}

// retryAfterSeconds is what the kit's Retry-After says.
const retryAfterSeconds = "7"

// breaking is a check of one way in which the target fails. Apply, Observe and
// Delete must all answer status.
type breaking struct {
	id       string
	how      string // completes "a target that …"
	status   sink.Status
	also     []sink.Status // right too
	anyOther bool          // Observe and Delete: any status that is no success
	anyApply bool          // the same for Apply
	after    bool          // with the time of Retry-After, for the whole target
	cut      bool          // the line is cut instead of fault
	faults   []func() *fault
	fix      string
}

// answers is a target that gives one answer to everything.
func answers(code int, body string, header ...string) []func() *fault {
	return []func() *fault{func() *fault { return status(code, body, header...) }}
}

func (b breaking) check() Check {
	wants := fmt.Sprintf("To a target that %s, Apply, Observe and Delete answer %s", b.how, strings.ToUpper(b.status.String()))
	switch {
	case b.anyApply:
		wants = fmt.Sprintf("To a target that %s, no op answers OK, nor Observe and Delete NOT_FOUND", b.how)
	case b.anyOther:
		wants = fmt.Sprintf("To a target that %s, Apply answers %s; Observe and Delete neither OK nor NOT_FOUND", b.how, strings.ToUpper(b.status.String()))
	case b.after:
		wants += " with the time that it asked for, for the whole target"
	}
	return Check{ID: b.id, Wants: wants + "; afterwards all goes on.", Fix: b.fix, Run: b.run}
}

func (b breaking) run(t *T) {
	if b.cut {
		b.try(t, func() { t.line.cut.Store(true) })
	}
	for _, f := range b.faults {
		b.try(t, func() { t.gate.set(f()) })
	}
}

// try makes every call while the target is broken, and sees that all goes on
// when it is whole again.
func (b breaking) try(t *T, breakIt func()) {
	p := t.fixture.Payloads
	m := t.sink.Manifest()
	fresh, known := t.thing(), t.thing()
	known.apply(p.Create)
	breakIt()
	b.judge(t, "Apply of a new object", b.anyApply, t.sink.Apply(t.ctx, fresh.want(fresh.content(p.Create))))
	b.judge(t, "Apply of another content", b.anyApply, t.sink.Apply(t.ctx, known.want(known.content(p.Update))))
	if m.Observes {
		b.judge(t, "Observe", b.anyOther, known.observe(p.Update))
	}
	if m.Deletes {
		b.judge(t, "Delete", b.anyOther, t.sink.Delete(t.ctx, known.tombstone()))
	}
	t.line.cut.Store(false)
	t.gate.set(nil)
	for _, o := range []*thing{fresh, known} {
		o.apply(p.Update)
		if m.Observes {
			o.mustMatch(p.Update, "when the target works again")
		}
	}
}

func (b breaking) judge(t *T, what string, anyError bool, res sink.Result) {
	switch {
	case anyError:
		if gone(res) {
			t.Failf("%s answered %s", what, describe(res))
		}
		return
	case res.Status != b.status && !slices.Contains(b.also, res.Status):
		t.Failf("%s answered %s", what, describe(res))
	}
	if !b.after {
		return
	}
	want, _ := time.ParseDuration(retryAfterSeconds + "s")
	if d := res.RetryAfter; d < want-time.Second || d > want+time.Second {
		t.Failf("the target asked to wait for %v, and %s answered %s", want, what, describe(res))
	}
	if !res.RetryAfterTarget {
		t.Failf("the target asked for patience as a whole, and the answer to %s speaks of this object alone (retry_after_target is not set)", what)
	}
}

// slowCall is the deadline of calls to a target that holds its answers. It only
// has to be longer than the short timeouts that adapters set by themselves.
const slowCall = 1500 * time.Millisecond

func slowTarget(t *T) {
	p := t.fixture.Payloads
	m := t.sink.Manifest()
	things := []*thing{t.thing(), t.thing(), t.thing()}
	for _, o := range things {
		o.apply(p.Create)
	}
	h := newHold()
	defer h.release()
	t.gate.set(h.fault())
	names := []string{"Apply"}
	calls := []func(context.Context) sink.Result{
		func(ctx context.Context) sink.Result {
			return t.sink.Apply(ctx, things[0].want(things[0].content(p.Update)))
		},
	}
	if m.Observes {
		names = append(names, "Observe")
		calls = append(calls, func(ctx context.Context) sink.Result {
			return t.sink.Observe(ctx, things[1].want(things[1].content(p.Update)))
		})
	}
	if m.Deletes {
		names = append(names, "Delete")
		calls = append(calls, func(ctx context.Context) sink.Result { return t.sink.Delete(ctx, things[2].tombstone()) })
	}
	for i, res := range t.overdue(h, calls) {
		if res.Status != sink.Unreachable {
			t.Failf("%s answered %s", names[i], describe(res))
		}
	}
	t.gate.set(nil)
	h.release()
	for _, o := range things {
		o.apply(p.Update)
		if m.Observes {
			o.mustMatch(p.Update, "when the target answers again")
		}
	}
}

// overdue makes calls at once whose deadline passes while the target holds
// their requests, and returns how they ended. The time begins when all that wait
// for the target have reached it: so a busy machine changes nothing.
func (t *T) overdue(h *hold, calls []func(context.Context) sink.Result) []sink.Result {
	ctx, cancel := context.WithCancelCause(t.ctx)
	defer cancel(nil)
	results := make([]sink.Result, len(calls))
	ended := make(chan struct{}, len(calls))
	for i, call := range calls {
		go func() {
			results[i] = call(ctx)
			ended <- struct{}{}
		}()
	}
	waiting, left := 0, len(calls)
	for waiting < left {
		select {
		case <-h.arrived:
			waiting++
		case <-ended:
			left--
		}
	}
	timer := time.AfterFunc(slowCall, func() { cancel(context.DeadlineExceeded) })
	defer timer.Stop()
	for range left {
		<-ended
	}
	return results
}

func garbage(t *T) {
	t.needsObserve()
	o := t.thing()
	o.apply(t.fixture.Payloads.Create)
	for _, body := range []string{"<html><body>Sign in</body></html>", "\x00\xff\xfe{]", `{"cut": "of`, ""} {
		t.gate.set(status(200, body))
		if res := o.observe(t.fixture.Payloads.Create); t.matches(o.current, res) {
			t.Failf("the target answered 200 with the body %.40q, and Observe says that it matches: %s", body, describe(res))
		}
	}
	t.gate.set(nil)
	o.mustMatch(t.fixture.Payloads.Create, "when the target works again")
}

func accepted(t *T) {
	if !t.sink.Manifest().ApplyConfirms {
		t.Skipf("the manifest does not claim apply_confirms")
	}
	t.needsObserve() // where nothing can be looked at, being accepted is all there is to know
	o := t.thing()
	f := status(202, "{}", "Content-Type", "application/json")
	f.only = t.gate.isWrite
	t.gate.set(f)
	res := t.sink.Apply(t.ctx, o.want(o.content(t.fixture.Payloads.Create)))
	t.gate.set(nil)
	if res.Status == sink.OK {
		t.Failf("the target answered 202 and has no such object yet, and Apply answered %s", describe(res))
	}
	o.apply(t.fixture.Payloads.Create)
}

func messages(t *T) {
	p := t.fixture.Payloads
	o := t.thing()
	o.apply(p.Create)
	look := func(what string, res sink.Result) {
		if gone(res) {
			return // another check's business
		}
		if problem := unreadable(res.Message); problem != "" {
			t.Failf("%s answered %s with a message that %s: %.200q", what, res.Status, problem, res.Message)
		}
	}
	for _, f := range []*fault{status(500, "oops\r\nand\tmore\x01"), status(422, "no\nsuch colour"), status(401, "")} {
		t.gate.set(f)
		look("Apply", t.sink.Apply(t.ctx, o.want(o.content(p.Update))))
		if t.sink.Manifest().Observes {
			look("Observe", o.observe(p.Update))
		}
		if t.sink.Manifest().Deletes {
			look("Delete", t.sink.Delete(t.ctx, o.tombstone()))
		}
	}
}
