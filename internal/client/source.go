package client

import (
	"context"
	"net/http"
	"net/url"
	"strconv"

	"github.com/pawlsync/pawl/internal/api"
)

// Sources returns every source, by name.
func (c *Client) Sources(ctx context.Context) ([]api.Source, error) {
	var out api.SourceList
	err := c.call(ctx, http.MethodGet, "/v1/sources", nil, nil, &out)
	return out.Items, err
}

// Source returns one source, with what is wrong with what it has.
func (c *Client) Source(ctx context.Context, name string) (api.Source, error) {
	var out api.Source
	return out, c.call(ctx, http.MethodGet, sourcePath(name, ""), nil, nil, &out)
}

// RescanSource asks a source for everything that it has.
func (c *Client) RescanSource(ctx context.Context, name string) error {
	return c.call(ctx, http.MethodPost, sourcePath(name, "/rescan"), nil, nil, nil)
}

// HeldOfSource returns a page of what the fuse of a source holds; limit 0: the
// daemon's default, 100.
func (c *Client) HeldOfSource(ctx context.Context, name, page string, limit int) (api.SourceHeld, error) {
	q := url.Values{}
	setText(q, "page", page)
	if limit > 0 {
		q.Set("limit", strconv.Itoa(limit))
	}
	var out api.SourceHeld
	return out, c.call(ctx, http.MethodGet, sourcePath(name, "/held"), q, nil, &out)
}

// ConfirmSource deletes what the list of that digest has, and returns how many that
// were.
func (c *Client) ConfirmSource(ctx context.Context, name, digest string) (int, error) {
	var out api.SourceConfirmed
	err := c.call(ctx, http.MethodPost, sourcePath(name, "/confirm"), nil, api.SourceConfirmation{Digest: digest}, &out)
	return out.Deleted, err
}

// HandOver makes resources of a source another one's, and returns how many changed
// hands.
func (c *Client) HandOver(ctx context.Context, from string, r api.SourceHandover) (int, error) {
	var out api.SourceHandedOver
	err := c.call(ctx, http.MethodPost, sourcePath(from, "/handover"), nil, r, &out)
	return out.Resources, err
}

// sourcePath escapes names, since owners may be named as callers like.
func sourcePath(name, verb string) string { return "/v1/sources/" + url.PathEscape(name) + verb }
