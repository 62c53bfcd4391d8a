package main

import (
	"context"
	"strconv"
	"strings"

	"github.com/pawlsync/pawl/plugins/internal/jsondoc"
	pawl "github.com/pawlsync/pawl/sdk/go"
)

// adapter serves one sink.
type adapter struct {
	cfg       *config
	discovery *discovery
}

// Configure reads the sink's config. It asks the server nothing: that one may be
// away, and start later.
func (a *adapter) Configure(_ context.Context, c pawl.Config) (pawl.Configured, error) {
	cfg, err := readConfig(c)
	if err != nil {
		return pawl.Configured{}, err
	}
	a.cfg, a.discovery = cfg, newDiscovery()
	return pawl.Configured{Target: cfg.upstream.BaseURL}, nil
}

// subject finds out which object r is about, and reads its manifest; nil is a tombstone.
func (a *adapter) subject(r *pawl.Request) (id identity, want *desired, err error) {
	if len(r.Payload) > 0 {
		if want, err = readManifest(r.Payload); err != nil {
			return id, nil, err
		}
	}
	if a.cfg.key == keyPath {
		return a.byKey(r, want)
	}
	if want == nil {
		return a.byHistory(r)
	}
	if r.Acked != nil && r.Acked.Ref != "" {
		was, err := parseKey(r.Acked.Ref)
		if err == nil && !a.agree(&was, &want.id) {
			return id, nil, pawl.Rejected("the manifest is of " + want.id.String() + ", and the resource's object is " + was.String() +
				"; delete the resource and put the other object under a key of its own")
		}
	}
	return want.id, want, nil
}

// byKey takes the object from the key, with which a manifest must agree.
func (a *adapter) byKey(r *pawl.Request, want *desired) (id identity, _ *desired, err error) {
	if id, err = parseKey(r.Key); err != nil {
		return id, nil, err
	}
	if want == nil {
		return id, nil, nil
	}
	named := want.id
	if named.namespace == "" {
		named.namespace = id.namespace
	}
	if id.namespace == "" {
		id.namespace = named.namespace
		if a.cfg.namespace != "" && named.namespace != "" && named.namespace != a.cfg.namespace {
			// Without the manifest, as at the deletion, the key would mean the other one.
			return id, nil, pawl.Rejected("the manifest is in the namespace " + named.namespace + ", and the key leaves it out; name it in the key")
		}
	}
	if named != id {
		return id, nil, pawl.Rejected("the key names " + id.String() + " (" + id.apiVersion() + "), and the manifest is of " +
			named.String() + " (" + named.apiVersion() + "); make them agree, or set key: manifest")
	}
	return id, want, nil
}

// byHistory takes the object of a tombstone from what was acknowledged or sent.
func (a *adapter) byHistory(r *pawl.Request) (id identity, _ *desired, err error) {
	if r.Saga != nil { // which knows no history
		return id, nil, pawl.Rejected("with key: manifest nothing says which object a saga is to delete; use a sink whose keys name the objects")
	}
	if r.Acked != nil && r.Acked.Ref != "" {
		id, err = parseKey(r.Acked.Ref)
		return id, nil, err
	}
	for i := range r.Attempted {
		if at := &r.Attempted[i]; at.HasPayload && len(at.Payload) > 0 {
			if sent, err := readManifest(at.Payload); err == nil {
				return sent.id, nil, nil
			}
		}
	}
	if len(r.Attempted) == 0 {
		return id, nil, pawl.NotFound("nothing was ever sent")
	}
	return id, nil, pawl.Rejected("the key does not name the object, and what was sent was never answered; look for it, and forget the resource")
}

// agree reports whether two identities are one object.
func (a *adapter) agree(x, y *identity) bool {
	withDefault := func(ns string) string {
		if ns == "" {
			return a.cfg.namespace
		}
		return ns
	}
	return x.group == y.group && x.kind == y.kind && x.name == y.name && withDefault(x.namespace) == withDefault(y.namespace)
}

// Observe looks at the object and compares what is ours of it.
func (a *adapter) Observe(ctx context.Context, r *pawl.Request) (o pawl.Observation, err error) {
	err = a.observe(ctx, r, &o)
	return o, err
}

// observe is Observe with o left empty where there is an error. It is apart to
// keep the stack small that a parked call holds.
func (a *adapter) observe(ctx context.Context, r *pawl.Request, o *pawl.Observation) error {
	id, want, err := a.subject(r)
	if err != nil {
		return err
	}
	live, err := a.get(ctx, &id)
	if _, gone := err.(errMissing); gone && want == nil {
		return nil // no kind, no objects
	}
	if r.Saga != nil && err == nil {
		return a.observeOfSaga(o, r, &id, want, live)
	}
	if err != nil || live.IsZero() {
		return err
	}
	if err := a.identify(o, &id, live); err != nil {
		return err
	}
	a.judge(o, r, want, live)
	o.Ours, o.Content = a.mark(live), content(want, live)
	if want == nil && r.Acked != nil && len(r.Acked.AdapterState) > 0 {
		a.wholly(o, live)
	}
	return nil
}

// wholly makes the state that of all that is told of an object. What was deleted and is
// back is desired with all its content, and a change of any of it must be seen (R32).
func (a *adapter) wholly(o *pawl.Observation, live jsondoc.Value) {
	if told, err := readManifest(o.Content); err == nil {
		a.finish(o, record(textOf(live, "apiVersion"), setOf(told.root, ownersOf(live)), live, told.root))
	}
}

// mark tells whether an object bears our mark: that we applied it, and still own
// something of it.
func (a *adapter) mark(live jsondoc.Value) pawl.Tri {
	owners := ownersOf(live)
	if len(owners) == 0 {
		return pawl.Unknown
	}
	return pawl.TriOf(!ours(owners, a.cfg.manager).IsZero())
}

// identify fills in which object it is; one that is being deleted is none.
func (a *adapter) identify(o *pawl.Observation, id *identity, live jsondoc.Value) error {
	metadata, ok := live.Get("metadata")
	if !ok || textOf(metadata, "uid") == "" {
		return pawl.Retry("the server's answer is no object: it has no metadata.uid")
	}
	if at, deleting := metadata.Get("deletionTimestamp"); deleting && at.Kind() == jsondoc.String {
		return underDeletion(id, metadata)
	}
	name(o, id, metadata)
	return nil
}

func name(o *pawl.Observation, id *identity, metadata jsondoc.Value) {
	o.Exists, o.Ref, o.Object = true, id.ref(), id.object()
	o.UID, o.CID = textOf(metadata, "uid"), textOf(metadata, "resourceVersion")
}

// underDeletion says that an object is on its way out, and what it waits for.
func underDeletion(id *identity, metadata jsondoc.Value) error {
	m := id.String() + " is being deleted"
	if finalizers, ok := metadata.Get("finalizers"); ok {
		var names []string
		for _, f := range finalizers.Items {
			names = append(names, f.Text())
		}
		if len(names) > 0 {
			m += "; it waits for the finalizers " + strings.Join(names, ", ")
		}
	}
	return pawl.InProgress(m)
}

// Apply brings the object to what the manifest says, by server-side apply.
func (a *adapter) Apply(ctx context.Context, r *pawl.Request) (o pawl.Observation, err error) {
	err = a.apply(ctx, r, &o)
	return o, err
}

func (a *adapter) apply(ctx context.Context, r *pawl.Request, o *pawl.Observation) error {
	id, want, err := a.subject(r)
	if err != nil {
		return err
	}
	if want == nil {
		return pawl.Rejected("there is no manifest to apply")
	}
	if r.Saga != nil {
		return a.applyOfSaga(ctx, r, o, &id, want)
	}
	create := r.Mode == pawl.CreateOnly
	if create {
		if err := want.onlyCreates(); err != nil {
			return err
		}
	}
	resp, err := a.patch(ctx, r, &id, want)
	if err != nil {
		return err
	}
	if create && resp.Status == 409 {
		// Others can conflict too, a quota's counter say; the object itself tells.
		if live, err := a.get(ctx, &id); err == nil && !live.IsZero() {
			return pawl.AlreadyExists(id.String() + " exists; it was left as it is")
		}
	}
	if !create && isImmutable(resp) && a.cfg.recreates(&id) && r.Acked != nil && r.Acked.UID != "" {
		if err := a.remove(ctx, &id, r.Acked.UID, ""); err != nil && !isNotFound(err) {
			return err
		}
		if resp, err = a.patch(ctx, r, &id, want); err != nil {
			return err
		}
	}
	if resp.Status != 200 && resp.Status != 201 {
		err := a.classify(resp, &id, "apply")
		if e, ok := err.(*pawl.Error); ok && isImmutable(resp) {
			e.Message += "; list the kind in the sink's recreate to have the object deleted and created anew"
		}
		return err
	}
	return a.applied(o, &id, want, resp)
}

// applied reads from the answer to an apply what the object is now.
func (a *adapter) applied(o *pawl.Observation, id *identity, want *desired, resp *pawl.HTTPResponse) error {
	live, err := parse(resp.Body)
	if err != nil {
		return pawl.Retry("the server's answer to an apply is " + err.Error())
	}
	if err := a.identify(o, id, live); err != nil {
		return err
	}
	set := ours(ownersOf(live), a.cfg.manager)
	if set.IsZero() { // a manifest that sets nothing owns nothing
		set = setOf(want.root, nil)
	}
	o.MatchDesired, o.Ours = pawl.Yes, pawl.Yes
	a.finish(o, record(id.apiVersion(), set, live, want.root))
	return nil
}

// patch sends a manifest. Conflicts with other managers are overruled where the
// source wins, where the engine saw to it that the target's wishes were heard, and
// where an operator said so.
func (a *adapter) patch(ctx context.Context, r *pawl.Request, id *identity, want *desired) (*pawl.HTTPResponse, error) {
	force := r.ConflictPolicy != pawl.ReportOnly || r.Force
	path, err := a.place(ctx, id)
	if err != nil {
		return nil, err
	}
	return a.do(ctx, "PATCH", path+"?fieldManager="+pawl.EscapeSegment(a.cfg.manager)+"&force="+strconv.FormatBool(force)+
		"&fieldValidation="+a.cfg.validation, want.body, "application/apply-patch+yaml")
}

// get reads an object; the zero Value where there is none.
func (a *adapter) get(ctx context.Context, id *identity) (jsondoc.Value, error) {
	path, err := a.place(ctx, id)
	if err != nil {
		return jsondoc.Value{}, err
	}
	resp, err := a.do(ctx, "GET", path, nil, "")
	if err != nil {
		return jsondoc.Value{}, err
	}
	if resp.Status != 200 {
		err := a.classify(resp, id, "look")
		if isNotFound(err) {
			err = nil
		}
		return jsondoc.Value{}, err
	}
	live, err := parse(resp.Body)
	if err != nil {
		return live, pawl.Retry("the server's answer is " + err.Error())
	}
	return live, nil
}

// Delete removes the object, if it is still the one of r.UID.
func (a *adapter) Delete(ctx context.Context, r *pawl.Request) error {
	id, _, err := a.subject(r)
	if err != nil {
		return err
	}
	if r.Saga != nil {
		err = a.deleteOfSaga(ctx, r, &id)
	} else {
		err = a.remove(ctx, &id, r.UID, "")
	}
	if _, gone := err.(errMissing); gone {
		return pawl.NotFound("the server does not have the kind any more, and so no objects of it")
	}
	return err
}

// remove deletes an object; uid and version, if not empty, say which one.
func (a *adapter) remove(ctx context.Context, id *identity, uid, version string) error {
	path, err := a.place(ctx, id)
	if err != nil {
		return err
	}
	options := writer{b: []byte(`{"apiVersion":"v1","kind":"DeleteOptions","propagationPolicy":"` + a.cfg.propagation + `","preconditions":{`)}
	if uid != "" {
		options.text("uid", uid)
	}
	if version != "" {
		options.text("resourceVersion", version)
	}
	resp, err := a.do(ctx, "DELETE", path, append(options.b, "}}"...), "application/json")
	if err != nil {
		return err
	}
	if resp.Status != 200 && resp.Status != 202 {
		return a.classify(resp, id, "delete")
	}
	root, err := parse(resp.Body)
	if err != nil {
		return pawl.Retry("the server's answer to a deletion is " + err.Error())
	}
	// An object that waits for its finalizers is shown; of one that is gone at
	// once there is a Status, or it is shown as it was.
	metadata, _ := root.Get("metadata")
	if textOf(root, "kind") != "Status" && !metadata.IsZero() && textOf(metadata, "deletionTimestamp") != "" {
		return underDeletion(id, metadata)
	}
	if resp.Status == 202 {
		return pawl.InProgress(id.String() + " is being deleted")
	}
	return nil
}

// do sends a request.
func (a *adapter) do(ctx context.Context, method, path string, body []byte, contentType string) (*pawl.HTTPResponse, error) {
	req := &pawl.HTTPRequest{Upstream: a.cfg.upstream.Name, Method: method, Path: path, Body: body}
	req.Headers = append(make([]pawl.Header, 0, 2), pawl.Header{Name: "Accept", Value: "application/json"})
	if contentType != "" {
		req.Headers = append(req.Headers, pawl.Header{Name: "Content-Type", Value: contentType})
	}
	return pawl.Do(ctx, req)
}

// hex64 writes n in hex, as long as every other one.
func hex64(n uint64) string {
	s := strconv.FormatUint(n, 16)
	return "0000000000000000"[len(s):] + s
}
