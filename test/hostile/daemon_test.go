package hostile

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/pawlsync/pawl/engine/record"
	"github.com/pawlsync/pawl/engine/sink"
	"github.com/pawlsync/pawl/engine/wasmhost"
	"github.com/pawlsync/pawl/internal/api"
	"github.com/pawlsync/pawl/internal/client"
)

// configuration of a daemon for all trials: how much each may use is as in the
// trials themselves.
const configuration = `server: {listen: "127.0.0.1:0", shutdown_grace: 60s}
store: {path: %q, reserve_bytes: 64MiB}
wasm: {cache_dir: %q, compile_cpu: 2s, compile_memory_bytes: 512MiB, compile_timeout: 1m}
log: {level: info, format: json}
upstreams:
  target: {base_url: %q}
defaults:
  upstreams: [target]
  drift_interval: 0s
  retry: {base: 200ms, max: 200ms, max_attempts: 1000}
  breaker: {after: 1000}
  limits: {memory_max_bytes: 16MiB, instances_max: 4, start_timeout: 2s, message_max_bytes: 4MiB}
`

// daemonMemoryMost bounds the daemon's resident memory over the whole list: what
// it has by itself, the largest module three times (as it is read, checked and
// rewritten), and one hostile sink after the other.
const daemonMemoryMost = 768 << 20

// One daemon, and all trials in it, one after the other: those that load as sinks
// of their own, and those that must be refused in the place of a plugin that
// works, whose file they replace.
func TestTheDaemonOutlivesAllOfThem(t *testing.T) {
	if testing.Short() {
		t.Skip("takes minutes")
	}
	target := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-time.After(targetLatency) }))
	defer target.Close()
	dir := t.TempDir()
	write := func(name string, wasm []byte) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name+".wasm"), wasm, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	plugins, sinks := "plugins:\n", "sinks:\n"
	declare := func(name string, wasm []byte, within wasmhost.Limits) {
		write(name, wasm)
		plugins += fmt.Sprintf("  %s: {path: %s.wasm}\n", name, name)
		sinks += fmt.Sprintf("  %s: {plugin: %s, upstreams: [target], timeout: %v, limits: {entry_cpu: %v}}\n", name, name, within.CallTimeout, within.EntryCPU)
	}
	declare(goodSink, goodModule(), trialLimits)
	declare("swapped", goodModule(), trialLimits)
	var running, refused []trial
	for _, c := range trials() {
		if c.refused != nil {
			write(fmt.Sprintf("refused-%d", len(refused)), c.module())
			refused = append(refused, c)
			continue
		}
		c.name = fmt.Sprintf("bad-%d", len(running))
		running = append(running, c)
		declare(c.name, c.module(), c.within())
	}
	text := fmt.Sprintf(strings.Replace(configuration, "  upstreams: [target]\n", "", 1), filepath.Join(dir, "store"), filepath.Join(dir, "cache"), target.URL)
	d := startDaemon(t, dir, text+plugins+sinks)

	n := newNeighbour(nil)
	n.put = func(key string) error {
		k := record.Key{Sink: goodSink, Name: key}
		put := api.PutRequest{Payload: json.RawMessage(`{"a":1}`)}
		res, err := d.Put(t.Context(), k, put)
		if errors.Is(err, client.ErrUnreachable) { // the connection was closed for being idle as it was taken
			res, err = d.Put(t.Context(), k, put)
		}
		if err != nil {
			return err
		}
		if _, err = d.Wait(t.Context(), k, res.Generation); err == nil {
			n.acked(key, time.Now())
		}
		return err
	}
	measure := func(meanwhile func()) phase {
		t.Helper()
		p, err := n.during(meanwhile)
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	twin := theTwin(t)
	quiet := func() { <-time.After(time.Second) }
	// The rate is what is judged here. How long things take is judged trial by
	// trial in TestHostile: over HTTP and a disk it says as much of the machine.
	judge := func(what string, before phase, do func()) {
		t.Helper()
		r := round{before: before, attacked: measure(do)}
		r.twin = twin.between(t, r.attacked.from, r.attacked.to)
		t.Logf("%s: the neighbour: %v", what, r)
		if r.telling() && r.attacked.rate < rateAtLeast*r.before.rate {
			t.Errorf("%s: the neighbour did not keep its rate: %v", what, r)
		}
		d.alive()
	}
	judge(fmt.Sprintf("%d sinks", len(running)), measure(quiet), func() {
		for _, c := range running {
			c.inDaemon(t, d)
		}
	})
	judge(fmt.Sprintf("%d modules refused", len(refused)), measure(quiet), func() {
		for i, c := range refused {
			if err := os.Rename(filepath.Join(dir, fmt.Sprintf("refused-%d.wasm", i)), filepath.Join(dir, "swapped.wasm")); err != nil {
				t.Fatal(err)
			}
			if err := d.cmd.Process.Signal(syscall.SIGHUP); err != nil {
				t.Fatal(err)
			}
			eventually(t, c.name+" is refused", func() bool {
				d.alive()
				return d.metric(`pawl_plugin_swaps_total{plugin="swapped",result="refused"}`) >= float64(i+1)
			})
		}
	})
	// The plugin whose file they replaced still works.
	key := record.Key{Sink: "swapped", Name: "k"}
	if _, err := d.Put(t.Context(), key, api.PutRequest{Payload: json.RawMessage(`1`)}); err != nil {
		t.Fatal(err)
	}
	if res, err := d.Wait(t.Context(), key, 0); err != nil || res.Phase != record.AckedPhase {
		t.Errorf("the plugin that they would have replaced: %+v, %v", res, err)
	}
	peak := d.peakBytes()
	t.Logf("the daemon had at most %d MiB", peak>>20)
	if peak > daemonMemoryMost {
		t.Errorf("the daemon had %d MiB, more than %d", peak>>20, daemonMemoryMost>>20)
	}
	if strings.Contains(d.log.String(), payloadSecret) {
		t.Error("the log holds payload")
	}
}

// inDaemon puts work on the trial's sink until it is seen how it ends, then holds
// the sink.
func (c *trial) inDaemon(t *testing.T, d *daemon) {
	t.Helper()
	for i := range attackers {
		key := record.Key{Sink: c.name, Name: fmt.Sprintf(victimName, i)}
		payload := json.RawMessage(fmt.Sprintf("%q", payloadSecret))
		if _, err := d.Put(t.Context(), key, api.PutRequest{Payload: payload}); err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
	}
	key := record.Key{Sink: c.name, Name: fmt.Sprintf(victimName, 0)}
	var last api.Status
	eventually(t, fmt.Sprintf("%s ends as %s%s %q", c.name, c.fault, c.status, c.says), func() bool {
		d.alive()
		res, err := d.Get(t.Context(), key, client.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		last = res.Status
		if c.status == sink.OK {
			return last.Phase == record.AckedPhase
		}
		said := strings.Contains(last.Message, c.says)
		if c.fault != "" {
			said = said && strings.Contains(last.Message, fmt.Sprintf("plugin %q, sink %q, key %q: %s fault", c.name, c.name, key.Name, c.fault))
		}
		return said
	})
	if t.Failed() {
		t.Fatalf("%s: its status is %+v", c.name, last)
	}
	if c.fault != "" && d.metric(fmt.Sprintf("pawl_plugin_faults_total{kind=%q,plugin=%q,sink=%q}", c.fault, badPlugin, c.name)) == 0 &&
		d.metric(fmt.Sprintf("pawl_plugin_faults_total{kind=%q,plugin=%q,sink=%q}", c.fault, c.name, c.name)) == 0 {
		t.Errorf("%s: no fault of kind %s is counted", c.name, c.fault)
	}
	if err := d.SuspendSink(t.Context(), c.name); err != nil {
		t.Error(err)
	}
}
