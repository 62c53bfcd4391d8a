package client

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/pawlsync/pawl/internal/api"
)

// RunSaga starts a saga, or finds the one of that id and content, and returns it
// with its outcome, or without one when r.Wait was over. That it is rolled back is no
// error: api.Saga.Outcome says so. After an error nothing was written, unless it is
// ErrUnreachable or that of ctx: then ask again with the same id.
func (c *Client) RunSaga(ctx context.Context, r api.SagaRequest) (api.Saga, error) {
	var out api.Saga
	err := c.call(ctx, http.MethodPost, "/v1/sagas", nil, r, &out)
	if p, ok := errors.AsType[*api.Problem](err); ok && p.Code == api.CodeSagaRolledBack && p.Saga != nil {
		return *p.Saga, nil
	}
	return out, err
}

// Saga returns one saga; payloads: with what it writes, sensitive values as ***.
func (c *Client) Saga(ctx context.Context, id string, payloads bool) (api.Saga, error) {
	q := url.Values{}
	setFlag(q, "payload", payloads)
	var out api.Saga
	return out, c.call(ctx, http.MethodGet, sagaPath(id, ""), q, nil, &out)
}

// Sagas returns a page of sagas, from behind the id after; open: only those that have
// not ended; limit 0: the daemon's default, 100.
func (c *Client) Sagas(ctx context.Context, open bool, after string, limit int) (api.SagaPage, error) {
	q := url.Values{}
	setFlag(q, "open", open)
	setText(q, "after", after)
	if limit > 0 {
		q.Set("limit", strconv.Itoa(limit))
	}
	var out api.SagaPage
	return out, c.call(ctx, http.MethodGet, "/v1/sagas", q, nil, &out)
}

// WaitSaga returns a saga when its outcome is known. It asks again until ctx ends.
func (c *Client) WaitSaga(ctx context.Context, id string) (api.Saga, error) {
	const patience = time.Minute // of one request: proxies cut longer ones
	for {
		var out api.Saga
		err := c.call(ctx, http.MethodGet, sagaPath(id, "/wait"), url.Values{"timeout": {patience.String()}}, nil, &out)
		if err != nil || out.Outcome != "" {
			return out, err
		}
	}
}

// ExplainSaga says why a saga is where it is.
func (c *Client) ExplainSaga(ctx context.Context, id string) (api.SagaExplanation, error) {
	var out api.SagaExplanation
	return out, c.call(ctx, http.MethodGet, sagaPath(id, "/explain"), nil, nil, &out)
}

// ResolveSaga decides about a saga whose outcome is not known: as is "retry",
// "committed" or "rolled-back".
func (c *Client) ResolveSaga(ctx context.Context, id, as string) (api.Saga, error) {
	var out api.Saga
	return out, c.call(ctx, http.MethodPost, sagaPath(id, "/resolve"), nil, api.SagaResolution{As: as}, &out)
}

// SagaTemplates returns the templates of the daemon's configuration, by name.
func (c *Client) SagaTemplates(ctx context.Context) ([]api.SagaTemplate, error) {
	var out api.SagaTemplateList
	err := c.call(ctx, http.MethodGet, "/v1/saga-templates", nil, nil, &out)
	return out.Items, err
}

// sagaPath needs no escapes: an id is made of what stands in a path as it is.
func sagaPath(id, verb string) string { return "/v1/sagas/" + id + verb }
