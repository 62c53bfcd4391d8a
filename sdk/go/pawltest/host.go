package pawltest

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	pawl "github.com/pawlsync/pawl/sdk/go"
)

func newHost(t testing.TB, o Options) *host {
	h := &host{t: t, bases: map[string]string{}, limit: o.MaxResponseBytes}
	if h.limit == 0 {
		h.limit = 8 << 20
	}
	add := func(name string, handler http.Handler) {
		s := httptest.NewServer(handler)
		t.Cleanup(s.Close)
		h.bases[name] = s.URL
	}
	if o.Upstream != nil {
		add(UpstreamName, o.Upstream)
	}
	for name, handler := range o.Upstreams {
		add(name, handler)
	}
	return h
}

func (h *host) refs(kind string) (refs []pawl.UpstreamRef) {
	for name, base := range h.bases {
		refs = append(refs, pawl.UpstreamRef{Name: name, Kind: kind, BaseURL: base})
	}
	slices.SortFunc(refs, func(a, b pawl.UpstreamRef) int { return strings.Compare(a.Name, b.Name) })
	return refs
}

// client follows redirects as the real host does: of GET and HEAD, to the same place.
var client = &http.Client{CheckRedirect: func(r *http.Request, via []*http.Request) error {
	first := via[0]
	if len(via) >= 10 || first.Method != http.MethodGet && first.Method != http.MethodHead ||
		r.URL.Host != first.URL.Host || r.URL.Scheme != first.URL.Scheme {
		return http.ErrUseLastResponse
	}
	return nil
}}

// HTTP sends a request to the upstream's handler.
func (h *host) HTTP(ctx context.Context, r *pawl.HTTPRequest) (*pawl.HTTPResponse, error) {
	fail := func(kind pawl.FailureKind, message string, sent bool) (*pawl.HTTPResponse, error) {
		return nil, &pawl.Failure{Kind: kind, Upstream: r.Upstream, Message: message, MaybeSent: sent}
	}
	if f := h.record(r); f != nil {
		f.Upstream = r.Upstream
		return nil, f
	}
	base, ok := h.bases[r.Upstream]
	if !ok {
		return fail(pawl.FailDenied, "this upstream is not granted to the sink", false)
	}
	if !strings.HasPrefix(r.Path, "/") {
		return fail(pawl.FailDenied, "the path does not start with a slash", false)
	}
	if r.Timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, r.Timeout)
		defer cancel()
	}
	var body io.Reader
	if r.Body != nil {
		body = bytes.NewReader(r.Body)
	}
	hr, err := http.NewRequestWithContext(ctx, r.Method, base+r.Path, body)
	if err != nil {
		return fail(pawl.FailDenied, err.Error(), false)
	}
	for _, f := range r.Headers {
		hr.Header.Add(f.Name, f.Value)
	}
	resp, err := client.Do(hr)
	if err != nil {
		return fail(kindOf(err), err.Error(), true)
	}
	defer resp.Body.Close()
	got, err := io.ReadAll(io.LimitReader(resp.Body, h.limit+1))
	if err != nil {
		return fail(kindOf(err), err.Error(), true)
	}
	if int64(len(got)) > h.limit {
		return fail(pawl.FailTooLarge, "the response is larger than the host's limit", true)
	}
	return &pawl.HTTPResponse{Status: resp.StatusCode, Headers: fields(resp.Header), Body: got, Trailers: fields(resp.Trailer)}, nil
}

// record keeps the request for Sent, and says whether it is to fail.
func (h *host) record(r *pawl.HTTPRequest) *pawl.Failure {
	s := Sent{HTTPRequest: *r, Header: http.Header{}}
	s.Body = bytes.Clone(r.Body)
	s.Headers = slices.Clone(r.Headers)
	for _, f := range r.Headers {
		s.Header.Add(f.Name, f.Value)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.sent = append(h.sent, s)
	f := h.failNext
	h.failNext = nil
	return f
}

func kindOf(err error) pawl.FailureKind {
	var dns *net.DNSError
	var op *net.OpError
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return pawl.FailTimeout
	case errors.Is(err, context.Canceled):
		return pawl.FailCancelled
	case errors.As(err, &dns):
		return pawl.FailDNS
	case errors.As(err, &op) && op.Op == "dial":
		return pawl.FailConnect
	}
	return pawl.FailProtocol
}

func fields(h http.Header) (out []pawl.Header) {
	for name, values := range h {
		for _, v := range values {
			out = append(out, pawl.Header{Name: name, Value: v})
		}
	}
	slices.SortStableFunc(out, func(a, b pawl.Header) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// Sleep returns at once.
func (h *host) Sleep(ctx context.Context, d time.Duration) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.slept += d
	return ctx.Err()
}

// Log goes to the test's log.
func (h *host) Log(_ context.Context, level pawl.Level, line string) {
	h.t.Logf("adapter logs (level %d): %s", level, line)
}
