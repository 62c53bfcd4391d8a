package daemon

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pawlsync/pawl/engine/record"
	"github.com/pawlsync/pawl/internal/api"
)

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

func TestAPluginThatOneOfItsSinksRefusesIsReplacedAtNone(t *testing.T) {
	_, url := target(t)
	b := startSwapping(t, pluginVersion{name: "v0"}, url, extraSinks("  small: {plugin: own, upstreams: [target], limits: {memory_max_bytes: 1MiB}}\n"))
	b.replace("own.wasm", pluginVersion{name: "v1", pages: 32}.module()) // 2 MiB
	b.log.until(t, "is refused; the old one goes on", "small", "memory")
	for _, sink := range []string{"web", "small"} {
		key := record.Key{Sink: sink, Name: "a"}
		if _, err := b.Put(t.Context(), key, api.PutRequest{Payload: json.RawMessage(`1`)}); err != nil {
			t.Fatal(err)
		}
		if r := b.acked(key); r.Status.Acked.Ref != "v0" {
			t.Errorf("%s: %s serves", sink, r.Status.Acked.Ref)
		}
	}
}

// What was replaced is closed: its code, its instances, its goroutines.
func TestManySwapsLeaveNothingBehind(t *testing.T) {
	_, url := target(t)
	b := startSwapping(t, pluginVersion{name: "v0"}, url)
	swap := func(n int) {
		version := fmt.Sprint("v", n%2)
		b.log.forget()
		b.replace("own.wasm", pluginVersion{name: version}.module())
		b.log.until(t, "a plugin was replaced")
		if r := b.acked(b.put(fmt.Sprint(n), 1)); r.Status.Acked.Ref != version {
			t.Fatalf("%s serves, want %s", r.Status.Acked.Ref, version)
		}
	}
	remains := func() (code int64, goroutines int) {
		for range 5 { // what has a finalizer goes in a later round than who held it
			collect()
		}
		return codeBytes(), runtime.NumGoroutine()
	}
	for n := range 5 {
		swap(n + 1)
	}
	code, goroutines := remains()
	const more = 40
	for n := range more {
		swap(n)
	}
	codeNow, goroutinesNow := remains()
	t.Logf("compiled code: %d bytes, then %d; goroutines: %d, then %d", code, codeNow, goroutines, goroutinesNow)
	if codeNow > 2*code || goroutinesNow > goroutines+more/2 {
		t.Errorf("compiled code: %d bytes, then %d; goroutines: %d, then %d", code, codeNow, goroutines, goroutinesNow)
	}
}

// collect returns when the finalizers of what was garbage have run: one runs after the
// other.
func collect() {
	ran := make(chan struct{})
	last := new([64]byte)
	runtime.SetFinalizer(last, func(*[64]byte) { close(ran) })
	runtime.GC()
	<-ran
}

// codeBytes is the memory that compiled plugins take: executable, and no file's. 0
// where there is no /proc.
func codeBytes() (sum int64) {
	maps, _ := os.ReadFile("/proc/self/maps")
	for line := range strings.Lines(string(maps)) {
		var from, to int64
		if n, _ := fmt.Sscanf(line, "%x-%x r-xp 00000000 00:00 0", &from, &to); n == 2 && !strings.Contains(line, "[") && strings.Contains(line, "r-xp 00000000 00:00 0") {
			sum += to - from
		}
	}
	return sum
}

func TestAFileThatIsStillBeingWrittenIsNotRead(t *testing.T) {
	path := filepath.Join(t.TempDir(), "own.wasm")
	write := func(size int) {
		t.Helper()
		if err := os.WriteFile(path, make([]byte, size), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want := func(w *watched, changed, unsettled bool, when string) {
		t.Helper()
		if c, u := w.look(false); c != changed || u != unsettled {
			t.Errorf("%s: changed %v, unsettled %v; want %v, %v", when, c, u, changed, unsettled)
		}
	}
	write(1)
	w := watchedAsNow(path)
	want(&w, false, false, "as it was")
	write(2)
	want(&w, false, true, "just written")
	write(3)
	want(&w, false, true, "written further")
	want(&w, true, false, "the same twice")
	want(&w, false, false, "acted upon")
	write(4)
	if changed, unsettled := w.look(true); !changed || unsettled {
		t.Errorf("at once: changed %v, unsettled %v", changed, unsettled)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	want(&w, false, true, "just removed")
	want(&w, true, false, "removed")
	want(&w, false, false, "acted upon")
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
	b.log.until(t, "is refused; the one in force stays", "plugins.own.sha256", digestOf(next))
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
	b.log.until(t, "the configuration changed and is refused", "nobody")
	serves("v1")

	b.log.forget() // of one with other changes what needs a restart is left
	b.writeConfig(url, "{path: next.wasm}", "log: {format: json}\n")
	b.log.until(t, "a plugin was replaced")
	b.log.until(t, "needs a restart", "log.format")
	serves("v2")
}

func TestSIGHUPLooksAtOnce(t *testing.T) {
	_, url := target(t)
	b := startSwapping(t, pluginVersion{name: "v0"}, url, func(_ *swapBench, o *Options) { o.LookEvery = time.Hour })
	b.replace("next.wasm", pluginVersion{name: "v1"}.module())
	b.writeConfig(url, "{path: next.wasm}", "log: {format: json}\n")
	b.hangup <- os.Interrupt // whichever: it is the channel that counts
	b.log.until(t, "a plugin was replaced")
	b.log.until(t, "needs a restart", "log.format")
	b.log.forget()
	b.replace("next.wasm", pluginVersion{name: "v2"}.module())
	b.hangup <- os.Interrupt
	b.log.until(t, "a plugin was replaced")
}
