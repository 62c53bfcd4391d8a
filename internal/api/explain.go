package api

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/pawlsync/pawl/engine/record"
)

// Explain says in a paragraph why a resource is where it is, what happens next
// and what an operator may do. It names no payload values.
func Explain(r *Resource, s *Sink, now time.Time) string {
	if s == nil {
		s = &Sink{}
	}
	x := &explanation{r: r, st: &r.Status, s: s, now: now}
	return sentences(x.desired(), x.phase(), x.holds(), x.acked())
}

// explanation is what one is made of.
type explanation struct {
	r   *Resource
	st  *Status
	s   *Sink
	now time.Time
}

// sentences puts those that are there in a row.
func sentences(all ...string) string {
	return strings.Join(slices.DeleteFunc(all, func(s string) bool { return s == "" }), " ")
}

func (x *explanation) desired() string {
	r := x.r
	if r.Generation == 0 { // its record can't be read
		return ""
	}
	what := fmt.Sprintf("%s/%s is to have generation %d", r.Sink, r.Key, r.Generation)
	switch {
	case x.inbound():
		what = fmt.Sprintf("%s/%s takes in what the target has, and nothing is ever sent there (direction inbound): generation %d", r.Sink, r.Key, r.Generation)
	case r.Tombstone && r.Origin == record.FromTarget:
		what = fmt.Sprintf("%s/%s was deleted at the target, generation %d", r.Sink, r.Key, r.Generation)
	case r.Tombstone:
		what = fmt.Sprintf("%s/%s is to be deleted, generation %d", r.Sink, r.Key, r.Generation)
	}
	if !r.PutAt.IsZero() {
		what += ternary(r.Origin == record.FromTarget, ", taken over ", ", put ") + ago(r.PutAt, x.now)
	}
	if r.Owner != "" {
		what += ternary(r.Origin == record.FromTarget, ", owner ", " by ") + r.Owner
	}
	return what + "."
}

func (x *explanation) phase() string {
	st := x.st
	if said := x.takingIn(); said != "" {
		return said
	}
	switch st.Phase {
	case record.Pending:
		return x.pending()
	case record.Delivering:
		return "A call to the target is under way."
	case record.AckedPhase:
		return x.done()
	case record.Drifted:
		where := ""
		if len(st.DriftPaths) > 0 {
			where = " at " + strings.Join(st.DriftPaths, ", ")
		}
		return sentences(fmt.Sprintf("The target was changed by somebody else%s, and the policy is to report that and touch nothing.", where), x.next("It is looked at again"),
			"Accept what is there (pawl accept), or put the desired state back (pawl apply --force).")
	case record.Stalled:
		return sentences(fmt.Sprintf("Its attempts ran out: %s.", cause(st)), x.next("It is tried again"),
			"A new generation or pawl retry starts it at once"+ternary(x.r.Tombstone, "; "+givesUp, "")+".")
	case record.Failed:
		return x.failed()
	case record.Obsolete:
		return "The target holds something newer and refuses this state as of the past. That is no error and nothing happens until a new generation is put."
	case record.Deleting:
		return sentences("The target said that the deletion is under way.", x.next("It is looked at again"), "Only when the object is gone does the record go.")
	case record.Orphaned:
		return fmt.Sprintf("The sink %s is not in the configuration, so that nothing is delivered. It goes on when the sink returns; pawl forget gives it up.", x.r.Sink)
	}
	return fmt.Sprintf("Its phase is %s.", st.Phase)
}

func (x *explanation) pending() string {
	st := x.st
	switch st.Reason {
	case record.ReasonNone:
		if st.Attempts == 0 {
			return x.waiting()
		}
	case record.ReasonSettling:
		return sentences(x.settling(), x.next("The target is looked at again"))
	case record.ReasonInProgress:
		return sentences("The target still works on it.", x.next("It is looked at again"))
	case record.ReasonPaused:
		asked := "The target asked for a pause"
		if st.Message != "" {
			asked += ": " + message(st)
		}
		return sentences(asked+".", x.next("It goes on"))
	case record.ReasonFighting:
		return sentences("Its drift was corrected too often within the hour: somebody else keeps changing the target.", x.next("It is left alone until it is tried again"))
	case record.ReasonTargetChanged:
		return sentences("The sink talks to another target than before, so that what the old one confirmed counts no more.", x.next("The new one is looked at"))
	}
	failed := ""
	if st.Attempts > 0 {
		failed = fmt.Sprintf(" (%s failed)", count(st.Attempts, "attempt"))
	}
	done, hint := "delivered", ""
	switch {
	case x.inbound(), x.r.Origin == record.FromTarget && x.r.Tombstone:
		done = "looked at"
	case x.r.Tombstone && st.Attempts > 0:
		done, hint = "deleted", "If it never can be, "+givesUp+"."
	case x.r.Tombstone:
		done = "deleted"
	}
	return sentences(fmt.Sprintf("It is not %s yet%s: %s.", done, failed, cause(st)), x.next("It is tried again"), hint)
}

// givesUp is what helps where a deletion can't be delivered.
const givesUp = "pawl forget gives it up and leaves the target as it is"

// settling names the content that may still land.
func (x *explanation) settling() string {
	what := "An earlier state"
	if n := len(x.st.Attempted); n > 0 {
		what = fmt.Sprintf("Generation %d", x.st.Attempted[n-1].Generation)
	}
	return what + " may have been sent and may still land: a request got no answer, or pawl ended, or its store was restored, before an answer was on its disk."
}

// waiting explains a state that no call was made for yet.
func (x *explanation) waiting() string {
	what := "delivery"
	switch {
	case x.inbound():
		what = "look"
	case x.r.Tombstone:
		what = "deletion"
	case x.st.Acked == nil:
		what = "first delivery"
	}
	others := ""
	if n := x.s.Waiting.Fresh + x.s.Waiting.Retry - 1; n > 0 {
		others = fmt.Sprintf(", with %s of its sink", count(n, "other"))
	}
	said := fmt.Sprintf("It waits for its %s%s.", what, others)
	if x.held() {
		return said
	}
	if trouble := Trouble(x.s); trouble != "" {
		said += fmt.Sprintf(" The newest call of its sink, %s, says: %s: %s.", ago(x.s.LastErrorAt, x.now), trouble, clipped(x.s.LastError))
	}
	if !x.st.FailedAt.IsZero() {
		said += fmt.Sprintf(" A call for an older state failed %s; this one goes out once its retry.base, else its sink's, has passed since.", ago(x.st.FailedAt, x.now))
	}
	return said
}

func (x *explanation) done() string {
	if a := x.st.Acked; a != nil && a.Missing {
		return "The target's object is missing, and that was accepted; a new generation puts it back."
	}
	if x.st.Reason == record.ReasonAccepted {
		return "The target differs from the desired state, and that was accepted; a new generation is applied again."
	}
	return "The target confirmed it, and nothing more is owed."
}

func (x *explanation) failed() string {
	st := x.st
	switch {
	case st.Reason == record.ReasonDamaged:
		return fmt.Sprintf("Its record in the store can't be read: %s. pawl forget discards it; put it again after that.", message(st))
	case st.Reason == record.ReasonContended:
		return fmt.Sprintf("Another resource keeps the same object at the target: %s. Delete or rename one of the two.", message(st))
	case st.Reason == record.ReasonNotOurs:
		return "The object at the target can't be told to be ours, so that it is not deleted. Take it over (pawl accept) or give the resource up (pawl forget)."
	case x.r.Tombstone: // refused by the target, or the plugin has no delete
		return fmt.Sprintf("It can't be deleted: %s. Nothing happens until pawl retry is called; %s.", cause(st), givesUp)
	}
	return fmt.Sprintf("The target refuses it for good: %s. Nothing happens until a new generation is put, or pawl retry is called.", cause(st))
}

// Held names in a few words what keeps a resource from being called about,
// however due it is: "an operator suspended it". "" if nothing does.
func Held(r *Resource, s *Sink, now time.Time) string {
	switch {
	case r.HeldBy != "":
		return "saga " + r.HeldBy + " writes to it"
	case r.Status.Phase == record.Orphaned:
		return "its sink is not in the configuration"
	case r.Status.Suspended && !r.Tombstone: // which a resource's own flags don't hold
		return "an operator suspended it"
	case r.Suspend && !r.Tombstone:
		return "its source suspended it"
	case s.Suspended:
		return "its whole sink is suspended"
	case s.NotReady != "":
		return "its sink is not ready yet"
	case breakerOpen(s):
		return Trouble(s) + ", and its sink waits for that"
	case s.PausedUntil.After(now):
		return "the target asked its callers to pause"
	}
	return ""
}

func (x *explanation) held() bool { return Held(x.r, x.s, x.now) != "" }

// next says when what happens: "It is tried again in 5s."; nothing of one that
// is held, whose own time means nothing until that ends.
func (x *explanation) next(what string) string {
	if x.held() {
		return ""
	}
	return next(what, x.st.NextAt, x.now)
}

// holds names what keeps it from going on though it is due.
func (x *explanation) holds() string {
	r, s := x.r, x.s
	var holds []string
	if r.HeldBy != "" {
		holds = append(holds, fmt.Sprintf("Saga %s writes to it, and nothing else is delivered until that has ended; see pawl saga explain %s.", r.HeldBy, r.HeldBy))
	}
	if r.Suspend && !r.Tombstone {
		holds = append(holds, "Its source suspended it.")
	}
	if x.st.Suspended && !r.Tombstone {
		holds = append(holds, "An operator suspended it; pawl resume lets it go on.")
	}
	if x.st.Command != record.NoCommand {
		holds = append(holds, fmt.Sprintf("An operator's order (%s) waits for its delivery.", x.st.Command))
	}
	if x.st.Phase == record.Orphaned {
		return sentences(holds...)
	}
	if s.Suspended {
		why := ""
		if s.SuspendReason != record.ReasonNone {
			why = fmt.Sprintf(" (%s)", s.SuspendReason)
		}
		holds = append(holds, fmt.Sprintf("The whole sink is suspended%s; pawl resume --sink %s lets it go on.", why, s.Name))
	}
	if s.NotReady != "" {
		holds = append(holds, fmt.Sprintf("The sink is not ready: %s. That is tried again, with pauses that grow; once it is, all goes on by itself.", strings.TrimRight(s.NotReady, ".")))
	}
	if breakerOpen(s) {
		why := ""
		if last := clipped(s.LastError); last != "" && last != message(x.st) { // else it is said already
			why = ": " + last
		}
		holds = append(holds, fmt.Sprintf("%s, and the whole sink waits for it without burning attempts%s.", upper(orElse(Trouble(s), noAnswer)), why),
			next("It is probed", s.NextProbe, x.now))
	}
	if s.PausedUntil.After(x.now) {
		holds = append(holds, fmt.Sprintf("The target asked its callers to pause; the sink goes on %s.", in(s.PausedUntil, x.now)))
	}
	return sentences(holds...)
}

func (x *explanation) acked() string {
	a := x.st.Acked
	switch {
	case x.st.Reason == record.ReasonDamaged: // it is not known
		return ""
	case x.inbound():
		return x.takenIn()
	case a == nil && x.st.Phase != record.AckedPhase:
		return "The target never confirmed a generation of it."
	case a == nil || a.Generation == x.r.Generation && x.st.Phase == record.AckedPhase && a.At.IsZero():
		return ""
	case a.Generation == x.r.Generation:
		return fmt.Sprintf("This generation was last confirmed %s.", ago(a.At, x.now))
	}
	return fmt.Sprintf("What the target confirmed last is generation %d, %s.", a.Generation, ago(a.At, x.now))
}

const (
	noAnswer = "the target does not answer"
	noAccess = "the target refuses our credentials"
)

// Trouble says what is wrong between a sink and its target, going by the newest
// call; "" if that was answered.
func Trouble(s *Sink) string {
	switch s.LastErrorStatus {
	case "unauthorized":
		return noAccess
	case "unreachable":
		return noAnswer
	}
	if breakerOpen(s) { // by faults of the plugin, or before the first call's status is known
		return noAnswer
	}
	return ""
}

func breakerOpen(s *Sink) bool { return s.Breaker != "" && s.Breaker != "closed" }
