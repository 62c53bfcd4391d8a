package main

import (
	"context"
	"errors"
	"strconv"

	"github.com/pawlsync/pawl/plugins/internal/jsondoc"
	pawl "github.com/pawlsync/pawl/sdk/go"
)

// markAnnotation holds the mark of the saga's step that wrote an object. It is
// applied with the manifest, so it is ours as the rest is: the next apply that is
// no saga's does not name it, and the API server removes it.
const markAnnotation = "pawl.dev/saga"

func markOf(run *pawl.SagaRun) string { return run.ID + "-" + strconv.FormatUint(uint64(run.Step), 10) }

// marked reports whether an object bears the mark of run's step.
func marked(live jsondoc.Value, run *pawl.SagaRun) bool {
	annotations := memberOf(memberOf(live, "metadata"), "annotations")
	return !annotations.IsZero() && textOf(annotations, markAnnotation) == markOf(run)
}

// memberOf is a member of what may be the zero Value, and may have none.
func memberOf(v jsondoc.Value, key string) jsondoc.Value {
	in := v.Find()
	return in.Get(key)
}

// observeOfSaga tells whether the mark is there, and takes the image. The API
// server reads single objects from its store, so both are certain.
func (a *adapter) observeOfSaga(o *pawl.Observation, r *pawl.Request, id *identity, want *desired, live jsondoc.Value) error {
	before := r.Saga.Before
	if live.IsZero() {
		if want != nil {
			o.Ours = pawl.No // of a deletion nothing tells whose it was
		}
		return nil
	}
	err := a.identify(o, id, live)
	switch going := errors.Is(err, pawl.StatusInProgress); {
	case going && want != nil && before != nil:
		// Somebody deletes it; that we wrote it, or did not, is certain all the same.
		metadata, _ := live.Get("metadata")
		name(o, id, metadata)
	case err != nil:
		return err
	}
	if want == nil && before != nil && before.Exists && o.UID != before.UID {
		*o = pawl.Observation{}
		return pawl.NotFound("the object is gone, and another one has its name")
	}
	a.judge(o, r, want, live)
	o.Ours = pawl.TriOf(marked(live, r.Saga))
	if before == nil && want != nil { // a deletion is not undone
		o.Content, err = a.image(live)
		return err
	}
	return nil
}

// image is what Restore needs of an object: what is the source's to say, and which
// fields are whose.
func (a *adapter) image(live jsondoc.Value) ([]byte, error) {
	for _, own := range ownersOf(live) {
		if a.isOurs(&own) && own.apiVersion != textOf(live, "apiVersion") {
			return nil, pawl.Rejected("the object was applied as " + own.apiVersion + ", where its fields may be called otherwise than in " +
				textOf(live, "apiVersion") + "; apply it once in this version, outside of a saga")
		}
	}
	return withoutServers(live, "managedFields"), nil
}

// errNoImage: the engine asks for a write without what it is conditional on.
var errNoImage = pawl.Rejected("the host's request says nothing of the object before the saga, on which the write depends")

// applyOfSaga applies a manifest with its step's mark, if the object is still the
// one of the image. The API server compares uid and resourceVersion in the
// transaction that writes; with a uid it also creates nothing.
func (a *adapter) applyOfSaga(ctx context.Context, r *pawl.Request, o *pawl.Observation, id *identity, want *desired) error {
	before := r.Saga.Before
	if before == nil {
		return errNoImage
	}
	if before.Exists && r.Mode == pawl.CreateOnly {
		return pawl.AlreadyExists(id.String() + " exists; it was left as it is")
	}
	add := addition{uid: before.UID, version: before.CID, mark: markOf(r.Saga)}
	if !before.Exists {
		add.uid, add.version = "", noVersion
	}
	sent, err := want.with(add)
	if err != nil {
		return err
	}
	resp, err := a.patch(ctx, r, id, sent)
	if err != nil {
		return err
	}
	if resp.Status == 200 || resp.Status == 201 {
		return a.applied(o, id, want, resp)
	}
	err = a.classify(resp, id, "apply")
	if errors.Is(err, pawl.StatusConflict) {
		err = a.conflictOf(ctx, r, id, err)
	}
	return err
}

// conflictOf tells whether a write was refused for what it is conditional on.
// Others can conflict too, a quota's counter say, and then it can be tried again.
func (a *adapter) conflictOf(ctx context.Context, r *pawl.Request, id *identity, conflict error) error {
	live, err := a.get(ctx, id)
	if err != nil {
		return conflict
	}
	var o pawl.Observation
	if metadata := memberOf(live, "metadata"); !metadata.IsZero() {
		name(&o, id, metadata)
	}
	before := r.Saga.Before
	switch {
	case o.Exists == before.Exists && o.UID == before.UID && o.CID == before.CID:
		return pawl.Retry(pawl.AsError(conflict).Message)
	case !before.Exists && r.Mode == pawl.CreateOnly:
		return pawl.AlreadyExists(id.String() + " exists; it was left as it is")
	}
	return conflict
}

// with returns d with an addition to what is sent.
func (d *desired) with(add addition) (*desired, error) {
	metadata, _ := d.root.Get("metadata")
	if annotations, ok := metadata.Get("annotations"); ok {
		switch kind := annotations.Kind(); {
		case kind != jsondoc.Object && kind != jsondoc.Null:
			return nil, pawl.Rejected("metadata.annotations is " + kind.String() + "; an object is expected")
		case !memberOf(annotations, markAnnotation).IsZero():
			return nil, pawl.Rejected("the manifest has the annotation " + markAnnotation + ", by which sagas know what they wrote; leave it out")
		}
	}
	sent := *d
	return &sent, sent.rewrite(metadata, false, add)
}

// deleteOfSaga deletes the object of the image, as it was.
func (a *adapter) deleteOfSaga(ctx context.Context, r *pawl.Request, id *identity) error {
	switch before := r.Saga.Before; {
	case before == nil:
		return errNoImage
	case before.Exists:
		return a.remove(ctx, id, before.UID, before.CID)
	}
	switch live, err := a.get(ctx, id); {
	case err != nil:
		return err
	case !live.IsZero():
		return pawl.Conflict(id.String() + " was created since the saga looked; it was left as it is")
	}
	return pawl.NotFound("there was none, and there is none")
}
