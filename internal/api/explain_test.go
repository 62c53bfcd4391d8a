package api

import (
	"strings"
	"testing"
	"time"

	"github.com/pawlsync/pawl/engine/record"
)

func TestExplainSpeaksOfTakingIn(t *testing.T) {
	inbound := func(st Status) Resource {
		st.Generation = 7
		return Resource{Sink: "web", Key: "a", Generation: 7, PutAt: noon.Add(-time.Minute), Owner: "git", Direction: record.Inbound, Status: st}
	}
	acked := inbound(Status{Phase: record.AckedPhase, Acked: &Acked{Generation: 7, At: noon}, Observed: &Observed{At: noon.Add(-5 * time.Second)}})
	bySink := acked
	bySink.Direction = ""
	taken := inbound(Status{Phase: record.AckedPhase, Reason: record.ReasonTakenOver, Acked: &Acked{Generation: 7, At: noon.Add(-time.Hour)}})
	taken.Direction, taken.Origin = record.Both, record.FromTarget
	deleted := taken
	deleted.Tombstone, deleted.Status.Reason = true, record.ReasonTargetDeleted
	gone := inbound(Status{Phase: record.Pending})
	gone.Tombstone = true
	const head = "web/a takes in what the target has, and nothing is ever sent there (direction inbound): generation 7, put 1m0s ago by git. "
	for _, c := range []struct {
		name string
		r    Resource
		s    Sink
		want string
	}{
		{"taken in", acked, Sink{}, head + "What the target has is known, and its changes are taken in. It was last taken in 5s ago."},
		{"of a sink that is inbound", bySink, Sink{Direction: record.Inbound}, head + "What the target has is known, and its changes are taken in. It was last taken in 5s ago."},
		{"missing", inbound(Status{Phase: record.Pending, Reason: record.ReasonMissing}), Sink{},
			head + "The target has no such object. Once it has, that is taken in. Nothing that the target has is known here."},
		{"new", inbound(Status{Phase: record.Pending}), Sink{}, head + "It waits for its look. Nothing that the target has is known here."},
		{"no answer", inbound(Status{Phase: record.Pending, Reason: record.ReasonRetryable, Message: "503", Attempts: 1, NextAt: noon.Add(4 * time.Second)}), Sink{},
			head + "It is not looked at yet (1 attempt failed): Retryable, 503. It is tried again in 4s. Nothing that the target has is known here."},
		{"too large", inbound(Status{Phase: record.Failed, Reason: record.ReasonTooLarge, Message: "it has 9 bytes"}), Sink{},
			head + "What the target has can't be taken in: it has 9 bytes. It is looked at again, and taken in once it can be. Nothing that the target has is known here."},
		{"to go", gone, Sink{}, head + "It is to be deleted here; the target's object stays. Nothing that the target has is known here."},
		{"taken over", taken, Sink{},
			"web/a is to have generation 7, taken over 1m0s ago, owner git. The target's change was taken over: it is what is desired now, and nothing more is owed. This generation was last confirmed 1h0m ago."},
		{"deleted at the target", deleted, Sink{},
			"web/a was deleted at the target, generation 7, taken over 1m0s ago, owner git. So it is desired no more. Delete it at its source too, or put something new there; should it be back at the target, that is taken over. This generation was last confirmed 1h0m ago."},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := Explain(&c.r, &c.s, noon); got != c.want {
				t.Errorf("got\n%s\nwant\n%s", got, c.want)
			}
		})
	}
}

func TestExplainSaysWhatHoldsAndWhatHelps(t *testing.T) {
	for _, c := range []struct {
		name string
		gone bool
		st   Status
		says string
		not  string
	}{
		{"the target's words of a pause", false, Status{Phase: record.Pending, Reason: record.ReasonPaused, Message: "the receiver holds it; confirm there.", NextAt: noon.Add(20 * time.Second)},
			"The target asked for a pause: the receiver holds it; confirm there. It goes on in 20s.", "forget"},
		{"a pause without words", false, Status{Phase: record.Pending, Reason: record.ReasonPaused}, "The target asked for a pause. It goes on", "forget"},
		{"a deletion that ran out of attempts", true, Status{Phase: record.Stalled, Reason: record.ReasonRetryable, Message: "no sink x"},
			"Its attempts ran out: Retryable, no sink x. It is tried again as soon as its turn comes. A new generation or pawl retry starts it at once; pawl forget gives it up and leaves the target as it is.", ""},
		{"a deletion that is tried again", true, Status{Phase: record.Pending, Reason: record.ReasonRetryable, Message: "no sink x", Attempts: 2},
			"It is not deleted yet (2 attempts failed): Retryable, no sink x. It is tried again as soon as its turn comes. If it never can be, pawl forget gives it up", ""},
		{"a state that ran out of attempts", false, Status{Phase: record.Stalled, Reason: record.ReasonRetryable}, "pawl retry starts it at once.", "forget"},
		{"what may still land", false, Status{Phase: record.Pending, Reason: record.ReasonSettling, Attempted: []Attempt{{Generation: 3}}, NextAt: noon.Add(30 * time.Second)},
			"Generation 3 may have been sent and may still land: a request got no answer, or pawl ended, or its store was restored, before an answer was on its disk. The target is looked at again in 30s.", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := Resource{Sink: "web", Key: "a", Generation: 7, Tombstone: c.gone, Status: c.st}
			got := Explain(&r, nil, noon)
			if !strings.Contains(got, c.says) || c.not != "" && strings.Contains(got, c.not) {
				t.Errorf("got\n%s\nwant in it\n%s\nand not %q", got, c.says, c.not)
			}
		})
	}
}
