package csdk_test

import (
	"context"
	"maps"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pawlsync/pawl/engine/record"
	"github.com/pawlsync/pawl/engine/sink"
	"github.com/pawlsync/pawl/engine/upstream"
	"github.com/pawlsync/pawl/engine/wasmhost"
)

func TestTheLifeOfAnObject(t *testing.T) {
	target := newStore()
	// An escape in the config makes the prefix a string that the plugin allocates.
	s := open(t, example(t), granted(serve(t, target), `{"prefix":"\u002fthings"}`), nil)
	if m := s.Manifest(); m.Name != "kv" || !m.Observes || !m.Deletes || !m.ApplyConfirms || !strings.HasPrefix(m.Target, "http://127.0.0.1:") {
		t.Errorf("%+v", m)
	}
	const key, path = "team/ünï 1", "/things/team/%C3%BCn%C3%AF%201"
	r := request(key, `{"size":1,"color":"red"}`)

	if got := s.Observe(t.Context(), r); got.Status != sink.NotFound {
		t.Fatalf("before it was made: %+v", got)
	}
	made := s.Apply(t.Context(), r)
	if body, _ := target.at(path); made.Status != sink.OK || body != string(r.Payload) {
		t.Fatalf("made: %+v, the target holds %q", made, body)
	}
	if o := made.Observation; o == nil || !o.Exists || o.Ref != path || o.CID != `"1"` || o.AsFound == "" {
		t.Errorf("made: %+v", o)
	}
	r.Acked = &record.Acked{Generation: 1, Hash: r.Hash, AsFound: made.Observation.AsFound}

	target.set(path, ` {"color": "red", "size": 1} `) // the target's own way of writing it
	if o := s.Observe(t.Context(), r).Observation; o.MatchDesired != sink.Yes || o.MatchAcked != sink.Yes {
		t.Errorf("nothing changed: %+v", o)
	}

	newer := request(key, `{"size":2}`)
	newer.Acked = r.Acked
	o := s.Observe(t.Context(), newer).Observation
	if o.MatchDesired != sink.No || o.MatchAcked != sink.Yes || !slices.Equal(o.Differing, []string{"/color", "/size"}) {
		t.Errorf("the source changed: %+v", o)
	}
	if got := s.Apply(t.Context(), newer); got.Status != sink.OK {
		t.Errorf("updated: %+v", got)
	}

	target.set(path, `{"size":3}`)
	newer.Attempted = []record.Attempt{{Hash: record.HashOf([]byte(`{"size":3}`)), Payload: []byte(`{"size": 3}`)}}
	o = s.Observe(t.Context(), newer).Observation
	if o.MatchDesired != sink.No || o.MatchAcked != sink.No || o.MatchAttempted != sink.Yes {
		t.Errorf("an attempt landed: %+v", o)
	}

	if got := s.Delete(t.Context(), request(key, "")); got.Status != sink.OK {
		t.Errorf("deleted: %+v", got)
	}
	if _, exists := target.at(path); exists {
		t.Error("it is still there")
	}
	if got := s.Delete(t.Context(), request(key, "")); got.Status != sink.NotFound {
		t.Errorf("deleted again: %+v", got)
	}
	if !slices.Equal(target.keys, []string{"e-1-" + key, "e-1-" + key}) {
		t.Errorf("idempotency keys: %q", target.keys)
	}
}

func TestAnswersOfTheTarget(t *testing.T) {
	for _, c := range []struct {
		name    string
		handler http.HandlerFunc
		want    sink.Status
		after   time.Duration
		whole   bool
	}{
		{"busy", status(429, "Retry-After", "7"), sink.Retry, 7 * time.Second, true},
		{"busy until a date", status(503, "Retry-After", "Sun, 01 Mar 2020 00:01:00 GMT", "Date", "Fri, 28 Feb 2020 23:59:00 GMT"), sink.Retry, 24*time.Hour + 2*time.Minute, true},
		{"broken", status(500), sink.Retry, 0, false},
		{"refused content", status(422), sink.Rejected, 0, false},
		{"no right", status(403), sink.Unauthorized, 0, false},
		{"conflict", status(409), sink.Conflict, 0, false},
		{"redirect", status(302, "Location", "http://elsewhere.test/"), sink.Rejected, 0, false},
		{"only accepted", status(202), sink.Retry, 0, false},
		{"reset", func(w http.ResponseWriter, _ *http.Request) { hangUp(w, "") }, sink.Unreachable, 0, false},
		{"cut off", func(w http.ResponseWriter, _ *http.Request) {
			hangUp(w, "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf")
		}, sink.Unreachable, 0, false},
		{"too large", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(make([]byte, 2<<20)) }, sink.Retry, 0, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			u := serve(t, c.handler)
			limited := dial(t, upstream.Config{BaseURL: u.BaseURL(), ResponseMaxBytes: 1 << 20})
			s := open(t, example(t), granted(limited, ""), nil)
			got := s.Apply(t.Context(), request("a", `{"secret":"canary"}`))
			if got.Status != c.want || got.RetryAfter != c.after || got.RetryAfterTarget != c.whole {
				t.Errorf("%+v", got)
			}
			if got.Message == "" || strings.Contains(got.Message, "canary") {
				t.Errorf("message: %q", got.Message)
			}
		})
	}
}

func status(code int, headers ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		for i := 0; i < len(headers); i += 2 {
			w.Header().Set(headers[i], headers[i+1])
		}
		w.WriteHeader(code)
	}
}

// hangUp sends raw bytes and closes the connection.
func hangUp(w http.ResponseWriter, raw string) {
	c, _, err := w.(http.Hijacker).Hijack()
	if err != nil {
		panic(err)
	}
	_, _ = c.Write([]byte(raw))
	_ = c.(*net.TCPConn).SetLinger(0)
	_ = c.Close()
}

func TestNobodyListens(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	_ = l.Close()
	s := open(t, example(t), granted(dial(t, upstream.Config{BaseURL: "http://" + address}), ""), nil)
	if got := s.Apply(t.Context(), request("a", "{}")); got.Status != sink.Unreachable || !got.NotSent {
		t.Errorf("%+v", got)
	}
}

// hold is a target that answers the first requests only when it is told to.
type hold struct {
	*store
	arrived chan struct{}
	release chan struct{} // closed: everybody is answered
}

func newHold() *hold {
	return &hold{store: newStore(), arrived: make(chan struct{}, 100), release: make(chan struct{})}
}

func (h *hold) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h.arrived <- struct{}{}
	select {
	case <-h.release:
		h.store.ServeHTTP(w, r)
	case <-r.Context().Done():
	}
}

func TestACallThatIsCancelledOrLateEnds(t *testing.T) {
	target := newHold()
	c := granted(serve(t, target), "")
	c.Limits.CallTimeout = 200 * time.Millisecond
	s := open(t, example(t), c, nil)

	if got := s.Apply(t.Context(), request("late", "{}")); got.Status != sink.Unreachable || got.NotSent {
		t.Errorf("late: %+v", got)
	}
	<-target.arrived
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-target.arrived
		cancel()
	}()
	if got := s.Apply(ctx, request("cancelled", "{}")); got.Status != sink.Unreachable || got.NotSent {
		t.Errorf("cancelled: %+v", got)
	}
	close(target.release)
	if got := s.Apply(t.Context(), request("next", "{}")); got.Status != sink.OK {
		t.Errorf("the next call: %+v", got)
	}
	if st := s.Stats(); st.InFlight != 0 || slices.Max(slices.Collect(maps.Values(st.Faults))) != 0 {
		t.Errorf("%+v", st)
	}
}

func TestSixteenInstancesWorkAtOnce(t *testing.T) {
	const instances, calls = 16, 40
	target := newHold()
	s := open(t, example(t), granted(serve(t, target), ""), nil)
	var wg sync.WaitGroup
	for i := range calls {
		wg.Go(func() {
			if got := s.Apply(t.Context(), request(strconv.Itoa(i), "{}")); got.Status != sink.OK {
				t.Errorf("%d: %+v", i, got)
			}
		})
	}
	for range instances { // none is answered before all of these are there
		<-target.arrived
	}
	if st := s.Stats(); st.Instances != instances {
		t.Errorf("%+v", st)
	}
	close(target.release)
	wg.Wait()
	if target.writes != calls {
		t.Errorf("%d writes", target.writes)
	}
}

func TestTheMemoryOfACallIsUsedAgain(t *testing.T) {
	s := open(t, example(t), granted(serve(t, newStore()), ""), nil)
	payload := `{"a":"` + strings.Repeat("x", 100_000) + `"}`
	call := func() {
		r := request("a", payload)
		if got := s.Apply(t.Context(), r); got.Status != sink.OK {
			t.Fatalf("%+v", got)
		}
		if got := s.Observe(t.Context(), r); got.Status != sink.OK || got.Observation.MatchDesired != sink.Yes {
			t.Fatalf("%+v", got)
		}
	}
	call()
	before := s.Stats().MemoryBytes
	for range 100 {
		call()
	}
	if after := s.Stats(); after.MemoryBytes != before || after.Instances != 1 {
		t.Errorf("%d bytes after one round, %d after 101 (%d instances)", before, after.MemoryBytes, after.Instances)
	}
}

func TestConfigsThatAreRefused(t *testing.T) {
	p := load(t, example(t), nil)
	u := serve(t, newStore())
	for config, want := range map[string]string{
		`{"preifx":"/x"}`:          "unknown key",
		`{"prefix":"x"}`:           "a path is needed",
		`{"prefix":"/x",}`:         "byte 15",
		`{"upstream":"elsewhere"}`: "name the one",
		`[1]`:                      "an object is needed",
	} {
		_, err := p.Open(t.Context(), wasmhost.SinkConfig{Name: "test", Config: []byte(config), Upstreams: []wasmhost.Upstream{u}})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", config, err)
		}
	}
}
