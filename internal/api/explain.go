package api

import (
	"fmt"
	"strings"
	"time"

	"github.com/pawlsync/pawl/engine/record"
)

// Explain says in a paragraph why a resource is where it is, what happens next
// and what an operator may do. It names no payload values.
func Explain(r *Resource, s *Sink, now time.Time) string {
	var parts []string
	for _, part := range []string{
		explainDesired(r, now),
		explainPhase(r, s, now),
		explainHolds(r, s, now),
		explainAcked(r, now),
	} {
		if part != "" {
			parts = append(parts, part)
		}
	}
	return strings.Join(parts, " ")
}

func explainDesired(r *Resource, now time.Time) string {
	what := fmt.Sprintf("%s/%s is to have generation %d", r.Sink, r.Key, r.Generation)
	if r.Tombstone {
		what = fmt.Sprintf("%s/%s is to be deleted, generation %d", r.Sink, r.Key, r.Generation)
	}
	if !r.PutAt.IsZero() {
		what += ", put " + ago(r.PutAt, now)
	}
	if r.Owner != "" {
		what += " by " + r.Owner
	}
	return what + "."
}

func explainPhase(r *Resource, s *Sink, now time.Time) string {
	st := &r.Status
	switch st.Phase {
	case record.Pending:
		return explainPending(r, s, now)
	case record.Delivering:
		return "A call to the target is under way."
	case record.AckedPhase:
		return explainDone(r)
	case record.Drifted:
		where := ""
		if len(st.DriftPaths) > 0 {
			where = " at " + strings.Join(st.DriftPaths, ", ")
		}
		return fmt.Sprintf("The target was changed by somebody else%s, and the policy is to report that and touch nothing. %s"+
			" Accept what is there (pawl accept), or put the desired state back (pawl apply --force).", where, next("It is looked at again", st.NextAt, now))
	case record.Stalled:
		return fmt.Sprintf("Its attempts ran out: %s. %s A new generation or pawl retry starts it at once.", cause(st), next("It is tried again", st.NextAt, now))
	case record.Failed:
		return explainFailed(r)
	case record.Obsolete:
		return "The target holds something newer and refuses this state as of the past. That is no error and nothing happens until a new generation is put."
	case record.Deleting:
		return fmt.Sprintf("The target said that the deletion is under way. %s Only when the object is gone does the record go.", next("It is looked at again", st.NextAt, now))
	case record.Orphaned:
		return fmt.Sprintf("The sink %s is not in the configuration, so that nothing is delivered. It goes on when the sink returns; pawl forget gives it up.", r.Sink)
	}
	return fmt.Sprintf("Its phase is %s.", st.Phase)
}

func explainPending(r *Resource, s *Sink, now time.Time) string {
	st := &r.Status
	switch st.Reason {
	case record.ReasonNone:
		if st.Attempts == 0 {
			return fmt.Sprintf("It waits for its first delivery, with %s of its sink.", count(waiting(s)-1, "other"))
		}
	case record.ReasonSettling:
		return "An earlier request got no answer and may still land. " + next("The target is looked at again", st.NextAt, now)
	case record.ReasonInProgress:
		return "The target still works on it. " + next("It is looked at again", st.NextAt, now)
	case record.ReasonPaused:
		return "The target asked for a pause. " + next("It goes on", st.NextAt, now)
	case record.ReasonFighting:
		return "Its drift was corrected too often within the hour: somebody else keeps changing the target. " + next("It is left alone until it is tried again", st.NextAt, now)
	case record.ReasonTargetChanged:
		return "The sink talks to another target than before, so that what the old one confirmed counts no more. " + next("The new one is looked at", st.NextAt, now)
	}
	failed := ""
	if st.Attempts > 0 {
		failed = fmt.Sprintf(" (%s failed)", count(st.Attempts, "attempt"))
	}
	return fmt.Sprintf("It is not delivered yet%s: %s. %s", failed, cause(st), next("It is tried again", st.NextAt, now))
}

func explainDone(r *Resource) string {
	if a := r.Status.Acked; a != nil && a.Missing {
		return "The target's object is missing, and that was accepted; a new generation puts it back."
	}
	if r.Status.Reason == record.ReasonAccepted {
		return "The target differs from the desired state, and that was accepted; a new generation is applied again."
	}
	return "The target confirmed it. Nothing is to be done but to look for drift now and then."
}

func explainFailed(r *Resource) string {
	st := &r.Status
	switch st.Reason {
	case record.ReasonContended:
		return fmt.Sprintf("Another resource keeps the same object at the target: %s. Delete or rename one of the two.", message(st))
	case record.ReasonNotOurs:
		return "The object at the target can't be told to be ours, so that it is not deleted. Take it over (pawl accept) or give the resource up (pawl forget)."
	}
	return fmt.Sprintf("The target refuses it for good: %s. Nothing happens until a new generation is put, or pawl retry is called.", cause(st))
}

// explainHolds names what keeps it from going on though it is due.
func explainHolds(r *Resource, s *Sink, now time.Time) string {
	var holds []string
	if r.Suspend {
		holds = append(holds, "Its source suspended it.")
	}
	if r.Status.Suspended {
		holds = append(holds, "An operator suspended it; pawl resume lets it go on.")
	}
	if r.Status.Command != record.NoCommand {
		holds = append(holds, fmt.Sprintf("An operator's order (%s) waits for its delivery.", r.Status.Command))
	}
	if r.Status.Phase == record.Orphaned || s == nil {
		return strings.Join(holds, " ")
	}
	if s.Suspended {
		why := ""
		if s.SuspendReason != record.ReasonNone {
			why = fmt.Sprintf(" (%s)", s.SuspendReason)
		}
		holds = append(holds, fmt.Sprintf("The whole sink is suspended%s; pawl resume --sink %s lets it go on.", why, s.Name))
	}
	if breakerOpen(s) {
		why := ""
		if s.LastError != "" {
			why = ": " + s.LastError
		}
		holds = append(holds, strings.TrimSpace(fmt.Sprintf("The target does not answer, and the whole sink waits for it without burning attempts%s. %s", why, next("It is probed", s.NextProbe, now))))
	}
	if s.PausedUntil.After(now) {
		holds = append(holds, fmt.Sprintf("The target asked its callers to pause; the sink goes on %s.", in(s.PausedUntil, now)))
	}
	return strings.Join(holds, " ")
}

func explainAcked(r *Resource, now time.Time) string {
	a := r.Status.Acked
	switch {
	case a == nil && r.Status.Phase != record.AckedPhase:
		return "The target never confirmed a generation of it."
	case a == nil || a.Generation == r.Generation && r.Status.Phase == record.AckedPhase && a.At.IsZero():
		return ""
	case a.Generation == r.Generation:
		return fmt.Sprintf("This generation was last confirmed %s.", ago(a.At, now))
	}
	return fmt.Sprintf("What the target confirmed last is generation %d, %s.", a.Generation, ago(a.At, now))
}

// Headlines says what needs somebody's attention, most urgent first.
func Headlines(st *DaemonStatus, now time.Time) []string {
	urgent, other := []string{}, []string{}
	if st.Store.RefusingPuts {
		urgent = append(urgent, "The disk is nearly full: Puts are refused, what was accepted is still delivered. Free some space.")
	}
	for i := range st.Sinks {
		s := &st.Sinks[i]
		switch {
		case !s.Configured:
			other = append(other, fmt.Sprintf("%s belong to sink %s, which is not in the configuration.", count(total(s), "resource"), s.Name))
			continue
		case breakerOpen(s) && s.LastErrorStatus == "unauthorized":
			urgent = append(urgent, fmt.Sprintf("Sink %s: the target refuses our credentials. %s", s.Name, next("It is probed", s.NextProbe, now)))
		case breakerOpen(s):
			urgent = append(urgent, fmt.Sprintf("Sink %s: the target does not answer. %s", s.Name, next("It is probed", s.NextProbe, now)))
		}
		if s.Suspended {
			other = append(other, fmt.Sprintf("Sink %s is suspended (%s).", s.Name, orElse(string(s.SuspendReason), "no reason given")))
		}
		for _, p := range []record.Phase{record.Failed, record.Stalled, record.Drifted} {
			if n := s.Counts[p]; n > 0 {
				other = append(other, fmt.Sprintf("Sink %s: %s %s.", s.Name, count(n, "resource"), p))
			}
		}
	}
	return append(urgent, other...)
}

func breakerOpen(s *Sink) bool { return s.Breaker != "" && s.Breaker != "closed" }

func waiting(s *Sink) int {
	if s == nil {
		return 1
	}
	return max(1, s.Waiting.Fresh+s.Waiting.Retry)
}

func total(s *Sink) int {
	n := 0
	for _, c := range s.Counts {
		n += c
	}
	return n
}

// cause joins reason and message.
func cause(st *Status) string {
	switch {
	case st.Message == "":
		return orElse(string(st.Reason), "no reason is known")
	case st.Reason == record.ReasonNone:
		return message(st)
	}
	return string(st.Reason) + ", " + message(st)
}

func message(st *Status) string {
	return strings.TrimRight(orElse(st.Message, "no details are known"), ".")
}

func orElse(s, def string) string {
	if s == "" {
		return def
	}
	return s
}

// next says when what happens: "It is tried again in 5s."
func next(what string, at, now time.Time) string {
	if at.IsZero() {
		return what + " as soon as its turn comes."
	}
	return what + " " + in(at, now) + "."
}

func in(at, now time.Time) string {
	if d := at.Sub(now); d >= time.Second {
		return "in " + rough(d)
	}
	return "now"
}

func ago(at, now time.Time) string {
	if d := now.Sub(at); d >= time.Second {
		return rough(d) + " ago"
	}
	return "just now"
}

// rough prints d as people say it, with its two largest units at most.
func rough(d time.Duration) string {
	const day = 24 * time.Hour
	switch {
	case d >= 2*day:
		return fmt.Sprintf("%d days", d/day)
	case d >= time.Hour:
		return fmt.Sprintf("%dh%dm", d/time.Hour, d%time.Hour/time.Minute)
	case d >= time.Minute:
		return fmt.Sprintf("%dm%ds", d/time.Minute, d%time.Minute/time.Second)
	}
	return fmt.Sprintf("%ds", d/time.Second)
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
