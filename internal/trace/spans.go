package trace

import (
	"context"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	otel "go.opentelemetry.io/otel/trace"

	"github.com/pawlsync/pawl/engine"
	"github.com/pawlsync/pawl/engine/reconcile"
	"github.com/pawlsync/pawl/engine/record"
)

var _ engine.Tracer = (*Tracer)(nil)

// The attributes.
const (
	sinkKey       = attribute.Key("pawl.sink")
	resourceKey   = attribute.Key("pawl.key")
	generationKey = attribute.Key("pawl.generation")
	attemptKey    = attribute.Key("pawl.attempt")
	outcomeKey    = attribute.Key("pawl.outcome")
	replacedKey   = attribute.Key("pawl.replaced")
	upstreamKey   = attribute.Key("pawl.upstream")
)

func about(key record.Key) otel.SpanStartEventOption {
	return otel.WithAttributes(sinkKey.String(key.Sink), resourceKey.String(key.Name))
}

// PutBegan implements engine.Tracer.
func (t *Tracer) PutBegan(ctx context.Context, key record.Key, op string) engine.PutTrace {
	_, span := t.tracer.Start(ctx, op, about(key))
	return &put{t: t, span: span, change: change{key: key, span: span.SpanContext()}}
}

// put is the span of a Put or Delete, its wait for the commit included.
type put struct {
	t      *Tracer
	span   otel.Span
	taken  bool
	change change
}

// Taken implements engine.PutTrace.
func (p *put) Taken() {
	if !p.change.span.IsSampled() {
		p.t.memory.overtake(p.change.key)
		return
	}
	p.taken = true
	if before := p.t.memory.remember(&p.change); before != nil {
		p.span.AddLink(otel.Link{SpanContext: before.span, Attributes: []attribute.KeyValue{replacedKey.Bool(true)}})
	}
}

// Done implements engine.PutTrace.
func (p *put) Done(outcome string, replaced bool) {
	accepted := outcome == "accepted"
	switch {
	case p.taken && accepted:
		p.t.memory.wait(&p.change, time.Now())
	case p.taken:
		p.t.memory.forget(&p.change)
	}
	p.span.SetAttributes(outcomeKey.String(outcome), replacedKey.Bool(replaced))
	if !accepted && outcome != "unchanged" {
		p.span.SetStatus(codes.Error, outcome)
	}
	p.span.End()
}

// DeliveryBegan implements engine.Tracer. A delivery of a Put that is not remembered is
// not followed: its caller, or chance, decided so.
func (t *Tracer) DeliveryBegan(key record.Key, s engine.DeliveryStart) engine.DeliveryTrace {
	d := &delivery{t: t}
	ctx := context.Background()
	var since time.Time
	if s.Put {
		if d.change, since = t.memory.of(key); d.change == nil {
			return nil
		}
		ctx = otel.ContextWithSpanContext(ctx, d.change.span)
	}
	if !since.IsZero() && since.Before(s.Began) {
		_, wait := t.tracer.Start(ctx, "wait", about(key), otel.WithTimestamp(since))
		wait.End(otel.WithTimestamp(s.Began))
	}
	_, d.span = t.tracer.Start(ctx, "delivery", about(key), otel.WithTimestamp(s.Began),
		otel.WithAttributes(generationKey.Int64(int64(s.Generation)), attemptKey.Int(s.Attempt)))
	if !d.span.IsRecording() {
		return nil
	}
	return d
}

// delivery is the span of a delivery.
type delivery struct {
	t      *Tracer
	span   otel.Span
	change *change // nil: of no Put that we know
}

// Step implements engine.DeliveryTrace. In a batch all but the first step are linked to
// it: the requests of the call are the first one's.
func (d *delivery) Step(ctx context.Context, what string) (context.Context, func(status string)) {
	var links []otel.Link
	if first := otel.SpanContextFromContext(ctx); first.IsValid() {
		links = append(links, otel.Link{SpanContext: first})
	}
	in, span := d.t.tracer.Start(otel.ContextWithSpan(ctx, d.span), what, otel.WithLinks(links...))
	return in, func(status string) {
		span.SetAttributes(outcomeKey.String(status))
		if !fine[status] {
			span.SetStatus(codes.Error, status)
		}
		span.End()
	}
}

// Done implements engine.DeliveryTrace.
func (d *delivery) Done(outcome string, last bool) {
	switch {
	case d.change == nil:
	case last:
		d.t.memory.forget(d.change)
	default:
		d.t.memory.wait(d.change, time.Now())
	}
	d.span.SetAttributes(outcomeKey.String(outcome))
	if unwanted[reconcile.Outcome(outcome)] {
		d.span.SetStatus(codes.Error, outcome)
	}
	d.span.End()
}

// fine are the statuses of steps that are no error.
var fine = map[string]bool{"ok": true, "not-found": true, "in-progress": true}

// unwanted are the outcomes of deliveries that are errors.
var unwanted = map[reconcile.Outcome]bool{
	reconcile.Retryable: true, reconcile.Unreachable: true, reconcile.Unauthorized: true, reconcile.Rejected: true,
	reconcile.PluginFault: true, reconcile.Contended: true, reconcile.NotConverged: true, reconcile.Undeletable: true,
	reconcile.MovedTarget: true, reconcile.LookFailed: true, reconcile.NoContent: true, reconcile.TooLarge: true, "error": true,
}
