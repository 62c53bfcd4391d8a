// Package tracetest takes traces as a collector does, for tests.
package tracetest

import (
	"compress/gzip"
	"context"
	"crypto/tls"
	"encoding/hex"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	common "go.opentelemetry.io/proto/otlp/common/v1"
	spans "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	_ "google.golang.org/grpc/encoding/gzip"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"
)

// Receiver takes spans by OTLP, over HTTP and gRPC. The zero Receiver is ready.
type Receiver struct {
	collector.UnimplementedTraceServiceServer

	mu     sync.Mutex
	refuse bool
	spans  []*spans.Span
	newest Request
}

// Request is what is known of a request beside its spans.
type Request struct {
	Resource map[string]string // whose spans they are
	Token    string            // X-Token
	Path     string            // of HTTP
}

// ServeHTTP takes spans by OTLP over HTTP.
func (r *Receiver) ServeHTTP(w http.ResponseWriter, q *http.Request) {
	body, err := gzip.NewReader(q.Body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	raw, err := io.ReadAll(body)
	var in collector.ExportTraceServiceRequest
	if err == nil {
		err = proto.Unmarshal(raw, &in)
	}
	if err != nil || !r.take(&in, q.Header.Get("X-Token"), q.URL.Path) {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	w.Header().Set("Content-Type", "application/x-protobuf")
}

// Export implements collector.TraceServiceServer.
func (r *Receiver) Export(ctx context.Context, in *collector.ExportTraceServiceRequest) (*collector.ExportTraceServiceResponse, error) {
	md, _ := metadata.FromIncomingContext(ctx)
	r.take(in, strings.Join(md.Get("x-token"), ""), "")
	return &collector.ExportTraceServiceResponse{}, nil
}

func (r *Receiver) take(in *collector.ExportTraceServiceRequest, token, path string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.refuse {
		return false
	}
	r.newest = Request{Token: token, Path: path}
	for _, of := range in.ResourceSpans {
		r.newest.Resource = Attributes(of.Resource.Attributes)
		for _, scope := range of.ScopeSpans {
			r.spans = append(r.spans, scope.Spans...)
		}
	}
	return true
}

// Refuse makes it answer that it can't take anything, or take it again.
func (r *Receiver) Refuse(refuse bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.refuse = refuse
}

// Newest is the request that came last.
func (r *Receiver) Newest() Request {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.newest
}

// Attributes are the texts of a span's attributes.
func Attributes(list []*common.KeyValue) map[string]string {
	out := map[string]string{}
	for _, kv := range list {
		out[kv.Key] = kv.Value.GetStringValue()
		if kv.Value.GetStringValue() == "" {
			out[kv.Key] = kv.Value.String()
		}
	}
	return out
}

// Named returns the spans of that name, in the order of their ends.
func (r *Receiver) Named(name string) []*spans.Span {
	r.mu.Lock()
	defer r.mu.Unlock()
	var out []*spans.Span
	for _, s := range r.spans {
		if s.Name == name {
			out = append(out, s)
		}
	}
	return out
}

// All is every span, as text.
func (r *Receiver) All() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var b strings.Builder
	for _, s := range r.spans {
		b.WriteString(s.String())
		b.WriteByte('\n')
	}
	return b.String()
}

// One returns the only span of that name.
func (r *Receiver) One(t *testing.T, name string) *spans.Span {
	t.Helper()
	got := r.Named(name)
	if len(got) != 1 {
		t.Fatalf("%d spans %q came, want 1", len(got), name)
	}
	return got[0]
}

// OverHTTP serves r, and returns its URL.
func (r *Receiver) OverHTTP(t *testing.T) string {
	t.Helper()
	s := httptest.NewServer(r)
	t.Cleanup(s.Close)
	return s.URL
}

// OverGRPC serves r with TLS, and returns its URL and how it is trusted.
func (r *Receiver) OverGRPC(t *testing.T) (string, *tls.Config) {
	t.Helper()
	helper := httptest.NewTLSServer(nil) // for its certificate
	t.Cleanup(helper.Close)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := grpc.NewServer(grpc.Creds(credentials.NewServerTLSFromCert(&helper.TLS.Certificates[0])))
	collector.RegisterTraceServiceServer(s, r)
	go func() { _ = s.Serve(l) }()
	t.Cleanup(s.Stop)
	return "https://" + l.Addr().String(), helper.Client().Transport.(*http.Transport).TLSClientConfig
}

// ID is the text of a trace's or span's identity.
func ID(b []byte) string { return hex.EncodeToString(b) }

// WantChild wants child to be in parent's trace, right below it.
func WantChild(t *testing.T, child, parent *spans.Span) {
	t.Helper()
	if ID(child.TraceId) != ID(parent.TraceId) || ID(child.ParentSpanId) != ID(parent.SpanId) {
		t.Errorf("span %s (trace %s, parent %s) is not below %s (trace %s, span %s)",
			child.Name, ID(child.TraceId), ID(child.ParentSpanId), parent.Name, ID(parent.TraceId), ID(parent.SpanId))
	}
}
