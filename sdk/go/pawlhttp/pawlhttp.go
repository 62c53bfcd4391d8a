// Package pawlhttp is an http.RoundTripper over pawl.Do, for adapters that use
// a client library built on net/http. It adds about 8 MB to the module and some
// time per call, so prefer pawl.Do where it is enough.
package pawlhttp

import (
	"bytes"
	"io"
	"net/http"
	"strconv"
	"strings"

	pawl "github.com/pawlsync/pawl/sdk/go"
)

// Transport sends requests through one granted upstream. Scheme and host of
// their URLs are ignored: the upstream's base URL, credentials and TLS are the
// host's. Give requests the context of the call.
//
// It does not follow redirects; neither should the http.Client around it:
// Client returns one that does not. Bodies are buffered whole, both ways.
type Transport struct {
	Upstream string
}

// Client returns a client over the upstream that treats a redirect as an answer.
func Client(upstream string) *http.Client {
	return &http.Client{
		Transport:     Transport{Upstream: upstream},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// RoundTrip implements http.RoundTripper. Its errors are *pawl.Failure where
// there was no answer.
func (t Transport) RoundTrip(r *http.Request) (*http.Response, error) {
	out := &pawl.HTTPRequest{Upstream: t.Upstream, Method: r.Method, Path: path(r)}
	if out.Method == "" {
		out.Method = http.MethodGet
	}
	if r.Body != nil && r.Body != http.NoBody {
		b, err := io.ReadAll(r.Body)
		if closeErr := r.Body.Close(); err == nil {
			err = closeErr
		}
		if err != nil {
			return nil, err
		}
		out.Body = append([]byte{}, b...)
	}
	for name, values := range r.Header {
		for _, v := range values {
			out.Headers = append(out.Headers, pawl.Header{Name: name, Value: v})
		}
	}
	in, err := pawl.Do(r.Context(), out)
	if err != nil {
		return nil, err
	}
	return &http.Response{
		Status:     strconv.Itoa(in.Status) + " " + http.StatusText(in.Status),
		StatusCode: in.Status,
		Proto:      "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header:        header(in.Headers),
		Trailer:       header(in.Trailers),
		Body:          io.NopCloser(bytes.NewReader(in.Body)),
		ContentLength: int64(len(in.Body)),
		Request:       r,
	}, nil
}

func path(r *http.Request) string {
	p := r.URL.RequestURI()
	if !strings.HasPrefix(p, "/") { // an opaque URL
		p = "/" + p
	}
	return p
}

func header(hs []pawl.Header) http.Header {
	h := make(http.Header, len(hs))
	for _, f := range hs {
		h.Add(f.Name, f.Value)
	}
	return h
}
