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
	cfg *config
	// seen is what Observe saw of objects that an Apply is likely to follow for:
	// by key their ETag, or "" where there was no object. It makes that Apply
	// conditional. It is a help against races, not a record: it may forget.
	seen map[string]string
	// etags: the target was seen to offer ETags, so that it may be asked for conditions.
	etags bool
	// parser reads what is applied.
	parser jsondoc.Parser
}

// maxSeen bounds adapter.seen.
const maxSeen = 4096

// Configure reads the sink's config.
func (a *adapter) Configure(_ context.Context, c pawl.Config) (pawl.Configured, error) {
	cfg, err := readConfig(c)
	if err != nil {
		return pawl.Configured{}, err
	}
	a.cfg, a.seen = cfg, map[string]string{}
	return pawl.Configured{Target: cfg.upstream.BaseURL, Manifest: cfg.manifest()}, nil
}

// Observe looks at the object and compares it with r.
func (a *adapter) Observe(ctx context.Context, r *pawl.Request) (o pawl.Observation, err error) {
	if !a.cfg.observe.enabled {
		return o, pawl.Rejected("observe is disabled by the sink's config")
	}
	err = a.look(ctx, r, &o)
	if err == nil && o.MatchDesired != pawl.Yes {
		a.remember(r.Key, &o)
	}
	return o, err
}

// look sends the observing request; a missing object leaves o empty and is no error.
func (a *adapter) look(ctx context.Context, r *pawl.Request, o *pawl.Observation) error {
	op := &a.cfg.observe
	resp, path, err := a.send(ctx, r, op, nil, nil)
	if err != nil {
		return err
	}
	if resp.Status == 404 || resp.Status == 410 {
		return nil
	}
	if err := a.cfg.classify(op.method, resp, false); err != nil {
		return err
	}
	if len(resp.Body) > a.cfg.maxResponseBytes {
		return pawl.Retry("the target's answer has " + strconv.Itoa(len(resp.Body)) +
			" bytes, more than max_response_bytes, " + strconv.Itoa(a.cfg.maxResponseBytes))
	}
	o.Exists, o.Ref, o.CID = true, path, resp.Header("ETag")
	if o.Object, err = a.object(r, path, op); err != nil {
		return err
	}
	return a.cfg.judge(o, r, resp)
}

// Apply writes the object.
func (a *adapter) Apply(ctx context.Context, r *pawl.Request) (o pawl.Observation, err error) {
	err = a.write(ctx, r, &o)
	return o, err
}

// write is Apply with o left empty where there is an error. It is apart to keep
// the stack small that a parked call holds.
func (a *adapter) write(ctx context.Context, r *pawl.Request, o *pawl.Observation) error {
	op := &a.cfg.apply
	body, err := op.content(r, r.Payload)
	if err != nil {
		return err
	}
	kept, err := a.cfg.keep(&a.parser, r, body)
	if err != nil {
		return err
	}
	resp, path, err := a.send(ctx, r, op, body, a.condition(r))
	if err != nil {
		return err
	}
	if err := a.cfg.classify(op.method, resp, r.Mode == pawl.CreateOnly); err != nil {
		return err
	}
	if resp.Status == 202 && a.cfg.observe.enabled {
		return a.accepted(ctx, r, o)
	}
	etag := resp.Header("ETag")
	if a.cfg.compare == compareETag {
		if etag == "" && a.cfg.observe.enabled {
			if etag, err = a.lookForETag(ctx, r); err != nil {
				return err
			}
		}
		kept.asFound = etag
	}
	object, err := a.object(r, path, op)
	if err != nil {
		return err
	}
	o.Exists, o.MatchDesired, o.Ref, o.CID, o.Object = true, pawl.Yes, path, etag, object
	o.AsFound, o.AdapterState = kept.asFound, kept.state
	return nil
}

// accepted deals with a target that took the object in, but did not say that it
// is persisted: if it is there already that is the proof.
func (a *adapter) accepted(ctx context.Context, r *pawl.Request, o *pawl.Observation) error {
	if err := a.look(ctx, r, o); err == nil && o.MatchDesired == pawl.Yes {
		return nil
	}
	*o = pawl.Observation{}
	return pawl.Retry("the target accepted the object (202), but does not show it yet")
}

// lookForETag finds the ETag of what was just written, where apply did not tell
// it. Inlined, it would add an Observation to the stack of every write.
//
//go:noinline
func (a *adapter) lookForETag(ctx context.Context, r *pawl.Request) (string, error) {
	var o pawl.Observation
	err := a.look(ctx, r, &o)
	return o.CID, err
}

// Delete removes the object.
func (a *adapter) Delete(ctx context.Context, r *pawl.Request) error {
	op := &a.cfg.delete
	if !op.enabled {
		return pawl.Rejected("delete is disabled by the sink's config; forget the resource to give up")
	}
	delete(a.seen, r.Key)
	body, err := op.content(r, nil)
	if err != nil {
		return err
	}
	resp, _, err := a.send(ctx, r, op, body, nil)
	if err != nil {
		return err
	}
	if resp.Status == 202 && a.cfg.observe.enabled {
		return pawl.InProgress("the target accepted the deletion (202)")
	}
	return a.cfg.classify(op.method, resp, false)
}

// send makes a request of r and returns the answer and the path that was asked for.
func (a *adapter) send(ctx context.Context, r *pawl.Request, op *operation, body []byte, condition *pawl.Header) (*pawl.HTTPResponse, string, error) {
	path, err := op.path.render(r)
	if err == nil {
		err = op.path.checkPath(path)
	}
	if err != nil {
		return nil, "", err
	}
	req := &pawl.HTTPRequest{Upstream: a.cfg.upstream.Name, Method: op.method, Path: path, Body: body}
	req.Headers = make([]pawl.Header, 0, 4+len(op.headers))
	if body != nil {
		req.Headers = append(req.Headers, pawl.Header{Name: "Content-Type", Value: op.contentType})
	}
	if a.cfg.idempotencyHeader != "" && op != &a.cfg.observe && r.IdempotencyKey != "" {
		req.Headers = append(req.Headers, pawl.Header{Name: a.cfg.idempotencyHeader, Value: r.IdempotencyKey})
	}
	if a.cfg.hashHeader != "" && op == &a.cfg.apply {
		req.Headers = append(req.Headers, pawl.Header{Name: a.cfg.hashHeader, Value: hexHash(r.ContentHash)})
	}
	if condition != nil {
		req.Headers = append(req.Headers, *condition)
	}
	for i := range op.headers {
		v, err := op.headers[i].value.render(r)
		if err != nil {
			return nil, "", err
		}
		req.Headers = append(req.Headers, pawl.Header{Name: op.headers[i].name, Value: v})
	}
	resp, err := pawl.Do(ctx, req)
	if err == nil && !a.etags {
		a.etags = isStrong(resp.Header("ETag"))
	}
	return resp, path, err
}

// content is the body that op sends for a payload; nil: none.
func (op *operation) content(r *pawl.Request, payload []byte) ([]byte, error) {
	if op.body == nil {
		return nil, nil
	}
	if op.body.onlyPayload() {
		if payload == nil {
			payload = []byte{}
		}
		return payload, nil
	}
	return op.body.append(make([]byte, 0, len(payload)+256), r, payload)
}

// object names the object where two keys may mean the same one; else "".
func (a *adapter) object(r *pawl.Request, path string, op *operation) (string, error) {
	switch a.cfg.object {
	case nil:
		return "", nil
	case op.path:
		return path, nil
	}
	return a.cfg.object.render(r)
}

// remember keeps what an Apply needs to be conditional.
func (a *adapter) remember(key string, o *pawl.Observation) {
	if !a.cfg.conditional || o.Exists && !isStrong(o.CID) {
		return
	}
	if len(a.seen) >= maxSeen {
		clear(a.seen)
	}
	// Copies: the originals would keep whole messages alive.
	a.seen[strings.Clone(key)] = strings.Clone(o.CID)
}

// condition is the header that makes Apply fail where the object is not what
// was observed before it, or where it must not exist; nil: none.
func (a *adapter) condition(r *pawl.Request) *pawl.Header {
	etag, known := a.seen[r.Key]
	if known {
		delete(a.seen, r.Key)
	}
	switch {
	case r.Mode == pawl.CreateOnly, known && etag == "" && a.etags:
		return &pawl.Header{Name: "If-None-Match", Value: "*"}
	case known && etag != "":
		return &pawl.Header{Name: "If-Match", Value: etag}
	}
	return nil
}

// isStrong reports whether an ETag can be a condition: weak ones never match.
func isStrong(etag string) bool { return len(etag) >= 2 && etag[0] == '"' }
