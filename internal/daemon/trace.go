package daemon

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/pawlsync/pawl/config"
	"github.com/pawlsync/pawl/engine"
	"github.com/pawlsync/pawl/engine/upstream"
	"github.com/pawlsync/pawl/internal/trace"
)

// tracing is the tracer of a daemon; the zero tracing follows nothing.
type tracing struct {
	*trace.Tracer
	wrong config.Errors // why there is none though one is asked for
}

// openTracing opens the tracer that the configuration asks for. sent is told of spans;
// nil: nobody is.
func openTracing(ctx context.Context, c *config.Config, o Options, sent func(result string, spans int)) tracing {
	t := c.Tracing
	if t.Endpoint == "" {
		return tracing{}
	}
	header, err := tracingHeader(t.Header, o)
	if err != nil {
		return noTracing(c, "tracing.header.secret", err)
	}
	trust, err := tracingTLS(t.CAFile)
	if err != nil {
		return noTracing(c, "tracing.ca_file", err)
	}
	tracer, err := trace.Open(ctx, trace.Options{
		Export: trace.Export{Endpoint: t.Endpoint, Protocol: t.Protocol, Headers: header, TLS: trust},
		Ratio:  t.Ratio, Upstreams: t.Upstreams, Version: o.Version.Version, Logger: o.Logger, Sent: sent,
	})
	if err != nil {
		return noTracing(c, "tracing.endpoint", err)
	}
	return tracing{Tracer: tracer}
}

func noTracing(c *config.Config, key string, err error) tracing {
	return tracing{wrong: config.Errors{c.Wrong(key, err.Error(), "")}}
}

func tracingHeader(h *config.HeaderCredential, o Options) (map[string]string, error) {
	if h == nil {
		return nil, nil
	}
	value := h.Secret.Value.Reveal()
	switch {
	case h.Secret.File != "":
		content, err := os.ReadFile(h.Secret.File)
		if err != nil {
			return nil, err
		}
		value = strings.TrimRight(string(content), "\r\n")
	case h.Secret.Env != "":
		text, ok := o.LookupEnv(h.Secret.Env)
		if !ok {
			return nil, fmt.Errorf("environment variable %s is not set", h.Secret.Env)
		}
		value = text
	}
	if value == "" {
		return nil, errors.New("the secret is empty")
	}
	o.secrets.learn(value)
	return map[string]string{h.Name: value}, nil
}

func tracingTLS(file string) (*tls.Config, error) {
	if file == "" {
		return nil, nil
	}
	pem, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("%s has no PEM certificate", file)
	}
	return &tls.Config{RootCAs: roots}, nil
}

// engine is the tracer as the engine takes it: nil where there is none.
func (t tracing) engine() engine.Tracer {
	if t.Tracer == nil {
		return nil
	}
	return t.Tracer
}

// upstream follows the requests to an upstream; nil where there is no tracer.
func (t tracing) upstream(name string) func(context.Context, string) upstream.Followed {
	if t.Tracer == nil {
		return nil
	}
	return t.Outgoing(name)
}

// server hands on the trace context of callers; nil where there is no tracer.
func (t tracing) server() func(http.Handler) http.Handler {
	if t.Tracer == nil {
		return nil
	}
	return t.Incoming
}

// traceGrace is how long a daemon that stops tries to send what is left of traces.
const traceGrace = 3 * time.Second

// close sends what is left, as long as there is time. What is not sent is told by the
// tracer, and no reason to end otherwise.
func (t tracing) close(ctx context.Context) {
	if t.Tracer == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), traceGrace)
	defer cancel()
	_ = t.Close(ctx)
}
