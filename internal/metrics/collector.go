package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/pawlsync/pawl/engine"
	"github.com/pawlsync/pawl/engine/outbox"
	"github.com/pawlsync/pawl/engine/record"
	"github.com/pawlsync/pawl/engine/saga"
	"github.com/pawlsync/pawl/engine/schedule"
	"github.com/pawlsync/pawl/engine/wasmhost"
	"github.com/pawlsync/pawl/internal/api"
	"github.com/pawlsync/pawl/internal/source"
)

// Engine is what a Collector reads.
type Engine interface {
	Sinks() []engine.SinkStatus
	Stats() engine.Stats
}

// PluginStats are the figures of one sink's plugin.
type PluginStats struct {
	Sink, Plugin string
	wasmhost.Stats
}

// Plugins are the figures of all plugins and of what hosts them.
type Plugins struct {
	Host  wasmhost.HostStats
	Sinks []PluginStats
}

// Collector is a prometheus.Collector that reads an engine at each scrape.
type Collector struct {
	engine  Engine
	sagas   func() saga.Stats
	sources func() []source.Status
	plugins func() Plugins
	version api.Version
	now     func() time.Time
	descs   map[string]*prometheus.Desc // by metric's name
	book    book
}

// NewCollector returns a Collector. sources and plugins may be nil: there are none.
func NewCollector(e Engine, sagas func() saga.Stats, sources func() []source.Status, plugins func() Plugins, version api.Version) *Collector {
	c := &Collector{engine: e, sagas: sagas, sources: sources, plugins: plugins, version: version, now: time.Now, descs: map[string]*prometheus.Desc{},
		book: book{sinks: map[string]map[seriesKey]*series{}}}
	for _, m := range scraped() {
		c.descs[m.name] = m.desc()
	}
	return c
}

// Describe implements prometheus.Collector.
func (c *Collector) Describe(out chan<- *prometheus.Desc) {
	for _, m := range scraped() {
		out <- c.descs[m.name]
	}
}

// Collect implements prometheus.Collector.
func (c *Collector) Collect(out chan<- prometheus.Metric) {
	e := emitter{c, out}
	e.emit(buildInfo, 1, c.version.Version, c.version.Commit, c.version.Go)
	var plugins Plugins
	if c.plugins != nil {
		plugins = c.plugins()
		e.host(plugins.Host)
	}
	e.sinks(c.engine.Sinks(), plugins.Sinks, c.now())
	stats := c.engine.Stats()
	e.emit(stored, float64(stats.Resources))
	e.emit(scheduleBytes, float64(stats.ScheduleBytes))
	e.emit(watchers, float64(stats.Watchers))
	e.emit(waiters, float64(stats.Waiters))
	e.emit(storeRevision, float64(stats.Info.Revision))
	e.store(&stats.Store)
	sagas := c.sagas()
	e.emit(sagasRunning, float64(sagas.Running))
	e.emit(unresolved, float64(sagas.Unresolved))
	if c.sources != nil {
		e.sources(c.sources())
	}
}

func (e emitter) sources(list []source.Status) {
	for i := range list {
		s := &list[i]
		if s.Senders { // it owns nothing; they are in the list
			continue
		}
		e.emit(sourceUp, number(s.Up), s.Name)
		e.emit(sourceOwned, float64(s.Resources), s.Name)
		e.emit(sourceHeld, float64(s.Held), s.Name)
		e.emit(sourceKept, float64(s.Kept), s.Name)
		e.emit(sourceFullAt, seconds(s.FullAt), s.Name)
		if s.Group != "" { // the others don't wait to be told
			e.emit(sourceContact, seconds(s.ContactAt), s.Name)
		}
	}
}

// seconds is t in seconds since 1970, 0 for no time.
func seconds(t time.Time) float64 {
	if t.IsZero() {
		return 0
	}
	return float64(t.UnixMilli()) / 1000
}

func (e sinkEmitter) plugin(p *PluginStats) {
	e.always(instances, float64(p.Instances), p.Plugin)
	e.once(pluginInFlight, float64(p.InFlight), p.Plugin)
	e.always(pluginMemory, float64(p.MemoryBytes), p.Plugin)
	e.once(pluginWaiting, float64(p.Waiting), p.Plugin)
	e.once(pluginHeld, float64(p.HeldBytes), p.Plugin)
	e.once(pluginIOs, float64(p.IOs), p.Plugin)
	// Counters are there from the start: the first step of one that was not there is lost
	// to who asks how much it rose.
	e.always(pluginCPU, p.CPU.Seconds(), p.Plugin)
	e.always(pluginThrottle, p.Throttled.Seconds(), p.Plugin)
	e.always(pluginRestarts, float64(p.Restarts), p.Plugin)
	e.always(pluginRecycled, float64(p.Recycled), p.Plugin)
	e.always(pluginLinesOut, float64(p.LinesLost), p.Plugin)
	for kind, n := range p.Faults {
		e.always(pluginFaults, float64(n), p.Plugin, string(kind))
	}
	for limit, n := range p.Limited {
		e.always(pluginLimited, float64(n), p.Plugin, string(limit))
	}
}

func (e emitter) host(h wasmhost.HostStats) {
	e.emit(compilations, float64(h.Compiled), "compiled")
	e.emit(compilations, float64(h.Cached), "cached")
	e.emit(compilations, float64(h.Refused), "refused")
	e.emit(compileSeconds, h.CompileTime.Seconds())
	e.emit(memoryReserved, float64(h.MemoryBytes))
}

type emitter struct {
	c   *Collector
	out chan<- prometheus.Metric
}

func (e emitter) emit(m metric, value float64, labels ...string) {
	e.out <- prometheus.MustNewConstMetric(e.c.descs[m.name], m.valueType(), value, labels...)
}

// sinks tells of all sinks and their plugins, which have many series each.
func (e emitter) sinks(list []engine.SinkStatus, plugins []PluginStats, now time.Time) {
	b := &e.c.book
	b.mu.Lock()
	defer b.mu.Unlock()
	there := make(map[string]bool, len(list))
	of := func(name string) sinkEmitter {
		there[name] = true
		return sinkEmitter{e, name, b.of(name)}
	}
	for i := range list {
		of(list[i].Name).all(&list[i], now)
	}
	for i := range plugins {
		of(plugins[i].Sink).plugin(&plugins[i])
	}
	b.keep(there)
}

type sinkEmitter struct {
	emitter
	name   string
	series map[seriesKey]*series
}

func (e sinkEmitter) all(s *engine.SinkStatus, now time.Time) {
	for _, phase := range record.Phases() {
		e.once(resources, float64(s.Counts[phase]), string(phase))
	}
	for class, name := range []string{"fresh", "retry", "check"} {
		e.once(due, float64(s.Waiting[class]), name)
	}
	for _, state := range []schedule.BreakerState{schedule.BreakerClosed, schedule.BreakerOpen, schedule.BreakerHalfOpen} {
		e.always(breakerState, number(s.Breaker == state), state.String()) // an alert asks for what is not
	}
	e.always(oldestUnacked, since(s.OldestUnacked, now))
	e.always(inFlight, float64(s.InFlight))
	e.once(suspended, number(s.Suspended))
	e.always(sinkReady, number(s.NotReady == ""))
	e.always(configured, number(s.Configured))
	e.once(pausedSeconds, max(0, s.PausedUntil.Sub(now).Seconds()))
}

// always tells a value whatever it is; labels follow the sink's.
func (e sinkEmitter) always(m metric, value float64, labels ...string) {
	e.tell(m, value, true, labels)
}

// once tells a value from the first time on that it is not 0.
func (e sinkEmitter) once(m metric, value float64, labels ...string) {
	e.tell(m, value, false, labels)
}

func (e sinkEmitter) tell(m metric, value float64, always bool, labels []string) {
	key := seriesKey{metric: m.name}
	copy(key.labels[:], labels)
	s := e.series[key]
	if s == nil {
		if value == 0 && !always {
			return
		}
		s = &series{labels: labelsOf(m, append([]string{e.name}, labels...))}
		e.series[key] = s
	}
	e.out <- newSample(e.c.descs[m.name], m, s.labels, value)
}

func (e emitter) store(s *outbox.Stats) {
	e.emit(storeCommits, float64(s.Commits))
	e.emit(storeChanges, float64(s.Changes))
	e.emit(storeRecords, float64(s.Records))
	e.emit(storeWritten, float64(s.BytesWritten))
	e.emit(storeWaiting, float64(s.Waiting))
	e.emit(storeSize, float64(s.DiskBytes))
	e.emit(storeReserve, float64(s.ReserveBytes))
	e.emit(storeRefusing, number(s.RefusingPuts))
	e.emit(compactions, float64(s.CompactionRuns))
	if s.FreeBytes >= 0 {
		e.emit(storeFree, float64(s.FreeBytes))
	}
	if !s.BackedUpAt.IsZero() {
		e.emit(storeBackup, float64(s.BackedUpAt.Unix()))
	}
	if s.GarbageBytes >= 0 {
		e.emit(storeGarbage, float64(s.GarbageBytes))
	}
}

func number(on bool) float64 {
	if on {
		return 1
	}
	return 0
}

func since(at, now time.Time) float64 {
	if at.IsZero() {
		return 0
	}
	return max(0, now.Sub(at).Seconds())
}
