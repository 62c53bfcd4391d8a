package daemon

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pawlsync/pawl/config"
	"github.com/pawlsync/pawl/engine/outbox"
	"github.com/pawlsync/pawl/engine/record"
	"github.com/pawlsync/pawl/internal/api"
	"github.com/pawlsync/pawl/internal/bundled"
	"github.com/pawlsync/pawl/internal/client"
)

// needPlugins skips a test, or fails it where make says that the plugins are built.
func needPlugins(t *testing.T) {
	t.Helper()
	if _, err := bundled.Plugin("http"); err != nil {
		if os.Getenv("REQUIRE_PLUGINS") == "1" {
			t.Fatal(err)
		}
		t.Skip(err)
	}
}

// objects is a target: an HTTP object store in memory.
type objects struct {
	mu     sync.Mutex
	bodies map[string]string
	auth   map[string]bool // Authorization headers seen
}

func newObjects(t *testing.T) (*objects, string) {
	o := &objects{bodies: map[string]string{}, auth: map[string]bool{}}
	srv := httptest.NewServer(o)
	t.Cleanup(srv.Close)
	return o, srv.URL
}

func (o *objects) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	o.mu.Lock()
	defer o.mu.Unlock()
	o.auth[r.Header.Get("Authorization")] = true
	old, ok := o.bodies[r.URL.Path]
	switch {
	case r.Method == http.MethodPut:
		o.bodies[r.URL.Path] = string(body)
	case !ok:
		w.WriteHeader(http.StatusNotFound)
	case r.Method == http.MethodDelete:
		delete(o.bodies, r.URL.Path)
	default:
		_, _ = w.Write([]byte(old))
	}
}

func (o *objects) get(path string) string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.bodies[path]
}

// write makes a configuration of one sink, web, with extra YAML put behind.
func write(t *testing.T, dir, target, extra string) string {
	t.Helper()
	text := fmt.Sprintf(`server: {listen: "127.0.0.1:0"}
store: {path: store, reserve_bytes: 64MiB}
upstreams:
  objects:
    base_url: %s
    credentials: {bearer: {env: OBJECTS_TOKEN}}
sinks:
  web:
    plugin: http
    upstreams: [objects]
    config: {path: "/o/{key}"}
    sensitive: [/password]
%s`, target, extra)
	path := filepath.Join(dir, "pawl.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func load(t *testing.T, file string, env ...string) *config.Config {
	t.Helper()
	// The real cache folder, since compiling takes seconds under the race detector.
	env = append(env, "HOME="+os.Getenv("HOME"), "XDG_CACHE_HOME="+os.Getenv("XDG_CACHE_HOME"))
	c, err := config.Load(config.Options{File: file, Env: env})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func options() Options {
	return Options{Version: api.Version{Version: "test"}, LookupEnv: func(name string) (string, bool) {
		return "canary", name == "OBJECTS_TOKEN"
	}}
}

// running is a daemon in the background.
type running struct {
	*client.Client
	ready Ready
	stop  func() error // and its error
}

func begin(t *testing.T, c *config.Config, o Options) *running {
	t.Helper()
	ready, ended := make(chan Ready, 1), make(chan error, 1)
	o.Ready = func(r Ready) { ready <- r }
	ctx, cancel := context.WithCancel(context.Background())
	go func() { ended <- Run(ctx, c, o) }()
	var once sync.Once
	var result error
	d := &running{stop: func() error {
		once.Do(func() {
			cancel()
			result = <-ended
		})
		return result
	}}
	t.Cleanup(func() { _ = d.stop() })
	select {
	case d.ready = <-ready:
	case err := <-ended:
		t.Fatalf("the daemon did not start: %v", err)
	}
	var err error
	if d.Client, err = client.New(client.Options{Address: d.ready.Address}); err != nil {
		t.Fatal(err)
	}
	return d
}

func TestADesiredStateReachesItsTargetAndOutlivesARestart(t *testing.T) {
	needPlugins(t)
	target, url := newObjects(t)
	dir := t.TempDir()
	c := load(t, write(t, dir, url, ""))
	key := record.Key{Sink: "web", Name: "users/älice"}

	d := begin(t, c, options())
	put, err := d.Put(t.Context(), key, api.PutRequest{Payload: json.RawMessage(`{"name":"Alice","password":"s3cret"}`)})
	if err != nil {
		t.Fatal(err)
	}
	if w, err := d.Wait(t.Context(), key, put.Generation); err != nil || !w.Done {
		t.Fatalf("wait: %+v, %v", w, err)
	}
	if got := target.get("/o/users/älice"); got != `{"name":"Alice","password":"s3cret"}` {
		t.Errorf("the target holds %q", got)
	}
	if !target.auth["Bearer canary"] || len(target.auth) != 1 {
		t.Errorf("credentials seen by the target: %v", target.auth)
	}
	if err := d.stop(); err != nil {
		t.Fatalf("the daemon stopped with %v", err)
	}

	d = begin(t, c, options())
	if d.ready.Resources != 1 || d.ready.Sinks != 1 {
		t.Errorf("after a restart: %+v, want 1 resource and 1 sink", d.ready)
	}
	r, err := d.Get(t.Context(), key, client.GetOptions{Payload: true})
	if err != nil || r.Status.Phase != record.AckedPhase || r.Generation != put.Generation {
		t.Fatalf("after a restart: %+v, %v", r, err)
	}
	if strings.Contains(string(r.Payload), "s3cret") {
		t.Errorf("a sensitive value is shown: %s", r.Payload)
	}
	del, err := d.Delete(t.Context(), key, api.DeleteRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if w, err := d.Wait(t.Context(), key, del.Generation); api.CodeOf(err) != api.CodeNotFound && (err != nil || !w.Gone) {
		t.Fatalf("wait for the deletion: %+v, %v", w, err)
	}
	if got := target.get("/o/users/älice"); got != "" {
		t.Errorf("the target still holds %q", got)
	}
}

func TestMetricsCoverPluginsAndEngine(t *testing.T) {
	needPlugins(t)
	_, url := newObjects(t)
	for _, c := range []struct {
		extra string
		want  int
	}{{"", 200}, {"metrics: {enabled: false}\n", 404}} {
		d := begin(t, load(t, write(t, t.TempDir(), url, c.extra)), options())
		res, err := http.Get(d.ready.Address + "/metrics")
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(res.Body)
		res.Body.Close()
		if err != nil || res.StatusCode != c.want {
			t.Fatalf("with %q: status %d, %v; want %d", c.extra, res.StatusCode, err, c.want)
		}
		for _, name := range []string{"pawl_sink_ready{", "pawl_plugin_instances{", "go_goroutines"} {
			if c.want == 200 && !bytes.Contains(body, []byte(name)) {
				t.Errorf("/metrics lacks %s", name)
			}
		}
	}
}

// TestWhatCantStartSaysWhy checks that Run ends with a message that names the
// place and the remedy, and leaves nothing behind that keeps a right
// configuration from starting.
func TestWhatCantStartSaysWhy(t *testing.T) {
	needPlugins(t)
	_, url := newObjects(t)
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	noPlugin := filepath.Join(t.TempDir(), "none.wasm")
	for _, c := range []struct {
		name, extra string
		env         []string
		want        []string
	}{
		{"the address is taken", "", []string{"PAWL_SERVER_LISTEN=" + taken.Addr().String()}, []string{taken.Addr().String(), "in use", "--listen"}},
		{"a plugin refuses its config", "  bad: {plugin: http, upstreams: [objects], config: {paht: /x}}\n", nil, []string{"bad", "paht", "path"}},
		{"a plugin's file is missing", "  bad: {plugin: own}\nplugins: {own: {path: " + noPlugin + "}}\n", nil, []string{noPlugin, "plugins.own.path"}},
		{"a plugin is not the pinned one", "  bad: {plugin: own}\nplugins: {own: {bundled: http, sha256: \"" + strings.Repeat("0", 64) + "\"}}\n", nil, []string{"plugins.own.sha256", strings.Repeat("0", 64)}},
		{"a token file is missing", "", []string{"PAWL_SERVER_TOKEN_FILE=" + noPlugin}, []string{"token file", noPlugin}},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			file := write(t, dir, url, c.extra)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			o := options()
			o.Ready = func(Ready) { cancel() }
			err := Run(ctx, load(t, file, c.env...), o)
			if err == nil {
				t.Fatal("it started")
			}
			for _, part := range c.want {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("%q does not mention %q", err, part)
				}
			}
			begin(t, load(t, write(t, dir, url, "")), options())
		})
	}
}

func TestTwoDaemonsOnOneStoreAreRefused(t *testing.T) {
	needPlugins(t)
	_, url := newObjects(t)
	c := load(t, write(t, t.TempDir(), url, ""))
	begin(t, c, options())
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	o := options()
	o.Ready = func(Ready) { cancel() } // so that a failure does not hang
	err := Run(ctx, c, o)
	if !errors.Is(err, outbox.ErrLocked) || !strings.Contains(err.Error(), fmt.Sprint(os.Getpid())) {
		t.Errorf("a second daemon: %v; want ErrLocked with the first one's process id", err)
	}
}

func TestTheCredentialIsLoggedNowhere(t *testing.T) {
	needPlugins(t)
	_, url := newObjects(t)
	var log safeBuffer
	o := options()
	var err error
	if o.Logger, o.LogLevel, err = NewLogger(config.Log{Level: "debug", Format: "json"}, &log, false); err != nil {
		t.Fatal(err)
	}
	d := begin(t, load(t, write(t, t.TempDir(), url, "")), o)
	key := record.Key{Sink: "web", Name: "a"}
	if _, err := d.Put(t.Context(), key, api.PutRequest{Payload: json.RawMessage(`{"password":"s3cret"}`)}); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Wait(t.Context(), key, 0); err != nil {
		t.Fatal(err)
	}
	if err := d.stop(); err != nil {
		t.Fatal(err)
	}
	for _, secret := range []string{"canary", "s3cret"} {
		if strings.Contains(log.String(), secret) {
			t.Errorf("the log holds %q:\n%s", secret, log.String())
		}
	}
	if !strings.Contains(log.String(), `"msg":"ready"`) {
		t.Errorf("the log lacks the ready line:\n%s", log.String())
	}
}

// safeBuffer may be written from many goroutines.
type safeBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *safeBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *safeBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

func TestLogFormats(t *testing.T) {
	for _, c := range []struct {
		format   string
		terminal bool
		want     string
	}{
		{"auto", true, "level=INFO msg=hello took=1.5s\n"},
		{"text", false, "level=INFO msg=hello took=1.5s\n"},
		{"auto", false, `"msg":"hello","took":"1.5s"}` + "\n"},
	} {
		var b bytes.Buffer
		log, _, err := NewLogger(config.Log{Level: "info", Format: c.format}, &b, c.terminal)
		if err != nil {
			t.Fatal(err)
		}
		log.Debug("not this")
		log.Info("hello", slog.Duration("took", 1500*time.Millisecond))
		if !strings.HasSuffix(b.String(), c.want) || strings.Count(b.String(), "\n") != 1 {
			t.Errorf("%s, terminal %v: %q, want one line that ends in %q", c.format, c.terminal, b.String(), c.want)
		}
	}
}
