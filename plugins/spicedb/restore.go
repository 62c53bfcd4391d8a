package main

import (
	"context"
	"errors"
	"strconv"

	"github.com/pawlsync/pawl/plugins/spicedb/wire"
	pawl "github.com/pawlsync/pawl/sdk/go"
)

// Restore takes back what a step wrote, row by row. A row that the step did not
// change is not its business, whatever became of it since.
func (a *adapter) Restore(ctx context.Context, r *pawl.Request) (o pawl.Observation, err error) {
	s, err := a.readStep(ctx, r)
	if err != nil {
		return o, err
	}
	before, err := imageOf(r.Saga.Before)
	if err != nil {
		return o, err
	}
	for range maxRepeats {
		found, marked, err := a.seen(ctx, s, before)
		if err != nil {
			return o, err
		}
		w, err := s.undo(before, found, marked)
		if err != nil {
			return o, err
		}
		o = pawl.Observation{Exists: len(before) > 0}
		if !marked {
			return o, nil
		}
		mark := a.cfg.mark(r.Saga)
		w.require(true, exactly(mark))
		w.update(wire.Delete, mark)
		o.Ref, err = a.write(ctx, r, w.updates, w.terms)
		if f, ok := errors.AsType[*failure](err); !ok || !f.precondition() {
			return o, asError(err)
		}
		// Somebody was quicker: look again.
	}
	return o, pawl.Retry("the relationships change all the time; after " + strconv.Itoa(maxRepeats) + " looks they were left alone")
}

// undo brings every row that the step changed back to what it was. One that is so
// already is left; one that is neither so nor as the step wrote it is somebody else's.
func (s *step) undo(before, found rows, marked bool) (*write, error) {
	w := &write{}
	for _, c := range s.changes(before) {
		was, now := s.lasting(c.before), found[c.key]
		stands := same(now, c.after) || now == nil && s.lasting(c.after) == nil
		switch {
		case same(c.before, c.after) || same(now, was):
		case !marked || !stands:
			return nil, pawl.Conflict(c.key + " was changed since by somebody else")
		case was == nil:
			w.update(wire.Delete, &now.Row)
		default:
			w.update(wire.Touch, &was.Row)
			w.require(now != nil, exactly(&was.Row))
		}
	}
	return w, nil
}

// precondition reports whether a write was refused since a condition of it was not met.
func (f *failure) precondition() bool {
	return f.Reason == "ERROR_REASON_WRITE_OR_DELETE_PRECONDITION_FAILURE"
}

// ofLock reports whether that condition was about a lock or a mark.
func (f *failure) ofLock(cfg *config) bool {
	return f.precondition() && f.Metadata["precondition_resource_type"] == cfg.lockType
}

// asked reports whether that condition was one of the payload's.
func (f *failure) asked(terms []wire.Precondition) bool {
	if !f.precondition() {
		return false
	}
	for i := range terms {
		t, m := &terms[i].Filter, f.Metadata
		if terms[i].MustMatch == (m["precondition_operation"] == "OPERATION_MUST_MATCH") && t.ResourceType == m["precondition_resource_type"] &&
			t.ResourceID == m["precondition_resource_id"] && t.ResourceIDPrefix == m["precondition_resource_id_prefix"] &&
			t.Relation == m["precondition_relation"] && t.SubjectType == m["precondition_subject_type"] &&
			t.SubjectID == m["precondition_subject_id"] && t.SubjectRelation == m["precondition_subject_relation"] {
			return true
		}
	}
	return false
}

// changedMeanwhile says that the rows are not as the image has them.
func (s *step) changedMeanwhile() error {
	if s.Mode == pawl.CreateOnly {
		return pawl.AlreadyExists("relationships that the step creates are there")
	}
	return pawl.Conflict("the relationships changed since the saga looked at them; nothing was written")
}

// refusal says why a step was not written.
func (s *step) refusal(cfg *config, err error) error {
	f, ok := errors.AsType[*failure](err)
	switch {
	case !ok:
	case f.code == codeAlreadyExists: // of all rows the mark alone is created
		return pawl.Conflict("the step was written already")
	case f.ofLock(cfg) && s.Saga.Held:
		return pawl.Conflict("the saga has lost a lock that it held; nothing was written")
	case f.ofLock(cfg):
		return pawl.Conflict("another saga holds the lock of one of the objects; nothing was written")
	case f.precondition() && (s.desired == nil || !f.asked(s.desired.preconditions)):
		return s.changedMeanwhile()
	}
	return cfg.sagaError(err)
}

// sagaError says what the schema lacks, where that is it.
func (cfg *config) sagaError(err error) error {
	f, ok := errors.AsType[*failure](err)
	if !ok || !f.unknownSchema() {
		return asError(err)
	}
	if name := f.Metadata["definition_name"]; name != cfg.lockType && name != cfg.workflowType {
		return asError(err)
	}
	return pawl.Rejected("the schema has no definitions for sagas; add \"definition " + cfg.workflowType + " {}\" and \"definition " +
		cfg.lockType + " { relation " + workflowRelation + ": " + cfg.workflowType + "; }\"")
}
