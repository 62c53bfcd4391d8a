package upstream

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"net/textproto"
	"slices"
	"strings"

	"golang.org/x/net/http/httpguts"
)

// Bounds on what a plugin sends as headers.
const (
	maxHeaderFields = 100
	maxHeaderBytes  = 64 << 10
)

// defaultHeaders are those that every plugin may set; true: more than once.
var defaultHeaders = map[string]bool{
	"Accept": true, "Accept-Encoding": true, "Accept-Language": true,
	"Cache-Control": true, "Pragma": false,
	"Content-Type": false, "Content-Encoding": true, "Content-Language": true,
	"Content-Digest": true, "Digest": true, "Content-Md5": false,
	"If-Match": true, "If-None-Match": true, "If-Modified-Since": false, "If-Unmodified-Since": false,
	"Range": false, "If-Range": false, "Prefer": true,
	"Idempotency-Key": false, "X-Idempotency-Key": false,
	"User-Agent": false, "X-Request-Id": false, "X-Correlation-Id": false,
	"Traceparent": false, "Tracestate": true, "Baggage": true,
	"Grpc-Timeout": false, "Grpc-Encoding": false, "Grpc-Accept-Encoding": true, "Grpc-Message-Type": false,
	"Te": false,
}

// DefaultHeaders returns the names of the headers that every plugin may set,
// in order. TE may only be "trailers", as gRPC needs it.
func DefaultHeaders() []string {
	names := make([]string, 0, len(defaultHeaders))
	for name := range defaultHeaders {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// framing reports whether a lower-case header name decides where a message
// ends, which host it is for or how long the connection lives.
func framing(name string) bool {
	switch name {
	case "host", "content-length", "transfer-encoding", "te", "trailer", "connection", "proxy-connection",
		"keep-alive", "upgrade", "http2-settings", "expect":
		return true
	}
	return false
}

// neverFromGuest reports whether name can't be allowed to plugins: framing,
// credentials, impersonation, and overrides of method or path that would get
// round the allow-lists. An underscore counts as a hyphen, as it does for the
// servers that turn headers into variables.
func neverFromGuest(name string) bool {
	name = strings.ReplaceAll(strings.ToLower(name), "_", "-")
	if framing(name) {
		return true
	}
	switch name {
	case "authorization", "cookie", "cookie2", "set-cookie", "x-http-method", "x-http-method-override", "x-method-override",
		"x-original-url", "x-rewrite-url", "x-original-method":
		return true
	}
	for _, prefix := range []string{"proxy-", "impersonate-", "x-remote-"} {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	return false
}

// headerRules say what plugins may set; the value says whether more than once.
type headerRules map[string]bool

func newHeaderRules(c Config) headerRules {
	rules := make(headerRules, len(defaultHeaders)+len(c.AllowedHeaders))
	for name, repeats := range defaultHeaders {
		rules[name] = repeats
	}
	for _, name := range c.AllowedHeaders {
		rules[textproto.CanonicalMIMEHeaderKey(name)] = true
	}
	for _, h := range c.Credentials.Headers {
		delete(rules, textproto.CanonicalMIMEHeaderKey(h.Name))
	}
	if len(c.Webhook.Secrets) > 0 {
		for _, name := range []string{headerWebhookID, headerWebhookTimestamp, headerWebhookSignature} {
			delete(rules, name)
		}
	}
	return rules
}

// build returns the plugin's fields as a header, or says which one is refused.
// Values are never quoted.
func (rules headerRules) build(fields []Field) (http.Header, error) {
	if len(fields) > maxHeaderFields {
		return nil, fmt.Errorf("the request has %d header fields, more than the %d allowed", len(fields), maxHeaderFields)
	}
	h := make(http.Header, len(fields)+4)
	size := 0
	for _, f := range fields {
		size += len(f.Name) + len(f.Value)
		name := textproto.CanonicalMIMEHeaderKey(f.Name)
		repeats, allowed := rules[name]
		if !allowed {
			return nil, refuse(f.Name)
		}
		if !httpguts.ValidHeaderFieldValue(f.Value) {
			return nil, fmt.Errorf("the value of header %s has a control character", quote(f.Name))
		}
		if name == "Te" && f.Value != "trailers" {
			return nil, errors.New(`header "TE" may only be "trailers"`)
		}
		if len(h[name]) > 0 && !repeats {
			return nil, fmt.Errorf("header %s is set twice", quote(f.Name))
		}
		h[name] = append(h[name], f.Value)
	}
	if size > maxHeaderBytes {
		return nil, fmt.Errorf("the request's headers have %d bytes, more than the %d allowed", size, maxHeaderBytes)
	}
	return h, nil
}

// refuse says why a header that is not in the rules is refused.
func refuse(name string) error {
	switch {
	case !httpguts.ValidHeaderFieldName(name):
		return fmt.Errorf("%s is not a header name", quote(name))
	case neverFromGuest(name):
		return fmt.Errorf("header %s is the host's alone; a plugin can't set it", quote(name))
	}
	return fmt.Errorf("header %s is not allowed; the upstream's AllowedHeaders can allow it", quote(name))
}

// disarm renames the headers that net/http takes as leave to replay a request
// which was already written. Header names are case-insensitive for everybody
// but that check (net/http, Request.isReplayable), so they are sent in lower case.
func disarm(h http.Header) {
	for _, name := range [...]string{"Idempotency-Key", "X-Idempotency-Key"} {
		if v, ok := h[name]; ok {
			delete(h, name)
			h[strings.ToLower(name)] = v
		}
	}
}

// withheld are response headers that plugins don't see: a session that was
// opened with the host's credentials is a credential, and hop-by-hop fields
// speak of a connection that plugins don't have.
var withheld = map[string]bool{
	"Set-Cookie": true, "Set-Cookie2": true, "Authentication-Info": true, "Proxy-Authentication-Info": true,
	"Proxy-Authenticate": true, "Connection": true, "Keep-Alive": true, "Proxy-Connection": true,
	"Transfer-Encoding": true, "Upgrade": true, "Trailer": true,
}

// fieldsOf returns h for the plugin, sorted by name so that equal answers read
// equal.
func fieldsOf(h http.Header) []Field {
	if len(h) == 0 {
		return nil
	}
	fields := make([]Field, 0, len(h))
	for name, values := range h {
		if withheld[name] {
			continue
		}
		for _, v := range values {
			fields = append(fields, Field{name, v})
		}
	}
	slices.SortStableFunc(fields, func(a, b Field) int { return cmp.Compare(a.Name, b.Name) })
	return fields
}

// checkMethod says what is wrong with an HTTP method. TRACE would echo
// credentials; CONNECT would open a tunnel.
func checkMethod(m string) error {
	if m == "" || len(m) > 32 || strings.Trim(m, "ABCDEFGHIJKLMNOPQRSTUVWXYZ") != "" {
		return fmt.Errorf("%s is not a method: 1 to 32 capital letters", quote(m))
	}
	if m == http.MethodConnect || m == http.MethodTrace || m == "PRI" {
		return fmt.Errorf("method %s is never allowed", m)
	}
	return nil
}
