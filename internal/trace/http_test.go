package trace

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/pawlsync/pawl/engine"
	"github.com/pawlsync/pawl/engine/upstream"
	"github.com/pawlsync/pawl/internal/trace/tracetest"
)

// asked opens an upstream that tr follows, and makes a request to it within a call of a
// delivery, or without one. It returns the traceparent that the target got.
func asked(t *testing.T, tr *Tracer, name string, status int, within bool) string {
	t.Helper()
	var got string
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got = r.Header.Get("Traceparent")
		w.WriteHeader(status)
	}))
	defer s.Close()
	u, err := upstream.Open(upstream.Config{Name: name, BaseURL: s.URL}, upstream.Options{Follow: tr.Outgoing(name)})
	if err != nil {
		t.Fatal(err)
	}
	defer u.Close()
	ctx, end := context.Background(), func(string) {}
	if within {
		d := tr.DeliveryBegan(key("a"), engine.DeliveryStart{Attempt: 1, Began: time.Now()})
		ctx, end = d.Step(ctx, "apply")
		defer d.Done("acked", true)
	}
	if _, failure := u.Do(ctx, &upstream.Request{Method: http.MethodPut, Path: "/s3cret"}); failure != nil {
		t.Fatal(failure)
	}
	end("ok")
	return got
}

func TestARequestIsASpanOfItsCallAndTellsNoPath(t *testing.T) {
	r := &tracetest.Receiver{}
	tr := open(t, r, nil)
	if parent := asked(t, tr, "target", http.StatusTeapot, true); parent != "" {
		t.Errorf("an upstream that is not to get the trace context got %s", parent)
	}
	flush(t, tr)
	s := r.One(t, "PUT")
	tracetest.WantChild(t, s, r.One(t, "apply"))
	if a := tracetest.Attributes(s.Attributes); a["pawl.upstream"] != "target" || !strings.Contains(a["http.response.status_code"], "418") {
		t.Errorf("the request has the attributes %v", a)
	}
	if strings.Contains(s.String(), "s3cret") {
		t.Errorf("the span holds the path: %s", s)
	}
}

func TestAnUpstreamGetsTheTraceContextWhereItIsToldTo(t *testing.T) {
	r := &tracetest.Receiver{}
	tr := open(t, r, func(o *Options) { o.Upstreams = []string{"target"} })
	parent := asked(t, tr, "target", http.StatusOK, true)
	flush(t, tr)
	s := r.One(t, "PUT")
	if want := "00-" + tracetest.ID(s.TraceId) + "-" + tracetest.ID(s.SpanId) + "-01"; parent != want {
		t.Errorf("the target got %q, want %q", parent, want)
	}
}

func TestARequestOfNoCallIsNotFollowed(t *testing.T) {
	r := &tracetest.Receiver{}
	tr := open(t, r, func(o *Options) { o.Upstreams = []string{"target"} })
	if parent := asked(t, tr, "target", http.StatusOK, false); parent != "" {
		t.Errorf("the target got %q", parent)
	}
	flush(t, tr)
	if n := len(r.Named("PUT")); n > 0 {
		t.Errorf("%d spans came", n)
	}
}

func TestARequestThatGotNoAnswerSaysWhy(t *testing.T) {
	r := &tracetest.Receiver{}
	tr := open(t, r, nil)
	ctx, end := tr.DeliveryBegan(key("a"), engine.DeliveryStart{Attempt: 1, Began: time.Now()}).Step(context.Background(), "apply")
	tr.Outgoing("target")(ctx, http.MethodGet).Done(0, &upstream.Failure{Kind: upstream.FailConnect, Message: "s3cret"})
	end("unreachable")
	flush(t, tr)
	s := r.One(t, "GET")
	if s.Status.GetMessage() != "connect" || strings.Contains(s.String(), "s3cret") {
		t.Errorf("the span is %s", s)
	}
}
