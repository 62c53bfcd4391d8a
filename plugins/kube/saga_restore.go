package main

import (
	"context"
	"errors"
	"strings"

	"github.com/pawlsync/pawl/plugins/internal/jsondoc"
	pawl "github.com/pawlsync/pawl/sdk/go"
)

// maxLooks bounds how often a Restore looks again in one call because the object
// changed between its look and its write.
const maxLooks = 3

// errChanged says that it did.
var errChanged = errors.New("the object changed in between")

// Restore undoes what a saga's step applied: an object that the step created is
// deleted, and of one that was there before, the fields that the step wrote or
// removed are as before again. Whatever else others changed since stays.
func (a *adapter) Restore(ctx context.Context, r *pawl.Request) (pawl.Observation, error) {
	return pawl.Observation{}, a.restore(ctx, r)
}

func (a *adapter) restore(ctx context.Context, r *pawl.Request) error {
	id, want, err := a.subject(r)
	if err != nil {
		return err
	}
	if want == nil {
		return pawl.Rejected("a deletion can't be undone")
	}
	undo := a.takeAway
	if r.Saga.Before.Exists {
		undo = a.bringBack
	}
	for range maxLooks {
		live, err := a.get(ctx, &id)
		if err == nil {
			err = undo(ctx, r, &id, want, live)
		}
		if err != errChanged {
			return err
		}
	}
	return pawl.Retry(id.String() + " changes all the time; its undo is tried again")
}

// takeAway deletes what the step created. The mark says that this is it, and the
// uid sees to it that no other one is deleted.
func (a *adapter) takeAway(ctx context.Context, r *pawl.Request, id *identity, _ *desired, live jsondoc.Value) error {
	if live.IsZero() {
		return nil
	}
	if !marked(live, r.Saga) {
		return pawl.Conflict(id.String() + " is not what the saga created, or was applied by others since; it was left as it is")
	}
	var o pawl.Observation
	if err := a.identify(&o, id, live); err != nil {
		return err // also while finalizers hold it: the engine asks again until it is gone
	}
	err := a.remove(ctx, id, o.UID, "")
	switch {
	case isNotFound(err):
		return nil
	case errors.Is(err, pawl.StatusConflict):
		return errChanged
	}
	return err
}

// bringBack applies what the image has at the fields that the step wrote or
// removed. So the API server merges: what the step added goes, and what others
// have in the object stays.
func (a *adapter) bringBack(ctx context.Context, r *pawl.Request, id *identity, want *desired, live jsondoc.Value) error {
	before, err := parse(r.Saga.Before.Content)
	if err != nil {
		return pawl.Rejected("the image of " + id.String() + " can't be read: it is " + err.Error())
	}
	if live.IsZero() {
		return pawl.Conflict(id.String() + " was deleted since")
	}
	metadata, ok := live.Get("metadata")
	if !ok || textOf(metadata, "uid") != r.Saga.Before.UID {
		return pawl.Conflict(id.String() + " is another object since, of another uid; it was left as it is")
	}
	isMarked := marked(live, r.Saga)
	changed := a.changedSince
	if !isMarked {
		changed = a.differs
	}
	if d := changed(live, before, want); d.differs {
		return pawl.Conflict(id.String() + " was changed since, at " + strings.Join(d.paths, ", ") + "; it was left as it is")
	}
	if isMarked {
		fields := union(ours(ownersOf(live), a.cfg.manager), ours(ownersOf(before), a.cfg.manager))
		sent := &desired{id: want.id, body: manifestAt(fields, before, metadata)}
		resp, err := a.patch(ctx, r, id, sent)
		if err != nil {
			return err
		}
		if live, err = a.restored(resp, id); err != nil {
			return err
		}
	}
	return a.handBack(ctx, id, live, before)
}

// restored reads the answer to a write of an undo, which is conditional on what
// was seen.
func (a *adapter) restored(resp *pawl.HTTPResponse, id *identity) (jsondoc.Value, error) {
	if resp.Status != 200 {
		err := a.classify(resp, id, "undo")
		if errors.Is(err, pawl.StatusConflict) || isNotFound(err) {
			err = errChanged
		}
		return jsondoc.Value{}, err
	}
	live, err := parse(resp.Body)
	if err != nil {
		return live, pawl.Retry("the server's answer to an undo is " + err.Error())
	}
	return live, nil
}

// changedSince compares an object that bears the mark with what the step made of
// it: whoever changes or removes a field that we applied takes it from us, and
// what the step removed is still gone, or is as others had it before.
func (a *adapter) changedSince(live, before jsondoc.Value, want *desired) (d difference) {
	owners := ownersOf(live)
	mine := ours(owners, a.cfg.manager)
	if mine.IsZero() {
		d.at("/")
		return d
	}
	var w walker
	w.leaf = func(_, _ jsondoc.Value, _ bool) {
		if !owns(mine, w.path) {
			d.at(pathOf(w.path))
		}
	}
	w.walk(setOf(want.root, owners), jsondoc.Value{}, jsondoc.Value{})
	if was := ours(ownersOf(before), a.cfg.manager); !was.IsZero() {
		w.leaf = func(l, b jsondoc.Value, whole bool) {
			if !l.IsZero() && !same(l, b, whole) && !owns(mine, w.path) {
				d.at(pathOf(w.path))
			}
		}
		w.walk(was, live, before)
	}
	return d
}

// differs compares an object that bears no mark with the image, at the fields that
// the step would have changed.
func (a *adapter) differs(live, before jsondoc.Value, want *desired) (d difference) {
	set := setOf(want.root, append(ownersOf(live), ownersOf(before)...))
	return missing(union(set, ours(ownersOf(before), a.cfg.manager)), live, before)
}

// handBack makes the fields theirs again who owned them before the step. It is a
// request of its own: an apply makes us the owner of what it brings back.
func (a *adapter) handBack(ctx context.Context, id *identity, live, before jsondoc.Value) error {
	owners := a.ownersAgain(live, before)
	if owners == nil {
		return nil
	}
	path, err := a.place(ctx, id)
	if err != nil {
		return err
	}
	metadata, _ := live.Get("metadata")
	w := writer{b: []byte(`{"metadata":{`)}
	w.text("resourceVersion", textOf(metadata, "resourceVersion"))
	w.key("managedFields")
	w.b = append(append(w.b, owners...), "}}"...)
	resp, err := a.do(ctx, "PATCH", path+"?fieldManager="+pawl.EscapeSegment(a.cfg.manager), w.b, "application/merge-patch+json")
	if err != nil {
		return err
	}
	_, err = a.restored(resp, id)
	if errors.Is(err, pawl.StatusRejected) {
		return nil // all values are as before; who owns them is not worth a saga that never ends
	}
	return err
}
