package metrics

import (
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

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

// Gatherer is a prometheus.Gatherer of what was counted, and of what an engine says at
// each scrape.
type Gatherer struct {
	counted prometheus.Gatherer
	engine  Engine
	sagas   func() saga.Stats
	sources func() []source.Status
	plugins func() Plugins
	version api.Version
	now     func() time.Time
	book    *book
}

// NewGatherer returns a Gatherer. counted has no metric that is read of the engine.
// sources and plugins may be nil: there are none.
func NewGatherer(counted prometheus.Gatherer, e Engine, sagas func() saga.Stats, sources func() []source.Status, plugins func() Plugins, version api.Version) *Gatherer {
	return &Gatherer{counted: counted, engine: e, sagas: sagas, sources: sources, plugins: plugins, version: version, now: time.Now, book: newBook(scraped())}
}

// Gather implements prometheus.Gatherer.
func (g *Gatherer) Gather() ([]*dto.MetricFamily, error) {
	families, err := g.counted.Gather()
	families = append(families, g.book.gather(g.read)...)
	slices.SortFunc(families, func(a, b *dto.MetricFamily) int { return strings.Compare(a.GetName(), b.GetName()) })
	return families, err
}

// read tells what there is now.
func (g *Gatherer) read(e emitter) {
	e.emit(buildInfo, 1, g.version.Version, g.version.Commit, g.version.Go)
	now := g.now()
	sinks := g.engine.Sinks()
	for i := range sinks {
		e.sink(&sinks[i], now)
	}
	if g.plugins != nil {
		plugins := g.plugins()
		e.host(plugins.Host)
		for i := range plugins.Sinks {
			e.plugin(&plugins.Sinks[i])
		}
	}
	stats := g.engine.Stats()
	e.emit(stored, float64(stats.Resources))
	e.emit(scheduleBytes, float64(stats.ScheduleBytes))
	e.emit(watchers, float64(stats.Watchers))
	e.emit(waiters, float64(stats.Waiters))
	e.emit(storeRevision, float64(stats.Info.Revision))
	e.store(&stats.Store)
	sagas := g.sagas()
	e.emit(sagasRunning, float64(sagas.Running))
	e.emit(unresolved, float64(sagas.Unresolved))
	if g.sources != nil {
		e.sources(g.sources())
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

func (e emitter) plugin(p *PluginStats) {
	e.emit(instances, float64(p.Instances), p.Sink, p.Plugin)
	e.once(pluginInFlight, float64(p.InFlight), p.Sink, p.Plugin)
	e.emit(pluginMemory, float64(p.MemoryBytes), p.Sink, p.Plugin)
	e.once(pluginWaiting, float64(p.Waiting), p.Sink, p.Plugin)
	e.once(pluginHeld, float64(p.HeldBytes), p.Sink, p.Plugin)
	e.once(pluginIOs, float64(p.IOs), p.Sink, p.Plugin)
	// Counters are there from the start: the first step of one that was not there is lost
	// to who asks how much it rose.
	e.emit(pluginCPU, p.CPU.Seconds(), p.Sink, p.Plugin)
	e.emit(pluginThrottle, p.Throttled.Seconds(), p.Sink, p.Plugin)
	e.emit(pluginRestarts, float64(p.Restarts), p.Sink, p.Plugin)
	e.emit(pluginRecycled, float64(p.Recycled), p.Sink, p.Plugin)
	e.emit(pluginLinesOut, float64(p.LinesLost), p.Sink, p.Plugin)
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

func (e emitter) sink(s *engine.SinkStatus, now time.Time) {
	for _, phase := range record.Phases() {
		e.once(resources, float64(s.Counts[phase]), s.Name, string(phase))
	}
	for class, name := range []string{"fresh", "retry", "check"} {
		e.once(due, float64(s.Waiting[class]), s.Name, name)
	}
	for _, state := range []schedule.BreakerState{schedule.BreakerClosed, schedule.BreakerOpen, schedule.BreakerHalfOpen} {
		e.emit(breakerState, number(s.Breaker == state), s.Name, state.String()) // an alert asks for what is not
	}
	e.emit(oldestUnacked, since(s.OldestUnacked, now), s.Name)
	e.emit(inFlight, float64(s.InFlight), s.Name)
	e.once(suspended, number(s.Suspended), s.Name)
	e.emit(sinkReady, number(s.NotReady == ""), s.Name)
	e.emit(configured, number(s.Configured), s.Name)
	e.once(pausedSeconds, max(0, s.PausedUntil.Sub(now).Seconds()), s.Name)
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
