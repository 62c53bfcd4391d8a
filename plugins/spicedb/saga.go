package main

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"time"

	"github.com/pawlsync/pawl/plugins/spicedb/wire"
	pawl "github.com/pawlsync/pawl/sdk/go"
)

// This file writes the steps of sagas. Locks and marks are relationships too, of a
// definition of their own, and go with the step's in one WriteRelationships:
//
//	lock:RUN-STEP#workflow@workflow:RUN   the mark: that step of that run has written
//	lock:LOCK#workflow@workflow:RUN       that run holds that lock
//
// So all that a run holds has one subject, and goes with one DeleteRelationships.

const workflowRelation = "workflow"

func (cfg *config) held(id, run string) *wire.Row {
	return &wire.Row{ResourceType: cfg.lockType, ResourceID: id, Relation: workflowRelation, SubjectType: cfg.workflowType, SubjectID: run}
}

func (cfg *config) mark(s *pawl.SagaRun) *wire.Row {
	return cfg.held(s.ID+"-"+strconv.FormatUint(uint64(s.Step), 10), s.ID)
}

// write is one WriteRelationships.
type write struct {
	updates []wire.Update
	terms   []wire.Precondition
}

func (w *write) update(op wire.Op, r *wire.Row) {
	w.updates = append(w.updates, wire.Update{Op: op, Row: r})
}

func (w *write) require(match bool, f wire.Filter) {
	w.terms = append(w.terms, wire.Precondition{MustMatch: match, Filter: f})
}

// change adds what the step does to its rows, on the condition that they are as
// before. SpiceDB's conditions see neither caveats nor expirations, and name what
// must be absent by filters alone: the look that precedes the write sees the rest.
func (w *write) change(s *step, before rows) {
	var empty []wire.Filter // of the scope: one condition for all of its rows
	if s.scope != nil {
		for _, f := range s.scope.filters() {
			if !hasAny(before, &f) {
				empty = append(empty, f)
				w.require(false, f)
			}
		}
	}
	absent := func(r *wire.Row) {
		if !slices.ContainsFunc(empty, func(f wire.Filter) bool { return chooses(&f, r) }) {
			w.require(false, exactly(r))
		}
	}
	for _, c := range s.changes(before) {
		after := s.lasting(c.after)
		if c.before != nil {
			w.require(true, exactly(&c.before.Row))
		} else {
			absent(&c.after.Row)
		}
		switch {
		case same(c.before, after):
		case after != nil:
			w.update(wire.Touch, &after.Row)
		case c.before != nil:
			w.update(wire.Delete, &c.before.Row)
		}
	}
	for _, r := range s.unwanted() {
		if before[r.key] == nil {
			absent(&r.Row)
		}
	}
}

func hasAny(image rows, f *wire.Filter) bool {
	for _, r := range image {
		if chooses(f, &r.Row) {
			return true
		}
	}
	return false
}

// chooses reports whether a filter of a scope matches a row.
func chooses(f *wire.Filter, r *wire.Row) bool {
	return f.ResourceType == r.ResourceType && f.ResourceID == r.ResourceID &&
		(f.Relation == "" || f.Relation == r.Relation) && (f.SubjectType == "" || f.SubjectType == r.SubjectType)
}

// lock adds the run's locks: they are held, or taken if they are free. mine are those
// of which it is known that the run has them.
func (w *write) lock(cfg *config, s *pawl.SagaRun, mine rows) {
	for _, id := range s.Locks {
		row := cfg.held(id, s.ID)
		if s.Held || mine[keyOf(row)] != nil {
			w.require(true, exactly(row))
			continue
		}
		w.require(false, wire.Filter{ResourceType: row.ResourceType, ResourceID: id, Relation: row.Relation})
		w.update(wire.Touch, row)
	}
}

// fits refuses what does not go into one request, or whose undo would not.
func (w *write) fits(cfg *config, before rows) error {
	size := 0
	for i := range w.updates {
		size += sizeOf(&w.updates[i])
	}
	for _, r := range before {
		size += sizeOf(&wire.Update{Row: &r.Row})
	}
	tooMuch := func(n int, what, most string) error {
		return pawl.Rejected("the step takes " + strconv.Itoa(n) + " " + what + " of one write, more than the " + most + ": " + nameLess)
	}
	switch undo := 1; { // its mark
	case len(w.updates) > cfg.updates:
		return tooMuch(len(w.updates), "relationships", strconv.Itoa(cfg.updates)+" of update_limit")
	case len(w.terms)+undo > cfg.terms:
		return tooMuch(len(w.terms)+undo, "preconditions", strconv.Itoa(cfg.terms)+" of precondition_limit")
	case size > maxWriteBytes:
		return tooMuch(size, "bytes", strconv.Itoa(maxWriteBytes)+" there are")
	}
	return nil
}

// writeStep is Apply and Delete of a step.
func (a *adapter) writeStep(ctx context.Context, r *pawl.Request) (o pawl.Observation, err error) {
	s, err := a.readStep(ctx, r)
	if err != nil {
		return o, err
	}
	before, err := imageOf(r.Saga.Before)
	if err != nil {
		return o, err
	}
	if len(before) > 0 {
		if r.Mode == pawl.CreateOnly {
			return o, s.changedMeanwhile()
		}
		found, err := a.lookAt(ctx, s, nil)
		if err != nil {
			return o, asError(err)
		}
		if !sameImage(s.image(found), before) {
			return o, s.changedMeanwhile()
		}
	}
	o.Ref, err = a.send(ctx, s, before, nil)
	if f, ok := errors.AsType[*failure](err); ok && f.ofLock(a.cfg) && !r.Saga.Held {
		if mine := a.mine(ctx, s); len(mine) > 0 { // they count as free
			o.Ref, err = a.send(ctx, s, before, mine)
		}
	}
	if err != nil {
		return pawl.Observation{}, s.refusal(a.cfg, err)
	}
	if d := s.desired; d != nil {
		o.Exists, o.MatchDesired, o.Ours, o.Object = true, pawl.Yes, pawl.Yes, a.cfg.object(d)
		o.AdapterState, err = d.state(nil).encode()
	}
	return o, err
}

// send writes the step with its mark and its locks, or nothing.
func (a *adapter) send(ctx context.Context, s *step, before, mine rows) (token string, err error) {
	w := &write{}
	w.lock(a.cfg, s.Saga, mine)
	if s.desired != nil {
		w.terms = append(w.terms, s.desired.preconditions...)
	}
	w.change(s, before)
	w.update(wire.Create, a.cfg.mark(s.Saga)) // so that no second copy of the request goes through
	if err := w.fits(a.cfg, before); err != nil {
		return "", err
	}
	return a.write(ctx, s.Request, w.updates, w.terms)
}

// mine are those of the step's locks that its run has already. Where they can't be
// read none are: what is known then is that nothing was written.
func (a *adapter) mine(ctx context.Context, s *step) rows {
	mine := rows{}
	for _, id := range s.Saga.Locks {
		f := exactly(a.cfg.held(id, s.Saga.ID))
		if _, err := a.read(ctx, s.Request, &f, 0, func(r *relationship) { mine[r.key] = r }); err != nil {
			return nil
		}
	}
	return mine
}

// Unlock gives up the locks and marks of a run.
func (a *adapter) Unlock(ctx context.Context, r *pawl.Request) error {
	timeout, err := timeLeft(ctx)
	if err != nil {
		return err
	}
	f := exactly(a.cfg.held("", r.Saga.ID))
	err = a.call(ctx, methodDelete, wire.AppendDelete(newFrame(256), &f), timeout, func([]byte) error { return nil })
	if isUnknownSchema(err) {
		return nil
	}
	return asError(err)
}

// timeLeft is what the server has for a write of a saga, in milliseconds: beyond the
// call's deadline the engine takes it that no request of it may land any more. 0: no end.
func timeLeft(ctx context.Context) (uint32, error) {
	at, ok := ctx.Deadline()
	if !ok {
		return 0, nil
	}
	left := time.Until(at).Milliseconds()
	if left <= 0 {
		return 0, pawl.Unreachable("the call's time was up before its write was sent")
	}
	return uint32(min(left, 99_999_999)), nil
}
