package config

import (
	"maps"
	"slices"
	"strings"
)

// checkTracing wants an endpoint without secrets in it, and upstreams that exist.
func (l *loader) checkTracing(c *Config) {
	t := c.Tracing
	if what, _ := badBaseURL(t.Endpoint); what != "" && t.Endpoint != "" {
		l.wrong("tracing.endpoint", what, "write it as in http://127.0.0.1:4318; a credential goes to tracing.header")
	}
	if t.Header != nil && t.Header.Name != "" && !headerName.MatchString(t.Header.Name) {
		l.wrong("tracing.header.name", shown(t.Header.Name)+" is no name of a header", "")
	}
	if t.CAFile != "" && strings.HasPrefix(t.Endpoint, "http:") {
		l.wrong("tracing.ca_file", "is set, and the endpoint is http", "use https in tracing.endpoint, or remove it")
	}
	names := slices.Sorted(maps.Keys(c.Upstreams))
	for i, u := range t.Upstreams {
		if !slices.Contains(names, u) && !l.badKeys["upstreams."+u] {
			l.wrongItem("tracing.upstreams", i, "no upstream is called "+shown(u), didYouMean(u, names))
		}
	}
}
