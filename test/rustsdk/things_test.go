package rustsdk_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pawlsync/pawl/engine/record"
	"github.com/pawlsync/pawl/engine/sink"
	"github.com/pawlsync/pawl/engine/wasmhost"
)

func TestTheLifeOfAnObject(t *testing.T) {
	target := &store{objects: map[string]string{}}
	s := open(t, example(t), serve(t, target, `{"prefix":"\u002fkv"}`), nil)
	if m := s.Manifest(); m.Name != "things" || !m.Observes || !m.Deletes || !m.ApplyConfirms || !m.AsFoundComparable ||
		!strings.HasPrefix(m.Target, "http://127.0.0.1:") || !strings.HasSuffix(m.Target, "/kv") {
		t.Errorf("%+v", m)
	}
	const key, path = "team/ünï 1", "/kv/team/%C3%BCn%C3%AF%201"
	r := request(key, `{"size":1}`)
	if got := s.Observe(t.Context(), r); got.Status != sink.NotFound {
		t.Fatalf("before it was made: %+v", got)
	}
	made := s.Apply(t.Context(), r)
	if body, _ := target.at(path); made.Status != sink.OK || body != string(r.Payload) {
		t.Fatalf("made: %+v, the target holds %q", made, body)
	}
	if o := made.Observation; o == nil || !o.Exists || o.Ref != path || o.AsFound != r.Hash.Hex() {
		t.Errorf("made: %+v", o)
	}
	r.Acked = &record.Acked{Generation: 1, Hash: r.Hash, AsFound: made.Observation.AsFound}
	if o := s.Observe(t.Context(), r).Observation; o.MatchDesired != sink.Yes || o.MatchAcked != sink.Yes {
		t.Errorf("nothing changed: %+v", o)
	}

	newer := request(key, `{"size":2}`)
	newer.Acked = r.Acked
	if o := s.Observe(t.Context(), newer).Observation; o.MatchDesired != sink.No || o.MatchAcked != sink.Yes {
		t.Errorf("the source changed: %+v", o)
	}
	if got := s.Apply(t.Context(), newer); got.Status != sink.OK {
		t.Errorf("updated: %+v", got)
	}

	third := request(key, `{"size":3}`)
	third.Acked = r.Acked
	third.Attempted = []record.Attempt{{Hash: newer.Hash}}
	if o := s.Observe(t.Context(), third).Observation; o.MatchDesired != sink.No || o.MatchAcked != sink.No || o.MatchAttempted != sink.Yes {
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
	if !slices.Equal(target.writes, []string{"e-1-" + key, "e-1-" + key}) {
		t.Errorf("idempotency keys: %q", target.writes)
	}
}

func TestAThousandObjectsAtOnce(t *testing.T) {
	target := &store{objects: map[string]string{}}
	s := open(t, example(t), serve(t, target, ""), nil)
	var wg sync.WaitGroup
	for i := range 1000 {
		wg.Go(func() {
			r := request(fmt.Sprintf("k/%d", i), fmt.Sprintf(`{"n":%d}`, i))
			if got := s.Apply(t.Context(), r); got.Status != sink.OK {
				t.Errorf("%d: %+v", i, got)
			}
			if got := s.Observe(t.Context(), r); got.Status != sink.OK || got.Observation.MatchDesired != sink.Yes {
				t.Errorf("%d: %+v", i, got)
			}
		})
	}
	wg.Wait()
	if n := len(target.objects); n != 1000 {
		t.Errorf("%d objects", n)
	}
}

func TestAnswersOfTheTarget(t *testing.T) {
	status := func(code int, headers ...string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			for i := 0; i < len(headers); i += 2 {
				w.Header().Set(headers[i], headers[i+1])
			}
			w.WriteHeader(code)
		}
	}
	wasm := example(t)
	for _, c := range []struct {
		name    string
		handler http.HandlerFunc
		want    sink.Status
		after   time.Duration
		whole   bool
	}{
		{"busy", status(429, "Retry-After", "7"), sink.Retry, 7 * time.Second, true},
		{"broken", status(500), sink.Retry, 0, false},
		{"refused content", status(422), sink.Rejected, 0, false},
		{"no right", status(403), sink.Unauthorized, 0, false},
		{"conflict", status(409), sink.Conflict, 0, false},
		{"redirect", status(302, "Location", "http://elsewhere.test/"), sink.Rejected, 0, false},
		{"only accepted", status(202), sink.Retry, 0, false},
		{"reset", func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, sink.Unreachable, 0, false},
		{"too large", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(make([]byte, 5<<20)) }, sink.Retry, 0, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := open(t, wasm, serve(t, c.handler, ""), nil)
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

func TestAPathThatTheHostRefuses(t *testing.T) {
	s := open(t, example(t), serve(t, http.NotFoundHandler(), ""), nil)
	if got := s.Apply(t.Context(), request("a/../b", "{}")); got.Status != sink.Rejected || !strings.Contains(got.Message, "dot segment") {
		t.Errorf("%+v", got)
	}
}

func TestAWrongConfigIsTold(t *testing.T) {
	c := serve(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "{}") }), `{"prefx":"/a"}`)
	c.Name = "test"
	_, err := load(t, example(t), nil).Open(context.Background(), c)
	if !errors.Is(err, wasmhost.ErrConfig) || !strings.Contains(err.Error(), `"prefx" is not known; there is prefix, upstream`) {
		t.Errorf("got %v", err)
	}
}
