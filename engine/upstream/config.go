package upstream

import (
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/net/http/httpguts"
)

// KindHTTP is the kind of an upstream that is a plain HTTP service.
const KindHTTP = "http"

// Defaults of Config.
const (
	DefaultRequestMaxBytes  = 4 << 20
	DefaultResponseMaxBytes = 4 << 20
	DefaultMaxConcurrent    = 10_000
	DefaultTimeout          = 30 * time.Second
	DefaultDialTimeout      = 10 * time.Second
)

// Protocol says which versions of HTTP an upstream speaks.
type Protocol string

// The protocols.
const (
	ProtocolAuto  Protocol = ""      // https: HTTP/2 where the server offers it, else HTTP/1.1; http: HTTP/1.1
	ProtocolHTTP1 Protocol = "http1" // HTTP/1.1 only
	ProtocolHTTP2 Protocol = "http2" // HTTP/2 only, over TLS
	ProtocolH2C   Protocol = "h2c"   // HTTP/2 only, without TLS, by prior knowledge
)

// Config describes one upstream. Only Name and BaseURL have no default.
type Config struct {
	// Name is what plugins call the upstream by.
	Name string
	// Kind defaults to KindHTTP. Another one needs Options.RoundTripper.
	Kind string
	// BaseURL is scheme, host, port and a path that every request's path is
	// appended to. It holds no user information, query or fragment.
	//
	// An address on loopback, link-local or of a cloud's metadata service is
	// reached only if it stands here itself, as an IP literal or, for
	// loopback, as "localhost". Private networks are open: that is where
	// operators' targets are.
	BaseURL string
	// Protocol defaults to ProtocolAuto.
	Protocol Protocol

	TLS         TLS
	Credentials Credentials
	Webhook     Webhook

	// AllowedMethods defaults to GET, HEAD, POST, PUT, PATCH and DELETE.
	// CONNECT and TRACE are never allowed.
	AllowedMethods []string
	// AllowedPathPrefixes are matched at segment borders, after decoding,
	// against the path below BaseURL: "/v1" allows "/v1" and "/v1/x", but not
	// "/v10". Defaults to every path below BaseURL.
	AllowedPathPrefixes []string
	// AllowedHeaders are names that plugins may set besides DefaultHeaders.
	// Those that carry credentials, name hosts, frame messages or override
	// method or path can't be allowed.
	AllowedHeaders []string

	RequestMaxBytes  int64 // of a body. Defaults to DefaultRequestMaxBytes.
	ResponseMaxBytes int64 // of a body as it comes, not decompressed. Defaults to DefaultResponseMaxBytes.
	// MaxConcurrent requests are under way at once; others wait, within their
	// timeout. Defaults to DefaultMaxConcurrent.
	MaxConcurrent int
	// RatePerSecond bounds the requests begun per second; bursts of up to a
	// second's worth go at once. Defaults to no bound.
	RatePerSecond float64
	// Timeout bounds a request from Do to its last byte, waiting included; a
	// plugin may ask for less. Defaults to DefaultTimeout.
	Timeout time.Duration
	// DialTimeout bounds each of connecting (name lookup included) and the TLS
	// handshake. Defaults to DefaultDialTimeout.
	DialTimeout time.Duration
}

// TLS says how an https upstream is trusted and which client certificate it is
// shown. Changed files count from the next connection on.
type TLS struct {
	CAFile             string // PEM; replaces the system's roots
	CertFile           string // PEM; the client's chain
	KeyFile            string // PEM
	ServerName         string // expected in the certificate. Defaults to BaseURL's host.
	InsecureSkipVerify bool   // trust any certificate
}

func (t TLS) isZero() bool { return t == TLS{} }

// Secret says where a credential comes from; at most one field is set, and the
// zero Secret is none. It prints as its origin, never as its value.
//
// Prefer File: it is read again within a second of being changed. Newlines at
// the end are no part of a secret.
type Secret struct {
	File  string
	Env   string // name of an environment variable, read once, at Open
	Value string // the secret itself
}

// IsZero reports whether s names no secret.
func (s Secret) IsZero() bool { return s == Secret{} }

// String returns the secret's origin.
func (s Secret) String() string {
	switch {
	case s.File != "":
		return "file " + s.File
	case s.Env != "":
		return "environment variable " + s.Env
	case s.Value != "":
		return "[redacted]"
	}
	return "none"
}

// GoString returns the secret's origin.
func (s Secret) GoString() string { return s.String() }

// LogValue returns the secret's origin.
func (s Secret) LogValue() slog.Value { return slog.StringValue(s.String()) }

// MarshalText returns the secret's origin, so that no encoder prints its value.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// Credentials are added to every request by the host. Bearer and Basic exclude
// each other: both are the Authorization header.
type Credentials struct {
	Bearer  Secret
	Basic   Basic
	Headers []HeaderCredential
}

// Basic is HTTP basic authentication.
type Basic struct {
	Username string
	Password Secret
}

func (b Basic) isZero() bool { return b == Basic{} }

// HeaderCredential is a header whose value is a secret, an API key say.
type HeaderCredential struct {
	Name   string
	Secret Secret
}

// Webhook signs every request by the Standard Webhooks specification
// (standardwebhooks.com): webhook-id is the plugin's Idempotency-Key, so that
// retries of one generation carry the same one, or random.
type Webhook struct {
	// Secrets are "whsec_" and base64 of 24 to 64 bytes. Each signs, so that
	// receivers accept old and new ones while they are rotated. None: no signing.
	Secrets []Secret
}

// ErrConfig is what every error about a Config is, for errors.Is.
var ErrConfig = errors.New("bad upstream config")

// ConfigError is one thing that is wrong with a Config.
type ConfigError struct {
	Upstream string // its name
	Field    string // as in Go: "TLS.CAFile", "Credentials.Headers[0].Name"
	Problem  string // what is wrong and what to do; never a secret's value
	Err      error  // the cause, or nil
}

// Error says what is wrong, where, and what to do.
func (e *ConfigError) Error() string {
	s := fmt.Sprintf("upstream %q: %s %s", e.Upstream, e.Field, e.Problem)
	if e.Err != nil {
		s += ": " + e.Err.Error()
	}
	return s
}

// Unwrap returns ErrConfig and the cause.
func (e *ConfigError) Unwrap() []error {
	if e.Err == nil {
		return []error{ErrConfig}
	}
	return []error{ErrConfig, e.Err}
}

// Validate returns every ConfigError that can be found without reading a file,
// joined, or nil.
func (c Config) Validate() error {
	v := validator{name: c.Name}
	v.check(c.Name != "", "Name", "is empty; plugins need one to name the upstream by")
	v.check(c.Kind == "" || httpguts.ValidHeaderFieldName(c.Kind), "Kind", "must be a word")
	base := v.baseURL(c.BaseURL)
	v.protocol(c.Protocol, base)
	v.tls(c.TLS, base)
	v.credentials(c.Credentials)
	for i, s := range c.Webhook.Secrets {
		v.secret(fmt.Sprintf("Webhook.Secrets[%d]", i), s, true)
	}
	v.allowed(c)
	v.check(c.RequestMaxBytes >= 0, "RequestMaxBytes", "is negative")
	v.check(c.ResponseMaxBytes >= 0, "ResponseMaxBytes", "is negative")
	v.check(c.MaxConcurrent >= 0, "MaxConcurrent", "is negative")
	v.check(c.RatePerSecond >= 0 && c.RatePerSecond <= 1e6, "RatePerSecond", "must be between 0 (no bound) and a million")
	v.check(c.Timeout >= 0, "Timeout", "is negative")
	v.check(c.DialTimeout >= 0, "DialTimeout", "is negative")
	return errors.Join(v.errs...)
}

// withDefaults returns c with defaults in place of zero values.
func (c Config) withDefaults() Config {
	c.Kind = orDefault(c.Kind, KindHTTP)
	if len(c.AllowedMethods) == 0 {
		c.AllowedMethods = []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"}
	}
	c.RequestMaxBytes = orDefault(c.RequestMaxBytes, DefaultRequestMaxBytes)
	c.ResponseMaxBytes = orDefault(c.ResponseMaxBytes, DefaultResponseMaxBytes)
	c.MaxConcurrent = orDefault(c.MaxConcurrent, DefaultMaxConcurrent)
	c.Timeout = orDefault(c.Timeout, DefaultTimeout)
	c.DialTimeout = orDefault(c.DialTimeout, DefaultDialTimeout)
	return c
}

func orDefault[T comparable](v, otherwise T) T {
	var zero T
	if v == zero {
		return otherwise
	}
	return v
}

// validator gathers what is wrong with one Config.
type validator struct {
	name string
	errs []error
}

func (v *validator) check(ok bool, field, problem string) {
	if !ok {
		v.errs = append(v.errs, &ConfigError{Upstream: v.name, Field: field, Problem: problem})
	}
}

// baseURL returns the parsed URL, or nil. Problems don't quote it: user
// information or a query in it may be secret.
func (v *validator) baseURL(s string) *url.URL {
	before := len(v.errs)
	u, err := url.Parse(s)
	v.check(err == nil, "BaseURL", "is not a URL; it should read like https://host:port/path")
	if err != nil {
		return nil
	}
	v.check(u.Scheme == "http" || u.Scheme == "https", "BaseURL", `must begin with "http://" or "https://"`)
	v.check(u.Hostname() != "", "BaseURL", "names no host")
	v.check(u.User == nil, "BaseURL", "holds user information; move it to Credentials.Basic")
	v.check(u.RawQuery == "" && !u.ForceQuery, "BaseURL", "holds a query; a secret belongs in Credentials, the rest in the plugin's paths")
	v.check(u.Fragment == "" && !strings.Contains(s, "#"), "BaseURL", "holds a fragment")
	if u.Port() != "" {
		n, err := strconv.ParseUint(u.Port(), 10, 16)
		v.check(err == nil && n > 0, "BaseURL", "has a port that is not between 1 and 65535")
	}
	if strings.HasPrefix(u.Host, "[") {
		_, err := netip.ParseAddr(u.Hostname())
		v.check(err == nil, "BaseURL", "has brackets around something that is no IPv6 address")
	}
	if p := strings.TrimSuffix(u.EscapedPath(), "/"); p != "" {
		_, err := checkPath(p)
		if err != nil {
			v.check(false, "BaseURL", "has a bad path: "+err.Error())
		}
	}
	if len(v.errs) > before {
		return nil
	}
	return u
}

func (v *validator) protocol(p Protocol, base *url.URL) {
	switch p {
	case ProtocolAuto, ProtocolHTTP1:
	case ProtocolHTTP2:
		v.check(base == nil || base.Scheme == "https", "Protocol", `http2 needs an https base URL; for HTTP/2 without TLS say "h2c"`)
	case ProtocolH2C:
		v.check(base == nil || base.Scheme == "http", "Protocol", `h2c needs an http base URL; for HTTP/2 over TLS say "http2"`)
	default:
		v.check(false, "Protocol", fmt.Sprintf(`is %q; use "http1", "http2", "h2c" or nothing`, string(p)))
	}
}

func (v *validator) tls(t TLS, base *url.URL) {
	v.check((t.CertFile == "") == (t.KeyFile == ""), "TLS.CertFile", "and TLS.KeyFile go together; set both or none")
	v.check(t.isZero() || base == nil || base.Scheme == "https", "TLS", "is set, but BaseURL is not https")
	v.check(!t.InsecureSkipVerify || t.CAFile == "", "TLS.InsecureSkipVerify", "makes TLS.CAFile pointless; remove one of them")
}

func (v *validator) credentials(c Credentials) {
	v.check(c.Bearer.IsZero() || c.Basic.isZero(), "Credentials", "has both Bearer and Basic, which are the same header; keep one")
	v.secret("Credentials.Bearer", c.Bearer, false)
	if !c.Basic.isZero() {
		v.check(c.Basic.Username != "" && !strings.Contains(c.Basic.Username, ":"), "Credentials.Basic.Username", "must be set and hold no colon")
		v.secret("Credentials.Basic.Password", c.Basic.Password, true)
	}
	seen := map[string]bool{"authorization": !c.Bearer.IsZero() || !c.Basic.isZero()}
	for i, h := range c.Headers {
		field := fmt.Sprintf("Credentials.Headers[%d]", i)
		name := strings.ToLower(h.Name)
		v.check(httpguts.ValidHeaderFieldName(h.Name), field+".Name", "is not a header name")
		v.check(!framing(name), field+".Name", "is one that frames or routes messages; it can't carry a credential")
		v.check(!seen[name], field+".Name", "is set twice")
		seen[name] = true
		v.secret(field+".Secret", h.Secret, true)
	}
}

func (v *validator) secret(field string, s Secret, required bool) {
	n := 0
	for _, set := range []string{s.File, s.Env, s.Value} {
		if set != "" {
			n++
		}
	}
	v.check(n <= 1, field, "has more than one origin; set one of File, Env and Value")
	v.check(n > 0 || !required, field, "is empty; set File (or Env, or Value)")
}

func (v *validator) allowed(c Config) {
	for i, m := range c.AllowedMethods {
		v.check(checkMethod(m) == nil, fmt.Sprintf("AllowedMethods[%d]", i), fmt.Sprintf("is %q; it must be a method in capitals, other than CONNECT and TRACE", m))
	}
	for i, p := range c.AllowedPathPrefixes {
		field := fmt.Sprintf("AllowedPathPrefixes[%d]", i)
		if strings.ContainsAny(p, "%?") {
			v.check(false, field, `is compared after decoding; write it plain, without "%" and "?"`)
		} else if _, err := checkPath((&url.URL{Path: p}).EscapedPath()); err != nil {
			v.check(false, field, fmt.Sprintf("is %q: %v", p, err))
		}
	}
	for i, h := range c.AllowedHeaders {
		field := fmt.Sprintf("AllowedHeaders[%d]", i)
		v.check(httpguts.ValidHeaderFieldName(h), field, fmt.Sprintf("is %q, no header name", h))
		v.check(!neverFromGuest(h), field, fmt.Sprintf("is %q, which is the host's alone", h))
		v.check(!slices.ContainsFunc(c.Credentials.Headers, func(k HeaderCredential) bool { return strings.EqualFold(k.Name, h) }),
			field, fmt.Sprintf("is %q, which carries a credential", h))
	}
}
