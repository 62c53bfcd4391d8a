package upstream

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/textproto"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"time"
)

// Options are what an upstream needs from its surroundings. The zero Options
// works.
type Options struct {
	// Resolver looks names up. Defaults to the system's.
	Resolver *net.Resolver
	// RoundTripper, if set, carries the requests instead of the upstream's own
	// transport. It brings its own connections, TLS and address checks, so that
	// Config.TLS, Protocol and DialTimeout must not be set. It must not follow
	// redirects or replay requests. An upstream of a kind other than http needs one.
	RoundTripper http.RoundTripper
	// Admit, if set, may refuse a request that everything else allows, with a
	// reason that the plugin is told. path is decoded and below the base URL, query
	// is as it is sent, without "?". It is asked for each hop of a redirect too.
	Admit func(method, path, query string) error
	// Logger is told of credential and certificate files that can't be read
	// again. Defaults to nowhere.
	Logger *slog.Logger
	// LookupEnv reads environment variables. Defaults to os.LookupEnv.
	LookupEnv func(string) (string, bool)
	// Now is the time of webhook signatures. Defaults to time.Now.
	Now func() time.Time
	// UserAgent is sent where a plugin sets none. Defaults to "pawl".
	UserAgent string
	// Secret is told each secret that is read, so that it can be kept out of logs.
	// Defaults to nobody.
	Secret func(string)
	// Follow is told of each request that is sent, with the context of its Do. Defaults to
	// nobody, which costs nothing.
	Follow func(ctx context.Context, method string) Followed
}

func (o Options) withDefaults() Options {
	if o.Resolver == nil {
		o.Resolver = net.DefaultResolver
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.LookupEnv == nil {
		o.LookupEnv = os.LookupEnv
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	o.UserAgent = orDefault(o.UserAgent, "pawl")
	return o
}

// Upstream carries requests to one configured service. Its methods may be
// called from many goroutines at once.
type Upstream struct {
	config      Config
	userAgent   string
	base        *url.URL // scheme, host and path alone
	place       place
	rules       headerRules
	credentials []credential
	signer      *signer // nil: nothing is signed
	gate        *gate
	transport   http.RoundTripper
	foreign     bool // transport is Options.RoundTripper
	admits      func(method, path, query string) error
	follows     func(context.Context, string) Followed // nil: nobody
	maybeH2     atomic.Bool                            // requests go over HTTP/2, as far as is known
	closed      atomic.Bool
}

// Open checks c, reads the files that it names and returns the upstream. It
// opens no connection.
//
// # Errors
//
// Every error is one or more *ConfigError, joined, and ErrConfig for errors.Is.
// None holds a secret.
func Open(c Config, o Options) (*Upstream, error) {
	if err := errors.Join(c.Validate(), checkOptions(c, o)); err != nil {
		return nil, err
	}
	c, o = c.withDefaults(), o.withDefaults()
	base, err := url.Parse(c.BaseURL)
	if err != nil {
		return nil, &ConfigError{Upstream: c.Name, Field: "BaseURL", Problem: "is not a URL"}
	}
	credentials, credErr := openCredentials(c, o)
	signer, signErr := openSigner(c, o)
	where := newPlace(base, c.AllowedPathPrefixes)
	u := &Upstream{
		config:      c,
		userAgent:   o.UserAgent,
		base:        &url.URL{Scheme: base.Scheme, Host: strings.ToLower(base.Host), Path: where.decoded, RawPath: where.raw},
		place:       where,
		rules:       newHeaderRules(c),
		credentials: credentials,
		signer:      signer,
		gate:        newGate(c),
		transport:   o.RoundTripper,
		foreign:     o.RoundTripper != nil,
		admits:      o.Admit,
		follows:     o.Follow,
	}
	u.maybeH2.Store(base.Scheme == "https" && c.Protocol != ProtocolHTTP1 || c.Protocol == ProtocolH2C)
	var dialErr error
	if !u.foreign {
		var d *dialler
		if d, dialErr = newDialler(c, o, base.Hostname(), &u.maybeH2); dialErr == nil {
			u.transport = newTransport(c, d)
		}
	}
	if err := errors.Join(credErr, signErr, dialErr); err != nil {
		return nil, err
	}
	return u, nil
}

// checkOptions says whether c and o fit together.
func checkOptions(c Config, o Options) error {
	v := validator{name: c.Name}
	if o.RoundTripper == nil {
		v.check(c.Kind == "" || c.Kind == KindHTTP, "Kind", `is not "http"; another kind needs a transport of its own`)
	} else {
		v.check(c.TLS.isZero() && c.Protocol == ProtocolAuto && c.DialTimeout == 0, "TLS",
			"(and Protocol and DialTimeout) must be empty: the transport that was handed in decides them")
	}
	return errors.Join(v.errs...)
}

func newPlace(base *url.URL, prefixes []string) place {
	p := place{raw: strings.TrimSuffix(base.EscapedPath(), "/"), decoded: strings.TrimSuffix(base.Path, "/")}
	for _, prefix := range prefixes {
		p.prefixes = append(p.prefixes, strings.TrimSuffix(prefix, "/"))
	}
	return p
}

func newDialler(c Config, o Options, host string, maybeH2 *atomic.Bool) (*dialler, error) {
	roots, rootErr := openRoots(c, o)
	certs, certErr := openClientCert(c, o)
	if err := errors.Join(rootErr, certErr); err != nil {
		return nil, err
	}
	return &dialler{
		net:        net.Dialer{Timeout: c.DialTimeout, Resolver: o.Resolver, ControlContext: newAddressRule(host).control},
		timeout:    c.DialTimeout,
		protocol:   c.Protocol,
		serverName: orDefault(c.TLS.ServerName, host),
		insecure:   c.TLS.InsecureSkipVerify,
		roots:      roots,
		certs:      certs,
		maybeH2:    maybeH2,
	}, nil
}

// Name returns what plugins call the upstream by.
func (u *Upstream) Name() string { return u.config.Name }

// Kind returns the upstream's kind, "http" say.
func (u *Upstream) Kind() string { return u.config.Kind }

// BaseURL returns the base URL without user information, query and a slash at
// the end: what a plugin may know of it, and what its paths are appended to.
func (u *Upstream) BaseURL() string { return u.base.String() }

// Close closes idle connections, and those of requests under way as these end.
// Requests that begin later fail as cancelled.
func (u *Upstream) Close() {
	u.closed.Store(true)
	u.closeIdle()
}

func (u *Upstream) closeIdle() {
	if t, ok := u.transport.(interface{ CloseIdleConnections() }); ok {
		t.CloseIdleConnections()
	}
}

// Do carries r to the upstream and returns the whole answer, or why there is
// none. Any status is an answer; a redirect is followed only for GET and HEAD
// without a body, to the same scheme, host and port, within what the plugin
// may reach, at most five times: any other 3xx is the answer itself.
//
// # Notes
//
// r and its slices must not change while Do runs, and r.Body not even
// afterwards: a connection may still be writing it when the answer is there
// early or the request was cancelled.
//
// Nothing is replayed once some of it was written, but: GET, HEAD and OPTIONS
// without a body, which are safe, when a kept connection turns out to be
// closed. Requests that may be repeated otherwise are the caller's to repeat.
//
// # Errors
//
// A Failure's MaybeSent is false only if certainly nothing of the request was
// written. Failures of kind FailDenied are the plugin's fault or the
// configuration's, and return at once.
func (u *Upstream) Do(ctx context.Context, r *Request) (*Response, *Failure) {
	if u.closed.Load() {
		return nil, u.fail(FailCancelled, false, "the upstream is closed")
	}
	c, err := u.admit(r)
	if err != nil {
		return nil, u.fail(FailDenied, false, "%v", err)
	}
	timeout := u.config.Timeout
	if r.Timeout > 0 {
		timeout = min(timeout, r.Timeout)
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	f := u.follow(ctx, c)
	if err := u.gate.enter(ctx); err != nil {
		return f.ended(nil, u.gateFailure(err))
	}
	defer u.leave()
	return f.ended(u.exchange(ctx, c))
}

func (u *Upstream) gateFailure(err error) *Failure {
	if errors.Is(err, context.DeadlineExceeded) {
		return u.fail(FailTimeout, false, "its turn did not come in time: the upstream's concurrency (%d) or rate is used up", u.config.MaxConcurrent)
	}
	return u.fail(FailCancelled, false, "the request was cancelled while it waited for its turn")
}

// leave gives the turn back. A connection that becomes idle after Close would
// stay open for a while.
func (u *Upstream) leave() {
	u.gate.leave()
	if u.closed.Load() {
		u.closeIdle()
	}
}

// admit checks everything that a plugin chose.
func (u *Upstream) admit(r *Request) (*call, error) {
	if err := checkMethod(r.Method); err != nil {
		return nil, err
	}
	if !slices.Contains(u.config.AllowedMethods, r.Method) {
		return nil, errors.New("method " + r.Method + " is not among the upstream's allowed methods")
	}
	where, err := u.place.resolve(r.Path)
	if err != nil {
		return nil, err
	}
	if err := u.allows(r.Method, where); err != nil {
		return nil, err
	}
	header, err := u.rules.build(r.Header)
	if err != nil {
		return nil, err
	}
	body := r.Body
	if !r.HasBody {
		body = nil
	}
	if int64(len(body)) > u.config.RequestMaxBytes {
		return nil, tooLong(len(body), u.config.RequestMaxBytes)
	}
	return &call{method: r.Method, where: where, header: header, body: body}, nil
}

// allows asks Options.Admit about a request.
func (u *Upstream) allows(method string, t target) error {
	if u.admits == nil {
		return nil
	}
	return u.admits(method, strings.TrimPrefix(t.decoded, u.place.decoded), t.query)
}

// canonical returns a header's name as net/http spells it.
func canonical(name string) string { return textproto.CanonicalMIMEHeaderKey(name) }
