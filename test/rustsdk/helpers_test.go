package rustsdk_test

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"io"
	"log/slog"
	"math/rand/v2"
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
	"github.com/pawlsync/pawl/test/rustsdk"
)

var seedFlag = flag.Uint64("seed", 0, "seed of the random tests; 0: a new one")

func random(t testing.TB) *rand.Rand {
	seed := cmp.Or(*seedFlag, rand.Uint64())
	t.Logf("again with -seed %d", seed)
	return rand.New(rand.NewPCG(seed, 0))
}

// need fails the test on an error, and skips it where only the compiler is
// missing and not asked for.
func need(t testing.TB, err error) {
	t.Helper()
	switch {
	case err == nil:
	case errors.Is(err, rustsdk.ErrNoToolchain) && os.Getenv("REQUIRE_PLUGINS") != "1":
		t.Skip(err)
	default:
		t.Fatal(err)
	}
}

func example(t testing.TB) []byte {
	t.Helper()
	wasm, err := rustsdk.Example(t.Context())
	need(t, err)
	return wasm
}

// guest is plugins/testguest/rust.
func guest(t testing.TB) []byte {
	t.Helper()
	root, err := rustsdk.Root()
	need(t, err)
	wasm, err := rustsdk.Build(t.Context(), filepath.Join(root, "plugins", "testguest", "rust"))
	need(t, err)
	return wasm
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
	p, err := h.LoadTrusted(t.Context(), wasm, "rust")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Close(context.Background()) })
	return p
}

// open loads a plugin and opens it; both are closed when the test ends.
func open(t testing.TB, wasm []byte, c wasmhost.SinkConfig, log *slog.Logger) *wasmhost.Sink {
	t.Helper()
	c.Name = "test"
	s, err := load(t, wasm, log).Open(t.Context(), c)
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

func request(key, payload string) *sink.Request {
	return &sink.Request{
		Key: record.Key{Sink: "test", Name: key}, Generation: 1,
		Payload: []byte(payload), Hash: record.HashOf([]byte(payload)),
		IdempotencyKey: "e-1-" + key, Conflict: record.SourceWins,
	}
}

// serve runs h as a target and returns the sink's config that grants it.
func serve(t testing.TB, h http.Handler, config string) wasmhost.SinkConfig {
	t.Helper()
	srv := httptest.NewServer(h)
	t.Cleanup(srv.Close)
	u, err := upstream.Open(upstream.Config{Name: "target", BaseURL: srv.URL}, upstream.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(u.Close)
	return wasmhost.SinkConfig{Config: []byte(config), Upstreams: []wasmhost.Upstream{u}}
}

// answers is a target within the test.
type answers func(ctx context.Context, path string) (body string, failure *upstream.Failure)

func (answers) Name() string    { return "target" }
func (answers) Kind() string    { return "http" }
func (answers) BaseURL() string { return "http://target.test" }

func (f answers) Do(ctx context.Context, r *upstream.Request) (*upstream.Response, *upstream.Failure) {
	body, failure := f(ctx, r.Path)
	if failure != nil {
		return nil, failure
	}
	return &upstream.Response{Status: http.StatusOK, Body: []byte(body)}, nil
}

func (f answers) config() wasmhost.SinkConfig {
	return wasmhost.SinkConfig{Upstreams: []wasmhost.Upstream{f}}
}

// gate is a target that answers a request when the test lets it, with its path.
type gate struct {
	arrived chan *held
}

type held struct {
	path string
	ctx  context.Context
	let  chan struct{}
}

func newGate() *gate { return &gate{make(chan *held)} }

func (g *gate) config() wasmhost.SinkConfig {
	return answers(func(ctx context.Context, path string) (string, *upstream.Failure) {
		h := &held{path, ctx, make(chan struct{})}
		select {
		case g.arrived <- h:
		case <-ctx.Done():
			return "", &upstream.Failure{Upstream: "target", Kind: upstream.FailCancelled}
		}
		select {
		case <-h.let:
			return path + ";", nil
		case <-ctx.Done():
			return "", &upstream.Failure{Upstream: "target", Kind: upstream.FailCancelled, MaybeSent: true}
		}
	}).config()
}

// take returns the next n requests.
func (g *gate) take(n int) []*held {
	hs := make([]*held, n)
	for i := range hs {
		hs[i] = <-g.arrived
	}
	return hs
}

// store is a target that keeps objects by path.
type store struct {
	mu      sync.Mutex
	objects map[string]string
	writes  []string // Idempotency-Key of each
}

func (s *store) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	path := r.URL.EscapedPath()
	body, exists := s.objects[path]
	switch {
	case r.Method == http.MethodPut:
		b, _ := io.ReadAll(r.Body)
		s.objects[path] = string(b)
		s.writes = append(s.writes, r.Header.Get("Idempotency-Key"))
		w.WriteHeader(http.StatusCreated)
	case !exists:
		http.NotFound(w, r)
	case r.Method == http.MethodDelete:
		delete(s.objects, path)
	default:
		_, _ = io.WriteString(w, body)
	}
}

func (s *store) at(path string) (body string, exists bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	body, exists = s.objects[path]
	return body, exists
}
