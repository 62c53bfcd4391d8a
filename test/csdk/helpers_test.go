package csdk_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/pawlsync/pawl/engine/record"
	"github.com/pawlsync/pawl/engine/sink"
	"github.com/pawlsync/pawl/engine/upstream"
	"github.com/pawlsync/pawl/engine/wasmhost"
	"github.com/pawlsync/pawl/test/csdk"
)

// need fails the test on an error, and skips it where only the tools are
// missing and not asked for.
func need(t testing.TB, err error) {
	t.Helper()
	switch {
	case err == nil:
	case errors.Is(err, csdk.ErrNoToolchain) && os.Getenv("REQUIRE_PLUGINS") != "1":
		t.Skip(err)
	default:
		t.Fatal(err)
	}
}

func example(t testing.TB) []byte {
	t.Helper()
	wasm, err := csdk.Example(t.Context())
	need(t, err)
	return wasm
}

func guest(t testing.TB, source string, flags ...string) []byte {
	t.Helper()
	wasm, err := csdk.Build(t.Context(), filepath.Join("testdata", source), flags...)
	need(t, err)
	return wasm
}

// open loads a plugin and opens it; both are closed when the test ends.
func open(t testing.TB, wasm []byte, c wasmhost.SinkConfig, log *slog.Logger) *wasmhost.Sink {
	t.Helper()
	p := load(t, wasm, log)
	c.Name = "test"
	s, err := p.Open(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return s
}

func load(t testing.TB, wasm []byte, log *slog.Logger) *wasmhost.Plugin {
	t.Helper()
	base, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	h, err := wasmhost.New(t.Context(), wasmhost.Options{CacheDir: filepath.Join(base, "pawl-test-wasm"), Logger: log})
	if err != nil {
		t.Fatal(err)
	}
	p, err := h.Load(t.Context(), wasm, "c")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Close(context.Background()) })
	return p
}

// serve runs h as a target and returns an upstream to it.
func serve(t testing.TB, h http.Handler) *upstream.Upstream {
	t.Helper()
	srv := httptest.NewServer(h)
	t.Cleanup(srv.Close)
	return dial(t, upstream.Config{BaseURL: srv.URL})
}

func dial(t testing.TB, c upstream.Config) *upstream.Upstream {
	t.Helper()
	c.Name = "target"
	u, err := upstream.Open(c, upstream.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(u.Close)
	return u
}

func granted(u *upstream.Upstream, config string) wasmhost.SinkConfig {
	return wasmhost.SinkConfig{Config: []byte(config), Upstreams: []wasmhost.Upstream{u}}
}

func request(key, payload string) *sink.Request {
	return &sink.Request{
		Key: record.Key{Sink: "test", Name: key}, Generation: 1,
		Payload: []byte(payload), Hash: record.HashOf([]byte(payload)),
		IdempotencyKey: "e-1-" + key, Conflict: record.SourceWins,
	}
}

// store is a target that keeps objects by path.
type store struct {
	mu      sync.Mutex
	objects map[string]string
	writes  int
	keys    []string // Idempotency-Key of each write
}

func newStore() *store { return &store{objects: map[string]string{}} }

func (s *store) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	path := r.URL.EscapedPath()
	body, exists := s.objects[path]
	switch {
	case r.Method == http.MethodPut:
		b, _ := io.ReadAll(r.Body)
		s.objects[path] = string(b)
		s.writes++
		s.keys = append(s.keys, r.Header.Get("Idempotency-Key"))
		w.Header().Set("ETag", `"1"`)
		w.WriteHeader(http.StatusCreated)
	case !exists:
		http.NotFound(w, r)
	case r.Method == http.MethodDelete:
		delete(s.objects, path)
	default:
		w.Header().Set("ETag", `"1"`)
		_, _ = io.WriteString(w, body)
	}
}

func (s *store) at(path string) (body string, exists bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	body, exists = s.objects[path]
	return body, exists
}

func (s *store) set(path, body string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.objects[path] = body
}
