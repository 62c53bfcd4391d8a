package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	pawl "github.com/pawlsync/pawl/sdk/go"
)

// adapter serves one sink. Configure is called before anything else; after it
// the adapter is only read, since many calls are under way at once.
type adapter struct {
	upstream string
	prefix   string // "/objects"
}

// Configure reads the sink's config.
func (a *adapter) Configure(_ context.Context, c pawl.Config) (pawl.Configured, error) {
	config := struct {
		Prefix   string `json:"prefix"`
		Upstream string `json:"upstream"`
	}{Prefix: "/objects"}
	d := json.NewDecoder(bytes.NewReader(c.JSON))
	d.DisallowUnknownFields() // a misspelt key is an error, not a default
	if err := d.Decode(&config); err != nil {
		return pawl.Configured{}, fmt.Errorf("config: %w", err)
	}
	if !strings.HasPrefix(config.Prefix, "/") || strings.HasSuffix(config.Prefix, "/") {
		return pawl.Configured{}, errors.New(`config: prefix: a path is needed, such as "/objects", without a slash at its end`)
	}
	u, err := choose(config.Upstream, c.Upstreams)
	if err != nil {
		return pawl.Configured{}, err
	}
	a.upstream, a.prefix = u.Name, config.Prefix
	return pawl.Configured{Target: u.BaseURL + a.prefix}, nil
}

// choose returns the upstream of that name, or where none is named the only one.
func choose(name string, granted []pawl.UpstreamRef) (pawl.UpstreamRef, error) {
	for _, u := range granted {
		if u.Name == name || name == "" && len(granted) == 1 {
			return u, nil
		}
	}
	return pawl.UpstreamRef{}, errors.New("config: upstream: name the one of the sink's upstreams to use")
}

// Observe looks at the object and compares it with what is desired.
func (a *adapter) Observe(ctx context.Context, r *pawl.Request) (pawl.Observation, error) {
	want, err := parse(r.Payload)
	if err != nil && len(r.Payload) > 0 { // a tombstone has none
		return pawl.Observation{}, err
	}
	resp, err := a.send(ctx, r, "GET", nil)
	if errors.Is(err, pawl.StatusNotFound) {
		return pawl.Observation{}, nil // it does not exist
	}
	if err != nil {
		return pawl.Observation{}, err
	}
	o := a.seen(r, resp)
	found, err := parse(resp.Body)
	if err != nil { // whatever it is, it is not what we wrote
		o.MatchDesired, o.MatchAcked, o.Differing = pawl.No, pawl.No, []string{"/"}
		return o, nil
	}
	before := ownedAt(r.Acked)
	o.Differing = want.differing(found, before)
	o.MatchDesired = pawl.TriOf(len(o.Differing) == 0)
	o.AdapterState, o.AsFound = want.owned(), found.hash(want.names())
	if r.Acked != nil && r.Acked.AsFound != "" {
		o.MatchAcked = pawl.TriOf(found.hash(before) == r.Acked.AsFound)
	}
	for _, at := range r.Attempted {
		if sent, err := parse(at.Payload); at.HasPayload && err == nil && o.MatchAttempted != pawl.Yes {
			o.MatchAttempted = pawl.TriOf(len(sent.differing(found, before)) == 0)
		}
	}
	return o, nil
}

// Apply writes the object.
func (a *adapter) Apply(ctx context.Context, r *pawl.Request) (pawl.Observation, error) {
	want, err := parse(r.Payload)
	if err != nil {
		return pawl.Observation{}, err
	}
	resp, err := a.send(ctx, r, "PUT", r.Payload)
	if err != nil {
		return pawl.Observation{}, err
	}
	if resp.Status == 202 {
		return pawl.Observation{}, pawl.Retry("the target answered 202 to PUT: it does not say that it has the object")
	}
	o := a.seen(r, resp)
	o.MatchDesired, o.AdapterState, o.AsFound = pawl.Yes, want.owned(), want.hash(want.names())
	return o, nil
}

// Delete removes the object. That there is none (404) is success.
func (a *adapter) Delete(ctx context.Context, r *pawl.Request) error {
	_, err := a.send(ctx, r, "DELETE", nil)
	return err
}

// seen is what an answer with the object tells of it.
func (a *adapter) seen(r *pawl.Request, resp *pawl.HTTPResponse) pawl.Observation {
	return pawl.Observation{Exists: true, Ref: a.path(r), CID: resp.Header("ETag")}
}

// path is that of r's object. A key holds any character: escape it.
func (a *adapter) path(r *pawl.Request) string { return a.prefix + "/" + pawl.EscapePath(r.Key) }

// send makes a request and turns every answer but 2xx into an error.
func (a *adapter) send(ctx context.Context, r *pawl.Request, method string, body []byte) (*pawl.HTTPResponse, error) {
	if err := checkKey(r.Key); err != nil {
		return nil, err
	}
	req := &pawl.HTTPRequest{Upstream: a.upstream, Method: method, Path: a.path(r), Body: body}
	if body != nil {
		req.Headers = []pawl.Header{{Name: "Content-Type", Value: "application/json"}, {Name: "Idempotency-Key", Value: r.IdempotencyKey}}
	}
	resp, err := pawl.Do(ctx, req)
	if err != nil {
		return nil, err // no answer: the engine looks at the target again
	}
	return resp, classify(method, resp)
}

// checkKey refuses keys that servers take for another path.
func checkKey(key string) error {
	for segment := range strings.SplitSeq(key, "/") {
		if segment == "" || segment == "." || segment == ".." {
			return pawl.Rejected(`the key has a segment that is empty, "." or "..", which no path can have`)
		}
	}
	return nil
}

// classify says what a status means. The message never repeats the answer's
// body: targets quote there what they were sent.
func classify(method string, resp *pawl.HTTPResponse) error {
	s := resp.Status
	m := "the target answered " + strconv.Itoa(s) + " to " + method
	switch {
	case s >= 200 && s <= 299:
		return nil
	case s == 404 || s == 410:
		return pawl.NotFound(m)
	case s == 401 || s == 403:
		return pawl.Unauthorized(m)
	case s == 409 || s == 412:
		return pawl.Conflict(m)
	case s == 429 || s >= 500:
		if n, err := strconv.ParseUint(resp.Header("Retry-After"), 10, 32); err == nil {
			return pawl.TargetRetryAfter(time.Duration(n)*time.Second, m)
		}
		return pawl.Retry(m)
	}
	return pawl.Rejected(m)
}
