package main

import (
	"io"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	pawl "github.com/pawlsync/pawl/sdk/go"
	"github.com/pawlsync/pawl/sdk/go/pawltest"
)

// target is a store of objects by their paths; answer, if set, is all that it says.
type target struct {
	mu      sync.Mutex
	objects map[string][]byte
	answer  int
}

func (t *target) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	t.mu.Lock()
	defer t.mu.Unlock()
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	path := r.URL.EscapedPath()
	old, exists := t.objects[path]
	switch {
	case t.answer != 0:
		w.Header().Set("Retry-After", "3")
		w.WriteHeader(t.answer)
	case r.Method == http.MethodPut:
		t.objects[path] = body
		w.WriteHeader(http.StatusNoContent)
	case !exists:
		w.WriteHeader(http.StatusNotFound)
	case r.Method == http.MethodDelete:
		delete(t.objects, path)
	default:
		_, _ = w.Write(old)
	}
}

func open(t *testing.T) (*pawltest.Sink, *target) {
	there := &target{objects: map[string][]byte{}}
	return pawltest.New(t, &adapter{}, pawltest.Options{Upstream: there}), there
}

func TestAnObjectLivesAndDies(t *testing.T) {
	s, there := open(t)
	first := &pawl.Request{Key: "team/a b", Payload: []byte(`{"size": 1, "note": "kept"}`)}
	if got := s.Observe(first); got.Status != pawl.StatusNotFound {
		t.Fatalf("before it was made: %+v", got)
	}
	made := s.Apply(first)
	if made.Status != pawl.StatusOK || there.objects["/objects/team/a%20b"] == nil {
		t.Fatalf("apply: %+v, the target holds %q", made, there.objects)
	}
	second := &pawl.Request{Key: first.Key, Generation: 2, Payload: []byte(`{"size": 2}`), Acked: pawltest.Ack(first, made)}
	seen := s.Observe(second)
	if seen.MatchDesired != pawl.No || seen.MatchAcked != pawl.Yes || !slices.Equal(seen.Differing, []string{"/note", "/size"}) {
		t.Errorf("while the first is there: %+v", seen)
	}
	if got := s.Apply(second); got.Status != pawl.StatusOK {
		t.Errorf("apply of the second: %+v", got)
	}
	if got := s.Observe(second); got.MatchDesired != pawl.Yes {
		t.Errorf("after the second: %+v", got)
	}
	for range 2 { // the answer to the first may have been lost
		if got := s.Delete(&pawl.Request{Key: first.Key}); got.Status != pawl.StatusOK && got.Status != pawl.StatusNotFound {
			t.Errorf("delete: %+v", got)
		}
	}
	if len(there.objects) > 0 {
		t.Errorf("the target still holds %q", there.objects)
	}
}

func TestWhatTheTargetAddsIsItsOwn(t *testing.T) {
	s, there := open(t)
	r := &pawl.Request{Key: "a", Payload: []byte(`{"size": 1}`)}
	r.Acked = pawltest.Ack(r, s.Apply(r))
	there.objects["/objects/a"] = []byte(`{"id": 7, "size": 1}`)
	if got := s.Observe(r); got.MatchDesired != pawl.Yes || got.MatchAcked != pawl.Yes {
		t.Errorf("%+v", got)
	}
}

func TestEveryAnswerBecomesAnOutcome(t *testing.T) {
	for code, want := range map[int]pawl.Status{
		204: pawl.StatusOK, 202: pawl.StatusRetry, 302: pawl.StatusRejected, 403: pawl.StatusUnauthorized,
		409: pawl.StatusConflict, 422: pawl.StatusRejected, 429: pawl.StatusRetry, 500: pawl.StatusRetry,
	} {
		s, there := open(t)
		there.answer = code
		got := s.Apply(&pawl.Request{Key: "a", Payload: []byte(`{}`)})
		if got.Status != want {
			t.Errorf("%d: %v, want %v", code, got.Status, want)
		}
		if code == 429 && (got.RetryAfter != 3*time.Second || !got.WholeTarget) {
			t.Errorf("429: %+v", got)
		}
	}
	s, _ := open(t)
	s.FailNext(pawl.Failure{Kind: pawl.FailConnect})
	if got := s.Apply(&pawl.Request{Key: "a", Payload: []byte(`{}`)}); got.Status != pawl.StatusUnreachable {
		t.Errorf("without an answer: %+v", got)
	}
}

func TestAWrongConfigIsRefused(t *testing.T) {
	for _, config := range []string{`{"prefx": "/a"}`, `{"prefix": 7}`, `{"prefix": "a"}`, `{"upstream": "other"}`} {
		if _, err := pawltest.TryNew(t, &adapter{}, pawltest.Options{Config: config, Upstream: &target{}}); err == nil {
			t.Errorf("%s was accepted", config)
		}
	}
}

func TestAKeyThatIsNoPathIsRefused(t *testing.T) {
	s, _ := open(t)
	for _, key := range []string{"..", "a/../b", "a//b", "a/"} {
		if got := s.Apply(&pawl.Request{Key: key, Payload: []byte(`{}`)}); got.Status != pawl.StatusRejected {
			t.Errorf("%q: %v", key, got.Status)
		}
	}
	if sent := s.Sent(); len(sent) > 0 {
		t.Errorf("sent were %+v", sent)
	}
}
