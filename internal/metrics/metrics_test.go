package metrics

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/pawlsync/pawl/engine"
	"github.com/pawlsync/pawl/engine/outbox"
	"github.com/pawlsync/pawl/engine/record"
	"github.com/pawlsync/pawl/engine/saga"
	"github.com/pawlsync/pawl/engine/schedule"
	"github.com/pawlsync/pawl/engine/sink"
	"github.com/pawlsync/pawl/engine/wasmhost"
	"github.com/pawlsync/pawl/internal/access"
	"github.com/pawlsync/pawl/internal/api"
	"github.com/pawlsync/pawl/internal/source"
)

var update = flag.Bool("update", false, "write docs/metrics.md anew")

type figures struct {
	sinks []engine.SinkStatus
	stats engine.Stats
}

func (f *figures) Sinks() []engine.SinkStatus { return f.sinks }
func (f *figures) Stats() engine.Stats        { return f.stats }

func noSagas() saga.Stats { return saga.Stats{} }

var noon = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

// busy returns a gatherer that has seen something of everything.
func busy(t *testing.T) *Gatherer {
	t.Helper()
	reg := prometheus.NewPedanticRegistry()
	o := New(reg)
	key := record.Key{Sink: "web", Name: "a/secret/key"}
	o.PutDone("web", "accepted", true, 3*time.Millisecond)
	o.PutDone("web", "invalid", false, time.Millisecond)
	o.CallDone(key, "apply", sink.OK, time.Second)
	o.DeliveryDone(key, engine.Outcomes()[0], time.Second)
	o.AckDone(key, time.Minute)
	o.BreakerMoved("web", true)
	o.SwapDone("http", "refused")
	o.ReloadDone("refused", 2)
	o.CommitDone(12, 3, time.Millisecond, nil)
	o.CommitDone(1, 1, time.Millisecond, errors.New("disk"))
	o.SagaKnown(saga.Pessimistic, saga.Committed, 3*time.Second)
	o.SagaKnown(saga.Optimistic, saga.RolledBack, time.Second)
	o.SagaUndo("web")
	o.CompareDone("web", 10, 2, 1)
	o.RelayDone("edge-1", "done", 3)
	o.RelayCompared("edge-1", 2)
	o.SpansSent("exported", 3)
	f := &figures{
		sinks: []engine.SinkStatus{{
			Name: "web", Configured: true, Counts: map[record.Phase]int{record.Pending: 4}, InFlight: 2, Waiting: [3]int{1, 2, 3},
			Breaker: schedule.BreakerOpen, OldestUnacked: noon.Add(-time.Minute), PausedUntil: noon.Add(time.Second), Suspended: true,
		}},
		stats: engine.Stats{Store: outbox.Stats{Commits: 9, FreeBytes: 5, GarbageBytes: 6, BackedUpAt: time.Unix(7, 0)}},
	}
	plugins := Plugins{
		Host: wasmhost.HostStats{Compiled: 1, Cached: 2, Refused: 3, CompileTime: 1500 * time.Millisecond, MemoryBytes: 4},
		Sinks: []PluginStats{{"web", "http", wasmhost.Stats{
			Instances: 1, InFlight: 2, CPU: 2500 * time.Millisecond, Throttled: time.Second, IOs: 7, LinesLost: 8, Waiting: 1, HeldBytes: 2,
			Faults:  map[wasmhost.FaultKind]int64{wasmhost.FaultBudget: 3, wasmhost.FaultTrap: 0},
			Limited: map[wasmhost.Limit]int64{wasmhost.LimitSinkIOs: 5},
		}}},
	}
	o.SourceChanged("files", "delete", "held", 3)
	held := []source.Status{
		{Name: "edges", Senders: true, Up: true}, {Name: "edge-1", Group: "edges", Up: true, ContactAt: noon}, {Name: "files", Up: true, Resources: 12, Held: 3, Kept: 1, FullAt: noon.Add(500 * time.Millisecond)},
	}
	g := NewGatherer(reg, f, func() saga.Stats { return saga.Stats{Running: 4, Unresolved: 2} }, func() []source.Status { return held }, func() Plugins { return plugins }, api.Version{Version: "1.0", Go: "go1.26"})
	g.now = func() time.Time { return noon }
	reg.MustRegister(NewCertificateCollector(func() access.CertificateStatus {
		return access.CertificateStatus{NotAfter: noon, ClientsEnd: noon.Add(time.Hour), Problem: "half-written", Read: map[string]int{"read": 2, "refused": 1}}
	}))
	o.Denied(access.DeniedScope)
	o.Throttled(access.KindPeer, access.LimitWatches)
	reg.MustRegister(NewTokensCollector(func() error { return errors.New("line 2") }))
	return g
}

func TestReferenceIsFresh(t *testing.T) {
	const path = "../../docs/metrics.md"
	if *update {
		if err := os.WriteFile(path, []byte(Reference()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if got, _ := os.ReadFile(path); string(got) != Reference() {
		t.Error("docs/metrics.md is stale; write it anew with: go test ./internal/metrics -run Fresh -update")
	}
}

func TestEveryMetricOfTheReferenceIsShownAndNoOther(t *testing.T) {
	families, err := busy(t).Gather()
	if err != nil {
		t.Fatal(err)
	}
	var got, want []string
	for _, f := range families {
		if strings.HasPrefix(f.GetName(), "pawl_") {
			got = append(got, fmt.Sprintf("%s %s", f.GetName(), strings.ToLower(f.GetType().String())))
		}
	}
	for _, m := range slices.Concat(reported(), scraped(), ofTLS(), ofAccess()) {
		want = append(want, m.name+" "+m.kind)
	}
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("shown:\n%s\nin the reference:\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestNamesUnitsAndHelpFollowPrometheusRules(t *testing.T) {
	problems, err := testutil.GatherAndLint(busy(t))
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		if strings.HasPrefix(p.Metric, "pawl_") {
			t.Errorf("%s: %s", p.Metric, p.Text)
		}
	}
}

func TestNoLabelHoldsAKey(t *testing.T) {
	families, err := busy(t).Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if strings.Contains(f.String(), "secret") {
			t.Errorf("%s shows a key", f.GetName())
		}
	}
}

func TestNamesThatAreNoSinksMakeNoSeries(t *testing.T) {
	reg := prometheus.NewRegistry()
	o := New(reg)
	for i := range 1000 {
		o.PutDone(fmt.Sprintf("guess-%d", i), "invalid", false, 0)
	}
	o.PutDone("web", "accepted", false, 0)
	o.PutDone("web", "invalid", false, 0)
	want := `# HELP pawl_puts_total ` + strings.ReplaceAll(puts.help, `"`, `"`) + `
# TYPE pawl_puts_total counter
pawl_puts_total{outcome="accepted",sink="web"} 1
pawl_puts_total{outcome="invalid",sink="other"} 1000
pawl_puts_total{outcome="invalid",sink="web"} 1
`
	if err := testutil.GatherAndCompare(reg, strings.NewReader(want), "pawl_puts_total"); err != nil {
		t.Error(err)
	}
}

func TestAScrapeShowsWhatTheEngineSays(t *testing.T) {
	g := busy(t)
	for _, c := range []struct{ name, lines string }{
		{"pawl_breaker_state", `pawl_breaker_state{sink="web",state="closed"} 0
pawl_breaker_state{sink="web",state="half-open"} 0
pawl_breaker_state{sink="web",state="open"} 1`},
		{"pawl_oldest_unacked_age_seconds", `pawl_oldest_unacked_age_seconds{sink="web"} 60`},
		{"pawl_sink_pause_remaining_seconds", `pawl_sink_pause_remaining_seconds{sink="web"} 1`},
		{"pawl_waiting_resources", `pawl_waiting_resources{class="check",sink="web"} 3
pawl_waiting_resources{class="fresh",sink="web"} 1
pawl_waiting_resources{class="retry",sink="web"} 2`},
		{"pawl_plugin_faults_total", `pawl_plugin_faults_total{kind="budget",plugin="http",sink="web"} 3
pawl_plugin_faults_total{kind="trap",plugin="http",sink="web"} 0`},
		{"pawl_plugin_cpu_seconds_total", `pawl_plugin_cpu_seconds_total{plugin="http",sink="web"} 2.5`},
		{"pawl_plugin_throttled_seconds_total", `pawl_plugin_throttled_seconds_total{plugin="http",sink="web"} 1`},
		{"pawl_plugin_ios_in_flight", `pawl_plugin_ios_in_flight{plugin="http",sink="web"} 7`},
		{"pawl_plugin_log_lines_dropped_total", `pawl_plugin_log_lines_dropped_total{plugin="http",sink="web"} 8`},
		{"pawl_plugin_limited_total", `pawl_plugin_limited_total{limit="ios_max",plugin="http",sink="web"} 5`},
		{"pawl_plugin_compilations_total", `pawl_plugin_compilations_total{result="cached"} 2
pawl_plugin_compilations_total{result="compiled"} 1
pawl_plugin_compilations_total{result="refused"} 3`},
		{"pawl_plugin_compile_seconds_total", `pawl_plugin_compile_seconds_total 1.5`},
		{"pawl_sagas_total", `pawl_sagas_total{mode="optimistic",outcome="RolledBack"} 1
pawl_sagas_total{mode="pessimistic",outcome="Committed"} 1`},
		{"pawl_saga_undo_total", `pawl_saga_undo_total{sink="web"} 1`},
		{"pawl_source_changes_total", `pawl_source_changes_total{kind="delete",result="held",source="files"} 3`},
		{"pawl_source_held", `pawl_source_held{source="edge-1"} 0
pawl_source_held{source="files"} 3`},
		{"pawl_source_up", `pawl_source_up{source="edge-1"} 1
pawl_source_up{source="files"} 1`},
		{"pawl_source_resources", `pawl_source_resources{source="edge-1"} 0
pawl_source_resources{source="files"} 12`},
		{"pawl_source_kept", `pawl_source_kept{source="edge-1"} 0
pawl_source_kept{source="files"} 1`},
		{"pawl_source_contact_timestamp_seconds", fmt.Sprintf("pawl_source_contact_timestamp_seconds{source=\"edge-1\"} %v", float64(noon.Unix()))},
		{"pawl_source_full_timestamp_seconds", fmt.Sprintf("pawl_source_full_timestamp_seconds{source=\"edge-1\"} 0\npawl_source_full_timestamp_seconds{source=\"files\"} %v", float64(noon.UnixMilli()+500)/1000)},
		{"pawl_sagas_running", `pawl_sagas_running 4`},
		{"pawl_tls_certificate_expiry_timestamp_seconds", fmt.Sprintf("pawl_tls_certificate_expiry_timestamp_seconds{certificate=\"client_ca\"} %v\npawl_tls_certificate_expiry_timestamp_seconds{certificate=\"server\"} %v", float64(noon.Unix()+3600), float64(noon.Unix()))},
		{"pawl_tls_certificate_refused", `pawl_tls_certificate_refused 1`},
		{"pawl_tls_certificate_replacements_total", `pawl_tls_certificate_replacements_total{result="read"} 2
pawl_tls_certificate_replacements_total{result="refused"} 1`},
		{"pawl_sagas_unresolved", `pawl_sagas_unresolved 2`},
		{"pawl_store_commit_failures_total", `pawl_store_commit_failures_total 1`},
		{"pawl_puts_coalesced_total", `pawl_puts_coalesced_total{sink="web"} 1`},
	} {
		m := find(t, c.name)
		want := fmt.Sprintf("# HELP %s %s\n# TYPE %s %s\n%s\n", m.name, m.help, m.name, m.kind, c.lines)
		if err := testutil.GatherAndCompare(g, strings.NewReader(want), c.name); err != nil {
			t.Error(err)
		}
	}
}

// A thousand sinks have few series each; and one that is 0 again tells so.
func TestWhatASinkNeverHadIsLeftOutAndWhatItHadStaysAtZero(t *testing.T) {
	f := &figures{sinks: []engine.SinkStatus{{Name: "web", Counts: map[record.Phase]int{record.Pending: 4}, InFlight: 2, Waiting: [3]int{1, 0, 0}}}}
	plugins := Plugins{Sinks: []PluginStats{{"web", "http", wasmhost.Stats{HeldBytes: 5}}}}
	g := NewGatherer(prometheus.NewRegistry(), f, noSagas, nil, func() Plugins { return plugins }, api.Version{})
	says := func(lines ...string) {
		t.Helper()
		var want strings.Builder
		for _, name := range []string{"pawl_plugin_held_bytes", "pawl_resources", "pawl_waiting_resources"} {
			m, head := find(t, name), false
			for _, line := range lines {
				if strings.HasPrefix(line, name+"{") {
					if !head {
						fmt.Fprintf(&want, "# HELP %s %s\n# TYPE %s gauge\n", m.name, m.help, m.name)
					}
					head = true
					want.WriteString(line + "\n")
				}
			}
		}
		if err := testutil.GatherAndCompare(g, strings.NewReader(want.String()), "pawl_plugin_held_bytes", "pawl_resources", "pawl_waiting_resources"); err != nil {
			t.Error(err)
		}
	}
	says(`pawl_plugin_held_bytes{plugin="http",sink="web"} 5`, `pawl_resources{phase="Pending",sink="web"} 4`, `pawl_waiting_resources{class="fresh",sink="web"} 1`)
	f.sinks[0].Counts = map[record.Phase]int{record.AckedPhase: 4}
	f.sinks[0].Waiting = [3]int{}
	plugins.Sinks[0].Plugin, plugins.Sinks[0].HeldBytes = "http2", 6
	says(`pawl_plugin_held_bytes{plugin="http2",sink="web"} 6`, `pawl_resources{phase="Acked",sink="web"} 4`, `pawl_resources{phase="Pending",sink="web"} 0`, `pawl_waiting_resources{class="fresh",sink="web"} 0`)
	f.sinks, plugins.Sinks = nil, nil
	says()
	for name, f := range g.book.families {
		if slices.Contains(f.labels, "sink") && len(f.series)+len(f.order) > 0 {
			t.Errorf("of sinks that are gone %s remembers %v", name, f.series)
		}
	}
}

func find(t *testing.T, name string) metric {
	t.Helper()
	for _, m := range slices.Concat(reported(), scraped(), ofTLS(), ofAccess()) {
		if m.name == name {
			return m
		}
	}
	t.Fatalf("no metric %s", name)
	return metric{}
}

func TestDurationsHaveNativeAndClassicBuckets(t *testing.T) {
	families, err := busy(t).Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() != "pawl_put_duration_seconds" {
			continue
		}
		h := f.GetMetric()[0].GetHistogram()
		if h.Schema == nil || len(h.GetPositiveSpan()) == 0 || len(h.GetBucket()) == 0 {
			t.Errorf("got %v", h)
		}
	}
}

func TestWhatTheStoreDoesNotKnowIsAbsent(t *testing.T) {
	g := NewGatherer(prometheus.NewRegistry(), &figures{stats: engine.Stats{Store: outbox.Stats{FreeBytes: -1, GarbageBytes: -1}}}, noSagas, nil, nil, api.Version{})
	if n, err := testutil.GatherAndCount(g, "pawl_store_free_bytes", "pawl_store_garbage_bytes"); n != 0 || err != nil {
		t.Errorf("%d series, %v", n, err)
	}
}
