// Package server is the daemon's HTTP API. It speaks for one engine, holds no
// state of its own, and says what it does in docs/openapi.json, which is
// generated from this code.
//
// Who may call is decided in guard.go, each route is one file's subject, and
// problem.go turns every error into one application/problem+json answer.
package server

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/pawlsync/pawl/internal/access"
	"github.com/pawlsync/pawl/internal/api"
	"github.com/pawlsync/pawl/internal/sagatemplate"
)

// Options configure a Server. Only Engine and Sagas are needed.
type Options struct {
	Engine  Engine
	Sagas   Sagas
	Version api.Version
	// Diagnostics are what a debug bundle is made of besides what the API knows. Defaults
	// to none: the route does not exist.
	Diagnostics Diagnostics
	// Store is looked after by the routes of /v1/store. Defaults to none: they do not exist.
	Store Store
	// Relay takes in what other pawls send. Defaults to none: they are refused.
	Relay Relay
	// Sources are those of the configuration. Defaults to none.
	Sources Sources
	// Templates are the sagas of the configuration. Defaults to none.
	Templates *sagatemplate.Set
	// Reloader reads the configuration again. Defaults to none: nobody can ask for that.
	Reloader Reloader
	// Totals are what is told of sinks since the start. Defaults to none: zeros.
	Totals *Totals
	// Logger gets what an operator should know. Defaults to none.
	Logger *slog.Logger
	// LogLevel is its level, which the API shows and changes. Defaults to one that
	// changes nothing.
	LogLevel *slog.LevelVar
	// Metrics answers /metrics. Defaults to none: the route does not exist.
	Metrics http.Handler

	// Authenticators tell callers apart; the first that knows what a request shows
	// decides. Defaults to none: whoever can connect may do everything.
	Authenticators []access.Authenticator
	// Peers tells callers at a unix socket apart, where they show nothing else.
	// Defaults to none: whoever can connect there is whoever can connect.
	Peers access.Authenticator
	// Audit gets a line for each change that a caller makes, or wanted to make. Defaults
	// to none: the log alone has them.
	Audit *slog.Logger
	// Denied is told of each request that was not allowed. Defaults to nothing.
	Denied func(access.Denied)
	// Limits are what one client may do, as SetLimits changes it. Defaults to none.
	Limits Limits
	// Throttled is told of each request that exceeded one, with the kind of the client.
	// Defaults to nothing.
	Throttled func(kind string, limit access.Limit)
	// Certificates turn TLS on. Where they ask callers for certificates, an
	// access.CallerCertificates belongs among the Authenticators. Defaults to none.
	Certificates *access.Certificates

	// PayloadMaxBytes is the engine's limit of one payload; it bounds what is
	// read of one Put. Defaults to 512 KiB.
	PayloadMaxBytes int
	// BatchMax is the engine's limit of one batch; longer requests are put in
	// several. Defaults to 10,000.
	BatchMax int
	// RequestMaxBytes bounds one batch request. Defaults to 64 MiB.
	RequestMaxBytes int64
	// Sensitive has the JSON pointers of payload values that are hidden, by sink. Of a
	// sink that it lacks all is hidden. Defaults to none: nothing is hidden anywhere.
	Sensitive map[string][]string

	// AskAgain is how often the caller of a request that lasts is asked again who they
	// are. Defaults to 2s.
	AskAgain time.Duration
	// Heartbeat is how often an idle watch gets a comment. Defaults to 15s.
	Heartbeat time.Duration
	// IOTimeout is how long a client may take to send a request's body, to send
	// more of a batch, or to take more of an answer. Defaults to 30s.
	IOTimeout time.Duration
	// ShutdownGrace is how long requests under way may take to end when the
	// server is told to stop. Defaults to 10s.
	ShutdownGrace time.Duration

	// Around goes around all that the API answers, to hand on callers' trace contexts.
	// Defaults to nothing.
	Around func(http.Handler) http.Handler

	// Now is the clock. Defaults to time.Now.
	Now func() time.Time
}

func (o *Options) setDefaults() {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.LogLevel == nil {
		o.LogLevel = new(slog.LevelVar)
	}
	if o.Sources == nil {
		o.Sources = noSources{}
	}
	if o.Templates == nil {
		o.Templates = &sagatemplate.Set{}
	}
	if o.Denied == nil {
		o.Denied = func(access.Denied) {}
	}
	if o.Throttled == nil {
		o.Throttled = func(string, access.Limit) {}
	}
	if o.PayloadMaxBytes == 0 {
		o.PayloadMaxBytes = 512 << 10
	}
	if o.BatchMax == 0 {
		o.BatchMax = 10_000
	}
	if o.RequestMaxBytes == 0 {
		o.RequestMaxBytes = 64 << 20
	}
	if o.AskAgain == 0 {
		o.AskAgain = 2 * time.Second
	}
	if o.Heartbeat == 0 {
		o.Heartbeat = 15 * time.Second
	}
	if o.IOTimeout == 0 {
		o.IOTimeout = 30 * time.Second
	}
	if o.ShutdownGrace == 0 {
		o.ShutdownGrace = 10 * time.Second
	}
	if o.Now == nil {
		o.Now = time.Now
	}
}

// Server answers the HTTP API.
type Server struct {
	o       Options
	engine  Engine
	sagas   Sagas
	sources Sources
	log     *slog.Logger
	rules   atomic.Pointer[rules]
	limiter *limiter
	started time.Time
	handler http.Handler
	hashKey [sha256.Size]byte // of hashes that would tell of sensitive values; new with each start

	stopping context.Context // done when requests that last should end
	stop     context.CancelCauseFunc
}

// errStopping is why requests end that last when the server stops.
var errStopping = errors.New("the daemon is shutting down")

// New returns a Server. It fails on sensitive paths that are no JSON pointers.
func New(o Options) (*Server, error) {
	if o.Engine == nil || o.Sagas == nil {
		return nil, errors.New("server: Options.Engine or Sagas is nil")
	}
	o.setDefaults()
	s := &Server{o: o, engine: o.Engine, sagas: o.Sagas, sources: o.Sources, log: o.Logger, started: o.Now()}
	s.limiter = newLimiter(&o)
	if err := s.Configure(o.Templates, o.Sensitive); err != nil {
		return nil, err
	}
	_, _ = rand.Read(s.hashKey[:]) // it never fails
	s.stopping, s.stop = context.WithCancelCause(context.Background())
	s.handler = s.guard(s.routes())
	if o.Around != nil {
		s.handler = o.Around(s.handler)
	}
	return s, nil
}

// Handler answers the API.
func (s *Server) Handler() http.Handler { return s.handler }

// Serve answers on every listener until ctx ends; then it ends watches and
// waits, lets other requests finish within Options.ShutdownGrace, and returns
// nil. It closes the listeners. One that others than this machine can reach is
// refused where neither tokens nor client certificates are asked for. A unix
// socket has no TLS: its file's permissions, and Options.Peers, say who may connect.
func (s *Server) Serve(ctx context.Context, listeners ...net.Listener) error {
	for _, l := range listeners {
		if err := s.mayListen(l.Addr()); err != nil {
			for _, l := range listeners {
				l.Close()
			}
			return err
		}
	}
	hs := &http.Server{
		Handler:           s.handler,
		ReadHeaderTimeout: 10 * time.Second,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    32 << 10,
		ConnContext:       access.WithPeer,
		ErrorLog:          slog.NewLogLogger(s.log.Handler(), slog.LevelDebug),
	}
	failed := make(chan error, len(listeners))
	for _, l := range listeners {
		address := l.Addr()
		if s.o.Certificates != nil && address.Network() != "unix" {
			l = tls.NewListener(l, s.o.Certificates.Config())
		}
		go func() { failed <- fmt.Errorf("the API at %s ended: %w", address, hs.Serve(l)) }()
	}
	running := len(listeners)
	var broken error
	select {
	case broken = <-failed:
		running--
	case <-ctx.Done():
	}
	s.stop(errStopping)
	grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.o.ShutdownGrace)
	defer cancel()
	if err := hs.Shutdown(grace); err != nil {
		s.log.Warn("requests were cut off at shutdown", "after", s.o.ShutdownGrace)
		_ = hs.Close()
	}
	for range running {
		<-failed
	}
	return broken
}

// mayListen refuses an address that others can reach where nobody is asked who
// they are.
func (s *Server) mayListen(addr net.Addr) error {
	if s.identified() || isLocal(addr) {
		return nil
	}
	return fmt.Errorf("the API would be open to everybody at %s; set a token file (server.token_file) or client certificates (server.tls.client_ca_file), or listen on 127.0.0.1", addr)
}

// identified reports whether every caller has to show who they are.
func (s *Server) identified() bool { return len(s.o.Authenticators) > 0 }

// isLocal reports whether only this machine reaches addr.
func isLocal(addr net.Addr) bool {
	switch a := addr.(type) {
	case *net.UnixAddr:
		return true
	case *net.TCPAddr:
		return a.IP.IsLoopback()
	}
	return false
}

// untilStop returns a context that ends with ctx or when the server stops.
func (s *Server) untilStop(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	release := context.AfterFunc(s.stopping, func() { cancel(errStopping) })
	return ctx, func() { release(); cancel(nil) }
}
