package metrics

import (
	"fmt"
	"strings"

	"github.com/pawlsync/pawl/engine"
)

// Reference is docs/metrics.md.
func Reference() string {
	var b strings.Builder
	b.WriteString(`# Metrics

<!-- Generated from internal/metrics; write it anew with: go test ./internal/metrics -run Reference -update -->

The daemon shows these at /metrics, beside those of the Go runtime (go_…) and of the process (process_…).
No label holds a key, so that the number of series does not grow with the resources. Histograms have native
buckets for a Prometheus that scrapes them, and classic ones for all others.

`)
	b.WriteString("## Counted as it happens\n\n")
	rows(&b, reported())
	b.WriteString("\n## Read at each scrape\n\n")
	rows(&b, scraped())
	b.WriteString("\n## Outcomes of a delivery\n\n")
	for _, o := range engine.Outcomes() {
		fmt.Fprintf(&b, "- `%s`\n", o)
	}
	b.WriteString(`
## Worth an alert

| alert | when |
|---|---|
| a target is behind, whatever the cause: also one that refuses us and has too few resources to open the breaker | ` + "`pawl_oldest_unacked_age_seconds > 600`" + ` |
| a target does not answer | ` + "`pawl_breaker_state{state=\"closed\"} == 0`" + ` for 5 minutes |
| resources need somebody | ` + "`pawl_resources{phase=~\"Failed\\|Stalled\"} > 0`" + ` for 15 minutes |
| the disk is nearly full | ` + "`pawl_store_refusing_puts == 1`" + `, and sooner ` + "`pawl_store_free_bytes < 2 * pawl_store_reserve_bytes`" + ` |
| a saga is unresolved: two targets may differ, and its resources are held | ` + "`pawl_sagas_unresolved > 0`" + ` for 5 minutes |
| a sink could not begin, because its target did not answer when its plugin was configured | ` + "`pawl_sink_ready == 0`" + ` for 5 minutes |
| a new plugin is refused, and the old one goes on | ` + "`increase(pawl_plugin_swaps_total{result=\"refused\"}[1h]) > 0`" + ` |
| a plugin is broken | ` + "`rate(pawl_plugin_faults_total[10m]) > 0`" + ` |

As a rule of Prometheus, for the one that must not be missed; the others are written the same way:

` + "```yaml" + `
groups:
  - name: pawl
    rules:
      - alert: PawlSagaUnresolved
        expr: pawl_sagas_unresolved > 0
        for: 5m
        labels: {severity: critical}
        annotations:
          summary: "{{ $value }} sagas of {{ $labels.instance }} are unresolved"
          description: "pawl saga list --open names them, pawl saga explain ID says what each waits for. See docs/sagas.md."
` + "```" + `
`)
	return b.String()
}

func rows(b *strings.Builder, metrics []metric) {
	b.WriteString("| name | type | labels | what |\n|---|---|---|---|\n")
	for _, m := range metrics {
		labels := strings.Join(m.labels, ", ")
		fmt.Fprintf(b, "| `%s` | %s | %s | %s |\n", m.name, m.kind, labels, m.help)
	}
}
