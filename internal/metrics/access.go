package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/pawlsync/pawl/internal/access"
)

// What is shown of who may call the API.
var (
	apiDenied     = metric{"pawl_api_denied_total", counter, "Requests to the API that were not allowed, by reason: credentials (401), site (the page of another site, or a foreign Host), scope (the caller is known, and may not do that), or unavailable (who it is could not be found out). Lines of a batch that are denied do not count.", []string{"reason"}}
	apiThrottled  = metric{"pawl_api_throttled_total", counter, "Requests to the API that were refused (429) since their client was over a limit of server.limits, by the kind of the client (token, certificate, kubernetes, peer, local, or stranger: who was not let in) and the limit: requests, watches or body. The log names the client.", []string{"kind", "limit"}}
	tokensRefused = metric{"pawl_tokens_refused", gauge, "1 while the token file holds something that can't be used; the tokens before stay in force. Absent without one.", nil}
	auditLost     = metric{"pawl_audit_lost_total", counter, "Lines of the audit's file that could not be written; the log says why. Always 0 without server.audit_file.", nil}
)

func ofAccess() []metric { return []metric{tokensRefused} }

// Denied counts a request that was not allowed.
func (o *Observer) Denied(why access.Denied) { o.denied.WithLabelValues(string(why)).Inc() }

// AuditLost counts a line of the audit's file that could not be written.
func (o *Observer) AuditLost() { o.auditLost.WithLabelValues().Inc() }

// Throttled counts a request of a client of that kind that was over a limit.
func (o *Observer) Throttled(kind string, limit access.Limit) {
	o.throttled.WithLabelValues(kind, string(limit)).Inc()
}

// throttledCounter has all kinds and limits from the start, as deniedCounter has.
func throttledCounter() *prometheus.CounterVec {
	c := apiThrottled.counter()
	for _, kind := range access.AllKinds() {
		for _, limit := range access.AllLimits() {
			c.WithLabelValues(kind, string(limit))
		}
	}
	return c
}

// deniedCounter has all reasons from the start: the first step of a counter that was
// not there is lost to who asks how much it rose.
func deniedCounter() *prometheus.CounterVec {
	c := apiDenied.counter()
	for _, why := range access.AllDenied() {
		c.WithLabelValues(string(why))
	}
	return c
}

// NewTokensCollector returns a collector of whether the token file can be used; trouble
// says what keeps it from that.
func NewTokensCollector(trouble func() error) prometheus.Collector {
	return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: tokensRefused.name, Help: tokensRefused.help}, func() float64 { return number(trouble() != nil) })
}
