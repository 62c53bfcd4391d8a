package daemon

import (
	"crypto/sha256"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/pawlsync/pawl/config"
	"github.com/pawlsync/pawl/engine/record"
	"github.com/pawlsync/pawl/internal/api"
	"github.com/pawlsync/pawl/internal/client"
	asm "github.com/pawlsync/pawl/internal/wasmasm"
)

// pluginVersion is a plugin that applies by PUT /NAME, and is configured by GET
// /ready where it asks: so the target sees which version it was, and is needed for
// the start.
type pluginVersion struct {
	name, called string // called: in its manifest; "": asm
	target       string // identity that configure answers
	asks         bool   // configure asks the target
	refuses      bool   // configure refuses
	traps        bool   // configure traps
	pages        int    // of memory to start with; 0: 4
}

func (v pluginVersion) module() []byte {
	const atPut, atGet, atAnswer, atDown, atRefused, atInput = 4096, 4224, 4352, 4480, 4608, 65536
	str := func(n protowire.Number, s string) []byte {
		return protowire.AppendString(protowire.AppendTag(nil, n, protowire.BytesType), s)
	}
	num := func(n protowire.Number, x uint64) []byte {
		return protowire.AppendVarint(protowire.AppendTag(nil, n, protowire.VarintType), x)
	}
	join := func(parts ...[]byte) string {
		var out []byte
		for _, p := range parts {
			out = append(out, p...)
		}
		return string(out)
	}
	called := v.called
	if called == "" {
		called = "asm"
	}
	target := v.target
	if target == "" {
		target = "t1"
	}
	put, get := asm.HTTPMessage("target", "PUT", "/"+v.name), asm.HTTPMessage("target", "GET", "/ready")
	ok := join(num(1, 1), str(5, join(num(1, 1), str(2, v.name))), str(6, target))
	down := join(num(1, 10), str(2, "nobody there"))
	refused := join(num(1, 5), str(2, "no such setting"))
	configure := asm.Seq(asm.Answer(1, atAnswer, len(ok)), asm.Want(0))
	switch {
	case v.asks:
		configure = asm.Seq(asm.Park(asm.IOHTTP, atGet, len(get)), asm.Want(1))
	case v.refuses:
		configure = asm.Seq(asm.Answer(1, atRefused, len(refused)), asm.Want(0))
	case v.traps:
		configure = asm.Unreachable
	}
	answered := asm.Seq(asm.I32(atInput), asm.CallImport("input_read"), asm.I32(atInput), asm.Load8U, asm.I32(0x08), asm.I32Eq) // begins with a status
	return asm.Guest{
		Manifest: []byte(join(str(1, called), str(2, v.name), num(3, asm.OpApply), num(3, asm.OpDelete), num(6, 1), num(7, 1), num(8, 1))),
		Data:     map[int]string{atPut: put, atGet: get, atAnswer: ok, atDown: down, atRefused: refused},
		Pages:    max(v.pages, 4), Configure: configure,
		Start:  asm.Seq(asm.Park(asm.IOHTTP, atPut, len(put)), asm.Want(1)),
		Resume: asm.Seq(asm.If(answered, asm.ResumeAnswer(atAnswer, len(ok)), asm.Want(1)), asm.ResumeAnswer(atDown, len(down)), asm.I32(1)),
	}.Bytes()
}

// counter is a target that counts requests by path.
type counter struct {
	mu    sync.Mutex
	paths map[string]int
	some  chan struct{} // has one when a request has come
}

func newCounter() *counter { return &counter{paths: map[string]int{}, some: make(chan struct{}, 1)} }

func (c *counter) ServeHTTP(_ http.ResponseWriter, r *http.Request) {
	c.mu.Lock()
	c.paths[r.URL.Path]++
	c.mu.Unlock()
	select {
	case c.some <- struct{}{}:
	default:
	}
}

func (c *counter) of(path string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.paths[path]
}

// until waits for n requests for a path.
func (c *counter) until(path string, n int) {
	for c.of(path) < n {
		<-c.some
	}
}

// logWatch is a log that a test can wait for.
type logWatch struct {
	slog.Handler
	mu    sync.Mutex
	text  strings.Builder
	lines chan struct{} // has one when something was written
}

func newLogWatch() *logWatch {
	l := &logWatch{lines: make(chan struct{}, 1)}
	l.Handler = slog.NewTextHandler(l, nil)
	return l
}

func (l *logWatch) Write(b []byte) (int, error) {
	l.mu.Lock()
	l.text.Write(b)
	l.mu.Unlock()
	select {
	case l.lines <- struct{}{}:
	default:
	}
	return len(b), nil
}

// forget drops what was written so far.
func (l *logWatch) forget() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.text.Reset()
}

// until waits for a line that has all of parts, and returns it.
func (l *logWatch) until(t *testing.T, parts ...string) string {
	t.Helper()
	var late <-chan time.Time // just before the tests are ended, to say what there is
	if end, ok := t.Deadline(); ok {
		late = time.After(time.Until(end) - 5*time.Second)
	}
	for {
		l.mu.Lock()
		text := l.text.String()
		l.mu.Unlock()
		for line := range strings.Lines(text) {
			if hasAll(line, parts) {
				return line
			}
		}
		select {
		case <-l.lines:
		case <-late:
			t.Fatalf("no line has %q:\n%s", parts, text)
		}
	}
}

func hasAll(s string, parts []string) bool {
	for _, p := range parts {
		if !strings.Contains(s, p) {
			return false
		}
	}
	return true
}

// swapBench is a daemon whose plugin the test replaces.
type swapBench struct {
	*running
	t      *testing.T
	dir    string
	log    *logWatch
	hangup chan os.Signal
	extra  string // YAML after the sink
}

func extraSinks(yaml string) func(*swapBench, *Options) {
	return func(b *swapBench, _ *Options) { b.extra = yaml }
}

// startSwapping starts a daemon with sink web, whose plugin is own.wasm.
func startSwapping(t *testing.T, first pluginVersion, targetURL string, tweaks ...func(*swapBench, *Options)) *swapBench {
	t.Helper()
	b := &swapBench{t: t, dir: t.TempDir(), log: newLogWatch(), hangup: make(chan os.Signal)}
	b.replace("own.wasm", first.module())
	o := options()
	o.Logger, o.LookEvery, o.Hangup = slog.New(b.log), 10*time.Millisecond, b.hangup
	o.Reload = func() (*config.Config, error) { return b.load() }
	for _, tweak := range tweaks {
		tweak(b, &o)
	}
	b.writeConfig(targetURL, "{path: own.wasm}", b.extra)
	c, err := b.load()
	if err != nil {
		t.Fatal(err)
	}
	b.running = begin(t, c, o)
	return b
}

func (b *swapBench) load() (*config.Config, error) {
	return config.Load(config.Options{File: b.path("pawl.yaml"), Env: []string{"HOME=" + b.dir}})
}

func (b *swapBench) path(name string) string { return filepath.Join(b.dir, name) }

func (b *swapBench) writeConfig(targetURL, plugin, extra string) {
	b.replace("pawl.yaml", fmt.Appendf(nil, `server: {listen: "127.0.0.1:0"}
store: {path: store, reserve_bytes: 64MiB}
upstreams: {target: {base_url: %s, max_concurrent: 1000}}
plugins: {own: %s}
sinks:
  web: {plugin: own, upstreams: [target], drift_interval: 0s, breaker: {probe_base: 10ms, probe_max: 20ms}}
%s`, targetURL, plugin, extra))
}

// replace puts a file in place as careful programs do: whole, or not at all.
func (b *swapBench) replace(name string, content []byte) {
	b.t.Helper()
	if err := os.WriteFile(b.path(name+".new"), content, 0o600); err != nil {
		b.t.Fatal(err)
	}
	if err := os.Rename(b.path(name+".new"), b.path(name)); err != nil {
		b.t.Fatal(err)
	}
}

func (b *swapBench) sink() api.Sink {
	b.t.Helper()
	sinks, err := b.Sinks(b.t.Context())
	if err != nil {
		b.t.Fatal(err)
	}
	for _, s := range sinks {
		if s.Name == "web" {
			return s
		}
	}
	b.t.Fatal("there is no sink web")
	return api.Sink{}
}

func (b *swapBench) put(name string, n int) record.Key {
	b.t.Helper()
	key := record.Key{Sink: "web", Name: name}
	if _, err := b.Put(b.t.Context(), key, api.PutRequest{Payload: fmt.Appendf(nil, `%d`, n)}); err != nil {
		b.t.Fatal(err)
	}
	return key
}

func (b *swapBench) acked(key record.Key) api.Resource {
	b.t.Helper()
	if w, err := b.Wait(b.t.Context(), key, 1); err != nil || !w.Done {
		b.t.Fatalf("%v: %+v, %v", key, w, err)
	}
	r, err := b.Get(b.t.Context(), key, client.GetOptions{})
	if err != nil {
		b.t.Fatal(err)
	}
	return r
}

// metrics returns the lines of /metrics that begin with name.
func (b *swapBench) metrics(name string) string {
	b.t.Helper()
	res, err := http.Get(b.ready.Address + "/metrics")
	if err != nil {
		b.t.Fatal(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		b.t.Fatal(err)
	}
	var out strings.Builder
	for line := range strings.Lines(string(body)) {
		if strings.HasPrefix(line, name) {
			out.WriteString(line)
		}
	}
	return out.String()
}

func target(t *testing.T) (*counter, string) {
	c := newCounter()
	srv := httptest.NewServer(c)
	t.Cleanup(srv.Close)
	return c, srv.URL
}

func digestOf(wasm []byte) string { return hexDigest(sha256.Sum256(wasm)) }
