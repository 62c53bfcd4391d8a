package metrics

import "github.com/prometheus/client_golang/prometheus"

// ReloadDone counts a reading of the configuration while the daemon runs. result is
// "applied", "unchanged" or "refused"; restart is how many keys of the file wait for a
// restart.
func (o *Observer) ReloadDone(result string, restart int) {
	o.reloads.WithLabelValues(result).Inc()
	o.configRefused.Set(number(result == "refused"))
	o.configRestart.Set(float64(restart))
}

// ForgetSink drops what was counted of a sink that is gone, so that sinks that come and
// go leave no series.
func (o *Observer) ForgetSink(name string) {
	o.known.Delete(name)
	of := prometheus.Labels{"sink": name}
	for _, v := range []*prometheus.CounterVec{o.puts, o.coalesced, o.calls, o.deliveries, o.breaker, o.undos, o.compared, o.comparedFound} {
		v.DeletePartialMatch(of)
	}
	for _, v := range []*prometheus.HistogramVec{o.call, o.ack} {
		v.DeletePartialMatch(of)
	}
}

// ForgetSource drops what was counted of a source that is gone.
func (o *Observer) ForgetSource(name string) {
	o.sources.DeletePartialMatch(prometheus.Labels{"source": name})
}

func (m metric) gauge() prometheus.Gauge {
	return prometheus.NewGauge(prometheus.GaugeOpts{Name: m.name, Help: m.help})
}
