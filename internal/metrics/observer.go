// Package metrics shows a running engine to Prometheus: New is an
// engine.Observer, a saga.Observer and a source.Observer, that counts what happens, NewGatherer adds what is, read at each
// scrape. docs/metrics.md is generated from the table of metrics.
//
// Labels are bounded: sinks, phases, outcomes, operations, statuses and plugins,
// never a key.
package metrics

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"github.com/pawlsync/pawl/engine"
	"github.com/pawlsync/pawl/engine/record"
	"github.com/pawlsync/pawl/engine/saga"
	"github.com/pawlsync/pawl/engine/sink"
	"github.com/pawlsync/pawl/internal/source"
)

// Observer is an engine.Observer, a saga.Observer and a source.Observer that counts.
type Observer struct {
	puts, coalesced, calls, deliveries, breaker, swaps, commitFailures, sagas, undos, sources *prometheus.CounterVec
	compared, comparedFound, relayItems, relayFound, spans                                    *prometheus.CounterVec
	put, call, delivery, ack, commit, changes, saga                                           *prometheus.HistogramVec

	reloads, denied, throttled, auditLost *prometheus.CounterVec
	configRefused, configRestart          prometheus.Gauge

	known sync.Map // names that are known to be a sink's
}

var (
	_ engine.Observer = (*Observer)(nil)
	_ saga.Observer   = (*Observer)(nil)
	_ source.Observer = (*Observer)(nil)
)

// otherSink stands for all names that callers gave and no sink has: each of
// them would make a series that never goes.
const otherSink = "other"

// New registers the metrics of what happens, and those of the Go runtime and
// the process, with reg, and returns the observer that feeds them. It panics, as
// MustRegister does, if reg has them already.
func New(reg prometheus.Registerer) *Observer {
	quick := prometheus.ExponentialBuckets(0.0005, 2, 16) // 0.5 ms to 16 s
	slow := prometheus.ExponentialBuckets(0.001, 4, 12)   // 1 ms to 70 min
	// A sink has few: a thousand sinks have a thousand times as many.
	callTimes := prometheus.ExponentialBuckets(0.005, 5, 6) // 5 ms to 16 s
	ackTimes := prometheus.ExponentialBuckets(0.01, 10, 6)  // 10 ms to 17 min
	o := &Observer{
		puts: puts.counter(), coalesced: coalesced.counter(), calls: calls.counter(), deliveries: deliveries.counter(),
		breaker: breakerMoves.counter(), swaps: swaps.counter(), commitFailures: commitFailures.counter(),
		sagas: sagaOutcomes.counter(), undos: sagaUndos.counter(), sources: sourceChanges.counter(), saga: sagaSeconds.histogram(slow),
		compared: compared.counter(), comparedFound: comparedFound.counter(), relayItems: relayItems.counter(), relayFound: relayFound.counter(), spans: spans.counter(),
		put: putSeconds.histogram(quick), call: callSeconds.histogram(callTimes), delivery: deliverySecs.histogram(quick),
		ack: ackSeconds.histogram(ackTimes), commit: commitSeconds.histogram(quick),
		changes: commitChanges.histogram(prometheus.ExponentialBuckets(1, 4, 8)),
	}
	o.reloads, o.configRefused, o.configRestart = reloads.counter(), configRefused.gauge(), configRestart.gauge()
	o.denied, o.throttled, o.auditLost = deniedCounter(), throttledCounter(), auditLost.counter()
	reg.MustRegister(o.reloads, o.configRefused, o.configRestart, o.denied, o.throttled, o.auditLost)
	reg.MustRegister(o.puts, o.coalesced, o.calls, o.deliveries, o.breaker, o.swaps, o.commitFailures, o.sagas, o.undos, o.sources, o.saga,
		o.compared, o.comparedFound, o.relayItems, o.relayFound, o.spans,
		o.put, o.call, o.delivery, o.ack, o.commit, o.changes,
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	for _, c := range []*prometheus.CounterVec{o.commitFailures, o.auditLost} {
		c.WithLabelValues() // so that it is there, at 0, before the first
	}
	return o
}

// PutDone implements engine.Observer.
func (o *Observer) PutDone(sinkName, outcome string, replaced bool, took time.Duration) {
	sinkName = o.sinkLabel(sinkName, outcome)
	o.puts.WithLabelValues(sinkName, outcome).Inc()
	o.put.WithLabelValues().Observe(took.Seconds())
	if replaced {
		o.coalesced.WithLabelValues(sinkName).Inc()
	}
}

// sinkLabel is name if some answer has proved that it is a sink's.
func (o *Observer) sinkLabel(name, outcome string) string {
	if _, ok := o.known.Load(name); ok {
		return name
	}
	switch outcome {
	case "accepted", "unchanged":
		o.known.Store(name, true)
		return name
	}
	return otherSink
}

// CallDone implements engine.Observer.
func (o *Observer) CallDone(key record.Key, op string, status sink.Status, took time.Duration) {
	o.calls.WithLabelValues(key.Sink, op, status.String()).Inc()
	o.call.WithLabelValues(key.Sink, op).Observe(took.Seconds())
}

// DeliveryDone implements engine.Observer.
func (o *Observer) DeliveryDone(key record.Key, outcome engine.Outcome, took time.Duration) {
	o.deliveries.WithLabelValues(key.Sink, string(outcome)).Inc()
	o.delivery.WithLabelValues().Observe(took.Seconds())
}

// AckDone implements engine.Observer.
func (o *Observer) AckDone(key record.Key, took time.Duration) {
	o.ack.WithLabelValues(key.Sink).Observe(took.Seconds())
}

// BreakerMoved implements engine.Observer.
func (o *Observer) BreakerMoved(sinkName string, open bool) {
	to := "closed"
	if open {
		to = "open"
	}
	o.breaker.WithLabelValues(sinkName, to).Inc()
}

// SwapDone counts a change of a plugin's module while the daemon runs; result is
// "swapped", "postponed" or "refused".
func (o *Observer) SwapDone(plugin, result string) {
	o.swaps.WithLabelValues(plugin, result).Inc()
}

// CommitDone implements engine.Observer.
func (o *Observer) CommitDone(changes, _ int, took time.Duration, err error) {
	if err != nil {
		o.commitFailures.WithLabelValues().Inc()
		return
	}
	o.commit.WithLabelValues().Observe(took.Seconds())
	o.changes.WithLabelValues().Observe(float64(changes))
}

// SagaKnown implements saga.Observer.
func (o *Observer) SagaKnown(mode saga.Mode, outcome saga.Outcome, took time.Duration) {
	o.sagas.WithLabelValues(string(mode), string(outcome)).Inc()
	o.saga.WithLabelValues(string(mode)).Observe(took.Seconds())
}

// SagaUndo implements saga.Observer.
func (o *Observer) SagaUndo(sinkName string) { o.undos.WithLabelValues(sinkName).Inc() }

// SourceChanged implements source.Observer.
func (o *Observer) SourceChanged(name, kind, result string, n int) {
	o.sources.WithLabelValues(name, kind, result).Add(float64(n))
}
