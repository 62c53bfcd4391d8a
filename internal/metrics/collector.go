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
	plugins func() Plugins
	version api.Version
	now     func() time.Time
	descs   map[string]*prometheus.Desc // by metric's name
}

// NewCollector returns a Collector. plugins may be nil: there are none.
func NewCollector(e Engine, sagas func() saga.Stats, plugins func() Plugins, version api.Version) *Collector {
	c := &Collector{engine: e, sagas: sagas, plugins: plugins, version: version, now: time.Now, descs: map[string]*prometheus.Desc{}}
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
	sinks := c.engine.Sinks()
	for i := range sinks {
		e.sink(&sinks[i], c.now())
	}
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
	if c.plugins == nil {
		return
	}
	plugins := c.plugins()
	for i := range plugins.Sinks {
		e.plugin(&plugins.Sinks[i])
	}
	e.host(plugins.Host)
}

func (e emitter) plugin(p *PluginStats) {
	labels := []string{p.Sink, p.Plugin}
	e.emit(instances, float64(p.Instances), labels...)
	e.emit(pluginInFlight, float64(p.InFlight), labels...)
	e.emit(pluginMemory, float64(p.MemoryBytes), labels...)
	e.emit(pluginWaiting, float64(p.Waiting), labels...)
	e.emit(pluginHeld, float64(p.HeldBytes), labels...)
	e.emit(pluginIOs, float64(p.IOs), labels...)
	e.emit(pluginCPU, p.CPU.Seconds(), labels...)
	e.emit(pluginThrottle, p.Throttled.Seconds(), labels...)
	e.emit(pluginRestarts, float64(p.Restarts), labels...)
	e.emit(pluginRecycled, float64(p.Recycled), labels...)
	e.emit(pluginLinesOut, float64(p.LinesLost), labels...)
	for kind, n := range p.Faults {
		e.emit(pluginFaults, float64(n), p.Sink, p.Plugin, string(kind))
	}
	for limit, n := range p.Limited {
		e.emit(pluginLimited, float64(n), p.Sink, p.Plugin, string(limit))
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

func (e emitter) sink(s *engine.SinkStatus, now time.Time) {
	for _, phase := range record.Phases() { // all of them, so that none vanishes when it reaches 0
		e.emit(resources, float64(s.Counts[phase]), s.Name, string(phase))
	}
	for class, name := range []string{"fresh", "retry", "check"} {
		e.emit(due, float64(s.Waiting[class]), s.Name, name)
	}
	for _, state := range []schedule.BreakerState{schedule.BreakerClosed, schedule.BreakerOpen, schedule.BreakerHalfOpen} {
		e.emit(breakerState, number(s.Breaker == state), s.Name, state.String())
	}
	e.emit(oldestUnacked, since(s.OldestUnacked, now), s.Name)
	e.emit(inFlight, float64(s.InFlight), s.Name)
	e.emit(suspended, number(s.Suspended), s.Name)
	e.emit(sinkReady, number(s.NotReady == ""), s.Name)
	e.emit(configured, number(s.Configured), s.Name)
	e.emit(pausedSeconds, max(0, s.PausedUntil.Sub(now).Seconds()), s.Name)
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
