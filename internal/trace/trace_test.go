package trace

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	otel "go.opentelemetry.io/otel/trace"

	"github.com/pawlsync/pawl/engine"
	"github.com/pawlsync/pawl/engine/record"
	"github.com/pawlsync/pawl/internal/trace/tracetest"
)

// open opens a tracer that follows everything, and sends it to r.
func open(t *testing.T, r *tracetest.Receiver, tweak func(*Options)) *Tracer {
	t.Helper()
	o := Options{Export: Export{Endpoint: r.OverHTTP(t)}, Ratio: 1, Version: "1.2.3"}
	if tweak != nil {
		tweak(&o)
	}
	tr, err := Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = tr.Close(context.Background()) })
	return tr
}

// flush sends what has ended.
func flush(t *testing.T, tr *Tracer) {
	t.Helper()
	if err := tr.provider.ForceFlush(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func key(name string) record.Key { return record.Key{Sink: "web", Name: name} }

// put tells of a Put that was accepted.
func accepted(ctx context.Context, tr *Tracer, name string) {
	p := tr.PutBegan(ctx, key(name), "put")
	p.Taken()
	p.Done("accepted", false)
}

// deliver tells of a delivery, and reports whether it is followed.
func deliver(tr *Tracer, name string, outcome engine.Outcome, last bool) bool {
	d := tr.DeliveryBegan(key(name), engine.DeliveryStart{Generation: 7, Attempt: 1, Began: time.Now(), Put: true})
	if d == nil {
		return false
	}
	_, end := d.Step(context.Background(), "apply")
	end("ok")
	d.Done(string(outcome), last)
	return true
}

func TestAChangeIsOneTraceFromPutToAcknowledgement(t *testing.T) {
	r := &tracetest.Receiver{}
	tr := open(t, r, nil)
	accepted(t.Context(), tr, "a")
	if !deliver(tr, "a", "retryable", false) || !deliver(tr, "a", "acked", true) {
		t.Fatal("a delivery was not followed")
	}
	flush(t, tr)
	put := r.One(t, "put")
	for _, name := range []string{"wait", "delivery"} {
		for _, s := range r.Named(name) {
			tracetest.WantChild(t, s, put)
		}
	}
	for i, s := range r.Named("apply") {
		tracetest.WantChild(t, s, r.Named("delivery")[i])
	}
	if n := len(r.Named("delivery")); n != 2 {
		t.Errorf("%d deliveries came, want 2", n)
	}
	if a := tracetest.Attributes(r.Named("delivery")[1].Attributes); a["pawl.sink"] != "web" || a["pawl.key"] != "a" || a["pawl.outcome"] != "acked" {
		t.Errorf("the delivery has the attributes %v", a)
	}
	if first, second := r.Named("delivery")[0].Status.GetCode(), r.Named("delivery")[1].Status.GetCode(); first == second {
		t.Errorf("a delivery that failed has the status of one that did not: %s", first)
	}
	if r.Newest().Resource["service.name"] != "pawl" || r.Newest().Resource["service.version"] != "1.2.3" {
		t.Errorf("the spans are of %v", r.Newest().Resource)
	}
	if r.Newest().Path != "/v1/traces" {
		t.Errorf("they came to %s", r.Newest().Path)
	}
}

func TestWhatWasAcknowledgedIsForgotten(t *testing.T) {
	tr := open(t, &tracetest.Receiver{}, nil)
	accepted(t.Context(), tr, "a")
	deliver(tr, "a", "acked", true)
	if deliver(tr, "a", "acked", true) {
		t.Error("a Put that was acknowledged has another delivery")
	}
}

func TestANewerPutHasTheDeliveryAndPointsToTheOneThatItReplaced(t *testing.T) {
	r := &tracetest.Receiver{}
	tr := open(t, r, nil)
	accepted(t.Context(), tr, "a")
	accepted(t.Context(), tr, "a")
	deliver(tr, "a", "acked", true)
	flush(t, tr)
	puts := r.Named("put")
	tracetest.WantChild(t, r.One(t, "delivery"), puts[1])
	if links := puts[1].Links; len(links) != 1 || tracetest.ID(links[0].SpanId) != tracetest.ID(puts[0].SpanId) {
		t.Errorf("the newer Put is linked to %v", links)
	}
}

func TestAPutThatFailedHasNoDelivery(t *testing.T) {
	tr := open(t, &tracetest.Receiver{}, nil)
	p := tr.PutBegan(t.Context(), key("a"), "put")
	p.Taken()
	p.Done("error", false)
	if deliver(tr, "a", "acked", true) {
		t.Error("a delivery is taken for one of a Put that was not stored")
	}
}

func TestTheShareIsThatOfPutsAndTheirDeliveriesFollow(t *testing.T) {
	r := &tracetest.Receiver{}
	tr := open(t, r, func(o *Options) { o.Ratio = 0.5 })
	delivered := 0
	for i := range 400 {
		name := fmt.Sprint(i)
		accepted(t.Context(), tr, name)
		if deliver(tr, name, "acked", true) {
			delivered++
		}
	}
	flush(t, tr)
	// Of 400 tosses of a coin fewer than 120 heads, or more than 280, come once in 10^15.
	if n := len(r.Named("put")); n < 120 || n > 280 || n != delivered {
		t.Errorf("%d of 400 Puts were followed, and %d deliveries", n, delivered)
	}
}

func TestTheCallerDecidesWhetherAPutIsFollowed(t *testing.T) {
	for _, c := range []struct {
		flags    string
		ratio    float64
		followed bool
	}{{"01", 0, true}, {"00", 1, false}} {
		r := &tracetest.Receiver{}
		tr := open(t, r, func(o *Options) { o.Ratio = c.ratio })
		const trace, span = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
		handler := tr.Incoming(http.HandlerFunc(func(_ http.ResponseWriter, q *http.Request) { accepted(q.Context(), tr, "a") }))
		q := httptest.NewRequest(http.MethodPut, "/", nil)
		q.Header.Set("Traceparent", "00-"+trace+"-"+span+"-"+c.flags)
		handler.ServeHTTP(httptest.NewRecorder(), q)
		if deliver(tr, "a", "acked", true) != c.followed {
			t.Errorf("flags %s, share %v: the delivery is followed: %v", c.flags, c.ratio, !c.followed)
		}
		flush(t, tr)
		if !c.followed {
			if n := len(r.Named("put")); n > 0 {
				t.Errorf("the caller said no, and %d spans came", n)
			}
			continue
		}
		if put := r.One(t, "put"); tracetest.ID(put.TraceId) != trace || tracetest.ID(put.ParentSpanId) != span {
			t.Errorf("the Put is in trace %s below %s", tracetest.ID(put.TraceId), tracetest.ID(put.ParentSpanId))
		}
	}
}

func TestAPutThatNobodyFollowsTakesThePlaceOfOneThatIsFollowed(t *testing.T) {
	tr := open(t, &tracetest.Receiver{}, nil)
	accepted(t.Context(), tr, "a")
	no := otel.ContextWithRemoteSpanContext(t.Context(), otel.NewSpanContext(otel.SpanContextConfig{TraceID: otel.TraceID{1}, SpanID: otel.SpanID{1}, Remote: true}))
	accepted(no, tr, "a")
	if deliver(tr, "a", "acked", true) {
		t.Error("the delivery of the newer Put is taken for one of the older")
	}
}

func TestALookIsATraceOfItsOwn(t *testing.T) {
	r := &tracetest.Receiver{}
	tr := open(t, r, nil)
	d := tr.DeliveryBegan(key("a"), engine.DeliveryStart{Generation: 7, Attempt: 1, Began: time.Now()})
	d.Done("unchanged", true)
	flush(t, tr)
	if s := r.One(t, "delivery"); len(s.ParentSpanId) != 0 {
		t.Errorf("a look is below %s", tracetest.ID(s.ParentSpanId))
	}
}

func TestMemoryIsBoundedAndForgetsTheOldest(t *testing.T) {
	tr := open(t, &tracetest.Receiver{}, func(o *Options) { o.Remembered = 2 })
	for _, name := range []string{"a", "b", "a", "c"} {
		accepted(t.Context(), tr, name)
	}
	for name, want := range map[string]bool{"a": true, "b": false, "c": true} {
		if got := deliver(tr, name, "acked", true); got != want {
			t.Errorf("the delivery of %s is followed: %v", name, got)
		}
	}
	if n := len(tr.memory.byKey) + tr.memory.order.Len(); n > 0 {
		t.Errorf("%d entries are left when nothing is owed", n)
	}
}

func TestSpansGoOverGRPCWithTLSAndHeaders(t *testing.T) {
	r := &tracetest.Receiver{}
	url, trust := r.OverGRPC(t)
	tr := open(t, r, func(o *Options) {
		o.Export = Export{Endpoint: url, Protocol: GRPC, TLS: trust, Headers: map[string]string{"x-token": "t0ken"}}
	})
	accepted(t.Context(), tr, "a")
	flush(t, tr)
	r.One(t, "put")
	if r.Newest().Token != "t0ken" {
		t.Errorf("the header is %q", r.Newest().Token)
	}
}

func TestSpansGoOverHTTPSWithHeadersBelowAPath(t *testing.T) {
	r := &tracetest.Receiver{}
	s := httptest.NewTLSServer(r)
	defer s.Close()
	tr := open(t, r, func(o *Options) {
		o.Export = Export{Endpoint: s.URL + "/otlp/", TLS: s.Client().Transport.(*http.Transport).TLSClientConfig, Headers: map[string]string{"X-Token": "t0ken"}}
	})
	accepted(t.Context(), tr, "a")
	flush(t, tr)
	r.One(t, "put")
	if r.Newest().Token != "t0ken" || r.Newest().Path != "/otlp/v1/traces" {
		t.Errorf("the header is %q, the path %s", r.Newest().Token, r.Newest().Path)
	}
}

func TestAReceiverThatFailsIsToldOfOnceAndCounted(t *testing.T) {
	var (
		mu    sync.Mutex
		log   bytes.Buffer
		count = map[string]int{}
	)
	r := &tracetest.Receiver{}
	r.Refuse(true)
	tr := open(t, r, func(o *Options) {
		o.Logger = slog.New(slog.NewTextHandler(&log, nil))
		o.Sent = func(result string, n int) {
			mu.Lock()
			defer mu.Unlock()
			count[result] += n
		}
	})
	for range 2 {
		accepted(t.Context(), tr, "a")
		flush(t, tr)
	}
	r.Refuse(false)
	accepted(t.Context(), tr, "a")
	flush(t, tr)
	if n := strings.Count(log.String(), "traces can't be sent"); n != 1 || !strings.Contains(log.String(), "traces are sent again") {
		t.Errorf("the log says:\n%s", &log)
	}
	if count["failed"] != 2 || count["exported"] != 1 {
		t.Errorf("counted: %v", count)
	}
}

func TestAnEndpointThatIsNoURLIsRefused(t *testing.T) {
	for _, endpoint := range []string{"", "collector:4317", "ftp://collector"} {
		if _, err := Open(t.Context(), Options{Export: Export{Endpoint: endpoint}}); err == nil || !strings.Contains(err.Error(), "no URL") {
			t.Errorf("%q: %v", endpoint, err)
		}
	}
}
