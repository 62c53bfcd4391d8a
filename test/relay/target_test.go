package relay

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"
)

// target is an HTTP object store, where a chain of pawls ends. It remembers what it
// was ever told about each key. Payloads are {"n": 1}, where n grows with each change
// of the key.
type target struct {
	server *httptest.Server

	mu      sync.Mutex
	latency time.Duration
	refuse  string // the key that is answered 422
	objects map[string]string
	told    map[string][]told // by key, in the order of arrival
}

type told struct {
	n  int // 0: deleted
	at time.Time
}

func newTarget(t *testing.T) *target {
	x := &target{objects: map[string]string{}, told: map[string][]told{}}
	x.server = httptest.NewServer(x)
	t.Cleanup(x.server.Close)
	return x
}

func (x *target) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	key := strings.TrimPrefix(r.URL.Path, "/o/")
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	x.mu.Lock()
	latency := x.latency
	x.mu.Unlock()
	time.Sleep(latency) // it is a slow target
	x.mu.Lock()
	defer x.mu.Unlock()
	object, exists := x.objects[key]
	switch {
	case r.Method == http.MethodGet && exists:
		_, _ = io.WriteString(w, object)
	case r.Method == http.MethodPut && key == x.refuse:
		w.WriteHeader(http.StatusUnprocessableEntity)
	case r.Method == http.MethodPut:
		x.objects[key] = string(body)
		x.told[key] = append(x.told[key], told{numberOf(string(body)), time.Now()})
		w.WriteHeader(http.StatusNoContent)
	case r.Method == http.MethodDelete && exists:
		delete(x.objects, key)
		x.told[key] = append(x.told[key], told{0, time.Now()})
		w.WriteHeader(http.StatusNoContent)
	default:
		w.WriteHeader(http.StatusNotFound)
	}
}

func payload(n int) string { return fmt.Sprintf(`{"n":%d}`, n) }

func numberOf(payload string) int {
	var p struct{ N int }
	_ = json.Unmarshal([]byte(payload), &p)
	return p.N
}

func (x *target) set(latency time.Duration) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.latency = latency
}

// holds returns nil once the target holds exactly want.
func (x *target) holds(want map[string]string) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	for key, payload := range want {
		if x.objects[key] != payload {
			return fmt.Errorf("%s is %q, want %s", key, x.objects[key], payload)
		}
	}
	if len(x.objects) != len(want) {
		return fmt.Errorf("there are %d objects, want %d", len(x.objects), len(want))
	}
	return nil
}

// history is what the target was told of each key.
func (x *target) history() map[string][]told {
	x.mu.Lock()
	defer x.mu.Unlock()
	return maps.Clone(x.told)
}
