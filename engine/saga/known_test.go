package saga

import (
	"strings"
	"testing"
	"time"

	"github.com/pawlsync/pawl/engine/record"
	"github.com/pawlsync/pawl/engine/sink"
)

// play is one saga played by hand: what it does next is claimed, and answered.
type play struct {
	t *testing.T
	*State
	now  time.Time
	last Effect
}

// begin starts a saga that writes a grant and then an object.
func begin(t *testing.T, mode Mode, verbs ...Verb) *play {
	spec, rules := &Spec{ID: "s", Mode: mode, Timeout: time.Minute}, Rules{Backoff: func(tries int) time.Duration { return time.Duration(tries) * time.Second }}
	for i, v := range verbs {
		spec.Steps = append(spec.Steps, Step{Key: record.Key{Sink: sinkName(uint8(i)), Name: "k"}, Verb: v})
		rules.Steps = append(rules.Steps, StepRules{Timeout: 10 * time.Second, Marks: true, Locks: i == 0, Confirms: true})
	}
	return &play{t: t, State: Start(spec, rules, "r", epoch), now: epoch}
}

// next claims what comes next; a Wait is waited for.
func (p *play) next(kind Kind, step int) *play {
	p.t.Helper()
	for range 3 {
		if p.last = p.Next(p.now); p.last.Kind != Wait || kind == Wait {
			break
		}
		p.now = p.last.Until
	}
	if p.last.Kind != kind || kind != Wait && p.last.Step != step-1 {
		p.t.Fatalf("next is %s, want %s %d; cause %q, stuck %q", p.last, kind, step, p.Cause, p.Stuck)
	}
	return p
}

func (p *play) says(s sink.Status) *play { return p.result(sink.Result{Status: s}) }

func (p *play) result(r sink.Result) *play {
	p.Answered(p.last, r, p.now)
	return p
}

// sees answers a look.
func (p *play) sees(exists bool, ours sink.Tri) *play {
	if !exists {
		return p.result(sink.Result{Status: sink.NotFound, Observation: &sink.Observation{Ours: ours}})
	}
	return p.result(sink.Result{Status: sink.OK, Observation: &sink.Observation{Exists: true, CID: "1", Content: []byte("before"), Ours: ours}})
}

// first writes the first step.
func (p *play) first() *play {
	p.t.Helper()
	return p.next(Look, 1).sees(p.spec.Steps[0].Verb == Delete, sink.No).next(Write, 1).says(sink.OK)
}

// ends claims that the saga's outcome is told, and that it gives up its locks.
func (p *play) ends(o Outcome, unlocks ...int) {
	p.t.Helper()
	p.next(Adopt, 1).says(sink.OK)
	if p.Outcome != o {
		p.t.Fatalf("told %s, want %s", p.Outcome, o)
	}
	for _, step := range unlocks {
		p.next(Unlock, step).says(sink.OK)
	}
	p.next(End, 1)
}

func TestS1TheGrantIsTakenBackWhenTheObjectIsRefused(t *testing.T) {
	for _, mode := range []Mode{Pessimistic, Optimistic} {
		for _, refusal := range []sink.Status{sink.Unauthorized, sink.Rejected, sink.Obsolete} {
			begin(t, mode, Create, Create).first().next(Look, 2).sees(false, sink.No).next(Write, 2).says(refusal).
				next(Restore, 1).says(sink.OK).ends(RolledBack, 1, 2)
		}
		// 409: perhaps of a proxy's second try; 500: perhaps written.
		for _, doubtful := range []sink.Status{sink.Conflict, sink.AlreadyExists, sink.NotFound} {
			begin(t, mode, Create, Create).first().next(Look, 2).sees(false, sink.No).next(Write, 2).says(doubtful).
				next(Ask, 2).sees(false, sink.No).next(Restore, 1).says(sink.OK).ends(RolledBack, 1, 2)
		}
	}
	begin(t, Optimistic, Create, Create).first().next(Look, 2).sees(false, sink.No).next(Write, 2).says(sink.Retry).
		next(Ask, 2).sees(false, sink.No).next(Ask, 2).sees(false, sink.No).next(Restore, 1).says(sink.OK).ends(RolledBack, 1, 2)
}

func TestS2AWriteIsConditionalOnTheImageFromBefore(t *testing.T) {
	p := begin(t, Optimistic, Upsert, Create).next(Look, 1).sees(true, sink.No).next(Write, 1)
	if b := p.Steps[0].Before; b == nil || !b.Exists || b.CID != "1" || string(b.Content) != "before" {
		t.Fatalf("the write is conditional on %+v", b)
	}
	if !p.last.Durable {
		t.Fatal("the image is not durable before the write")
	}
	p.says(sink.Conflict).next(Ask, 1).sees(true, sink.No).ends(RolledBack, 1)
}

func TestS3TheLoserOfALockUndoesNothing(t *testing.T) {
	p := begin(t, Pessimistic, Create, Create).next(Look, 1).sees(false, sink.No).next(Write, 1).says(sink.Conflict).next(Ask, 1).sees(true, sink.No)
	p.ends(RolledBack, 1) // and no Restore
	if p.FailedStep != 1 {
		t.Errorf("failed at step %d", p.FailedStep)
	}
}

func TestS4AFailedDeleteBringsBackWhatWasThereAndNoMore(t *testing.T) {
	p := begin(t, Optimistic, Delete, Delete).first().next(Look, 2).sees(true, sink.No).next(Write, 2).says(sink.Unauthorized).next(Restore, 1)
	if b := p.Steps[0].Before; string(b.Content) != "before" {
		t.Fatalf("restores %+v", b)
	}
	p.says(sink.OK).ends(RolledBack, 1, 2)
	// What was not there is not brought back, and what somebody else removed is not ours to bring back.
	begin(t, Optimistic, Delete, Delete).next(Look, 1).sees(true, sink.No).next(Write, 1).says(sink.NotFound).
		next(Ask, 1).sees(false, sink.No).ends(RolledBack, 1)
}

func TestS5AConflictIsNoSuccess(t *testing.T) {
	for _, verb := range []Verb{Create, Upsert, Delete} {
		begin(t, Pessimistic, Upsert, verb).first().next(Look, 2).sees(verb != Create, sink.No).next(Write, 2).says(sink.Conflict).
			next(Ask, 2).sees(true, sink.No).next(Restore, 1).says(sink.OK).ends(RolledBack, 1, 2)
	}
}

func TestS6ALockIsOfTheObjectWhateverTheVerb(t *testing.T) {
	for _, verb := range []Verb{Create, Upsert, Delete} {
		begin(t, Pessimistic, verb, Create).next(Look, 1).sees(verb != Create, sink.No).next(Write, 1).says(sink.Conflict).
			next(Ask, 1).sees(verb != Create, sink.No).ends(RolledBack, 1)
	}
}

func TestS8TriesInVainAreFurtherAndFurtherApart(t *testing.T) {
	p := begin(t, Optimistic, Create, Create).first().next(Look, 2).sees(false, sink.No).next(Write, 2).says(sink.Rejected)
	for tries := 1; tries <= 4; tries++ {
		p.next(Restore, 1).says(sink.Unauthorized)
		if e := p.Next(p.now); e.Kind != Wait || e.Until.Sub(p.now) != time.Duration(tries)*time.Second {
			t.Fatalf("after try %d of the undo: %s until %v", tries, e, e.Until.Sub(p.now))
		}
	}
	p.next(Restore, 1).says(sink.OK).ends(RolledBack, 1, 2)

	// A write that the target puts off: nothing is asked before, and the looks between begin no new row.
	p = begin(t, Pessimistic, Create).next(Look, 1).sees(false, sink.No).next(Write, 1).result(sink.Result{Status: sink.Retry, RetryAfter: 20 * time.Second})
	if p.next(Wait, 0); p.last.Until.Sub(p.now) != 20*time.Second {
		t.Fatalf("waits %v, was asked to wait 20s", p.last.Until.Sub(p.now))
	}
	p.next(Ask, 1).sees(false, sink.No)
	if p.next(Wait, 0); p.last.Until.Sub(p.now) != 2*time.Second {
		t.Fatalf("waits %v before it writes again", p.last.Until.Sub(p.now))
	}
	p.next(Write, 1).says(sink.OK).ends(Committed, 1)
}

func TestS9ALookThatFailsIsTriedAgainOrUndone(t *testing.T) {
	begin(t, Pessimistic, Create, Create).first().next(Look, 2).says(sink.Unauthorized).next(Restore, 1).says(sink.OK).ends(RolledBack, 1)
	p := begin(t, Pessimistic, Create, Create).first().next(Look, 2).says(sink.Unreachable).next(Wait, 0)
	p.next(Look, 2).result(sink.Result{Status: sink.Retry, RetryAfter: time.Hour})
	p.next(Wait, 0)
	if p.last.Until.After(p.Deadline) {
		t.Fatalf("waits until %v beyond the deadline", p.last.Until.Sub(p.Deadline))
	}
	p.next(Restore, 1).says(sink.OK).ends(RolledBack, 1)
}

func TestS10ADeletionThatWasAcceptedIsASuccess(t *testing.T) {
	for _, s := range []sink.Status{sink.OK, sink.InProgress, sink.NotFound} {
		begin(t, Pessimistic, Create, Delete).first().next(Look, 2).sees(true, sink.No).next(Write, 2).says(s).ends(Committed, 1, 2)
	}
	begin(t, Pessimistic, Create, Delete).first().next(Look, 2).sees(true, sink.No).next(Write, 2).says(sink.Unreachable).
		next(Ask, 2).result(sink.Result{Status: sink.InProgress}).ends(Committed, 1, 2)
}

func TestS12WhatSomebodyElseOwnsIsNotCreated(t *testing.T) {
	begin(t, Pessimistic, Create, Create).next(Look, 1).sees(true, sink.Unknown).ends(RolledBack)
	begin(t, Pessimistic, Create, Create).first().next(Look, 2).sees(false, sink.No).next(Write, 2).says(sink.AlreadyExists).
		next(Ask, 2).sees(true, sink.No).next(Restore, 1).says(sink.OK).ends(RolledBack, 1, 2)
}

func TestS13OnlyTheMarkTellsWhoCreatedIt(t *testing.T) {
	won := begin(t, Optimistic, Create).next(Look, 1).sees(false, sink.No).next(Write, 1).says(sink.Unreachable).next(Ask, 1)
	won.sees(true, sink.Yes).ends(Committed, 1)
	lost := begin(t, Optimistic, Create).next(Look, 1).sees(false, sink.No).next(Write, 1).says(sink.Unreachable).next(Ask, 1)
	same := sink.Result{Status: sink.OK, Observation: &sink.Observation{Exists: true, MatchDesired: sink.Yes, Ours: sink.No}}
	lost.result(same).next(Wait, 0).next(Ask, 1).result(same).ends(RolledBack, 1)
	same.Observation.Ours = sink.Unknown
	begin(t, Optimistic, Create).next(Look, 1).sees(false, sink.No).next(Write, 1).says(sink.Unreachable).next(Ask, 1).result(same).next(Ask, 1)
}

func TestS14MissingIsBelievedOnlyWhenNothingCanLandAnyMore(t *testing.T) {
	for _, lost := range []sink.Status{sink.Unreachable, sink.Fault, sink.Retry, sink.InProgress} {
		p := begin(t, Optimistic, Create, Create).first().next(Look, 2).sees(false, sink.No).next(Write, 2)
		until := p.now.Add(10 * time.Second)
		p.says(lost).next(Ask, 2).sees(false, sink.No).next(Wait, 0)
		if !p.last.Until.Equal(until) {
			t.Fatalf("%s: waits until %v, want %v", lost, p.last.Until, until)
		}
		p.next(Ask, 2).sees(true, sink.Yes).ends(Committed, 1, 2)
	}
	// A process that finds a write under way in the journal waits, too.
	p := begin(t, Optimistic, Create, Create).first().next(Look, 2).sees(false, sink.No).next(Write, 2)
	p.State = Resume(p.journalled(), p.spec, p.rules, p.now)
	p.next(Ask, 2).sees(false, sink.No).next(Wait, 0).next(Ask, 2).sees(false, sink.No).next(Restore, 1).says(sink.Unreachable)
	until := p.now.Add(10 * time.Second)
	// Nor is a lock given up while a restore may land.
	p.next(Restore, 1).says(sink.OK).next(Adopt, 1).says(sink.OK).next(Wait, 0)
	if !p.last.Until.Equal(until) {
		t.Fatalf("waits until %v, want %v", p.last.Until, until)
	}
	p.next(Unlock, 1).says(sink.OK).next(Unlock, 2).says(sink.OK).next(End, 1)
}

func TestAnOperatorDecidesWhatTheCoreCant(t *testing.T) {
	stuck := func() *play {
		p := begin(t, Optimistic, Create, Create).first().next(Look, 2).sees(false, sink.No).next(Write, 2).says(sink.Rejected).next(Restore, 1).says(sink.Conflict)
		if p.next(Halt, 1); !strings.Contains(p.Stuck, "somebody changed a/k since") || !p.Unresolved(p.now) {
			t.Fatalf("stuck: %q", p.Stuck)
		}
		return p
	}
	p := stuck()
	if p.Resolve("perhaps") || !p.Resolve(TryAgain) {
		t.Fatal("not resolved as asked")
	}
	p.next(Restore, 1).says(sink.OK).ends(RolledBack, 1, 2)
	if p.Resolve(TakeCommitted) {
		t.Error("an outcome was changed")
	}
	for r, o := range map[Resolution]Outcome{TakeCommitted: Committed, TakeRolledBack: RolledBack} {
		p := stuck()
		p.Resolve(r)
		p.ends(o, 1, 2)
	}
	// It was decided while the undo was under way: its answer changes nothing any more.
	p = begin(t, Optimistic, Create, Create).first().next(Look, 2).sees(false, sink.No).next(Write, 2).says(sink.Rejected).next(Restore, 1)
	p.Resolve(TakeRolledBack)
	p.says(sink.Conflict).ends(RolledBack, 1, 2)
}

func TestAnImageThatIsTooLargeIsRefusedBeforeAnythingIsWritten(t *testing.T) {
	p := begin(t, Pessimistic, Upsert).next(Look, 1)
	p.result(sink.Result{Status: sink.OK, Observation: &sink.Observation{Exists: true, Content: make([]byte, sink.MaxImage+1)}}).ends(RolledBack)
	if !strings.Contains(p.Cause, "more than the 1048576 that can be kept for an undo") {
		t.Errorf("cause: %s", p.Cause)
	}
}

func TestAWriteThatWasNeverSentLeavesNothingToGiveUp(t *testing.T) {
	for _, status := range []sink.Status{sink.Unreachable, sink.Fault, sink.Retry} {
		begin(t, Optimistic, Create).next(Look, 1).sees(false, sink.No).next(Write, 1).
			result(sink.Result{Status: status, NotSent: true}).ends(RolledBack) // and no Ask, no Unlock
	}
}

func TestWhatWasWrittenLastIsUndoneFirst(t *testing.T) {
	begin(t, Pessimistic, Create, Create, Create).first().next(Look, 2).sees(false, sink.No).next(Write, 2).says(sink.OK).
		next(Look, 3).sees(false, sink.No).next(Write, 3).says(sink.Rejected).
		next(Restore, 2).says(sink.OK).next(Restore, 1).says(sink.OK).ends(RolledBack, 1, 2, 3)
}
