package client

import (
	"context"
	"iter"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/pawlsync/pawl/engine/record"
	"github.com/pawlsync/pawl/internal/api"
)

// Put stores what is desired of a resource; it is durable when Put returns.
func (c *Client) Put(ctx context.Context, key record.Key, put api.PutRequest) (api.PutResult, error) {
	var out api.PutResult
	return out, c.call(ctx, http.MethodPut, resourcePath(key, ""), keyQuery(key), put, &out)
}

// Delete asks for a resource to be deleted; the tombstone is durable when
// Delete returns.
func (c *Client) Delete(ctx context.Context, key record.Key, del api.DeleteRequest) (api.PutResult, error) {
	q := keyQuery(key)
	if del.Deletion != "" {
		q.Set("deletionPolicy", string(del.Deletion))
	}
	if del.IfGeneration != nil {
		q.Set("ifGeneration", strconv.FormatUint(*del.IfGeneration, 10))
	}
	if o := del.Order; o != nil {
		q.Set("orderSource", o.Source)
		q.Set("orderEpoch", o.Epoch)
		q.Set("orderNumber", strconv.FormatUint(o.Number, 10))
		q.Set("orderPartial", strconv.FormatBool(o.Partial))
	}
	var out api.PutResult
	return out, c.call(ctx, http.MethodDelete, resourcePath(key, ""), q, nil, &out)
}

// GetOptions say what of a resource is shown.
type GetOptions struct {
	Payload bool
	Reveal  bool // sensitive values of the payload too
}

// Get returns one resource, with its history.
func (c *Client) Get(ctx context.Context, key record.Key, o GetOptions) (api.Resource, error) {
	q := keyQuery(key)
	setFlag(q, "payload", o.Payload)
	setFlag(q, "reveal", o.Reveal)
	var out api.Resource
	return out, c.call(ctx, http.MethodGet, resourcePath(key, ""), q, nil, &out)
}

// ListOptions select resources.
type ListOptions struct {
	Sink     string         // "": all
	Prefix   string         // of the key
	Phases   []record.Phase // none: all
	Limit    int            // most items of a page; 0: the daemon's default, 100
	Page     string         // api.Page.Next of the page before
	Payloads bool
	Reveal   bool
}

// List returns one page.
func (c *Client) List(ctx context.Context, o ListOptions) (api.Page, error) {
	q := url.Values{}
	setText(q, "sink", o.Sink)
	setText(q, "prefix", o.Prefix)
	setText(q, "page", o.Page)
	for _, p := range o.Phases {
		q.Add("phase", string(p))
	}
	if o.Limit > 0 {
		q.Set("limit", strconv.Itoa(o.Limit))
	}
	setFlag(q, "payloads", o.Payloads)
	setFlag(q, "reveal", o.Reveal)
	var out api.Page
	return out, c.call(ctx, http.MethodGet, "/v1/resources", q, nil, &out)
}

// All goes through every page from o.Page on. It ends after the first error.
func (c *Client) All(ctx context.Context, o ListOptions) iter.Seq2[api.Resource, error] {
	return func(yield func(api.Resource, error) bool) {
		for {
			page, err := c.List(ctx, o)
			if err != nil {
				yield(api.Resource{}, err)
				return
			}
			for _, r := range page.Items {
				if !yield(r, nil) {
					return
				}
			}
			if o.Page = page.Next; o.Page == "" {
				return
			}
		}
	}
}

// Wait returns when that generation of a resource (0: the newest), or a newer
// one, is acknowledged, the resource is gone, or it came to rest otherwise, see
// api.WaitResult. It asks again until ctx ends.
func (c *Client) Wait(ctx context.Context, key record.Key, generation uint64) (api.WaitResult, error) {
	const patience = time.Minute // of one request: proxies cut longer ones
	for {
		q := keyQuery(key)
		q.Set("generation", strconv.FormatUint(generation, 10))
		q.Set("timeout", patience.String())
		var out api.WaitResult
		if err := c.call(ctx, http.MethodGet, resourcePath(key, "/wait"), q, nil, &out); err != nil {
			return out, err
		}
		if !out.TimedOut {
			return out, nil
		}
	}
}

// Explain says why a resource is where it is.
func (c *Client) Explain(ctx context.Context, key record.Key) (api.Explanation, error) {
	var out api.Explanation
	return out, c.call(ctx, http.MethodGet, resourcePath(key, "/explain"), keyQuery(key), nil, &out)
}

// Retry delivers a resource at once, whatever it waits for.
func (c *Client) Retry(ctx context.Context, key record.Key) error { return c.do(ctx, key, "/retry") }

// Suspend holds a resource's calls; Resume lets them go on.
func (c *Client) Suspend(ctx context.Context, key record.Key) error {
	return c.do(ctx, key, "/suspend")
}

// Resume takes Suspend back.
func (c *Client) Resume(ctx context.Context, key record.Key) error { return c.do(ctx, key, "/resume") }

// Accept takes what the target holds for acknowledged.
func (c *Client) Accept(ctx context.Context, key record.Key) error { return c.do(ctx, key, "/accept") }

// Force applies the desired state, whatever the conflict policy.
func (c *Client) Force(ctx context.Context, key record.Key) error { return c.do(ctx, key, "/force") }

// Forget removes a resource from the outbox and leaves the target as it is.
func (c *Client) Forget(ctx context.Context, key record.Key) error { return c.do(ctx, key, "/forget") }

func (c *Client) do(ctx context.Context, key record.Key, verb string) error {
	return c.call(ctx, http.MethodPost, resourcePath(key, verb), keyQuery(key), nil, nil)
}

// Sinks returns the state of every sink, by name.
func (c *Client) Sinks(ctx context.Context) ([]api.Sink, error) {
	var out api.SinkList
	return out.Items, c.call(ctx, http.MethodGet, "/v1/sinks", nil, nil, &out)
}

// SuspendSink holds all calls of a sink, deletes included.
func (c *Client) SuspendSink(ctx context.Context, sink string) error {
	return c.call(ctx, http.MethodPost, sinkPath(sink)+"/suspend", nil, nil, nil)
}

// ResumeSink takes SuspendSink back.
func (c *Client) ResumeSink(ctx context.Context, sink string) error {
	return c.call(ctx, http.MethodPost, sinkPath(sink)+"/resume", nil, nil, nil)
}

// Status returns the daemon's state.
func (c *Client) Status(ctx context.Context) (api.DaemonStatus, error) {
	var out api.DaemonStatus
	return out, c.call(ctx, http.MethodGet, "/v1/status", nil, nil, &out)
}

// Version says which version the daemon has.
func (c *Client) Version(ctx context.Context) (api.Version, error) {
	var out api.Version
	return out, c.call(ctx, http.MethodGet, "/version", nil, nil, &out)
}

// Ready returns nil when the daemon takes Puts; the error says why it does not.
func (c *Client) Ready(ctx context.Context) error {
	return c.call(ctx, http.MethodGet, "/readyz", nil, nil, nil)
}

func sinkPath(sink string) string { return "/v1/sinks/" + sink }

func resourcePath(key record.Key, verb string) string {
	return sinkPath(key.Sink) + "/resource" + verb
}

func keyQuery(key record.Key) url.Values { return url.Values{"key": {key.Name}} }

func setText(q url.Values, name, value string) {
	if value != "" {
		q.Set(name, value)
	}
}

func setFlag(q url.Values, name string, on bool) {
	if on {
		q.Set(name, "true")
	}
}
