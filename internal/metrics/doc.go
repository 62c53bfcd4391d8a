package metrics

import (
	"fmt"
	"slices"
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
buckets for a Prometheus that scrapes them, and classic ones for all others. Those of a sink have few, as sinks may be
many. Gauges of a sink that say how many, or that something is so, are there from the first time that they are not 0.

`)
	b.WriteString("## Counted as it happens\n\n")
	rows(&b, reported())
	b.WriteString("\n## Read at each scrape\n\n")
	rows(&b, slices.Concat(scraped(), ofTLS(), ofAccess()))
	b.WriteString("\n## Outcomes of a delivery\n\n")
	for _, o := range engine.Outcomes() {
		fmt.Fprintf(&b, "- `%s`\n", o)
	}
	b.WriteString(`
## Worth an alert

[monitoring.md](monitoring.md) tells what is worth one, and what to do about it. The rules themselves are in
deploy/prometheus/pawl.rules.yaml.
`)
	return b.String()
}

// Names are those of all metrics of the reference.
func Names() []string {
	var out []string
	for _, m := range slices.Concat(reported(), scraped(), ofTLS(), ofAccess()) {
		out = append(out, m.name)
	}
	return out
}

func rows(b *strings.Builder, metrics []metric) {
	b.WriteString("| name | type | labels | what |\n|---|---|---|---|\n")
	for _, m := range metrics {
		labels := strings.Join(m.labels, ", ")
		fmt.Fprintf(b, "| `%s` | %s | %s | %s |\n", m.name, m.kind, labels, m.help)
	}
}
