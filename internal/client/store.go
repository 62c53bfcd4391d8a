package client

import (
	"context"
	"io"
	"net/http"
	"net/url"
	"strconv"

	"github.com/pawlsync/pawl/internal/api"
)

// Store counts what the store holds.
func (c *Client) Store(ctx context.Context) (api.StoreDetails, error) {
	var out api.StoreDetails
	return out, c.call(ctx, http.MethodGet, "/v1/store", nil, nil, &out)
}

// CompactStore frees what can be freed, and returns when that is done.
func (c *Client) CompactStore(ctx context.Context) (api.StoreDetails, error) {
	var out api.StoreDetails
	return out, c.call(ctx, http.MethodPost, "/v1/store/compact", nil, nil, &out)
}

// BackupStore streams a backup; the zero since asks for a full one. Whoever reads it
// checks that its end is there, and closes it.
func (c *Client) BackupStore(ctx context.Context, since api.StoreSince) (io.ReadCloser, error) {
	q := url.Values{}
	setText(q, "sinceEpoch", since.Epoch)
	for name, n := range map[string]uint64{"sinceRevision": since.Revision, "sinceVersion": since.Version} {
		if n > 0 {
			q.Set(name, strconv.FormatUint(n, 10))
		}
	}
	return c.stream(ctx, "/v1/store/backup", q)
}

// ExportStore streams an export, with what is known of each resource where status is
// set. Whoever reads it checks that its end is there, and closes it.
func (c *Client) ExportStore(ctx context.Context, status bool) (io.ReadCloser, error) {
	q := url.Values{}
	setFlag(q, "status", status)
	return c.stream(ctx, "/v1/store/export", q)
}

func (c *Client) stream(ctx context.Context, path string, q url.Values) (io.ReadCloser, error) {
	response, err := c.send(ctx, http.MethodGet, path, q, nil, "")
	if err != nil {
		return nil, err
	}
	return response.Body, nil
}
