package upstream

import (
	"net/http"
	"sync/atomic"
	"time"
)

const (
	// maxLanes is how many connections an upstream spreads over with HTTP/2.
	maxLanes = 16
	// laneStreams is how many requests a connection gets before the next one
	// is opened; servers commonly allow 100 to 250.
	laneStreams = 100
)

// transport carries requests over HTTP/1.1, or over a few connections of
// HTTP/2. net/http alone dials once per request while no connection is there
// or those that are there are full: 3,000 requests at once made 10,000
// connections. So each lane is a transport of its own that dials one connection
// at a time, and another only where the server allows fewer streams than we use.
type transport struct {
	h1      *http.Transport // nil: HTTP/2 only
	lanes   []*lane         // none: HTTP/1.1 only
	maybeH2 *atomic.Bool
}

// lane is a connection of HTTP/2, more if need be, and how many requests wait for its answers.
type lane struct {
	*http.Transport
	waiting atomic.Int64
}

func newTransport(c Config, d *dialler) *transport {
	t := &transport{maybeH2: d.maybeH2}
	if c.Protocol == ProtocolAuto || c.Protocol == ProtocolHTTP1 {
		t.h1 = baseTransport(d)
		t.h1.DialTLSContext = d.dialH1
		t.h1.MaxIdleConnsPerHost = c.MaxConcurrent // a connection for every request that may be under way
		t.h1.Protocols.SetHTTP1(true)
	}
	if !d.maybeH2.Load() {
		return t
	}
	for range maxLanes {
		l := &lane{Transport: baseTransport(d)}
		l.DialTLSContext = d.dialH2
		l.MaxConnsPerHost = 1
		l.Protocols.SetHTTP2(c.Protocol != ProtocolH2C)
		l.Protocols.SetUnencryptedHTTP2(c.Protocol == ProtocolH2C)
		t.lanes = append(t.lanes, l)
	}
	return t
}

// baseTransport returns what all have in common: no proxy, no decompression.
func baseTransport(d *dialler) *http.Transport {
	return &http.Transport{
		DialContext:            d.dial,
		Protocols:              new(http.Protocols),
		DisableCompression:     true,
		IdleConnTimeout:        90 * time.Second,
		MaxResponseHeaderBytes: maxResponseHeaderBytes,
		HTTP2: &http.HTTP2Config{
			// Not StrictMaxConcurrentRequests: in Go 1.26 requests that wait for a
			// stream count as streams, and all wait for ever.
			// A peer that vanished is noticed by its silence.
			SendPingTimeout: 15 * time.Second,
			PingTimeout:     15 * time.Second,
		},
	}
}

// RoundTrip carries r over the protocol that is known by now. errNotH2 means
// that it has become HTTP/1.1, and that r did not leave.
func (t *transport) RoundTrip(r *http.Request) (*http.Response, error) {
	if !t.maybeH2.Load() {
		return t.h1.RoundTrip(r)
	}
	l := t.lane()
	l.waiting.Add(1)
	defer l.waiting.Add(-1)
	return l.RoundTrip(r)
}

// lane returns the first lane with room, so that few requests share one
// connection, or the emptiest.
func (t *transport) lane() *lane {
	best := t.lanes[0]
	for _, l := range t.lanes {
		if l.waiting.Load() < laneStreams {
			return l
		}
		if l.waiting.Load() < best.waiting.Load() {
			best = l
		}
	}
	return best
}

// CloseIdleConnections closes the connections that carry nothing.
func (t *transport) CloseIdleConnections() {
	if t.h1 != nil {
		t.h1.CloseIdleConnections()
	}
	for _, l := range t.lanes {
		l.CloseIdleConnections()
	}
}
