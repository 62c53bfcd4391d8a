package daemon

import (
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/pawlsync/pawl/config"
	"github.com/pawlsync/pawl/engine/record"
	"github.com/pawlsync/pawl/internal/api"
	"github.com/pawlsync/pawl/internal/trace/tracetest"
)

func TestAChangeIsOneTraceFromItsCallerToTheTarget(t *testing.T) {
	needPlugins(t)
	var r tracetest.Receiver
	store := &listening{}
	c := load(t, write(t, t.TempDir(), store.serve(t), "tracing: {endpoint: \""+r.OverHTTP(t)+"\", ratio: 0, upstreams: [objects]}\n"))
	d := begin(t, c, options())

	const caller, span = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
	q, err := http.NewRequestWithContext(t.Context(), http.MethodPut, d.ready.Address+"/v1/sinks/web/resource?key=a", strings.NewReader(`{"payload":{"n":1}}`))
	if err != nil {
		t.Fatal(err)
	}
	q.Header.Set("Content-Type", "application/json")
	q.Header.Set("Traceparent", "00-"+caller+"-"+span+"-01")
	res, err := http.DefaultClient.Do(q)
	if err != nil || res.StatusCode != http.StatusOK {
		t.Fatalf("%v %v", res, err)
	}
	res.Body.Close()
	if _, err := d.Put(t.Context(), record.Key{Sink: "web", Name: "b"}, api.PutRequest{Payload: json.RawMessage(`{"n":2}`)}); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"a", "b"} {
		if _, err := d.Wait(t.Context(), record.Key{Sink: "web", Name: name}, 0); err != nil {
			t.Fatal(err)
		}
	}
	if err := d.stop(); err != nil {
		t.Fatal(err)
	}
	put, delivery := r.One(t, "put"), r.One(t, "delivery") // the Put of nobody's trace is not followed: the share is 0
	if tracetest.ID(put.TraceId) != caller || tracetest.ID(put.ParentSpanId) != span {
		t.Errorf("the Put is in trace %s below %s", tracetest.ID(put.TraceId), tracetest.ID(put.ParentSpanId))
	}
	tracetest.WantChild(t, delivery, put)
	apply, request := r.One(t, "apply"), r.One(t, "PUT")
	tracetest.WantChild(t, apply, delivery)
	tracetest.WantChild(t, request, apply)
	tracetest.WantChild(t, r.One(t, "commit"), delivery)
	want := "00-" + caller + "-" + tracetest.ID(request.SpanId) + "-01"
	if got := store.parents(); len(got) != 2 || got["/o/a"] != want || got["/o/b"] != "" {
		t.Errorf("the target got the contexts %v, want %s for a and none for b", got, want)
	}
}

func TestWhatIsWrongWithTracingIsToldWithItsPlace(t *testing.T) {
	for tracing, key := range map[string]string{
		`{endpoint: "http://127.0.0.1:4318", header: {name: X-Key, secret: {env: NONE}}}`:     "tracing.header.secret",
		`{endpoint: "http://127.0.0.1:4318", header: {name: X-Key, secret: {file: nothing}}}`: "tracing.header.secret",
		`{endpoint: "https://127.0.0.1:4318", ca_file: nothing}`:                              "tracing.ca_file",
		`{endpoint: "https://127.0.0.1:4318", ca_file: pawl.yaml}`:                            "tracing.ca_file",
	} {
		c := load(t, write(t, t.TempDir(), "http://127.0.0.1:1", "tracing: "+tracing+"\n"))
		c.Sinks = nil
		err := Check(t.Context(), c, options())
		wrong := (*config.Error)(nil)
		if !errors.As(err, &wrong) || wrong.Key != key {
			t.Errorf("%s: %v, want an error of %s", tracing, err, key)
		}
	}
}
