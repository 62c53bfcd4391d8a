package client

import (
	"context"
	"net/http"

	"github.com/pawlsync/pawl/internal/api"
)

// LogLevel returns how much the daemon logs.
func (c *Client) LogLevel(ctx context.Context) (api.LogLevel, error) {
	var out api.LogLevel
	return out, c.call(ctx, http.MethodGet, "/v1/log-level", nil, nil, &out)
}

// SetLogLevel changes it at once, and returns what is in force then.
func (c *Client) SetLogLevel(ctx context.Context, level string) (api.LogLevel, error) {
	var out api.LogLevel
	return out, c.call(ctx, http.MethodPut, "/v1/log-level", nil, api.LogLevel{Level: level}, &out)
}
