// Command saga is a plugin that takes part in sagas, for tests of the host. Its
// target is a store of objects whose writes bear a mark, are conditional on an
// object's ETag and uid, and take locks:
//
//	GET /objects/KEY            answers the content, and ETag, Uid and Mark
//	PUT, DELETE /objects/KEY    with If-Match, If-None-Match and If-Uid; Mark; Run, Lock and Held
//	DELETE /runs/RUN            gives up the locks of that run
//
// Under the config {"modest": true} it claims nothing of all that.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"strconv"

	pawl "github.com/pawlsync/pawl/sdk/go"
)

type adapter struct{}

func (adapter) Configure(_ context.Context, c pawl.Config) (pawl.Configured, error) {
	var config struct{ Modest bool }
	if err := json.Unmarshal(c.JSON, &config); err != nil || !config.Modest {
		return pawl.Configured{}, err
	}
	m := manifest
	m.Ops, m.Undoable, m.Lock, m.Mark = []pawl.Op{pawl.OpObserve, pawl.OpApply, pawl.OpDelete}, nil, false, false
	return pawl.Configured{Manifest: &m}, nil
}

// object is what the store holds.
type object struct {
	exists         bool
	content        []byte
	cid, uid, mark string
}

func mark(s *pawl.SagaRun) string { return s.ID + "/" + strconv.FormatUint(uint64(s.Step), 10) }

func look(ctx context.Context, r *pawl.Request) (o object, err error) {
	resp, err := send(ctx, &pawl.HTTPRequest{Method: "GET", Path: path(r)})
	switch {
	case pawl.AsError(err) != nil && pawl.AsError(err).Status == pawl.StatusNotFound:
		return o, nil
	case err != nil:
		return o, err
	}
	return object{true, resp.Body, resp.Header("ETag"), resp.Header("Uid"), resp.Header("Mark")}, nil
}

func (adapter) Observe(ctx context.Context, r *pawl.Request) (pawl.Observation, error) {
	found, err := look(ctx, r)
	if err != nil {
		return pawl.Observation{}, err
	}
	o := pawl.Observation{Exists: found.exists, CID: found.cid, UID: found.uid,
		MatchDesired: pawl.TriOf(found.exists && bytes.Equal(found.content, r.Payload))}
	if s := r.Saga; s != nil {
		// Whose deletion it was the store can't tell.
		if deletion := len(r.Payload) == 0; found.exists || !deletion {
			o.Ours = pawl.TriOf(found.mark == mark(s))
		}
		if s.Before == nil {
			o.Content = found.content
		}
	}
	return o, nil
}

func (adapter) Apply(ctx context.Context, r *pawl.Request) (pawl.Observation, error) {
	req := &pawl.HTTPRequest{Method: "PUT", Path: path(r), Body: r.Payload}
	if r.Mode == pawl.CreateOnly {
		req.Headers = append(req.Headers, pawl.Header{Name: "If-None-Match", Value: "*"})
	}
	o, err := write(ctx, r, req)
	if err == errChanged && r.Mode == pawl.CreateOnly {
		err = pawl.AlreadyExists("the object exists")
	}
	return o, err
}

func (adapter) Delete(ctx context.Context, r *pawl.Request) error {
	_, err := write(ctx, r, &pawl.HTTPRequest{Method: "DELETE", Path: path(r)})
	return err
}

// write sends a write on the conditions of the saga that it belongs to.
func write(ctx context.Context, r *pawl.Request, req *pawl.HTTPRequest) (pawl.Observation, error) {
	if s := r.Saga; s != nil {
		req.Headers = append(req.Headers, pawl.Header{Name: "Mark", Value: mark(s)}, pawl.Header{Name: "Run", Value: s.ID},
			pawl.Header{Name: "Held", Value: strconv.FormatBool(s.Held)})
		for _, lock := range s.Locks {
			req.Headers = append(req.Headers, pawl.Header{Name: "Lock", Value: lock})
		}
		if s.Before != nil {
			req.Headers = append(req.Headers, unchanged(object{exists: s.Before.Exists, cid: s.Before.CID, uid: s.Before.UID})...)
		}
	}
	resp, err := send(ctx, req)
	if err != nil {
		return pawl.Observation{}, err
	}
	return pawl.Observation{Exists: req.Method == "PUT", CID: resp.Header("ETag"), UID: resp.Header("Uid"), Ours: pawl.TriOf(r.Saga != nil)}, nil
}

// unchanged is the condition that the object is still o.
func unchanged(o object) []pawl.Header {
	if !o.exists {
		return []pawl.Header{{Name: "If-None-Match", Value: "*"}}
	}
	return []pawl.Header{{Name: "If-Match", Value: o.cid}, {Name: "If-Uid", Value: o.uid}}
}

func (adapter) Restore(ctx context.Context, r *pawl.Request) (pawl.Observation, error) {
	before := r.Saga.Before
	found, err := look(ctx, r)
	if err != nil {
		return pawl.Observation{}, err
	}
	deleted := len(r.Payload) == 0
	stands := found.mark == mark(r.Saga)
	if deleted {
		stands = !found.exists
	}
	asBefore := found.exists == before.Exists && bytes.Equal(found.content, before.Content) && found.mark != mark(r.Saga)
	switch {
	case asBefore:
		return pawl.Observation{Exists: found.exists, CID: found.cid, UID: found.uid}, nil
	case !stands:
		return pawl.Observation{}, pawl.Conflict("the object was changed since")
	}
	req := &pawl.HTTPRequest{Method: "PUT", Path: path(r), Body: before.Content, Headers: unchanged(found)}
	if !before.Exists {
		req.Method, req.Body = "DELETE", nil
	}
	resp, err := send(ctx, req)
	if err != nil {
		return pawl.Observation{}, err
	}
	return pawl.Observation{Exists: before.Exists, CID: resp.Header("ETag"), UID: resp.Header("Uid")}, nil
}

func (adapter) Unlock(ctx context.Context, r *pawl.Request) error {
	_, err := send(ctx, &pawl.HTTPRequest{Method: "DELETE", Path: "/runs/" + r.Saga.ID})
	return err
}

var errChanged = pawl.Conflict("the object is not as it was")

func path(r *pawl.Request) string { return "/objects/" + pawl.EscapePath(r.Key) }

func send(ctx context.Context, req *pawl.HTTPRequest) (*pawl.HTTPResponse, error) {
	req.Upstream = "target"
	resp, err := pawl.Do(ctx, req)
	switch {
	case err != nil:
		return nil, err
	case resp.Status == 404:
		return nil, pawl.NotFound("the store has no such object")
	case resp.Status == 409:
		return nil, pawl.Conflict("a lock is another run's, or not held any more")
	case resp.Status == 412:
		return nil, errChanged
	case resp.Status >= 300:
		return nil, pawl.Retry("the store answered " + strconv.Itoa(resp.Status))
	}
	return resp, nil
}

var manifest = pawl.Manifest{
	Name: "saga", Version: "1",
	ApplyConfirms: true, ApplyIdempotent: true, FindsByKey: true, ReportsUID: true,
	Undoable: []pawl.Op{pawl.OpApply, pawl.OpDelete}, Lock: true, Mark: true,
	UpstreamKinds: []string{"http"},
}

func init() { pawl.Register(manifest, adapter{}) }

func main() {}
