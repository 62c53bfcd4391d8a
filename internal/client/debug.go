package client

import (
	"context"
	"io"
	"net/url"
)

// DebugBundle streams a debug bundle, a .tar.gz, with keys and texts of errors where keys
// is set. Whoever reads it checks that its index is there, and closes it.
func (c *Client) DebugBundle(ctx context.Context, keys bool) (io.ReadCloser, error) {
	q := url.Values{}
	setFlag(q, "keys", keys)
	return c.stream(ctx, "/v1/debug/bundle", q)
}
