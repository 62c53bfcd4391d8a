package trace

import (
	"context"
	"net/http"

	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	semconv "go.opentelemetry.io/otel/semconv/v1.37.0"
	otel "go.opentelemetry.io/otel/trace"

	"github.com/pawlsync/pawl/engine/upstream"
)

// Incoming hands on the trace context of callers: what a request puts belongs to its
// caller's trace, and is followed if that is.
func (t *Tracer) Incoming(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Traceparent") != "" {
			r = r.WithContext(t.context.Extract(r.Context(), propagation.HeaderCarrier(r.Header)))
		}
		next.ServeHTTP(w, r)
	})
}

// Outgoing follows the requests to an upstream, as upstream.Options.Follow. Those of a
// call that nobody follows are not followed either.
func (t *Tracer) Outgoing(name string) func(ctx context.Context, method string) upstream.Followed {
	return func(ctx context.Context, method string) upstream.Followed {
		if !otel.SpanContextFromContext(ctx).IsSampled() {
			return upstream.Followed{}
		}
		ctx, span := t.tracer.Start(ctx, method, otel.WithSpanKind(otel.SpanKindClient),
			otel.WithAttributes(upstreamKey.String(name), semconv.HTTPRequestMethodKey.String(method)))
		f := upstream.Followed{Done: func(status int, failure *upstream.Failure) { requested(span, status, failure) }}
		if t.upstreams[name] {
			f.Header = t.header(ctx)
		}
		return f
	}
}

// header is ctx as W3C trace context.
func (t *Tracer) header(ctx context.Context) []upstream.Field {
	carrier := propagation.MapCarrier{}
	t.context.Inject(ctx, carrier)
	var out []upstream.Field
	for _, name := range carrier.Keys() {
		out = append(out, upstream.Field{Name: name, Value: carrier.Get(name)})
	}
	return out
}

// requested ends the span of a request.
func requested(span otel.Span, status int, f *upstream.Failure) {
	switch {
	case f != nil:
		span.SetAttributes(semconv.ErrorTypeKey.String(f.Kind.String()))
		span.SetStatus(codes.Error, f.Kind.String())
	case status >= 400:
		span.SetAttributes(semconv.HTTPResponseStatusCode(status))
		span.SetStatus(codes.Error, "")
	default:
		span.SetAttributes(semconv.HTTPResponseStatusCode(status))
	}
	span.End()
}
