package daemon

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/pawlsync/pawl/engine/record"
	"github.com/pawlsync/pawl/internal/api"
)

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
