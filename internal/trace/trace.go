// Package trace makes OpenTelemetry traces of what the engine tells: one of each change
// that is followed, from Put to acknowledgement, with every delivery, call and request
// that it took. It is the only package that knows OpenTelemetry.
//
// Which change a delivery belongs to is kept in memory (memory.go): a delivery of what
// an earlier process was given begins a trace of its own, as a look at a target does.
//
// Spans hold keys, names and words of the engine's own. They hold no payload, nothing
// that a target said, and no path of a request, which plugins make of payloads.
package trace

import (
	"context"
	"fmt"
	"log/slog"

	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/resource"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	semconv "go.opentelemetry.io/otel/semconv/v1.37.0"
	otel "go.opentelemetry.io/otel/trace"
)

// Options configure a Tracer. Only Endpoint is needed.
type Options struct {
	Export
	// Ratio is the share of changes that are followed, 0 to 1, of those whose caller did
	// not decide (W3C trace context). Looks at targets count as changes.
	Ratio float64
	// Upstreams are those whose requests bear the W3C trace context. Defaults to none.
	Upstreams []string
	// Remembered bounds the changes whose trace is known while they wait for their
	// delivery; beyond it the oldest is forgotten. Defaults to 16,384.
	Remembered int
	// Version is that of the program.
	Version string
	// Logger is told when traces can't be sent, and when they can again. Defaults to none.
	Logger *slog.Logger
	// Sent is told how many spans were "exported" or "failed". Defaults to nobody.
	Sent func(result string, spans int)
}

// Tracer is an engine.Tracer.
type Tracer struct {
	provider  *sdk.TracerProvider
	tracer    otel.Tracer
	context   propagation.TraceContext
	memory    *memory
	upstreams map[string]bool // that are handed the trace context
}

// spansWaiting is how many ended spans wait to be sent; what is beyond is dropped.
const spansWaiting = 8192

// Open makes a Tracer, which Close ends. It connects to nothing yet.
//
// # Errors
//
// What is wrong with the endpoint.
func Open(ctx context.Context, o Options) (*Tracer, error) {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Sent == nil {
		o.Sent = func(string, int) {}
	}
	if o.Remembered == 0 {
		o.Remembered = 16_384
	}
	exporter, err := o.Export.open(ctx)
	if err != nil {
		return nil, fmt.Errorf("the receiver of traces: %w", err)
	}
	about, err := describe(ctx, o.Version)
	if err != nil {
		return nil, fmt.Errorf("what traces say of this process (OTEL_RESOURCE_ATTRIBUTES): %w", err)
	}
	t := &Tracer{
		provider: sdk.NewTracerProvider(
			sdk.WithBatcher(&counted{SpanExporter: exporter, log: o.Logger, sent: o.Sent, endpoint: o.Endpoint}, sdk.WithMaxQueueSize(spansWaiting)),
			sdk.WithSampler(sdk.ParentBased(sdk.TraceIDRatioBased(o.Ratio))),
			sdk.WithResource(about),
		),
		memory:    newMemory(o.Remembered),
		upstreams: map[string]bool{},
	}
	t.tracer = t.provider.Tracer("github.com/pawlsync/pawl", otel.WithInstrumentationVersion(o.Version))
	for _, name := range o.Upstreams {
		t.upstreams[name] = true
	}
	return t, nil
}

// describe is what all spans say of the process; the environment, as OpenTelemetry has
// it, comes before what we say.
func describe(ctx context.Context, version string) (*resource.Resource, error) {
	return resource.New(ctx,
		resource.WithAttributes(semconv.ServiceName("pawl"), semconv.ServiceVersion(version)),
		resource.WithHost(), resource.WithTelemetrySDK(), resource.WithFromEnv())
}

// Close sends what is left, until ctx ends.
func (t *Tracer) Close(ctx context.Context) error { return t.provider.Shutdown(ctx) }
