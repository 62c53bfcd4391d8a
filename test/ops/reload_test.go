package ops

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/pawlsync/pawl/engine/record"
	"github.com/pawlsync/pawl/internal/api"
	"github.com/pawlsync/pawl/test/ops/kit"
)

// TestSinksThatComeAndGoLeaveNothingBehind adds sinks by the hundred, delivers to each,
// and removes them, several times, while others put to a sink that stays.
func TestSinksThatComeAndGoLeaveNothingBehind(t *testing.T) {
	target := kit.NewTarget(t)
	// Connections to the target are kept for a while, two goroutines each: a busy machine
	// must not need many of them for the sink that stays.
	base := target.Config("    max_in_flight: 4\n")
	d := kit.New(t, base)
	d.Start()
	load := kit.StartLoad(d, 2, 50)
	load.Busy(100)
	n := kit.Many(250, 25) // a round, of which there are four and one to begin with
	var peak int64         // with the sinks of a round there, the first time
	round := func() {
		d.Config = base + manySinks(n)
		d.WriteConfig()
		d.Show("reload", "sinks that begin")
		for i := range n {
			key := record.Key{Sink: fmt.Sprintf("s%d", i), Name: "a"}
			put, err := d.Put(t.Context(), key, api.PutRequest{Payload: []byte(`1`)})
			kit.Must(t, err)
			if w, err := d.Wait(t.Context(), key, put.Generation); err != nil || !w.Done {
				t.Fatalf("%v: %+v, %v", key, w, err)
			}
			kit.Must(t, d.Forget(t.Context(), key))
		}
		if peak == 0 {
			peak = d.MemoryBytes()
		}
		d.Config = base
		d.WriteConfig()
		d.Show("reload", "sinks that end")
	}
	settled := func(most leftovers) (now leftovers) {
		kit.Eventually(t, "what served the sinks is closed", func(context.Context) error {
			if now = remains(d); now.series > 0 || now.goroutines > most.goroutines+20 || now.memory > most.memory {
				return fmt.Errorf("there is %+v, want at most %+v", now, most)
			}
			return nil
		})
		return now
	}
	start := remains(d)
	round()
	before := settled(leftovers{memory: 2 * peak, goroutines: start.goroutines})
	for range 4 {
		round()
	}
	after := settled(leftovers{memory: peak + peak/4, goroutines: before.goroutines})
	t.Logf("at the start %+v; after %d sinks %+v; after %d %+v", start, n, before, 5*n, after)
	for _, err := range load.End() {
		t.Error(err)
	}
	d.Show("status", "web")
}

// manySinks are sinks s0 and so on, as lines below those of kit.Target.Config.
func manySinks(n int) string {
	var out strings.Builder
	for i := range n {
		fmt.Fprintf(&out, "  s%d: {plugin: http, upstreams: [target], drift_interval: 0s, config: {path: \"/o/s%d-{key}\", headers: {X-Generation: \"{generation}\"}}}\n", i, i)
	}
	return out.String()
}

// leftovers are what a daemon could keep of sinks that are gone.
type leftovers struct {
	memory     int64
	goroutines int
	series     int // of the sinks that came and went
}

func remains(d *kit.Daemon) leftovers {
	series, all := 0, d.Metrics()
	for name := range all {
		if strings.Contains(name, `sink="s`) {
			series++
		}
	}
	return leftovers{memory: int64(all["process_resident_memory_bytes"]), goroutines: int(all["go_goroutines"]), series: series}
}

// TestAPluginIsUpgradedToABrokenOneAndBack replaces the file of a plugin under load, first
// by one that is no good, then by the right one; and the configuration the same way.
func TestAPluginIsUpgradedToABrokenOneAndBack(t *testing.T) {
	target := kit.NewTarget(t)
	good, err := os.ReadFile(filepath.Join(kit.Root(t), "internal/bundled/plugins/http.wasm"))
	kit.Must(t, err)
	config := strings.Replace(target.Config(""), "plugin: http", "plugin: mine", 1)
	d := kit.New(t, "plugins: {mine: {path: mine.wasm, trusted: true}}\n"+config)
	module := filepath.Join(d.Dir, "mine.wasm")
	replace := func(file string, content []byte) {
		t.Helper()
		kit.Must(t, os.WriteFile(file+".new", content, 0o600))
		kit.Must(t, os.Rename(file+".new", file))
	}
	replace(module, good)
	d.Start()
	load := kit.StartLoad(d, 2, 50)
	load.Busy(100)

	replace(module, good[:len(good)/2])
	d.Signal(syscall.SIGHUP)
	d.Reaches(`pawl_plugin_swaps_total{plugin="mine",result="refused"}`, 1)
	load.Busy(100)
	replace(module, append(good[:len(good):len(good)], 0, 1, 0)) // the same, with a section that means nothing
	d.Signal(syscall.SIGHUP)
	d.Reaches(`pawl_plugin_swaps_total{plugin="mine",result="swapped"}`, 1)
	load.Busy(100)

	right := d.Config
	d.Config = strings.Replace(right, "upstreams: [target]", "upstreams: [tarqet]", 1)
	d.WriteConfig()
	for _, command := range []string{"config diff", "reload"} {
		out, code := d.Run(strings.Fields(command)...)
		t.Logf("$ pawl %s\n%s", command, out)
		if code != 1 || !strings.Contains(out, "pawl.yaml:") || !strings.Contains(out, "tarqet") {
			t.Errorf("pawl %s: exit code %d, and it says:\n%s", command, code, out)
		}
	}
	d.Show("status", "the one before goes on", "tarqet")
	d.Reaches("pawl_config_refused", 1)
	load.Busy(100)
	d.Config = strings.Replace(right, "    drift_interval: 0s", "    drift_interval: 0s\n    max_in_flight: 9", 1)
	d.WriteConfig()
	if out, code := d.Run("config", "diff"); code != 2 || !strings.Contains(out, "~ sinks.web.max_in_flight: 64 -> 9") {
		t.Errorf("pawl config diff: exit code %d:\n%s", code, out)
	}
	d.Show("reload", "~ sinks.web.max_in_flight: 64 -> 9", "is in force")
	d.Reaches("pawl_config_refused", 0)
	load.Busy(100)
	for _, err := range load.End() {
		t.Error(err)
	}
	if out, code := d.Run("config", "diff"); code != 0 {
		t.Errorf("pawl config diff, when all is in force: exit code %d:\n%s", code, out)
	}
}
