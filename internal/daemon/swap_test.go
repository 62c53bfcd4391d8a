package daemon

import (
	"context"
	"crypto/sha256"
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
		Pages:    4, Configure: configure,
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
		case <-t.Context().Done():
			t.Fatalf("no line has %q:\n%s", parts, text)
		case <-time.After(time.Minute): // it hangs: say what there is
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
}

// startSwapping starts a daemon with sink web, whose plugin is own.wasm.
func startSwapping(t *testing.T, first pluginVersion, targetURL string, tweaks ...func(*Options)) *swapBench {
	t.Helper()
	b := &swapBench{t: t, dir: t.TempDir(), log: newLogWatch(), hangup: make(chan os.Signal)}
	b.replace("own.wasm", first.module())
	b.writeConfig(targetURL, "{path: own.wasm}", "")
	o := options()
	o.Logger, o.LookEvery, o.Hangup = slog.New(b.log), 10*time.Millisecond, b.hangup
	o.Reload = func() (*config.Config, error) { return b.load() }
	for _, tweak := range tweaks {
		tweak(&o)
	}
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

func TestAPluginIsReplacedUnderLoadHoweverItsFileIs(t *testing.T) {
	objects, url := target(t)
	b := startSwapping(t, pluginVersion{name: "v0"}, url)
	stop := make(chan struct{})
	var load sync.WaitGroup
	for w := range 4 {
		load.Go(func() {
			for n := 0; ; n++ {
				select {
				case <-stop:
					return
				default:
				}
				key := record.Key{Sink: "web", Name: fmt.Sprintf("%d/%d", w, n)}
				put, err := b.Put(t.Context(), key, api.PutRequest{Payload: json.RawMessage(`{}`)})
				if err != nil {
					t.Error(err)
					return
				}
				if wait, err := b.Wait(t.Context(), key, put.Generation); err != nil || !wait.Done {
					t.Errorf("%v: %+v, %v", key, wait, err)
					return
				}
			}
		})
	}
	content := func(n int) []byte { return pluginVersion{name: fmt.Sprint("v", n)}.module() }
	inPlace := func(n int) {
		if err := os.WriteFile(b.path("own.wasm"), content(n), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	mounted := func(n int) { // as Kubernetes does: the file is a link into ..data, which is one too
		dir := fmt.Sprint("data", n)
		if err := os.Mkdir(b.path(dir), 0o700); err != nil {
			t.Fatal(err)
		}
		b.replace(filepath.Join(dir, "own.wasm"), content(n))
		for link, to := range map[string]string{"..data": dir, "own.wasm": filepath.Join("..data", "own.wasm")} {
			_ = os.Remove(b.path(link + ".new"))
			if err := os.Symlink(to, b.path(link+".new")); err != nil {
				t.Fatal(err)
			}
			if err := os.Rename(b.path(link+".new"), b.path(link)); err != nil {
				t.Fatal(err)
			}
		}
	}
	renamed := func(n int) { b.replace("own.wasm", content(n)) }
	for n, way := range []func(int){renamed, inPlace, renamed, mounted, mounted, renamed} {
		objects.until(fmt.Sprint("/v", n), 20)
		b.log.forget()
		way(n + 1)
		b.log.until(t, "a plugin was replaced")
	}
	objects.until("/v6", 20)
	close(stop)
	load.Wait()
	if s := b.sink(); s.Plugin != "asm v6" || s.Digest != digestOf(content(6)) {
		t.Errorf("status names %s, digest %s", s.Plugin, s.Digest)
	}
	if got := b.metrics("pawl_plugin_swaps_total"); got != "pawl_plugin_swaps_total{plugin=\"own\",result=\"swapped\"} 6\n" {
		t.Errorf("metrics: %s", got)
	}
	sent := 0
	for n := range 7 {
		sent += objects.of(fmt.Sprint("/v", n))
	}
	if got, want := b.metrics("pawl_deliveries_total"), fmt.Sprintf("pawl_deliveries_total{outcome=\"acked\",sink=\"web\"} %d\n", sent); got != want {
		t.Errorf("%d requests were sent; deliveries: %s", sent, got)
	}
}

func digestOf(wasm []byte) string { return hexDigest(sha256.Sum256(wasm)) }

func TestAPluginThatIsNotRightIsRefusedAndTheOldOneServes(t *testing.T) {
	_, url := target(t)
	good := pluginVersion{name: "v1"}.module()
	for _, c := range []struct {
		name string
		wasm []byte
		says string
	}{
		{"text", []byte("#!/bin/sh\n"), "no core WebAssembly module"},
		{"half written", good[:len(good)/2], "cut off"},
		{"empty", nil, "no core WebAssembly module"},
		{"another plugin", pluginVersion{name: "v1", called: "other"}.module(), "the module is the plugin other"},
		{"its configuration refused", pluginVersion{name: "v1", refuses: true}.module(), "no such setting"},
		{"a trap", pluginVersion{name: "v1", traps: true}.module(), "unreachable"},
		{"another name for the target", pluginVersion{name: "v1", target: "t2"}.module(), "was confirmed there would count no more"},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := startSwapping(t, pluginVersion{name: "v0"}, url)
			b.acked(b.put("a", 1))
			b.replace("own.wasm", c.wasm)
			line := b.log.until(t, "is refused; the old one goes on")
			if !hasAll(line, []string{c.says, "plugin=own", "own.wasm"}) {
				t.Errorf("the log does not say %q: %s", c.says, line)
			}
			if r := b.acked(b.put("b", 1)); r.Status.Acked.Ref != "v0" {
				t.Errorf("afterwards %q serves", r.Status.Acked.Ref)
			}
			if got := b.metrics("pawl_plugin_swaps_total"); got != "pawl_plugin_swaps_total{plugin=\"own\",result=\"refused\"} 1\n" {
				t.Errorf("metrics: %s", got)
			}
			b.replace("own.wasm", good)
			b.log.until(t, "a plugin was replaced")
			if r := b.acked(b.put("c", 1)); r.Status.Acked.Ref != "v1" {
				t.Errorf("after it was put right %q serves", r.Status.Acked.Ref)
			}
		})
	}
}

func TestAPluginsPlaceAndPinAreTakenOverFromTheConfiguration(t *testing.T) {
	_, url := target(t)
	b := startSwapping(t, pluginVersion{name: "v0"}, url)
	next := pluginVersion{name: "v1"}.module()
	serves := func(version string) {
		t.Helper()
		if r := b.acked(b.put("since "+version, 1)); r.Status.Acked.Ref != version {
			t.Errorf("%s serves, want %s", r.Status.Acked.Ref, version)
		}
	}

	b.replace("next.wasm", next)
	b.writeConfig(url, "{path: next.wasm, sha256: \""+strings.Repeat("0", 64)+"\"}", "")
	b.log.until(t, "is refused; the old one goes on", "plugins.own.sha256", digestOf(next))
	serves("v0")
	b.writeConfig(url, "{path: next.wasm, sha256: \""+digestOf(next)+"\"}", "")
	b.log.until(t, "a plugin was replaced", digestOf(next))
	serves("v1")

	b.log.forget() // a file that is not the pinned one
	b.replace("next.wasm", pluginVersion{name: "v2"}.module())
	b.log.until(t, "is refused; the old one goes on", "plugins.own.sha256")
	serves("v1")

	b.log.forget() // a configuration that is wrong is refused whole
	b.writeConfig(url, "{path: next.wasm}", "  bad: {plugin: nobody}\n")
	b.log.until(t, "the configuration changed and is wrong", "nobody")
	serves("v1")

	b.log.forget() // one with other changes is taken over in part
	b.writeConfig(url, "{path: next.wasm}", "log: {level: debug}\n")
	b.log.until(t, "needs a restart", "log.level")
	b.log.until(t, "a plugin was replaced")
	serves("v2")
}

func TestSIGHUPLooksAtOnce(t *testing.T) {
	_, url := target(t)
	b := startSwapping(t, pluginVersion{name: "v0"}, url, func(o *Options) { o.LookEvery = time.Hour })
	b.replace("next.wasm", pluginVersion{name: "v1"}.module())
	b.writeConfig(url, "{path: next.wasm}", "log: {level: debug}\n")
	b.hangup <- os.Interrupt // whichever: it is the channel that counts
	b.log.until(t, "needs a restart", "log.level")
	b.log.until(t, "a plugin was replaced")
	b.log.forget()
	b.replace("next.wasm", pluginVersion{name: "v2"}.module())
	b.hangup <- os.Interrupt
	b.log.until(t, "a plugin was replaced")
}

// listener is an address at which nobody listens until it is opened.
type listener struct {
	t       *testing.T
	address string
	server  *http.Server
}

func closedAddress(t *testing.T) *listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	return &listener{t: t, address: l.Addr().String()}
}

func (l *listener) open(h http.Handler) {
	l.t.Helper()
	tcp, err := net.Listen("tcp", l.address)
	if err != nil {
		l.t.Fatal(err)
	}
	l.server = &http.Server{Handler: h}
	go func() {
		if err := l.server.Serve(tcp); !errors.Is(err, http.ErrServerClosed) {
			l.t.Error(err)
		}
	}()
	l.t.Cleanup(func() { _ = l.server.Close() })
}

func (l *listener) url() string { return "http://" + l.address }

func TestASinkWhoseTargetIsAwayAtTheStartBeginsWhenItComes(t *testing.T) {
	needPlugins(t)
	other, otherURL := newObjects(t)
	away := closedAddress(t)
	b := &swapBench{t: t, dir: t.TempDir(), log: newLogWatch()}
	b.replace("own.wasm", pluginVersion{name: "v0", asks: true}.module())
	b.writeConfig(away.url(), "{path: own.wasm}", "  other: {plugin: http, upstreams: [objects], config: {path: \"/o/{key}\"}}\n")
	text, err := os.ReadFile(b.path("pawl.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	b.replace("pawl.yaml", []byte(strings.Replace(string(text), "upstreams: {", "upstreams: {objects: {base_url: "+otherURL+"}, ", 1)))
	o := options()
	o.Logger = slog.New(b.log)
	b.running = begin(t, load(t, b.path("pawl.yaml")), o)

	key := b.put("a", 1)
	elsewhere := record.Key{Sink: "other", Name: "a"}
	if _, err := b.Put(t.Context(), elsewhere, api.PutRequest{Payload: json.RawMessage(`1`)}); err != nil {
		t.Fatal(err)
	}
	b.acked(elsewhere)
	if got := other.get("/o/a"); got != "1" {
		t.Errorf("the other target holds %q", got)
	}
	b.log.until(t, "a sink is not ready", "sink=web", "nobody there")
	if s := b.sink(); !strings.Contains(s.NotReady, "nobody there") || s.Plugin != "asm v0" || s.Digest == "" {
		t.Errorf("status: %+v", s)
	}
	st, err := b.Status(t.Context())
	if err != nil || len(st.Headlines) == 0 || !strings.Contains(st.Headlines[0], "Sink web is not ready: target not ready: unreachable: nobody there") {
		t.Errorf("headlines: %q, %v", st.Headlines, err)
	}
	if x, err := b.Explain(t.Context(), key); err != nil || !strings.Contains(x.Text, "The sink is not ready: target not ready: unreachable: nobody there") {
		t.Errorf("explain: %s, %v", x.Text, err)
	}
	if got := b.metrics("pawl_sink_ready"); got != "pawl_sink_ready{sink=\"other\"} 1\npawl_sink_ready{sink=\"web\"} 0\n" {
		t.Errorf("metrics: %s", got)
	}
	objects := newCounter()
	away.open(objects)
	if r := b.acked(key); r.Status.Acked.Ref != "v0" || r.Status.Acked.Target != "t1" {
		t.Errorf("acknowledged as %+v", r.Status.Acked)
	}
	if s := b.sink(); s.NotReady != "" || s.Target != "t1" {
		t.Errorf("status: %+v", s)
	}
	if n := objects.of("/ready"); n != 1 {
		t.Errorf("the plugin asked %d times after the target came", n)
	}
}

// A new module whose target is away just then: the old one serves on, and the new
// one comes when the target does.
func TestASwapWaitsForATargetThatIsAway(t *testing.T) {
	here, objects := closedAddress(t), newCounter()
	here.open(objects)
	b := startSwapping(t, pluginVersion{name: "v0", asks: true}, here.url())
	b.acked(b.put("a", 1))
	_ = here.server.Close()
	b.replace("own.wasm", pluginVersion{name: "v1", asks: true}.module())
	b.log.until(t, "a plugin was replaced, but not yet at sinks whose target does not answer")
	if s := b.sink(); s.Plugin != "asm v0" || s.NotReady != "" {
		t.Errorf("meanwhile: %+v", s)
	}
	b.replace("own.wasm", pluginVersion{name: "v2", asks: true}.module()) // it is overtaken while it waits
	b.log.until(t, "a plugin was replaced, but not yet", digestOf(pluginVersion{name: "v2", asks: true}.module()))
	here.open(objects)
	b.log.until(t, "a sink is ready")
	if r := b.acked(b.put("b", 1)); r.Status.Acked.Ref != "v2" {
		t.Errorf("%s serves", r.Status.Acked.Ref)
	}
	if n := objects.of("/v1"); n != 0 {
		t.Errorf("%d calls of a version that was overtaken", n)
	}
}

// The daemon stops while a sink is not ready, while another is being replaced.
func TestTheDaemonStopsInTheMiddleOfIt(t *testing.T) {
	away := closedAddress(t)
	b := startSwapping(t, pluginVersion{name: "v0", asks: true}, away.url())
	b.put("a", 1)
	b.replace("own.wasm", pluginVersion{name: "v1", asks: true}.module())
	if err := b.stop(); err != nil {
		t.Error(err)
	}
}

func TestAConfigurationThatThePluginRefusesStillStopsTheStart(t *testing.T) {
	away := closedAddress(t)
	b := &swapBench{t: t, dir: t.TempDir()}
	b.replace("own.wasm", pluginVersion{name: "v0", refuses: true}.module())
	b.writeConfig(away.url(), "{path: own.wasm}", "")
	c, err := b.load()
	if err != nil {
		t.Fatal(err)
	}
	if err := Run(context.Background(), c, options()); err == nil || !strings.Contains(err.Error(), "no such setting") {
		t.Errorf("got %v", err)
	}
}
