package client

import (
	"context"
	"net/http"
	"net/url"

	"github.com/pawlsync/pawl/internal/api"
)

// Reload makes the daemon read its configuration again, and returns when what changed is
// in force; of a dry run it says what it would do. That it is refused is no error.
func (c *Client) Reload(ctx context.Context, dryRun bool) (api.Reload, error) {
	q := url.Values{}
	if dryRun {
		q.Set("dryRun", "true")
	}
	var out api.Reload
	return out, c.call(ctx, http.MethodPost, "/v1/reload", q, nil, &out)
}
