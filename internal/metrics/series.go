package metrics

import (
	"cmp"
	"slices"
	"strings"
	"sync"

	dto "github.com/prometheus/client_model/go"
)

// A thousand sinks have tens of thousands of series, so that what one costs at each
// scrape counts. Labels are made, and series brought into their order, once; what never
// was anything but 0 is left out; and nothing of this goes through a prometheus.Registry,
// which would check and sort each series at each scrape.

// seriesKey is what tells the series of a metric apart: its labels, in the order of
// metric.labels.
type seriesKey [3]string

// series is one that was told in the newest scrape.
type series struct {
	labels []*dto.LabelPair // by name; shared by all scrapes, nobody writes them
	value  float64
	scrape uint64 // the newest that it was told in
}

// family is a metric with its series.
type family struct {
	metric
	kind   dto.MetricType
	series map[seriesKey]*series
	order  []*series // all of them, by their labels' values; where fresh: the newest at the end
	fresh  bool
}

// book keeps the series of all metrics from scrape to scrape.
type book struct {
	mu       sync.Mutex
	scrape   uint64
	families map[string]*family // by metric's name
}

func newBook(metrics []metric) *book {
	b := &book{families: make(map[string]*family, len(metrics))}
	for _, m := range metrics {
		f := &family{metric: m, kind: dto.MetricType_GAUGE, series: map[seriesKey]*series{}}
		if m.kind == counter {
			f.kind = dto.MetricType_COUNTER
		}
		b.families[m.name] = f
	}
	return b
}

// gather has tell tell everything, and returns it. What is not told any more is forgotten.
func (b *book) gather(tell func(emitter)) []*dto.MetricFamily {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.scrape++
	tell(emitter{b})
	out := make([]*dto.MetricFamily, 0, len(b.families))
	for _, f := range b.families {
		f.forget(b.scrape)
		if len(f.order) > 0 {
			out = append(out, f.gather())
		}
	}
	return out
}

// forget drops the series that were not told in this scrape.
func (f *family) forget(scrape uint64) {
	stale := func(s *series) bool { return s.scrape != scrape }
	if !slices.ContainsFunc(f.order, stale) {
		return
	}
	f.order = slices.DeleteFunc(f.order, stale)
	for key, s := range f.series {
		if stale(s) {
			delete(f.series, key)
		}
	}
}

// gather copies the values, so that the next scrape may change them.
func (f *family) gather() *dto.MetricFamily {
	if f.fresh {
		slices.SortFunc(f.order, byLabels)
		f.fresh = false
	}
	n := len(f.order)
	values, metrics, out := make([]float64, n), make([]dto.Metric, n), make([]*dto.Metric, n)
	for i, s := range f.order {
		values[i], metrics[i].Label, out[i] = s.value, s.labels, &metrics[i]
	}
	if f.kind == dto.MetricType_COUNTER {
		counters := make([]dto.Counter, n)
		for i := range counters {
			counters[i].Value, metrics[i].Counter = &values[i], &counters[i]
		}
	} else {
		gauges := make([]dto.Gauge, n)
		for i := range gauges {
			gauges[i].Value, metrics[i].Gauge = &values[i], &gauges[i]
		}
	}
	return &dto.MetricFamily{Name: &f.name, Help: &f.help, Type: &f.kind, Metric: out}
}

// byLabels is the order in which a registry shows a metric's series.
func byLabels(a, b *series) int {
	return slices.CompareFunc(a.labels, b.labels, func(a, b *dto.LabelPair) int { return strings.Compare(a.GetValue(), b.GetValue()) })
}

// labelsOf are the label pairs of values for m, by name.
func labelsOf(m *metric, values []string) []*dto.LabelPair {
	pairs := make([]*dto.LabelPair, len(m.labels))
	for i := range m.labels {
		pairs[i] = &dto.LabelPair{Name: &m.labels[i], Value: &values[i]}
	}
	slices.SortFunc(pairs, func(a, b *dto.LabelPair) int { return cmp.Compare(a.GetName(), b.GetName()) })
	return pairs
}

// emitter is told the values of one scrape. The book's lock is held.
type emitter struct{ *book }

// emit tells a value whatever it is.
func (e emitter) emit(m metric, value float64, labels ...string) {
	e.tell(m, value, true, labels)
}

// once tells a value from the first time on that it is not 0.
func (e emitter) once(m metric, value float64, labels ...string) {
	e.tell(m, value, false, labels)
}

func (e emitter) tell(m metric, value float64, always bool, labels []string) {
	f := e.families[m.name]
	var key seriesKey
	copy(key[:], labels)
	s := f.series[key]
	if s == nil {
		if value == 0 && !always {
			return
		}
		s = &series{labels: labelsOf(&f.metric, slices.Clone(labels))}
		f.series[key] = s
		f.order, f.fresh = append(f.order, s), true
	}
	s.value, s.scrape = value, e.scrape
}
