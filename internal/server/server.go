// Package server is the daemon's HTTP API. It speaks for one engine, holds no
// state of its own, and says what it does in docs/openapi.json, which is
// generated from this code.
//
// Who may call is decided in guard.go, each route is one file's subject, and
// problem.go turns every error into one application/problem+json answer.
package server

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/pawlsync/pawl/internal/api"
	"github.com/pawlsync/pawl/internal/sagatemplate"
)

// Options configure a Server. Only Engine and Sagas are needed.
type Options struct {
	Engine  Engine
	Sagas   Sagas
	Version api.Version
	// Templates are the sagas of the configuration. Defaults to none.
	Templates *sagatemplate.Set
	// Logger gets what an operator should know. Defaults to none.
	Logger *slog.Logger
	// Metrics answers /metrics. Defaults to none: the route does not exist.
	Metrics http.Handler

	// TokenFile holds the bearer tokens that callers may send, one a line; it is
	// read again when it changes. Defaults to none: callers need no token.
	TokenFile string
	// TLS turns TLS on, see LoadTLS. Defaults to none.
	TLS *tls.Config

	// PayloadMaxBytes is the engine's limit of one payload; it bounds what is
	// read of one Put. Defaults to 512 KiB.
	PayloadMaxBytes int
	// BatchMax is the engine's limit of one batch; longer requests are put in
	// several. Defaults to 10,000.
	BatchMax int
	// RequestMaxBytes bounds one batch request. Defaults to 64 MiB.
	RequestMaxBytes int64
	// Sensitive has the JSON pointers of payload values that are hidden, by sink.
	Sensitive map[string][]string

	// Heartbeat is how often an idle watch gets a comment. Defaults to 15s.
	Heartbeat time.Duration
	// IOTimeout is how long a client may take to send a request's body, to send
	// more of a batch, or to take more of an answer. Defaults to 30s.
	IOTimeout time.Duration
	// ShutdownGrace is how long requests under way may take to end when the
	// server is told to stop. Defaults to 10s.
	ShutdownGrace time.Duration

	// Now is the clock. Defaults to time.Now.
	Now func() time.Time
}

func (o *Options) setDefaults() {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Templates == nil {
		o.Templates = &sagatemplate.Set{}
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
	log     *slog.Logger
	masks   map[string]api.Mask
	tokens  *tokens // nil: none are asked for
	started time.Time
	handler http.Handler

	stopping context.Context // done when requests that last should end
	stop     context.CancelCauseFunc
}

// errStopping is why requests end that last when the server stops.
var errStopping = errors.New("the daemon is shutting down")

// New returns a Server. It fails on a token file that can't be read and on
// sensitive paths that are no JSON pointers.
func New(o Options) (*Server, error) {
	if o.Engine == nil || o.Sagas == nil {
		return nil, errors.New("server: Options.Engine or Sagas is nil")
	}
	o.setDefaults()
	s := &Server{o: o, engine: o.Engine, sagas: o.Sagas, log: o.Logger, masks: map[string]api.Mask{}, started: o.Now()}
	for sink, pointers := range o.Sensitive {
		mask, err := api.NewMask(pointers)
		if err != nil {
			return nil, fmt.Errorf("sink %s: %w", sink, err)
		}
		s.masks[sink] = mask
	}
	if o.TokenFile != "" {
		tokens, err := loadTokens(o.TokenFile, o.Logger)
		if err != nil {
			return nil, err
		}
		s.tokens = tokens
	}
	s.stopping, s.stop = context.WithCancelCause(context.Background())
	s.handler = s.guard(s.routes())
	return s, nil
}

// Handler answers the API.
func (s *Server) Handler() http.Handler { return s.handler }

// Serve answers on every listener until ctx ends; then it ends watches and
// waits, lets other requests finish within Options.ShutdownGrace, and returns
// nil. It closes the listeners. One that others than this machine can reach is
// refused where neither tokens nor client certificates are asked for. A unix
// socket has no TLS: its file's permissions say who may connect.
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
		ErrorLog:          slog.NewLogLogger(s.log.Handler(), slog.LevelDebug),
	}
	failed := make(chan error, len(listeners))
	for _, l := range listeners {
		address := l.Addr()
		if s.o.TLS != nil && address.Network() != "unix" {
			l = tls.NewListener(l, s.o.TLS)
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
func (s *Server) identified() bool {
	return s.tokens != nil || s.o.TLS != nil && s.o.TLS.ClientAuth == tls.RequireAndVerifyClientCert
}

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
