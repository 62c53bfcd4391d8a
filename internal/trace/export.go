package trace

import (
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"net/url"
	"strings"
	"sync/atomic"

	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"google.golang.org/grpc/credentials"
)

// The protocols.
const (
	HTTP = "http"
	GRPC = "grpc"
)

// Export says where spans are sent, by OTLP.
type Export struct {
	// Endpoint is the receiver's URL, http or https. Over HTTP spans go to /v1/traces
	// below it.
	Endpoint string
	// Protocol is HTTP or GRPC. Defaults to HTTP.
	Protocol string
	// Headers go with each request.
	Headers map[string]string
	// TLS is for an endpoint of https. Defaults to the system's authorities.
	TLS *tls.Config
}

// open returns what sends spans.
func (e *Export) open(ctx context.Context) (sdk.SpanExporter, error) {
	u, err := url.Parse(e.Endpoint)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, fmt.Errorf("%q is no URL of http or https", e.Endpoint)
	}
	if e.Protocol == GRPC {
		return otlptrace.New(ctx, otlptracegrpc.NewClient(e.overGRPC(u)...))
	}
	return otlptrace.New(ctx, otlptracehttp.NewClient(e.overHTTP(u)...))
}

func (e *Export) overHTTP(u *url.URL) []otlptracehttp.Option {
	o := []otlptracehttp.Option{
		otlptracehttp.WithEndpoint(u.Host), otlptracehttp.WithURLPath(strings.TrimSuffix(u.Path, "/") + "/v1/traces"),
		otlptracehttp.WithHeaders(e.Headers), otlptracehttp.WithCompression(otlptracehttp.GzipCompression),
	}
	switch {
	case u.Scheme == "http":
		o = append(o, otlptracehttp.WithInsecure())
	case e.TLS != nil:
		o = append(o, otlptracehttp.WithTLSClientConfig(e.TLS))
	}
	return o
}

func (e *Export) overGRPC(u *url.URL) []otlptracegrpc.Option {
	o := []otlptracegrpc.Option{otlptracegrpc.WithEndpoint(u.Host), otlptracegrpc.WithHeaders(e.Headers), otlptracegrpc.WithCompressor("gzip")}
	switch {
	case u.Scheme == "http":
		o = append(o, otlptracegrpc.WithInsecure())
	default:
		o = append(o, otlptracegrpc.WithTLSCredentials(credentials.NewTLS(e.TLS.Clone())))
	}
	return o
}

// counted counts what is sent, and says when that fails and when it goes again.
type counted struct {
	sdk.SpanExporter
	log      *slog.Logger
	sent     func(result string, spans int)
	endpoint string
	failing  atomic.Bool
}

// ExportSpans implements sdk.SpanExporter. Its error is told here, and to nobody else.
func (c *counted) ExportSpans(ctx context.Context, spans []sdk.ReadOnlySpan) error {
	err := c.SpanExporter.ExportSpans(ctx, spans)
	if err != nil {
		c.sent("failed", len(spans))
		if !c.failing.Swap(true) {
			c.log.Warn("traces can't be sent; what is not sent is lost, and nothing else", "endpoint", c.endpoint, "error", err)
		}
		return nil
	}
	c.sent("exported", len(spans))
	if c.failing.Swap(false) {
		c.log.Info("traces are sent again", "endpoint", c.endpoint)
	}
	return nil
}
