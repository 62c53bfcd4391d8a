package metrics

import (
	"slices"
	"strings"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
)

// A thousand sinks have tens of thousands of series, so that what one costs at each
// scrape counts: labels are made once, and what never was anything but 0 is left out.

// series is one that was something once. It does not vanish when it is 0 again.
type series struct {
	labels []*dto.LabelPair // shared by all scrapes; nobody writes them
}

// seriesKey is what tells the series of a sink apart.
type seriesKey struct {
	metric string
	labels [2]string // but the sink's
}

// book keeps the series of each sink.
type book struct {
	mu    sync.Mutex
	sinks map[string]map[seriesKey]*series
}

// of returns what is known of a sink's series. The book's lock is held.
func (b *book) of(sink string) map[seriesKey]*series {
	if b.sinks[sink] == nil {
		b.sinks[sink] = map[seriesKey]*series{}
	}
	return b.sinks[sink]
}

// keep forgets all sinks but these.
func (b *book) keep(sinks map[string]bool) {
	for name := range b.sinks {
		if !sinks[name] {
			delete(b.sinks, name)
		}
	}
}

// labelsOf are the label pairs of values for m, in the order that the registry wants.
func labelsOf(m metric, values []string) []*dto.LabelPair {
	pairs := make([]*dto.LabelPair, len(values))
	for i, v := range values {
		pairs[i] = &dto.LabelPair{Name: &m.labels[i], Value: &v}
	}
	slices.SortFunc(pairs, func(a, b *dto.LabelPair) int { return strings.Compare(a.GetName(), b.GetName()) })
	return pairs
}

// sample is a value with labels that were made before. It implements prometheus.Metric.
type sample struct {
	desc    *prometheus.Desc
	labels  []*dto.LabelPair
	value   float64
	gauge   dto.Gauge
	counter dto.Counter
	counts  bool
}

func newSample(desc *prometheus.Desc, m metric, labels []*dto.LabelPair, value float64) *sample {
	return &sample{desc: desc, labels: labels, value: value, counts: m.kind == counter}
}

func (s *sample) Desc() *prometheus.Desc { return s.desc }

func (s *sample) Write(out *dto.Metric) error {
	out.Label = s.labels
	if s.counts {
		s.counter.Value = &s.value
		out.Counter = &s.counter
	} else {
		s.gauge.Value = &s.value
		out.Gauge = &s.gauge
	}
	return nil
}
