package kit

import (
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// Target is an HTTP object store that can be away, and that holds each write against
// the order of generations.
type Target struct {
	t       testing.TB
	address string // kept while it is away

	mu      sync.Mutex
	server  *http.Server
	objects map[string]Object
	newest  map[string]uint64 // generation of each key's newest write
	writes  int
	refuse  int           // status of every answer; 0: it does what it is asked
	dawdle  time.Duration // before each answer
}

// Object is what a target has under a key.
type Object struct {
	Generation uint64 // that wrote it
	Body       string
}

// NewTarget starts a target.
func NewTarget(t testing.TB) *Target {
	t.Helper()
	x := &Target{t: t, address: FreeAddress(t), objects: map[string]Object{}, newest: map[string]uint64{}}
	x.Return()
	t.Cleanup(x.Leave)
	return x
}

// Config is a configuration with this target as the upstream of a sink, web, whose
// drift is not looked for, with more of the sink's keys.
func (x *Target) Config(more string) string {
	return fmt.Sprintf(`upstreams:
  target: {base_url: "http://%s", allowed_headers: [X-Generation]}
sinks:
  web:
    plugin: http
    upstreams: [target]
    drift_interval: 0s
    startup_rate: 100000
    config: {path: "/o/{key}", headers: {X-Generation: "{generation}"}}
%s`, x.address, more)
}

// Leave makes the target go away: connections are refused.
func (x *Target) Leave() {
	x.mu.Lock()
	server := x.server
	x.server = nil
	x.mu.Unlock()
	if server != nil {
		_ = server.Close()
	}
}

// Return makes it listen, at the address that it always had.
func (x *Target) Return() {
	x.t.Helper()
	l, err := net.Listen("tcp", x.address)
	Must(x.t, err)
	server := &http.Server{Handler: x}
	x.mu.Lock()
	x.server = server
	x.mu.Unlock()
	go func() { _ = server.Serve(l) }()
}

// Refuse makes every answer one of that status; 0: no more.
func (x *Target) Refuse(status int) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.refuse = status
}

// Dawdle makes the target wait before it answers.
func (x *Target) Dawdle(d time.Duration) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.dawdle = d
}

// Objects is a copy of what the target has.
func (x *Target) Objects() map[string]Object {
	x.mu.Lock()
	defer x.mu.Unlock()
	return maps.Clone(x.objects)
}

// Writes counts what took effect.
func (x *Target) Writes() int {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.writes
}

func (x *Target) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	x.mu.Lock()
	dawdle := x.dawdle
	x.mu.Unlock()
	time.Sleep(dawdle)
	status, answer := x.do(r, string(body))
	w.WriteHeader(status)
	_, _ = io.WriteString(w, answer)
}

func (x *Target) do(r *http.Request, body string) (status int, answer string) {
	key := strings.TrimPrefix(r.URL.Path, "/o/")
	generation, err := strconv.ParseUint(r.Header.Get("X-Generation"), 10, 64)
	if err != nil {
		x.t.Errorf("%s %s bears no generation: %v", r.Method, r.URL, err)
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.refuse != 0 {
		return x.refuse, "refused"
	}
	if r.Method == http.MethodGet {
		o, ok := x.objects[key]
		if !ok {
			return http.StatusNotFound, ""
		}
		return http.StatusOK, o.Body
	}
	if generation < x.newest[key] {
		x.t.Errorf("%s of %s: generation %d came after %d", r.Method, key, generation, x.newest[key])
	}
	x.newest[key] = generation
	x.writes++
	if r.Method == http.MethodDelete {
		delete(x.objects, key)
	} else {
		x.objects[key] = Object{generation, body}
	}
	return http.StatusNoContent, ""
}
