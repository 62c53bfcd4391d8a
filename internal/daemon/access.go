package daemon

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/pawlsync/pawl/config"
	"github.com/pawlsync/pawl/internal/access"
	"github.com/pawlsync/pawl/internal/metrics"
	"github.com/pawlsync/pawl/internal/server"
)

// authenticators tell the API's callers apart, as the configuration asks; none:
// whoever can connect may do everything.
func authenticators(c *config.Config, o Options) ([]access.Authenticator, error) {
	var out []access.Authenticator
	if file := c.Server.TokenFile; file != "" {
		tokens, err := access.OpenTokens(access.TokenOptions{File: file, Logger: o.Logger})
		if err != nil {
			return nil, err
		}
		out = append(out, tokens)
	}
	return out, nil
}

// clientLimits are what one client of the API may do.
func clientLimits(c *config.Config) server.Limits {
	l := c.Server.Limits
	return server.Limits{
		RequestsPerSecond: l.RequestsPerSecond, RequestsBurst: l.RequestsBurst, Watches: l.Watches, BodyBytes: int64(l.BodyBytes),
	}
}

// showAccess lets the metrics have who is not let in or held back, and whether the token file can be
// used.
func showAccess(so *server.Options, registry *prometheus.Registry, observer *metrics.Observer) {
	so.Denied, so.Throttled = observer.Denied, observer.Throttled
	for _, a := range so.Authenticators {
		if tokens, ok := a.(*access.Tokens); ok {
			registry.MustRegister(metrics.NewTokensCollector(tokens.Trouble))
		}
	}
}
