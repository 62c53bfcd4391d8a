package daemon

import (
	"maps"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
)

// listening is a target that writes down the trace contexts of requests that change
// something, by path.
type listening struct {
	mu  sync.Mutex
	got map[string]string
}

func (l *listening) serve(t *testing.T) string {
	t.Helper()
	objects, _ := newObjects(t)
	l.got = map[string]string{}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPut {
			l.mu.Lock()
			l.got[r.URL.Path] = r.Header.Get("Traceparent")
			l.mu.Unlock()
		}
		objects.ServeHTTP(w, r)
	}))
	t.Cleanup(s.Close)
	return s.URL
}

func (l *listening) parents() map[string]string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return maps.Clone(l.got)
}
