package daemon

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/pawlsync/pawl/config"
	"github.com/pawlsync/pawl/engine/record"
	"github.com/pawlsync/pawl/internal/api"
	"github.com/pawlsync/pawl/internal/client"
	"github.com/pawlsync/pawl/internal/metrics"
)

// byHand leaves it to the test when the daemon looks.
func byHand(_ *swapBench, o *Options) { o.LookEvery = time.Hour }

// configure writes a configuration with those sections.
func (b *swapBench) configure(sections ...string) {
	b.t.Helper()
	head := "server: {listen: \"127.0.0.1:0\"}\nstore: {path: store, reserve_bytes: 64MiB}\nplugins: {own: {path: own.wasm}}\n"
	b.replace("pawl.yaml", []byte(head+strings.Join(sections, "\n")+"\n"))
}

func (b *swapBench) reload(dryRun bool) api.Reload {
	b.t.Helper()
	out, err := b.Reload(b.t.Context(), dryRun)
	if err != nil {
		b.t.Fatal(err)
	}
	return out
}

// applied reloads, and wants that to be in force.
func (b *swapBench) applied() api.Reload {
	b.t.Helper()
	out := b.reload(false)
	if out.Result != api.ReloadApplied || len(out.Problems) > 0 {
		b.t.Fatalf("%+v", out)
	}
	return out
}

// send puts a resource of a sink and waits for its acknowledgement.
func (b *swapBench) send(sink, name string) api.Resource {
	b.t.Helper()
	key := record.Key{Sink: sink, Name: name}
	if _, err := b.Put(b.t.Context(), key, api.PutRequest{Payload: json.RawMessage(`1`)}); err != nil {
		b.t.Fatal(err)
	}
	return b.acked(key)
}

func upstreams(url string) string { return "upstreams: {target: {base_url: " + url + "}}" }

const oneSink = "sinks: {web: {plugin: own, upstreams: [target], drift_interval: 0s}}"

func TestSinksComeChangeAndGoWithTheConfiguration(t *testing.T) {
	first, firstURL := target(t)
	second, secondURL := target(t)
	b := startSwapping(t, pluginVersion{name: "v0"}, firstURL, byHand)
	b.send("web", "a")

	b.configure("upstreams: {target: {base_url: "+firstURL+"}, more: {base_url: "+secondURL+"}}",
		"sinks: {web: {plugin: own, upstreams: [target], drift_interval: 0s, max_in_flight: 7}, new: {plugin: own, upstreams: [target], drift_interval: 0s}}")
	out := b.applied()
	if !slices.Equal(out.Sinks.Added, []string{"new"}) || !slices.Equal(out.Sinks.Reopened, []string{"web"}) {
		t.Errorf("sinks: %+v", out.Sinks)
	}
	b.send("new", "a")

	b.configure(upstreams(secondURL), oneSink) // another address, and a sink less
	if out = b.applied(); !slices.Equal(out.Sinks.Reopened, []string{"web"}) || !slices.Equal(out.Sinks.Removed, []string{"new"}) {
		t.Errorf("sinks: %+v", out.Sinks)
	}
	before := first.of("/v0")
	b.send("web", "b")
	if first.of("/v0") != before || second.of("/v0") == 0 {
		t.Errorf("the old address got %d requests more, the new one %d", first.of("/v0")-before, second.of("/v0"))
	}
	if r, err := b.Get(t.Context(), record.Key{Sink: "new", Name: "a"}, client.GetOptions{}); err != nil || r.Status.Phase != record.Orphaned {
		t.Errorf("what the sink left is %+v, %v", r.Status, err)
	}
	if got := b.metrics("pawl_deliveries_total"); strings.Contains(got, `sink="new"`) {
		t.Errorf("the sink that is gone has series: %s", got)
	}

	b.configure(upstreams(secondURL), "sinks: {web: {plugin: own, upstreams: [target], drift_interval: 0s}, new: {plugin: own, upstreams: [target]}}")
	b.applied()
	b.acked(record.Key{Sink: "new", Name: "a"})
	if out = b.reload(false); out.Result != api.ReloadUnchanged || len(out.Changes) > 0 {
		t.Errorf("once more: %+v", out)
	}
}

func TestAConfigurationThatIsWrongIsRefusedWhole(t *testing.T) {
	_, url := target(t)
	for _, c := range []struct{ name, text, says string }{
		{"a sink without its plugin", "sinks: {web: {plugin: own, upstreams: [target]}, bad: {plugin: nobody}, more: {plugin: own, upstreams: [target]}}", "pawl.yaml:5"},
		{"no YAML", "sinks: {web", "pawl.yaml"},
		{"a secret that is not there", "sinks: {web: {plugin: own, upstreams: [target]}, more: {plugin: own, upstreams: [target]}}\nsources: {files: {dir: {path: /nowhere/a}}}\nsagas: {s: {steps: [{sink: web, key: a, verb: create, payload: {}}]}}", "sagas.s"},
		{"a direction that the plugin can't", "sinks: {web: {plugin: own, upstreams: [target], direction: inbound}, more: {plugin: own, upstreams: [target]}}", "sinks.web.direction"},
		{"more memory than at the start", "sinks: {web: {plugin: own, upstreams: [target]}, more: {plugin: own, upstreams: [target], limits: {memory_max_bytes: 2GiB}}}", "sinks.more.limits.memory_max_bytes"},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := startSwapping(t, pluginVersion{name: "v0"}, url, byHand)
			b.configure(upstreams(url), c.text)
			for _, dryRun := range []bool{true, false} {
				out := b.reload(dryRun)
				if out.Result != api.ReloadRefused || len(out.Errors) == 0 || !strings.Contains(out.Errors[0].Text, c.says) {
					t.Errorf("dry run %v: %+v", dryRun, out)
				}
			}
			b.send("web", "a")
			st, err := b.Status(t.Context())
			if err != nil || len(st.Sinks) != 1 || st.Config == nil || st.Config.RefusedAt.IsZero() || !strings.Contains(strings.Join(st.Headlines, "\n"), c.says) {
				t.Errorf("status: %d sinks, %+v, %q, %v", len(st.Sinks), st.Config, st.Headlines, err)
			}
			b.log.until(t, "the configuration changed and is refused", c.says)
			if got := b.metrics("pawl_config_refused"); got != "pawl_config_refused 1\n" {
				t.Errorf("metrics: %s", got)
			}
			b.configure(upstreams(url), "sinks: {web: {plugin: own, upstreams: [target]}, more: {plugin: own, upstreams: [target]}}")
			b.applied()
			if st, err := b.Status(t.Context()); err != nil || !st.Config.RefusedAt.IsZero() || len(st.Sinks) != 2 {
				t.Errorf("once it is right: %+v, %v", st.Config, err)
			}
			if got := b.metrics("pawl_config_refused"); got != "pawl_config_refused 0\n" {
				t.Errorf("metrics: %s", got)
			}
		})
	}
}

func TestWhatNeedsARestartIsNamedAndLeft(t *testing.T) {
	_, url := target(t)
	b := startSwapping(t, pluginVersion{name: "v0"}, url, byHand)
	b.configure(upstreams(url), oneSink, "limits: {batch_max: 9}", "sources: {files: {dir: {path: "+b.path("files")+"}}}")
	if err := os.Mkdir(b.path("files"), 0o700); err != nil {
		t.Fatal(err)
	}
	out := b.applied()
	i := slices.IndexFunc(out.Changes, func(c api.ConfigChange) bool { return c.Key == "limits.batch_max" })
	if i < 0 || !out.Changes[i].Restart || out.Changes[i].From != "10000" || out.Changes[i].To != "9" {
		t.Errorf("changes: %+v", out.Changes)
	}
	if !slices.Equal(out.Sources.Begun, []string{"files"}) {
		t.Errorf("sources: %+v", out.Sources)
	}
	st, err := b.Status(t.Context())
	if err != nil || !slices.Equal(st.Config.Restart, []string{"limits.batch_max"}) {
		t.Errorf("status: %+v, %v", st.Config, err)
	}
	if got := b.metrics("pawl_config_restart_keys"); got != "pawl_config_restart_keys 1\n" {
		t.Errorf("metrics: %s", got)
	}
}

func TestADryRunChangesNothingAndShowsNoSecret(t *testing.T) {
	first, url := target(t)
	_, other := target(t)
	b := startSwapping(t, pluginVersion{name: "v0"}, url, byHand)
	b.configure("upstreams: {target: {base_url: "+other+", credentials: {bearer: {value: hush-hush}}}}", "sinks: {more: {plugin: own, upstreams: [target]}}")
	out := b.reload(true)
	if out.Result != api.ReloadApplied || !out.DryRun || !slices.Equal(out.Sinks.Added, []string{"more"}) || !slices.Equal(out.Sinks.Removed, []string{"web"}) {
		t.Errorf("%+v", out)
	}
	if text := fmt.Sprintf("%+v", out); strings.Contains(text, "hush") {
		t.Errorf("a secret is shown: %s", text)
	}
	b.send("web", "a")
	if first.of("/v0") == 0 {
		t.Error("the upstream of a dry run is at work")
	}
}

func TestASinkWhoseNewTargetIsAwayStartsLaterAndSendsNothingToTheOldOne(t *testing.T) {
	old, url := target(t)
	late, lateURL := target(t)
	b := startSwapping(t, pluginVersion{name: "v0", asks: true}, url, byHand)
	b.send("web", "a")
	before := old.of("/v0")
	b.configure(upstreams("http://127.0.0.1:1"), "sinks: {web: {plugin: own, upstreams: [target], drift_interval: 0s, breaker: {probe_base: 10ms, probe_max: 20ms}}}")
	if out := b.applied(); !slices.Equal(out.Sinks.NotReady, []string{"web"}) {
		t.Errorf("%+v", out.Sinks)
	}
	key := b.put("b", 1)
	if s := b.sink(); s.NotReady == "" {
		t.Errorf("the sink is said to be ready: %+v", s)
	}
	if out := b.reload(false); out.Result != api.ReloadUnchanged {
		t.Errorf("read again while it waits: %+v", out)
	}
	b.configure(upstreams(lateURL), oneSink)
	b.applied()
	b.acked(key)
	if old.of("/v0") != before || late.of("/v0") == 0 {
		t.Errorf("the old target got %d requests more, the new one %d", old.of("/v0")-before, late.of("/v0"))
	}
}

// Callers put all the time, in three sinks of which two come and go.
func TestReloadsUnderLoadLoseNothing(t *testing.T) {
	_, url := target(t)
	b := startSwapping(t, pluginVersion{name: "v0"}, url, byHand)
	stop := make(chan struct{})
	var load sync.WaitGroup
	newest := make([]map[record.Key]uint64, 3)
	for i, sink := range []string{"web", "s1", "s2"} {
		newest[i] = map[record.Key]uint64{}
		load.Go(func() {
			for n := 0; ; n++ {
				select {
				case <-stop:
					return
				default:
				}
				key := record.Key{Sink: sink, Name: fmt.Sprint(n % 50)}
				put, err := b.Put(t.Context(), key, api.PutRequest{Payload: fmt.Appendf(nil, `%d`, n)})
				switch {
				case api.CodeOf(err) == api.CodeUnknownSink:
				case err != nil:
					t.Error(err)
					return
				default:
					newest[i][key] = put.Generation
				}
			}
		})
	}
	all := "sinks: {web: {plugin: own, upstreams: [target], drift_interval: 0s, max_in_flight: %d}, s1: {plugin: own, upstreams: [target]}, s2: {plugin: own, upstreams: [target]}}"
	for n := range 12 {
		if n%2 == 0 {
			b.configure(upstreams(url), fmt.Sprintf(all, n+1))
		} else {
			b.configure("upstreams: {target: {base_url: "+url+", max_concurrent: 50}}", fmt.Sprintf("sinks: {web: {plugin: own, upstreams: [target], drift_interval: 0s}, s%d: {plugin: own, upstreams: [target], rate: 5000}}", 1+n%3%2))
		}
		b.applied()
	}
	close(stop)
	load.Wait()
	b.configure(upstreams(url), fmt.Sprintf(all, 64))
	b.applied()
	for _, mine := range newest {
		for key, generation := range mine {
			if w, err := b.Wait(t.Context(), key, generation); err != nil || !w.Done {
				t.Fatalf("%v: %+v, %v", key, w, err)
			}
		}
	}
}

// What served sinks that are gone is let go of: what is left are their resources.
func TestManySinksThatAreGoneLeaveNothingBehind(t *testing.T) {
	const sinks, rounds = 50, 4
	_, url := target(t)
	b := startSwapping(t, pluginVersion{name: "v0"}, url, byHand)
	base := "sinks:\n  web: {plugin: own, upstreams: [target], drift_interval: 0s}\n"
	var more strings.Builder
	for i := range sinks {
		fmt.Fprintf(&more, "  s%d: {plugin: own, upstreams: [target], drift_interval: 0s}\n", i)
	}
	round := func(n int) (heap uint64, goroutines int) {
		b.configure(upstreams(url), base+more.String())
		b.applied()
		for i := range sinks {
			b.send(fmt.Sprint("s", i), fmt.Sprint(n))
		}
		b.configure(upstreams(url), base)
		b.applied()
		for range 5 { // what has a finalizer goes in a later round than who held it
			collect()
		}
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc, runtime.NumGoroutine()
	}
	heap, goroutines := round(0)
	for n := range rounds {
		heapNow, goroutinesNow := round(n + 1)
		t.Logf("heap: %d KiB, then %d; goroutines: %d, then %d", heap>>10, heapNow>>10, goroutines, goroutinesNow)
		if heapNow > heap+heap/4 || goroutinesNow > goroutines+sinks/2 {
			t.Errorf("after %d rounds: heap %d KiB, then %d; goroutines %d, then %d", n+2, heap>>10, heapNow>>10, goroutines, goroutinesNow)
		}
	}
}

func TestAReloadThatAStopCutsOffIsNoFaultOfTheFile(t *testing.T) {
	var said strings.Builder
	c := &config.Config{File: "pawl.yaml"}
	r := newReloader(c, Options{
		Logger: slog.New(slog.NewTextHandler(&said, nil)),
		Reload: func() (*config.Config, error) { return nil, errors.New("cut off") },
	})
	r.observer = metrics.New(prometheus.NewRegistry())
	ctx, stop := context.WithCancel(t.Context())
	stop()
	if out := r.reload(ctx, false); out.Result != api.ReloadRefused || !r.Status().RefusedAt.IsZero() || said.Len() > 0 {
		t.Errorf("a stop is told as a refusal: %+v\n%s", r.Status(), said.String())
	}
	if r.reload(t.Context(), false); r.Status().RefusedAt.IsZero() || !strings.Contains(said.String(), "cut off") {
		t.Errorf("a refusal is not told: %+v\n%s", r.Status(), said.String())
	}
}
